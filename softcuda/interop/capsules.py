"""Capsules: taking an array out of DLPack's PyCapsule, and putting one in.

Source: https://dmlc.github.io/dlpack/latest/python_spec.html.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable
from ctypes import PYFUNCTYPE, c_char_p, c_int, c_void_p, py_object
from typing import Any, Final, NamedTuple

from softcuda.errors import (
    ArgumentTypeError,
    DTypeError,
    ExchangeError,
    ShapeError,
    SoftCudaError,
)
from softcuda.graph.params import Dims
from softcuda.graph.shapes import MAX_RANK, numel
from softcuda.interop.blocks import (
    FOREIGN_ERRORS,
    Block,
    Held,
    array_at,
    checked_layout,
    span_of,
)
from softcuda.interop.structs import (
    IS_COPIED,
    NUMPY_OF_CODE,
    READ_ONLY,
    UNVERSIONED,
    UNVERSIONED_USED,
    VERSION,
    VERSIONED,
    VERSIONED_USED,
    DeviceType,
    DLManagedTensor,
    DLManagedTensorVersioned,
    DLTensor,
    TypeCode,
)

__all__ = ["Place", "asked_for", "encapsulated", "is_versioned", "place_of", "resolved", "taken"]

_is_valid = PYFUNCTYPE(c_int, py_object, c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer = PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
_set_name = PYFUNCTYPE(c_int, py_object, c_char_p)(("PyCapsule_SetName", ctypes.pythonapi))
_deleter = PYFUNCTYPE(None, c_void_p)
_keep = PYFUNCTYPE(None, py_object)(("Py_IncRef", ctypes.pythonapi))

# A capsule holds the address of its name, and may outlive this module when the process ends.
for _name in (UNVERSIONED_USED, VERSIONED_USED):
    _keep(_name)


class Place(NamedTuple):
    """Where an array says that it lives: DLPack's number of the kind of memory, and the device."""

    kind: int
    ordinal: int


class _Kind(NamedTuple):
    """A kind of capsule: its name before and after it is taken, and what it points to."""

    name: bytes
    used: bytes
    struct: type[DLManagedTensor] | type[DLManagedTensorVersioned]


_KINDS: Final = (
    _Kind(VERSIONED, VERSIONED_USED, DLManagedTensorVersioned),
    _Kind(UNVERSIONED, UNVERSIONED_USED, DLManagedTensor),
)
# The methods of PyTorch's tensors that tell of lazy bits, and those that write them out.
_LAZY_BITS: Final = {"is_neg": "resolve_neg", "is_conj": "resolve_conj"}
_LAST_ADDRESS: Final = (1 << 64) - 1
_CODES: Final = {dtype: TypeCode(code) for (code, _), dtype in NUMPY_OF_CODE.items()}


