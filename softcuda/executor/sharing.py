"""Arrays of other libraries in device memory, taken as they are: their memory is shared."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any, Final

from softcuda.backends.host.conversion import plain_bools
from softcuda.driver.memory import allocation_of, pointer_info
from softcuda.driver.stream import Event, Stream
from softcuda.dtype import dtype_of_array
from softcuda.errors import DTypeError, ExchangeError, SoftCudaError
from softcuda.executor.devices import DeviceSession, usable_session
from softcuda.executor.exchange import send
from softcuda.graph.shapes import numel
from softcuda.interop.blocks import Block, Held, span_of
from softcuda.interop.capsules import asked_for, place_of, taken
from softcuda.interop.cuda_interface import described
from softcuda.interop.protocols import refuse_place
from softcuda.pool.device import DeviceArray

__all__ = ["share"]

_LAST_ADDRESS: Final = (1 << 64) - 1


def share(
    what: str, value: Any, *, is_target: bool = False, copy: bool | None = None
) -> DeviceArray:
    """Return a CUDA array of another library as a device array that shares its memory.

    What its library still has to do for it is waited for, on the device. The array is given back
    when nobody holds the device array any more and the device has done what it was given.
    Bools are read once, by the host: a copy is returned where a true one is another byte than 1.

    Args:
        what: who asks, first word of the errors.
        value: an object with DLPack, else with the CUDA array interface.
        is_target: whether it is to be written, and its bools are not looked at.
        copy: False makes a needed copy an error.

    Raises:
        ArgumentTypeError: it is on another device, or does not give its array.
        ExchangeError: it gives something that cannot be shared, or a needed copy is forbidden.
        DTypeError: its dtype is none that tensors have.
    """
    place = place_of(value)
    if place is not None and place.ordinal:
        raise refuse_place(what, value)
    on = usable_session(what, "copy the array to the host by its own library first")
    settle = partial(_settle, on.stream)
    if place is not None:
        block = taken(what, asked_for(what, value, on.stream.handle), settle)
    else:
        block, stream = described(what, value)
        if numel(block.dims):
            _check_device(what, block, on)
        if stream is not None:
            _wait_for(on, stream)
        block = block._replace(owner=Held(settle, _let_go, value))
    array = _as_device_array(what, block, on)
    if is_target or array.dtype.kind != "b" or not array.size:
        return array
    return _with_plain_bools(what, array, on, copy)


def _settle(stream: Stream) -> None:
    """Wait for what a stream was given before memory that it may read is given back."""
    with suppress(SoftCudaError):
        if not stream.is_done():
            stream.synchronize()


def _let_go(value: object) -> None:
    """Take the last reference to an object of another library."""


def _wait_for(on: DeviceSession, stream: int) -> None:
    """Make the work of the session wait for what a stream of another library was given."""
    theirs = Stream.borrowed(on.context, stream)
    on.stream.wait(theirs.record(Event(on.context)))


def _check_device(what: str, block: Block, on: DeviceSession) -> None:
    """Refuse an array that does not lie whole in memory of the session's device."""
    driver = on.context.driver
    low, nbytes = span_of(block.dims, block.strides, block.dtype.itemsize)
    first, last = block.ptr + low, block.ptr + low + nbytes - 1
    for address in (first, last):
        found = pointer_info(address, driver) if 0 < address <= _LAST_ADDRESS else None
        if found is None or found.ordinal != on.ordinal:
            where = "no CUDA memory" if found is None else f"memory of CUDA device {found.ordinal}"
            raise ExchangeError(
                f"{what}: the array of shape {list(block.dims)} at {block.ptr:#x} takes the "
                f"addresses {first:#x} to {last:#x}, and {address:#x} is {where}; allowed is "
                f"memory of CUDA device {on.ordinal}; move the array there first"
            )
    whole = allocation_of(first, driver)
    if whole is not None and last >= whole.ptr + whole.nbytes:
        raise ExchangeError(
            f"{what}: the array of shape {list(block.dims)} and strides {list(block.strides)} "
            f"takes the addresses {first:#x} to {last:#x}, and its allocation ends before "
            f"{whole.ptr + whole.nbytes:#x}; allowed is an array within its allocation"
        )


def _as_device_array(what: str, block: Block, on: DeviceSession) -> DeviceArray:
    dtype, size = block.dtype, block.dtype.itemsize
    if dtype_of_array(dtype).numpy != dtype:
        raise DTypeError(
            f"{what}: a CUDA array of dtype {dtype} cannot be a tensor without a conversion; "
            f"convert it to {dtype_of_array(dtype).numpy} first"
        )
    if block.ptr % size:
        raise ExchangeError(
            f"{what}: the address {block.ptr:#x} is no multiple of the {size} bytes of an element; "
            "copy the array first"
        )
    strides = tuple(stride * size for stride in block.strides)
    return DeviceArray(
        block.ptr, block.dims, strides, dtype, on.ordinal, block.owner, on.fetch, is_volatile=True
    )


def _with_plain_bools(
    what: str, array: DeviceArray, on: DeviceSession, copy: bool | None
) -> DeviceArray:
    """Return an array of bools, or a copy of it where true bytes are not 1.

    Kernels compare the bytes, and other libraries can make them of any numbers, as PyTorch's
    `.view(torch.bool)` does.
    """
    host = on.fetch(array)
    plain = plain_bools(host)
    if plain is host:
        return array
    if copy is False:
        raise ExchangeError(
            f"{what}: true bools of the array of shape {list(array.shape)} are other bytes than 1 "
            "and need a copy, and copy=False forbids it; allow the copy"
        )
    return send(plain, is_volatile=True)
