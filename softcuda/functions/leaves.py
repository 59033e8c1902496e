"""Functions that make leaves: of values, of other libraries' arrays, for feeds, and variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from softcuda.dtype import DType, as_dtype, dtype_of_array, f32
from softcuda.errors import ArgumentError, ArgumentTypeError, ExchangeError
from softcuda.executor.on_demand import duplicate, upload
from softcuda.functions.creation import shaped_dtype
from softcuda.functions.operands import TensorLike
from softcuda.graph.node import on_host
from softcuda.graph.op import OPS
from softcuda.graph.params import OnDevice
from softcuda.graph.places import named_device
from softcuda.graph.shapes import check_dims
from softcuda.interop.capsules import place_of, resolved
from softcuda.interop.protocols import array_of_host
from softcuda.pool.buffers import dense_copy
from softcuda.tensor import Tensor
from softcuda.tensor.gradients import mark
from softcuda.tensor.values import array_of, device_array_of

__all__ = ["asarray", "from_dlpack", "input", "tensor", "variable"]


def tensor(value: TensorLike, dtype: DType | Any = None, *, requires_grad: bool = False) -> Tensor:
    """Return a tensor that owns a copy of a value.

    An array of another library in CUDA memory is copied there, on the device.

    Args:
        value: number, nested list of numbers, array, tensor with DLPack or with the CUDA array
            interface, or Tensor.
        dtype: dtype of the result; None gives Python's and NumPy's floats f32, ints i64, bools
            bool, and arrays their own (u8 i8 i16 u16 as i32, u32 as i64).
        requires_grad: mark it: gradients are wanted of it, and what depends on it keeps what it
            was computed from, also once it is evaluated.

    Returns:
        [shape of the value], of `dtype`; lazy where the value is a Tensor, but for a variable,
        whose value now is copied, and for a marked one, which is a leaf with its value.

    Raises:
        DTypeError: complex numbers, text, objects, u64; a mark on integers or bools.
        ShapeError: a ragged list.
        NumberRangeError: an int that the dtype cannot hold.
        ArgumentTypeError: a value of another type, or on a device that programs do not run on.
        ExchangeError, NoDeviceError: an array in CUDA memory that cannot be shared.
    """
    wanted = None if dtype is None else as_dtype(dtype)
    if requires_grad:
        return _marked("tensor", tensor(value, wanted).evaluate().detach())
    if isinstance(value, Tensor):
        if value.op is not OPS["variable"]:
            return value.copy() if dtype is None else value.cast(dtype)
        if not isinstance(value.data, np.ndarray):
            return _of_dtype(Tensor.leaf(duplicate(value.data)), wanted)
        value = value.numpy()
    value = resolved(value)
    shared = device_array_of("tensor", value)
    if shared is not None:
        return _of_dtype(Tensor.leaf(duplicate(shared)), wanted)
    return Tensor.leaf(array_of("tensor", value, wanted))


def _marked(what: str, leaf: Tensor) -> Tensor:
    mark(what, leaf)
    return leaf


def _of_dtype(made: Tensor, dtype: DType | None) -> Tensor:
    return made if dtype is None or dtype is made.dtype else made.cast(dtype)


def asarray(value: TensorLike, dtype: DType | Any = None) -> Tensor:
    """Return a value as a tensor that may alias it: later writes to the array may be seen.

    A Tensor is returned as it is; an aligned array of native byte order and of a dtype that
    tensors have is not copied, nor is one in CUDA memory. Use `tensor` for a copy.

    Args:
        value: as in `tensor`.
        dtype: dtype of the result; None as in `tensor`.

    Returns:
        [shape of the value], of `dtype`; on the device of the value.

    Raises:
        DTypeError, ShapeError, NumberRangeError, ArgumentTypeError: as in `tensor`.
        ExchangeError, NoDeviceError: as in `tensor`.
    """
    if isinstance(value, Tensor):
        return value if dtype is None else value.astype(dtype)
    wanted = None if dtype is None else as_dtype(dtype)
    shared = device_array_of("asarray", value)
    if shared is not None:
        return _of_dtype(Tensor.leaf(shared), wanted)
    return Tensor.leaf(array_of("asarray", value, wanted, copy=False))


def from_dlpack(value: Any, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """Return an array of another library as a tensor, without a copy where that can be.

    The tensor shares the memory: later writes to it may be seen. What the library still has to
    do for an array in CUDA memory is waited for, on the device.

    Args:
        value: an object with `__dlpack__` and `__dlpack_device__`.
        device: "cpu" or "cuda", where the tensor is to be; None for where the array is.
        copy: True for memory of the tensor's own; False makes a needed copy an error.

    Returns:
        [shape of the array], of its dtype (u8 i8 i16 u16 as i32, u32 as i64, copied).

    Raises:
        ArgumentTypeError: no object with DLPack, or one on a device that programs do not run on.
        ExchangeError: the array cannot be shared, or a needed copy is forbidden.
        DTypeError: no dtype has its elements.
        NoDeviceError: CUDA memory, where CUDA cannot be used.
    """
    wanted = None if device is None else named_device("from_dlpack", device)
    if copy not in (True, False, None):
        raise ArgumentTypeError(
            f"from_dlpack: copy is {copy!r} of type {type(copy).__name__}; allowed are True, False "
            "and None"
        )
    if place_of(value) is None:
        raise ArgumentTypeError(
            f"from_dlpack: a value of type {type(value).__name__} has no __dlpack__ and "
            "__dlpack_device__; allowed are arrays of libraries with DLPack; use asarray"
        )
    shared = device_array_of("from_dlpack", value, copy=copy)
    here = "cpu" if shared is None else "cuda"
    if isinstance(value, np.ndarray):  # NumPy's own bfloat16 arrays have no capsule
        data: Any = value
    else:
        data = array_of_host("from_dlpack", value) if shared is None else shared
    needs = []
    if wanted not in (None, here):
        data = upload(data, what="from_dlpack") if wanted == "cuda" else on_host(data)
        needs.append(f"a copy to {wanted}")
    if isinstance(data, np.ndarray):
        fitting = array_of("from_dlpack", data, copy=False)
        if fitting is not data:
            needs.append(f"a conversion from {data.dtype}, or of its layout")
        data = fitting
    if needs and copy is False:
        raise ExchangeError(
            f"from_dlpack: the {type(value).__name__} needs {' and '.join(needs)}, and copy=False "
            "forbids it; allow the copy"
        )
    if copy and not needs:
        data = dense_copy(data) if isinstance(data, np.ndarray) else duplicate(data)
    return Tensor.leaf(data)


def input(
    shape: int | Sequence[int],
    dtype: DType | Any = f32,
    name: str | None = None,
    device: str = "cpu",
) -> Tensor:
    """Return a leaf without a value: what a run is fed.

    Args:
        shape: extents.
        dtype: element type.
        name: the name under which `run` takes its value; None feeds it by the tensor itself.
        device: "cpu" or "cuda", where a run finds the value; a feed that is elsewhere is copied
            there.

    Returns:
        [shape], of `dtype`.

    Raises:
        ShapeError: a negative extent, or more than 64 axes.
        ArgumentTypeError: the name is no text.
        ArgumentError: the name is empty, or there is no device of this name.
    """
    dims = check_dims("input", shape)
    place = named_device("input", device)
    params = () if place == "cpu" else OnDevice(place)
    kind = shaped_dtype("input", shape, dtype)
    return Tensor(OPS["input"], (), dims, kind, params, None, _name("input", name))


def variable(
    value: TensorLike,
    name: str | None = None,
    dtype: DType | Any = None,
    device: str = "cpu",
    *,
    requires_grad: bool = False,
) -> Tensor:
    """Return a leaf with a buffer of its own, which `assign` and a run's updates change.

    In a run every read sees the old value. What was evaluated before keeps its value.

    Args:
        value: as in `tensor`; a Tensor is evaluated: the first value, copied.
        name: the name in printed tables; None for none.
        dtype: dtype of the variable; None as in `tensor`.
        device: "cpu" or "cuda", where its buffer is.
        requires_grad: mark it, as in `tensor`: a parameter.

    Returns:
        [shape of the value], of `dtype`.

    Raises:
        DTypeError, ShapeError, NumberRangeError, ArgumentTypeError: as in `tensor`.
        ArgumentError: the name is empty, or there is no device of this name.
        NoDeviceError: `device` is "cuda" and CUDA cannot be used here.
    """
    checked = _name("variable", name)
    on_device = named_device("variable", device) == "cuda"
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(value, Tensor):
        data = value.evaluate().data
    else:
        value = resolved(value)
        data = device_array_of("variable", value)
    if data is None:
        data = array_of("variable", value, wanted, copy=False)
    elif wanted not in (None, dtype_of_array(data.dtype)) or not (on_device and _is_dense(data)):
        data = array_of("variable", on_host(data), wanted, copy=False)
    if not on_device:
        data = dense_copy(data)
    elif isinstance(data, np.ndarray):
        data = upload(data, is_volatile=True, what="variable")
    else:
        data = duplicate(data, is_volatile=True)
    made = Tensor.leaf(data, OPS["variable"], checked)
    return _marked("variable", made) if requires_grad else made


def _is_dense(data: Any) -> bool:
    return not isinstance(data, np.ndarray) and bool(data.is_contiguous)


def _name(what: str, name: str | None) -> str | None:
    if name is not None and not isinstance(name, str):
        raise ArgumentTypeError(f"{what}: the name is {name!r}; allowed is text, or None")
    if name == "":
        raise ArgumentError(f"{what}: the name is empty; allowed is text, or None")
    return name
