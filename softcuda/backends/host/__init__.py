"""NumPy code of the CPU backends: what a step on the host calls."""
