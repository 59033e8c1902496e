"""The dtypes of softcuda: names, storage, kinds, promotion.

Promotion of two tensors (DESIGN section 6): equal keeps; a mix of floats gives f64 if either is
f64, else f32; bool < i32 < i64 give the wider; a bool or integer with a float gives that float;
complex with f64 or complex128 gives complex128, else complex64.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

import ml_dtypes
import numpy as np

from softcuda.errors import DTypeError

__all__ = [
    "BOOL",
    "COMPLEX",
    "DTYPES",
    "FLOAT",
    "INTEGER",
    "REAL_DTYPES",
    "ComputeType",
    "DType",
    "as_dtype",
    "bf16",
    "bool_",
    "complex64",
    "complex128",
    "compute_dtype",
    "dtype_of_array",
    "f16",
    "f32",
    "f64",
    "i32",
    "i64",
    "promote",
    "rank_of",
    "real_dtype",
    "weak_promote",
]

BOOL, INTEGER, FLOAT, COMPLEX = 0, 1, 2, 3


@dataclass(frozen=True, eq=False, slots=True)
class DType:
    """One element type; compared by identity, there is one object a type.

    Attributes:
        name: the short name, the token of profiles and printed tables.
        numpy: the NumPy dtype of the host storage.
        itemsize: bytes an element.
        kind: 0 bool, 1 integer, 2 floating point, 3 complex.
        is_inexact: True for floats and complex numbers: what is rounded, and has gradients.
    """

    name: str
    numpy: np.dtype[Any]
    itemsize: int
    kind: int
    is_inexact: bool = field(init=False)

    def __post_init__(self) -> None:
        """Note what is asked for most."""
        object.__setattr__(self, "is_inexact", self.kind >= FLOAT)

    def __repr__(self) -> str:
        return f"softcuda.{self.name}" if self.name != "bool" else "softcuda.bool_"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return as_dtype, (self.name,)

    @property
    def is_float(self) -> bool:
        """True for f16, bf16, f32 and f64."""
        return self.kind == FLOAT

    @property
    def is_complex(self) -> bool:
        """True for complex64 and complex128."""
        return self.kind == COMPLEX

    @property
    def is_integer(self) -> bool:
        """True for i32 and i64."""
        return self.kind == INTEGER

    @property
    def is_bool(self) -> bool:
        """True for bool."""
        return self.kind == BOOL


class ComputeType(Enum):
    """The type in which a contraction forms its products.

    TF32, BF16 and F16 are taken only when they are asked for: operands are rounded to them, and
    products are summed in f32. A backend without such units computes in F32, and says so.
    """

    F32 = "f32"
    F64 = "f64"
    TF32 = "tf32"
    BF16 = "bf16"
    F16 = "f16"

    def __str__(self) -> str:
        return self.value


bool_: Final = DType("bool", np.dtype(np.bool_), 1, BOOL)
i32: Final = DType("i32", np.dtype(np.int32), 4, INTEGER)
i64: Final = DType("i64", np.dtype(np.int64), 8, INTEGER)
f16: Final = DType("f16", np.dtype(np.float16), 2, FLOAT)
bf16: Final = DType("bf16", np.dtype(ml_dtypes.bfloat16), 2, FLOAT)
f32: Final = DType("f32", np.dtype(np.float32), 4, FLOAT)
f64: Final = DType("f64", np.dtype(np.float64), 8, FLOAT)
complex64: Final = DType("complex64", np.dtype(np.complex64), 8, COMPLEX)
complex128: Final = DType("complex128", np.dtype(np.complex128), 16, COMPLEX)

REAL_DTYPES: Final[dict[str, DType]] = {d.name: d for d in (bool_, i32, i64, f16, bf16, f32, f64)}
DTYPES: Final[dict[str, DType]] = {
    **REAL_DTYPES,
    **{d.name: d for d in (complex64, complex128)},
}

_BY_NUMPY: Final[dict[Any, DType]] = {d.numpy: d for d in DTYPES.values()}
_STORED_AS: Final[dict[Any, DType]] = {
    np.dtype(np.uint8): i32,
    np.dtype(np.int8): i32,
    np.dtype(np.int16): i32,
    np.dtype(np.uint16): i32,
    np.dtype(np.uint32): i64,
}
_BY_PYTHON: Final[dict[Any, DType]] = {bool: bool_, int: i64, float: f32, complex: complex64}
_RANK: Final[dict[DType, int]] = {d: n for n, d in enumerate(DTYPES.values())}


def _promoted(a: DType, b: DType) -> DType:
    if a is b:
        return a
    if COMPLEX in (a.kind, b.kind):
        return complex128 if {a, b} & {f64, complex128} else complex64
    if a.kind == FLOAT and b.kind == FLOAT:
        return f64 if f64 in (a, b) else f32
    return a if _RANK[a] > _RANK[b] else b


_PROMOTE: Final[dict[tuple[DType, DType], DType]] = {
    (a, b): _promoted(a, b) for a in DTYPES.values() for b in DTYPES.values()
}


def promote(a: DType, b: DType) -> DType:
    """Return the dtype that elements of `a` and `b` meet in.

    Example:
        >>> promote(f16, bf16), promote(i64, f16), promote(complex64, f64)
        (softcuda.f32, softcuda.f16, softcuda.complex128)
    """
    return _PROMOTE[a, b]


def rank_of(dtype: DType) -> int:
    """Return the place of a dtype in bool < i32 < i64 < f16 < bf16 < f32 < f64 < complex64 < .."""
    return _RANK[dtype]


def weak_promote(tensor: DType, number_kind: int) -> DType:
    """Return the dtype of a tensor that meets a number of the given kind.

    Args:
        tensor: dtype of the tensor.
        number_kind: 0 bool, 1 integer, 2 floating point, 3 complex.

    Returns:
        The tensor's dtype unless the number's kind is higher: then i64 (a bool tensor with an
        integer), f32 (a bool or integer tensor with a float), complex128 (f64 with a complex
        number) or complex64 (any other with one).
    """
    if tensor.kind >= number_kind:
        return tensor
    if number_kind == COMPLEX:
        return promote(tensor, complex64)
    return i64 if number_kind == INTEGER else f32


def real_dtype(dtype: DType) -> DType:
    """Return the dtype of the parts of a number: f32 of complex64, f64 of complex128, else its own.

    Example:
        >>> real_dtype(complex64), real_dtype(f16)
        (softcuda.f32, softcuda.f16)
    """
    if dtype.kind != COMPLEX:
        return dtype
    return f64 if dtype is complex128 else f32


def compute_dtype(dtype: DType) -> DType:
    """Return the dtype that elementwise arithmetic of `dtype` is carried out in.

    f16 and bf16 compute in f32 and are rounded once a node; the others in themselves.
    """
    return f32 if dtype in (f16, bf16) else dtype


def dtype_of_array(dtype: np.dtype[Any], what: str = "") -> DType:
    """Return the dtype in which an array of this NumPy dtype is stored.

    u8 i8 i16 u16 become i32, u32 becomes i64.

    Args:
        dtype: NumPy's.
        what: who asks, first words of the error.

    Raises:
        DTypeError: no dtype holds its values (u64, strings, objects, long double).
    """
    found = _BY_NUMPY.get(dtype) or _STORED_AS.get(dtype)
    if found is None and dtype.newbyteorder("=") != dtype:
        return dtype_of_array(dtype.newbyteorder("="), what)
    if found is None:
        raise DTypeError(
            f"{what}{': ' if what else ''}an array of dtype {dtype} cannot be a tensor; allowed "
            "are bool, signed integers up to 64 bits, unsigned ones up to 32, float16, bfloat16, "
            "float32, float64, complex64 and complex128; convert it with .astype first"
        )
    return found


def as_dtype(spec: object) -> DType:
    """Return the DType named by `spec`.

    Args:
        spec: a DType, a name such as "f32" or "float32", a NumPy dtype or scalar type, or the
            Python types bool, int (i64), float (f32) and complex (complex64).

    Raises:
        DTypeError: `spec` names none of the dtypes.

    Example:
        >>> as_dtype("bf16"), as_dtype(np.float64), as_dtype(int)
        (softcuda.bf16, softcuda.f64, softcuda.i64)
    """
    if isinstance(spec, DType):
        return spec
    if isinstance(spec, str) and spec in DTYPES:
        return DTYPES[spec]
    if isinstance(spec, type) and spec in _BY_PYTHON:
        return _BY_PYTHON[spec]
    try:
        found = _BY_NUMPY.get(np.dtype(spec))  # type: ignore[call-overload]
    except (TypeError, ValueError):
        found = None
    if found is None:
        raise DTypeError(
            f"{spec!r} names no dtype; allowed are {', '.join(DTYPES)} or the NumPy dtypes of these"
        )
    return found
