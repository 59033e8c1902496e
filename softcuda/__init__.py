"""softcuda: a lazy tensor engine that shows, and freezes, where every operation runs."""

from softcuda import console as console  # before all others: Ctrl-C may come meanwhile

# isort: split
from importlib import import_module
from typing import TYPE_CHECKING, Any

from softcuda import errors, functions
from softcuda.dtype import (
    DType,
    bf16,
    bool_,
    complex64,
    complex128,
    f16,
    f32,
    f64,
    i32,
    i64,
)
from softcuda.errors import SoftCudaWarning
from softcuda.executor.executable import Executable
from softcuda.functions import *  # noqa: F403
from softcuda.generator import Generator, default_generator, seed
from softcuda.profile.model import Profile
from softcuda.running import compile, explain
from softcuda.tensor import Tensor
from softcuda.tensor.names import absent_name
from softcuda.version import __version__ as __version__

if TYPE_CHECKING:
    from softcuda.gradients import *  # noqa: F403
    from softcuda.named import *  # noqa: F403
    from softcuda.saved import load as load

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
    "complex64",
    "complex128",
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

# Loaded when the first of a module's names is used: many programs need none of them.
_NAMED = [
    "BinaryOp",
    "ComputeType",
    "EinsumPath",
    "EinsumPlan",
    "Mode",
    "OperandDescriptor",
    "OperationDescriptor",
    "Plan",
    "ReductionOp",
    "TensorDescriptor",
    "UnaryOp",
    "contract",
    "einsum",
    "einsum_path",
    "einsum_with_options",
    "elementwise_binary",
    "elementwise_trinary",
    "permute",
    "reduce",
]
_GRADIENTS = ["detach", "grad", "no_grad", "value_and_grad"]
_LATE = {
    **dict.fromkeys(_NAMED, "softcuda.named"),
    **dict.fromkeys(_GRADIENTS, "softcuda.gradients"),
    "load": "softcuda.saved",
}
__all__ += list(_LATE)

_SUBPACKAGES = ("nn", "optim")


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        return import_module(f"softcuda.{name}")
    module = _LATE.get(name)
    if module is None:
        raise absent_name(name)
    loaded = import_module(module)
    known = [late for late, of in _LATE.items() if of == module]
    globals().update({late: getattr(loaded, late) for late in known})
    return globals()[name]


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
