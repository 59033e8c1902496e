"""softcuda: a lazy tensor engine that shows, and freezes, where every operation runs."""

from softcuda import errors, functions
from softcuda.dtype import DType, bf16, bool_, f16, f32, f64, i32, i64
from softcuda.functions import *  # noqa: F403
from softcuda.generator import Generator, default_generator, seed
from softcuda.running import compile, explain
from softcuda.tensor import Tensor
from softcuda.version import __version__ as __version__

__all__ = [
    "DType",
    "Generator",
    "Tensor",
    "bf16",
    "bool_",
    "compile",
    "default_generator",
    "errors",
    "explain",
    "f16",
    "f32",
    "f64",
    "i32",
    "i64",
    "seed",
]
__all__ += functions.__all__
