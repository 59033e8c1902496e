"""softcuda: a lazy tensor engine that shows, and freezes, where every operation runs."""

__version__ = "0.1.0"
