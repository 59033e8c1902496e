"""Where a conformance check runs: one backend, named for every op, and its device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

import numpy as np

from softcuda.backends import backends
from softcuda.dtype import DType
from softcuda.errors import ArgumentError, NoDeviceError
from softcuda.executor.on_demand import cuda_target, device_memory, session
from softcuda.named import (
    EinsumPlan,
    OperandDescriptor,
    OperationDescriptor,
    Plan,
    TensorDescriptor,
)
from softcuda.profile.model import DeviceFacts, PoolSettings, Profile, Row
from softcuda.profile.vocabulary import work_ops
from softcuda.running import compile
from softcuda.tensor import Tensor
from softcuda.tools.tolerance import difference

__all__ = ["Bench", "Check", "benches", "dense", "differs", "operand"]

Array = np.ndarray[Any, Any]

_ON_DEVICE: Final = "softcuda.pool.device"


class Bench:
    """One backend.

    Attributes:
        backend_id: the backend.
        device: "cpu" or "cuda", where operands are.
        profile: names the backend for every op; what it refuses, its device's reference computes.
    """

    def __init__(self, backend_id: str, device: str) -> None:
        self.backend_id = backend_id
        self.device = device
        rows = tuple(Row(op, None, 0, None, backend_id) for op in work_ops())
        pool = PoolSettings(device)
        meta = {"soft_version": "0.1.0"}
        self.profile = Profile(f"conformance/{backend_id}", meta, DeviceFacts(), rows, pool=pool)

    def place(self, array: Array) -> Tensor:
        """Return a tensor of an array's values and strides, on the bench's device."""
        if self.device == "cpu":
            return Tensor.leaf(array)
        on = session()
        low, nbytes = _span(array)
        raw = np.empty(max(nbytes, 1), np.uint8)
        np.ndarray(array.shape, array.dtype, raw, offset=-low, strides=array.strides)[...] = array
        memory = device_memory(on, raw.nbytes)
        on.upload(raw, memory.ptr)
        kind = import_module(_ON_DEVICE).DeviceArray
        made = kind(
            memory.ptr - low, array.shape, array.strides, array.dtype, on.ordinal, memory, on.fetch
        )
        return Tensor.leaf(made)

    def value(self, tensor: Tensor) -> Array:
        """Return the value of a tensor, computed by the bench's backend."""
        found: Array = compile(tensor, self.profile).run().numpy()
        return found

    def plan(self, operation: OperationDescriptor, **options: Any) -> Plan:
        """Return a plan of an operation on the bench's backend and device."""
        return Plan(operation, config=self.profile, device=self.device, **options)

    def einsum_plan(self, expression: str, arrays: Sequence[Array], **options: Any) -> EinsumPlan:
        """Return a plan of an expression over operands as these arrays lie."""
        described = [TensorDescriptor.from_tensor(array) for array in arrays]
        where: dict[str, Any] = {"config": self.profile, "device": self.device}
        return EinsumPlan.with_options(expression, described, **where, **options)


class Check(NamedTuple):
    """One thing that must hold.

    Attributes:
        name: says what, and reproduces it.
        run: returns what is wrong on a bench, "" where nothing is.
    """

    name: str
    run: Callable[[Bench], str]


def benches(backend_ids: Sequence[str] = ()) -> Iterator[Bench]:
    """Yield a bench for each backend that can run here, or for the named ones.

    Args:
        backend_ids: which; nothing for all that are registered and have a device.

    Raises:
        ArgumentError: a name of no backend.
        NoDeviceError: a named backend needs a device, and there is none.
    """
    known = backends()
    unknown = [name for name in backend_ids if name not in known]
    if unknown:
        raise ArgumentError(
            f"conformance: there is no backend {unknown[0]!r}; allowed are {', '.join(known)}"
        )
    target = cuda_target()
    for backend_id in backend_ids or known:
        device = known[backend_id].DEVICE
        if device == "cpu" or not isinstance(target, str):
            yield Bench(backend_id, device)
        elif backend_ids:
            raise NoDeviceError(
                f"conformance: {backend_id} runs on a CUDA device and none can be used here: "
                f"{target}; leave its name out to run the backends that can run"
            )


def operand(array: Array, modes: Any) -> OperandDescriptor:
    """Return the descriptor of an array as it lies, with labels."""
    return OperandDescriptor.from_tensor(array, modes)


def dense(shape: Sequence[int], dtype: DType) -> TensorDescriptor:
    """Return the descriptor of a dense result."""
    return TensorDescriptor.contiguous(shape, dtype)


def differs(found: Array, expected: Any, dtype: DType, *, terms: int = 1, scale: Any = 0.0) -> str:
    """Return where a contraction's result is not the expected one in f64; "" where it is."""
    return difference(found, np.asarray(expected), dtype, "matmul", k_extent=terms, scale=scale)


def _span(array: Array) -> tuple[int, int]:
    """Return the first byte that an array reaches, relative to its first element, and how many."""
    if not array.size:
        return 0, 0
    reach = [s * (d - 1) for d, s in zip(array.shape, array.strides, strict=True)]
    return sum(r for r in reach if r < 0), sum(map(abs, reach)) + array.itemsize
