"""softcuda: a lazy tensor engine that shows, and freezes, where every operation runs."""

from typing import NoReturn

from softcuda import errors, functions
from softcuda.dtype import DType, bf16, bool_, f16, f32, f64, i32, i64
from softcuda.errors import SoftCudaWarning
from softcuda.executor.executable import Executable
from softcuda.functions import *  # noqa: F403
from softcuda.generator import Generator, default_generator, seed
from softcuda.profile.model import Profile
from softcuda.running import compile, explain
from softcuda.tensor import Tensor
from softcuda.tensor.names import absent_name
from softcuda.version import __version__ as __version__

__all__ = [
    "DType",
    "Executable",
    "Generator",
    "Profile",
    "SoftCudaWarning",
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


def __getattr__(name: str) -> NoReturn:
    raise absent_name(name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
