"""Host values: whatever a user hands over, as a NumPy array of a softcuda dtype."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np

from softcuda.backends.host.conversion import convert, plain_bools
from softcuda.dtype import DType, bool_, complex64, dtype_of_array, f32, i64, promote, weak_promote
from softcuda.errors import ArgumentTypeError, DTypeError, NumberRangeError, ShapeError
from softcuda.executor.on_demand import duplicate, shared_array
from softcuda.graph.dtype_rules import check_parts
from softcuda.graph.node import Node
from softcuda.graph.shapes import check_dims
from softcuda.interop.capsules import resolved
from softcuda.interop.protocols import array_of_host, lives_on_cuda
from softcuda.numbers import check_number, number_dtype
from softcuda.pool.buffers import aligned_empty, dense_copy

if TYPE_CHECKING:
    from softcuda.pool.device import DeviceArray

__all__ = [
    "array_of",
    "converted",
    "device_array_of",
    "flag",
    "is_number",
    "leaf_data",
    "plain_number",
    "refuse_kind",
    "whole_number",
]

Array = np.ndarray[Any, Any]

_NUMBERS: Final = (
    bool,
    int,
    float,
    complex,
    np.bool_,
    np.integer,
    np.floating,
    np.complexfloating,
    ml_dtypes.bfloat16,
)
_NO_QUANTITIES: Final = (bool, np.bool_, complex, np.complexfloating)
_FLOAT_BITS: Final = 1023
_NEW_BY_KIND: Final[dict[str, DType]] = {"b": bool_, "i": i64, "u": i64, "f": f32, "c": complex64}
_ALLOWED: Final = "allowed are numbers, nested lists of them, NumPy arrays, and tensors with DLPack"


def is_number(value: object) -> bool:
    """Return whether a value is a bool, int, float, complex or a NumPy scalar of these kinds."""
    return isinstance(value, _NUMBERS) and not isinstance(value, np.timedelta64)


def plain_number(what: str, name: str, value: Any) -> int | float:
    """Return an argument that must be a real number as a Python int or float.

    Raises:
        ArgumentTypeError: it is no number, a bool, or complex.
        NumberRangeError: an int that no float holds.
    """
    if not is_number(value) or isinstance(value, _NO_QUANTITIES):
        raise ArgumentTypeError(
            f"{what}: {name} is {value!r} of type {type(value).__name__}; allowed is a number"
        )
    if not isinstance(value, (int, np.integer)):
        return float(value)
    whole = int(value)
    if whole.bit_length() > _FLOAT_BITS:
        raise NumberRangeError(
            f"{what}: {name} is an int of {whole.bit_length()} bits; allowed are ints of up to "
            f"{_FLOAT_BITS} bits, which a float holds"
        )
    return whole


def flag(what: str, name: str, value: Any) -> bool:
    """Return an argument that must be True or False as a bool; a whole number stands for either.

    Raises:
        ArgumentTypeError: it is something else.
    """
    if not isinstance(value, (bool, int, np.bool_, np.integer)):
        raise ArgumentTypeError(
            f"{what}: {name} is {value!r} of type {type(value).__name__}; allowed are True and "
            "False"
        )
    return bool(value)


def whole_number(what: str, name: str, value: Any) -> int:
    """Return an argument that must be an integer as an int.

    Raises:
        ArgumentTypeError: it is no integer.
    """
    try:
        return operator.index(value)
    except TypeError:
        raise ArgumentTypeError(f"{what}: {name} is {value!r}; allowed is an integer") from None


def refuse_kind(what: str, value: object) -> None:
    """Raise where a value is of a kind that no dtype holds.

    Raises:
        DTypeError: it is text.
    """
    if isinstance(value, (str, bytes)):
        raise DTypeError(
            f"{what}: {value!r} is of type {type(value).__name__}, which no dtype holds; {_ALLOWED}"
        )


def array_of(what: str, value: object, dtype: DType | None = None, *, copy: bool = True) -> Array:
    """Return a value as an array of the dtype that a new tensor of it has.

    Python's and NumPy's numbers, alone or in nested lists: floats f32, complex numbers complex64,
    ints i64, bools bool. Arrays keep theirs (u8 i8 i16 u16 as i32, u32 as i64).

    Args:
        what: who asks, first word of the errors.
        value: number, nested sequence, array, or CPU tensor of another framework with DLPack.
        dtype: dtype of the result; None for that of the value.
        copy: False lets the result alias an aligned array of native byte order.

    Raises:
        DTypeError: text, objects, u64; complex values for a dtype of integers or floats.
        ShapeError: a ragged list, or more than 64 axes.
        NumberRangeError: an int that the dtype cannot hold.
        ArgumentTypeError: no value of these kinds, or one on another device.
    """
    refuse_kind(what, value)
    if is_number(value):
        return _of_number(value, dtype)
    if isinstance(value, (list, tuple, range)):
        return _of_sequence(what, value, dtype)
    array = _of_foreign(what, value)
    held = dtype_of_array(array.dtype, what)
    if array.dtype != held.numpy or not array.flags.aligned or _splits_elements(array):
        array, copy = dense_copy(array, held.numpy), False
    if dtype is not None and dtype is not held:
        return converted(array, dtype)
    plain = plain_bools(array)
    return dense_copy(array) if copy and plain is array else plain


def device_array_of(what: str, value: object, **options: bool | None) -> DeviceArray | None:
    """Return a CUDA array of another library as a device array, None for everything else.

    The options are those of `softcuda.executor.sharing.share`.

    Raises:
        NoDeviceError: CUDA cannot be used here.
        ArgumentTypeError, ExchangeError, DTypeError, ShapeError: it cannot be shared.
    """
    return shared_array(what, value, **options) if lives_on_cuda(value) else None


def leaf_data(what: str, value: object) -> Any:
    """Return a copy of a value as a leaf's data: on its device for an array of another library.

    Raises:
        SoftCudaError: as `array_of` and `device_array_of`.
    """
    shared = device_array_of(what, value := resolved(value))
    return array_of(what, value) if shared is None else duplicate(shared)


def _splits_elements(array: Array) -> bool:
    return any(stride % array.itemsize for stride in array.strides)


def _of_number(value: Any, dtype: DType | None) -> Array:
    own = number_dtype(value)
    if dtype is None or dtype.is_inexact or (dtype.is_integer and not own.is_inexact):
        dtype = dtype or own
        value = check_number(value, dtype)
    kind = complex if own.is_complex else float
    return converted(np.array(value if isinstance(value, (bool, int)) else kind(value)), dtype)


def _of_foreign(what: str, value: object) -> Array:
    # Whoever asks NumPy for its masked arrays loads them, which takes 10 ms.
    if type(value) is not np.ndarray and isinstance(value, np.ma.MaskedArray):
        raise ArgumentTypeError(
            f"{what}: a masked array of shape {list(value.shape)} would lose its mask; "
            "use its .filled(...) first"
        )
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return array_of_host(what, value)
    if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
        return np.asarray(value)
    try:
        return np.asarray(memoryview(value))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ArgumentTypeError(
            f"{what}: a value of type {type(value).__name__} cannot be a tensor; {_ALLOWED}"
        ) from None


def _of_sequence(what: str, value: Sequence[Any], dtype: DType | None) -> Array:
    arrays = _element_types(what, value)
    try:
        made = np.array(value)
    except ValueError as error:
        raise ShapeError(
            f"{what}: the nested list is ragged or deeper than 64 axes ({error}); "
            "every list of one level must have the same length"
        ) from None
    except OverflowError as error:
        raise NumberRangeError(f"{what}: {error}; allowed are ints of 64 bits") from None
    held = _held_dtype(what, made, arrays)
    target = held if dtype is None else dtype
    whole = made.dtype.kind in "iub"
    if target.is_integer and whole and not arrays and made.size:
        for extreme in (made.min(), made.max()):
            check_number(extreme, target)
    if made.dtype.kind == "u":
        made = made.astype(np.int64)
    return converted(made, target)


def _element_types(what: str, value: Sequence[Any]) -> list[DType]:
    """Return the dtypes of the arrays in a nested list, refusing what no dtype holds."""
    found: list[DType] = []
    level: list[Sequence[Any]] = [value]
    depth = 0
    while level:
        depth += 1
        check_dims(what, (1,) * depth)
        deeper: list[Sequence[Any]] = []
        for items in level:
            kinds = set(map(type, items)) if not isinstance(items, range) else set()
            if kinds <= {bool, int, float, complex}:
                continue
            for item in items:
                if isinstance(item, (list, tuple, range)):
                    deeper.append(item)
                elif isinstance(item, Node):
                    raise ArgumentTypeError(
                        f"{what}: the list holds a Tensor of shape {list(item.dims)}; "
                        "use stack or concat to join tensors"
                    )
                elif not is_number(item):
                    refuse_kind(what, item)
                    found.append(dtype_of_array(np.asarray(item).dtype, what))
        level = deeper
    return found


def _held_dtype(what: str, made: Array, arrays: list[DType]) -> DType:
    if not made.size and not arrays:
        return f32
    own = _NEW_BY_KIND.get(made.dtype.kind)
    if made.dtype.kind == "O" and all(isinstance(x, int) for x in made.flat):
        for number in made.flat:
            check_number(number, i64)
    if made.dtype == np.dtype(ml_dtypes.bfloat16):
        own = f32
    if own is None:
        raise DTypeError(f"{what}: a list of kind {made.dtype} cannot be a tensor; {_ALLOWED}")
    if not arrays:
        return own
    held = arrays[0]
    for other in arrays[1:]:
        held = promote(held, other)
    return weak_promote(held, own.kind)


def converted(array: Array, dtype: DType) -> Array:
    """Return an array in another dtype.

    Float to integer truncates, saturates, and makes 0 of NaN; integers wrap; anything but 0
    becomes True; floats are rounded once, to nearest even.

    Args:
        array: any shape, of a NumPy dtype that a tensor may have.
        dtype: dtype of the result.

    Raises:
        DTypeError: complex numbers to integers or floats.
    """
    own = dtype_of_array(array.dtype)
    check_parts("tensor", own, dtype)
    with np.errstate(all="ignore"):
        held = array if array.dtype == own.numpy else dense_copy(array, own.numpy)
        out = aligned_empty(array.shape, dtype.numpy)
        convert(held, out)
    return out
