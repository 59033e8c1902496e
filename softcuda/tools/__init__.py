"""Tools: console scripts, and the table of typical work that they and the tests share."""