def place_of(value: object) -> Place | None:
    """Return where an object with DLPack lives; None for one without.

    Raises:
        ArgumentTypeError: it lives where DLPack has no name for, as a tensor without values does.
    """
    if not (hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__")):
        return None
    try:
        kind, ordinal = value.__dlpack_device__()
        return Place(operator.index(kind), operator.index(ordinal))
    except SoftCudaError:
        raise
    except FOREIGN_ERRORS as error:
        raise ArgumentTypeError(
            f"the {type(value).__name__} does not say by DLPack where it lives: {error}; allowed "
            "are arrays in host memory and in CUDA memory"
        ) from error


def resolved(value: Any) -> Any:
    """Return an object whose memory holds its values: of PyTorch's lazy negatives a copy.

    Its tensors may carry a bit that negates or conjugates what is read; DLPack knows no such bit.
    """
    for asks, resolves in _LAZY_BITS.items():
        if _has_bit(value, asks):
            value = getattr(value, resolves)()
    return value


def _has_bit(value: Any, asks: str) -> bool:
    is_set = getattr(value, asks, None)
    return callable(is_set) and bool(is_set())


def asked_for(what: str, value: Any, stream: int | None = None) -> object:
    """Return the capsule of an object with DLPack.

    Args:
        what: who asks, first word of the error.
        value: the object.
        stream: the CUDA stream that will use the array, which the object makes wait for what it
            still has to do; None for host memory.

    Raises:
        ArgumentTypeError: the object does not give one, or its memory holds not its values but
            their negatives or conjugates.
    """
    for asks, resolves in _LAZY_BITS.items():
        if _has_bit(value, asks):
            raise ArgumentTypeError(
                f"{what}: {asks}() of the {type(value).__name__} is True: its memory does not hold "
                f"its values; allowed are arrays that do; use .{resolves}() first"
            )
    options = {} if stream is None else {"stream": stream}
    try:
        try:
            return value.__dlpack__(max_version=VERSION, **options)
        except TypeError:  # older than DLPack 1.0
            return value.__dlpack__(**options)
    except SoftCudaError:
        raise
    except FOREIGN_ERRORS as error:
        raise ArgumentTypeError(
            f"{what}: the {type(value).__name__} cannot be read by DLPack: {error}; detach it, or "
            "convert it to a NumPy array first"
        ) from error


def taken(what: str, capsule: object, settle: Callable[[], object] = lambda: None) -> Block:
    """Take the array out of a capsule, which is then used up.

    The producer's deleter is called once, when nobody holds the block's owner any more. Where
    this raises, the capsule stays as it is, and calls the deleter when it goes.

    Args:
        what: who asks, first word of the errors.
        capsule: a PyCapsule of DLPack, with or without a version.
        settle: called before the deleter.

    Returns:
        The array, whose memory the owner keeps.

    Raises:
        ExchangeError: it is no such capsule, was taken before, or is of a version above 1.
        DTypeError: no dtype has its elements.
        ShapeError: a negative extent, or more than 64 axes.
    """
    kind = next((kind for kind in _KINDS if _is_valid(capsule, kind.name)), None)
    if kind is None:
        used = any(_is_valid(capsule, kind.used) for kind in _KINDS)
        why = "was taken before" if used else f"is a {type(capsule).__name__} of no known name"
        raise ExchangeError(
            f"{what}: the DLPack capsule {why}; allowed is a fresh one, which can be taken once; "
            "call __dlpack__() again"
        )
    address = _pointer(capsule, kind.name)
    managed = kind.struct.from_address(address)
    read_only = False
    if isinstance(managed, DLManagedTensorVersioned):
        if managed.version_major > VERSION[0]:
            raise ExchangeError(
                f"{what}: the DLPack capsule has version {managed.version_major}."
                f"{managed.version_minor}; allowed are versions up to {VERSION[0]}; ask for "
                f"__dlpack__(max_version={VERSION})"
            )
        read_only = bool(managed.flags & READ_ONLY)
    block = _described(what, managed.dl_tensor, read_only)
    deleter = managed.deleter
    _set_name(capsule, kind.used)
    return block._replace(owner=Held(settle, _deleter(deleter) if deleter else _nothing, address))


def _nothing(address: int) -> None:
    """Stand for the deleter of a producer that needs none."""


def _described(what: str, tensor: DLTensor, read_only: bool) -> Block:
    """Return the block that a struct describes, without its owner."""
    kind = tensor.dtype
    dtype = NUMPY_OF_CODE.get((kind.code, kind.bits)) if kind.lanes == 1 else None
    if dtype is None:
        raise DTypeError(
            f"{what}: DLPack's elements of code {kind.code}, {kind.bits} bits and {kind.lanes} "
            "lanes have no dtype; allowed are bool, integers, float16, bfloat16, float32, "
            "float64, complex64 and complex128, one lane each; convert them first"
        )
    if tensor.device.device_type not in set(DeviceType):
        raise ExchangeError(
            f"{what}: the DLPack capsule holds memory of kind {tensor.device.device_type}; allowed "
            "are host memory and CUDA memory; move the array to the CPU first"
        )
    dims, strides = _layout(what, tensor)
    ptr = tensor.data or 0
    if numel(dims):
        low, nbytes = span_of(dims, strides, dtype.itemsize)
        if not ptr or not 0 < ptr + tensor.byte_offset + low <= _LAST_ADDRESS - nbytes:
            raise ExchangeError(
                f"{what}: the DLPack capsule holds {list(dims)} elements at address {ptr:#x} and "
                f"{tensor.byte_offset} bytes; allowed is memory of the array's own; ask its "
                "library for a fresh capsule"
            )
        ptr += tensor.byte_offset
    return Block(
        ptr=ptr,
        dims=dims,
        strides=strides,
        dtype=dtype,
        device=DeviceType(tensor.device.device_type),
        ordinal=int(tensor.device.device_id),
        is_read_only=read_only,
        owner=None,
    )


def _layout(what: str, tensor: DLTensor) -> tuple[Dims, Dims]:
    """Return the extents and strides [elements] of a struct, which may say anything."""
    rank = tensor.ndim
    if not 0 <= rank <= MAX_RANK or (rank and not tensor.shape):
        raise ShapeError(
            f"{what}: the DLPack capsule has rank {rank} and "
            f"{'extents' if tensor.shape else 'no extents'}; allowed are 0 to {MAX_RANK} axes, "
            "each with an extent; reshape the array first"
        )
    dims = tuple(tensor.shape[:rank]) if rank else ()
    given = tuple(tensor.strides[:rank]) if rank and tensor.strides else None
    return checked_layout(what, dims, given)


def is_versioned(max_version: tuple[int, int] | None) -> bool:
    """Return whether a consumer of versions up to `max_version` takes versioned capsules."""
    return max_version is not None and max_version[0] >= 1


def encapsulated(block: Block, *, versioned: bool, copied: bool = False) -> object:
    """Return a capsule that holds a block and, until it is used up or gone, the block's owner.

    NumPy makes it, of an array at the block's address: its deleter and its destructor may run in
    any thread, without the interpreter's lock, amid an exception, and after the interpreter has
    ended, where no Python function may. Only what the struct says of the memory is written here.

    Args:
        block: any memory, of a dtype that tensors have.
        versioned: whether it is of DLPack 1; only then a consumer learns `is_read_only`.
        copied: whether the memory is a copy made for the consumer alone.

    Raises:
        ExchangeError: the block is read-only and the capsule not versioned.
    """
    if not versioned and block.is_read_only:
        raise ExchangeError(
            "__dlpack__: the array is read-only, which capsules before DLPack 1.0 cannot say; "
            "allowed is max_version=(1, 0) or higher; copy the tensor first"
        )
    carrier = array_at(block)
    capsule = carrier.__dlpack__(max_version=VERSION) if versioned else carrier.__dlpack__()
    kind = _KINDS[0] if versioned else _KINDS[1]
    managed = kind.struct.from_address(_pointer(capsule, kind.name))
    if isinstance(managed, DLManagedTensorVersioned) and copied:
        managed.flags |= IS_COPIED
    tensor = managed.dl_tensor
    tensor.data = block.ptr or None
    tensor.byte_offset = 0
    tensor.device.device_type = block.device
    tensor.device.device_id = block.ordinal
    tensor.dtype.code = _CODES[block.dtype]
    return capsule
