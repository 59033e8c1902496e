"""The device of a sweep: launches timed with a cold L2, and their results compared bit by bit."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from ctypes import c_int64, c_uint64
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from benchmarks.gpu_timing import Gpu
from softcuda.backends.launches import KernelLaunch
from softcuda.driver.arguments import ArgBuffer
from softcuda.driver.copies import copy_on_device_async
from softcuda.driver.graph import CudaGraph
from softcuda.driver.graph_nodes import KernelNode
from softcuda.driver.launch import Launch, LaunchConfig
from softcuda.driver.memory import DeviceMemory
from softcuda.errors import ArgumentError, SoftCudaError
from softcuda.executor.devices import cuda_target, session
from softcuda.executor.segments import BoundKernel
from softcuda.kernelspec import KernelSpec
from softcuda.target import Target

__all__ = ["Lab", "Piece", "pieces"]

Array = np.ndarray[Any, Any]

RUNS: Final = 7
_HOPELESS: Final = 1.3  # times the best: no further runs
_POISON: Final = 0xA5


def _compare(element: str, dtype: str) -> KernelSpec:
    return KernelSpec(
        "count_differences",
        element,
        "compare.cu",
        f"count_differences<{element}>",
        (dtype,),
        256,
        folder=str(Path(__file__).parent),
    )


_WORDS: Final = _compare("u32", "i32")
_BYTES: Final = _compare("u8", "bool")


class Piece(NamedTuple):
    """What one launch compares: elements of a size, from a byte on."""

    spec: KernelSpec
    start: int
    elements: int


def pieces(nbytes: int) -> list[Piece]:
    """Return how so many bytes are compared: no byte beyond them is looked at."""
    words, rest = divmod(nbytes, 4)
    both = Piece(_WORDS, 0, words), Piece(_BYTES, 4 * words, rest)
    return [piece for piece in both if piece.elements]


class Lab:
    """Buffers of one device, and what is done with them.

    Args:
        inputs: buffers that launches read; the first ones are filled with random bytes.
        nbytes: of each buffer.
        seconds: for the whole sweep.

    Attributes:
        target: the device as a compile target.
        inputs: addresses of the buffers that launches read.
        out: address of the buffer that launches write.
        right: address of the buffer that holds the right result.
    """

    def __init__(self, inputs: int, nbytes: int, seconds: float) -> None:
        target = cuda_target()
        if not isinstance(target, Target):
            raise ArgumentError(f"a sweep needs a CUDA device: {target}")
        self.target = target
        self._on = session()
        self._gpu = Gpu(self._on)
        self._end = time.perf_counter() + seconds
        made = [DeviceMemory(self._on.context, nbytes) for _ in range(inputs + 2)]
        self._count = DeviceMemory(self._on.context, 8)
        self._held = made
        self._graphs: list[tuple[CudaGraph, BoundKernel]] = []
        self.inputs = [memory.ptr for memory in made[:inputs]]
        self.out, self.right = (memory.ptr for memory in made[inputs:])
        self.nbytes = nbytes

    @property
    def left_s(self) -> float:
        """Seconds left for the sweep."""
        return self._end - time.perf_counter()

    def upload(self, array: Array, ptr: int) -> None:
        """Copy a host array to an address."""
        self._on.upload(np.ascontiguousarray(array).reshape(-1).view(np.uint8), ptr)
        self._on.synchronize()

    def prepare(self, specs: Sequence[KernelSpec]) -> None:
        """Compile kernels, in parallel."""
        self._on.loader.prepare([*specs, _WORDS, _BYTES])

    def resident(self, spec: KernelSpec) -> int:
        """Return the blocks of a kernel that the device holds at once."""
        function = self._on.loader.function(spec)
        function.allow(spec.shared_bytes)
        each = function.max_active_blocks(spec.threads, spec.shared_bytes)
        return max(each, 1) * self.target.multiprocessors

    def bound(self, launch: KernelLaunch) -> Callable[[], None]:
        """Return what submits a launch: it reads `inputs` and writes `out`."""
        bound = BoundKernel(launch, launch.spec.id, 0)
        bound.point(self.inputs, [self.out], 0)
        config = LaunchConfig(launch.grid, launch.block, launch.shared_bytes)
        function = self._on.loader.function(launch.spec)
        prepared = Launch(function, config, bound.args, launch.spec.id)
        return lambda: prepared.submit(stream=self._on.stream)

    def in_row(self, launches: Sequence[KernelLaunch], scratch: int) -> Callable[[], object]:
        """Return what submits launches, one after the other, as a driver graph.

        Args:
            launches: what they read are `inputs`, what they write is `out`.
            scratch: address of their scratch.
        """
        graph = CudaGraph(self._on.context, "sweep")
        before: tuple[KernelNode, ...] = ()
        for launch in launches:
            bound = BoundKernel(launch, launch.spec.id, 0)
            bound.point(self.inputs, [self.out], scratch)
            config = LaunchConfig(launch.grid, launch.block, launch.shared_bytes)
            function = self._on.loader.function(launch.spec)
            node = graph.add_kernel(function, config, bound.args, after=before, label=bound.label)
            before = (node,)
            self._graphs.append((graph, bound))
        graph.instantiate()
        graph.upload(stream=self._on.stream)
        return graph.launcher(stream=self._on.stream)

    def is_right(self, submit: Callable[[], object], nbytes: int) -> bool:
        """Return whether a launch writes what is in `right`, to poisoned memory."""
        self._gpu.fill(self.out, _POISON, nbytes)
        submit()
        return self.differences(nbytes) == 0

    def differences(self, nbytes: int) -> int:
        """Return the words and bytes of the first `nbytes` in which `out` and `right` differ."""
        self._gpu.fill(self._count.ptr, 0, 8)
        kinds = [("count", c_uint64), ("a", c_uint64), ("b", c_uint64), ("words", c_int64)]
        config = LaunchConfig((1056, 1, 1), (256, 1, 1))
        for spec, start, elements in pieces(nbytes):
            args = ArgBuffer(kinds)
            values = (self._count.ptr, self.out + start, self.right + start, elements)
            for field, value in zip(args.fields, values, strict=True):
                field.value = value
            function = self._on.loader.function(spec)
            Launch(function, config, args).submit(stream=self._on.stream)
        found = np.zeros(2, np.uint32)
        self._on.download(self._count.ptr, found)
        return int(found[0])

    def keep(self, nbytes: int) -> None:
        """Take what `out` holds as what is right."""
        self._on.copy(self.out, self.right, nbytes)
        self._on.synchronize()

    def fetch(self, nbytes: int, start: int = 0) -> Array:
        """Return bytes of `out`, from the byte `start` on."""
        host = np.empty(nbytes, np.uint8)
        self._on.download(self.out + start, host)
        return host

    def microseconds(self, submit: Callable[[], object], best: float = float("inf")) -> float:
        """Return the median time of a launch with a cold L2 [microseconds].

        Args:
            submit: gives it to the stream.
            best: what is known to be possible; a launch far from it is run fewer times.
        """
        self._gpu.seconds(submit)
        taken: list[float] = []
        for _ in range(RUNS):
            taken.append(self._gpu.seconds(submit) * 1e6)
            if len(taken) == 2 and min(taken) > _HOPELESS * best:
                break
        return statistics.median(taken)

    def copy_microseconds(self, nbytes: int) -> float:
        """Return the time of the driver's own copy of so many bytes [microseconds]."""
        on = self._on
        return self.microseconds(
            lambda: copy_on_device_async(
                on.context, self.out, self.inputs[0], nbytes, stream=on.stream
            )
        )

    def timed(
        self, launch: KernelLaunch, nbytes: int, best: float = float("inf")
    ) -> tuple[float, str]:
        """Return the time of a launch [microseconds] and "", or infinity and what is wrong."""
        try:
            submit = self.bound(launch)
            if not self.is_right(submit, nbytes):
                return float("inf"), "wrong"
            return self.microseconds(submit, best), ""
        except SoftCudaError as error:
            return float("inf"), str(error)
