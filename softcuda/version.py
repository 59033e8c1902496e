"""The version of softcuda, below everything that needs it."""

__all__ = ["__version__"]

__version__ = "0.1.0"
