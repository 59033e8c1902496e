"""NumPy's protocols: an array on the left of an operator works, NumPy's functions are refused."""

from __future__ import annotations

from typing import Any, Final, NoReturn

import numpy as np

from softcuda.errors import ArgumentTypeError
from softcuda.graph.op import OPS, Kind

__all__ = [
    "NUMPY_NAMES",
    "OPERATOR_OF_UFUNC",
    "PUBLIC_NAMES",
    "is_foreign_scalar",
    "refuse_numpy_function",
]

# What NumPy calls for `array <operator> tensor`: the ufunc, and the method of the tensor.
OPERATOR_OF_UFUNC: Final[dict[Any, str]] = {
    np.add: "__radd__",
    np.subtract: "__rsub__",
    np.multiply: "__rmul__",
    np.divide: "__rtruediv__",
    np.floor_divide: "__rfloordiv__",
    np.remainder: "__rmod__",
    np.power: "__rpow__",
    np.matmul: "__rmatmul__",
    np.equal: "__eq__",
    np.not_equal: "__ne__",
    np.less: "__gt__",
    np.less_equal: "__ge__",
    np.greater: "__lt__",
    np.greater_equal: "__le__",
    np.bitwise_and: "__rand__",
    np.bitwise_or: "__ror__",
    np.bitwise_xor: "__rxor__",
}

# Functions that are built of ops and have no row of their own.
_BUILT: Final = (
    "angle",
    "arange",
    "asarray",
    "astype",
    "cross_entropy",
    "dot",
    "dropout",
    "expand_dims",
    "eye",
    "flip",
    "from_dlpack",
    "full_like",
    "huber_loss",
    "linspace",
    "moveaxis",
    "mse_loss",
    "ones",
    "ones_like",
    "outer",
    "split",
    "squeeze",
    "swapaxes",
    "take_along_axis",
    "transpose",
    "zeros",
    "zeros_like",
)

# NumPy's names of functions that softcuda calls by their array API or shorter name.
NUMPY_NAMES: Final[dict[str, str]] = {
    "absolute": "abs",
    "fabs": "abs",
    "amax": "max",
    "amin": "min",
    "arccos": "acos",
    "arcsin": "asin",
    "arctan": "atan",
    "arctan2": "atan2",
    "around": "round",
    "array": "tensor",
    "bitwise_and": "logical_and",
    "bitwise_or": "logical_or",
    "bitwise_xor": "logical_xor",
    "concatenate": "concat",
    "conjugate": "conj",
    "invert": "logical_not",
    "mod": "remainder",
    "power": "pow",
    "rint": "round",
    "true_divide": "divide",
}

PUBLIC_NAMES: Final = frozenset(
    {op.public for op in OPS.values() if op.kind is not Kind.LEAF and op.name != "slice"}
    | set(_BUILT)
)


def is_foreign_scalar(value: Any) -> bool:
    """Return whether a value is one of NumPy's scalars that no dtype holds: text."""
    is_scalar = isinstance(value, (np.generic, np.ndarray)) and not value.ndim
    return is_scalar and value.dtype.kind in "US"


def refuse_numpy_function(name: str, reason: str) -> NoReturn:
    """Raise the refusal of a NumPy function that was called on a tensor.

    Raises:
        ArgumentTypeError: always; names the softcuda function where there is one.
    """
    own = NUMPY_NAMES.get(name, name)
    advice = f"use softcuda.{own}" if own in PUBLIC_NAMES else "there is no such softcuda function"
    raise ArgumentTypeError(
        f"numpy.{name} was called on a Tensor{reason}; NumPy's functions do not build graphs; "
        f"{advice}, or call .numpy() first to compute with NumPy"
    )
