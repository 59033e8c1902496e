"""Saved executables: a zip of JSON, arrays, cubins and sources; docs/saved.md has the format."""
