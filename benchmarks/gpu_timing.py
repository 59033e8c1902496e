"""Timing on a GPU: device events around each run, L2 cold, contestants in one stream by turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.cases import Bench
from benchmarks.timing import OURS, Contestant, Samples, Schedule
from softcuda.driver.copies import fill_async
from softcuda.driver.graph import CudaGraph
from softcuda.driver.memory import DeviceMemory
from softcuda.driver.stream import Event
from softcuda.errors import ArgumentError
from softcuda.executor.devices import DeviceSession
from softcuda.executor.executable import Executable
from softcuda.executor.segments import Segment
from softcuda.pool.device import DeviceArray

__all__ = [
    "Gpu",
    "GpuBench",
    "cupy_peer",
    "device_turns",
    "gpu_of",
    "graph_contestant",
    "kernel_graph",
    "segment_graphs",
    "torch_peer",
]

Array = np.ndarray[Any, Any]

RUNS, LEAST_RUNS, WARM_UPS = 20, 7, 3
WIPE_BYTES = 256 << 20
_ALL_ONES = 0xFF  # bytes of a NaN of every float dtype

# What a peer raises when it cannot do a case.
_PEER_ERRORS = (RuntimeError, ValueError, TypeError, AttributeError, LookupError, OSError)


class Gpu:
    """The device that a suite measures: all contestants work in the stream of its session.

    Attributes:
        on: the session.
    """

    def __init__(self, on: DeviceSession) -> None:
        self.on = on
        self._wiped = DeviceMemory(on.context, WIPE_BYTES)
        self._start = Event(on.context, timing=True)
        self._stop = Event(on.context, timing=True)
        self._value = 0

    def wipe(self) -> None:
        """Write 256 MiB, so that L2 holds nothing of what was used before."""
        self._value = (self._value + 1) % 256
        self.fill(self._wiped.ptr, self._value, WIPE_BYTES)

    def fill(self, ptr: int, value: int, nbytes: int) -> None:
        """Set bytes of the device to one value, in the order of the stream."""
        fill_async(self.on.context, ptr, value, nbytes, stream=self.on.stream)

    def fill_random(self, ptr: int, nbytes: int) -> None:
        """Write random bytes to the device: zeros would run faster."""
        block = np.random.default_rng(3).integers(0, 256, min(nbytes, 64 << 20), np.uint8)
        for start in range(0, nbytes, block.nbytes):
            self.on.upload(block[: nbytes - start], ptr + start)

    def seconds(self, submit: Callable[[], object]) -> float:
        """Return what a submission takes on the device [seconds], behind a wipe."""
        stream = self.on.stream
        self.wipe()
        stream.record(self._start)
        submit()
        stream.record(self._stop)
        self._stop.synchronize()
        return self._stop.elapsed_ms(self._start) * 1e-3


@dataclass(frozen=True, slots=True)
class GpuBench(Bench):
    """What the cases of a GPU suite may use."""

    gpu: Gpu = field(kw_only=True)


def gpu_of(bench: Bench) -> Gpu:
    """Return the device of a GPU suite.

    Raises:
        ArgumentError: the bench is that of a CPU suite.
    """
    if not isinstance(bench, GpuBench):
        raise ArgumentError(f"{type(bench).__name__} has no device; run the case in a GPU suite")
    return bench.gpu


def device_turns(
    gpu: Gpu,
) -> Callable[[Sequence[Contestant], Schedule], dict[str, Samples]]:
    """Return what takes the samples of contestants whose `submit` gives work to the stream.

    A round is a run of each; there are RUNS of them, or as many as the schedule's budget holds
    where runs are long, at least LEAST_RUNS.
    """

    def turns(contestants: Sequence[Contestant], schedule: Schedule) -> dict[str, Samples]:
        present = [c for c in contestants if not c.absent]
        taken = {c.name: Samples(1) for c in present}
        for contestant in present:
            for _ in range(WARM_UPS):
                gpu.seconds(contestant.names["submit"])
        begin = time.perf_counter()
        for done in range(RUNS):
            if done >= LEAST_RUNS and time.perf_counter() - begin > schedule.budget_s:
                break
            shift = done % len(present) if present else 0
            for contestant in present[shift:] + present[:shift]:
                seconds = gpu.seconds(contestant.names["submit"])
                taken[contestant.name].seconds.append(seconds)
        return taken

    return turns


def _segments(executable: Executable) -> list[Segment]:
    """Return the segments of an executable that has run, in their order.

    They write the outputs of its last run, or where it is one kernel of its first run, which the
    caller holds.

    Raises:
        ArgumentError: some of its work is in none.
    """
    program = executable.program
    outside = [s for s in program.steps if not program.on_device(s) or s.kernel in ("h2d", "d2h")]
    runtime = executable._ready()
    if outside or runtime._device is None:
        raise ArgumentError(
            f"{executable!r} has {len(outside)} steps outside of its segments; allowed is a "
            "program that runs on the device alone, with leaves that are there already"
        )
    return list(dict.fromkeys(runtime._device._segment_of.values()))


def segment_graphs(executable: Executable) -> list[CudaGraph]:
    """Return the driver graphs of an executable that has run, in their order; see `_segments`.

    A kernel alone is in none.
    """
    segments = _segments(executable)
    return [segment._graph for segment in segments if segment._graph is not None]


def kernel_graph(gpu: Gpu, executable: Executable) -> CudaGraph:
    """Return a driver graph of the one kernel of an executable that has run; see `_segments`.

    Raises:
        ArgumentError: it has not one kernel.
    """
    kernels = [
        (segment, bound)
        for segment in _segments(executable)
        for bounds in segment.kernels.values()
        for bound in bounds
    ]
    if len(kernels) != 1:
        raise ArgumentError(f"{executable!r} has {len(kernels)} kernels; allowed is one")
    ((segment, bound),) = kernels
    graph = CudaGraph(gpu.on.context, bound.label)
    graph.add_kernel(*segment._function_of(bound), bound.args)
    graph.instantiate()
    return graph


def graph_contestant(gpu: Gpu, executable: Executable, name: str = OURS) -> Contestant:
    """Return the contestant that launches what a compiled graph of one output is on the device.

    Raises:
        ArgumentError: the output is not on the device.
    """
    held = executable.run()
    out = held.data
    if not isinstance(out, DeviceArray):
        raise ArgumentError(f"{executable!r} has its output on the host; allowed is the device")
    segments = _segments(executable)
    context = gpu.on.context

    def submit() -> None:
        with context.current():
            for segment in segments:
                segment.run()

    def result() -> Array:
        submit()
        return gpu.on.fetch(out)

    return Contestant(
        name,
        "submit()",
        {"submit": submit, "held": held, "executable": executable},
        result=result,
        poison=lambda: gpu.fill(out.ptr, _ALL_ONES, out.nbytes),
    )


def torch_peer(bench: Bench, work: Callable[[Any], Callable[[], Any]]) -> Contestant:
    """Return PyTorch as a peer, in the stream of the session.

    Args:
        bench: of a GPU suite.
        work: torch -> a function that submits the work and returns its result.
    """
    torch, gpu = bench.peers.torch, gpu_of(bench)
    if torch is None:
        return Contestant("PyTorch", absent=True)

    def entered() -> Any:
        return torch.cuda.stream(torch.cuda.ExternalStream(gpu.on.stream.handle))

    def to_host(out: Any) -> Array:
        found: Array = (out.float() if out.dtype == torch.bfloat16 else out).cpu().numpy()
        return found

    return _peer("PyTorch", gpu, entered, lambda: work(torch), to_host)


def cupy_peer(bench: Bench, work: Callable[[Any], Callable[[], Any]]) -> Contestant:
    """Return CuPy as a peer, in the stream of the session; see `torch_peer`."""
    cupy, gpu = bench.peers.cupy, gpu_of(bench)
    if cupy is None:
        return Contestant("CuPy", absent=True)

    def entered() -> Any:
        return cupy.cuda.ExternalStream(gpu.on.stream.handle)

    return _peer("CuPy", gpu, entered, lambda: work(cupy), cupy.asnumpy)


def _peer(
    name: str,
    gpu: Gpu,
    entered: Callable[[], Any],
    make: Callable[[], Callable[[], Any]],
    to_host: Callable[[Any], Array],
) -> Contestant:
    """Return a peer that has done its work once; absent, with the reason said, where it fails."""
    held: list[Any] = [None]
    try:
        scope = entered()
        with scope:
            work = make()
            held[0] = work()
        gpu.on.stream.synchronize()
    except _PEER_ERRORS as error:
        print(f"{name} cannot do this case: {type(error).__name__}: {error}", flush=True)
        return Contestant(name, absent=True)

    def submit() -> None:
        with scope:
            held[0] = work()

    def result() -> Array:
        submit()
        with scope:
            gpu.on.stream.synchronize()
            return to_host(held[0])

    return Contestant(name, "submit()", {"submit": submit}, result=result)
