"""The compiler: passes over frozen graphs, from lines to a program."""
