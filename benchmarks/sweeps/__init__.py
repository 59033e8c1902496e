"""Sweeps: every candidate of a kernel family timed on a device, beside what the rule chooses."""
