"""The executor: programs bound to memory, and run."""
