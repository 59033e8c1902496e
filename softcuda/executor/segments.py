"""Segments: runs of CUDA steps, each one driver graph that is launched with one call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any

from softcuda.backends.launches import Argument, KernelLaunch
from softcuda.backends.steps import Operand, Step
from softcuda.compiler.program import Program
from softcuda.driver.arguments import ArgBuffer
from softcuda.driver.graph import CudaGraph
from softcuda.driver.graph_nodes import KernelNode
from softcuda.driver.launch import LaunchConfig
from softcuda.errors import SoftCudaError
from softcuda.executor.devices import DeviceSession

__all__ = ["DeviceSteps"]

Call = tuple[Any, tuple[Any, ...]]

_NUMBERS: Mapping[str, Any] = {
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
}


class _Bound:
    """A kernel of a step: its arguments in memory, and its node once the graph is made."""

    __slots__ = ("args", "label", "launch", "node")

    def __init__(self, launch: KernelLaunch, label: str, status: int) -> None:
        self.launch = launch
        self.label = label
        self.node: KernelNode | None = None
        fields = [(f"a{k}", _type_of(a)) for k, a in enumerate(launch.arguments)]
        self.args = ArgBuffer(fields)
        for field, argument in zip(self.args.fields, launch.arguments, strict=True):
            if isinstance(argument.value, bytes):
                ctypes.memmove(ctypes.addressof(field), argument.value, len(argument.value))
            elif argument.kind in _NUMBERS:
                field.value = argument.value
            elif argument.kind == "status":
                field.value = status

    def point(self, reads: Sequence[int], writes: Sequence[int], scratch: int) -> None:
        """Write addresses into the arguments, and into the graph where it is made already."""
        for field, argument in zip(self.args.fields, self.launch.arguments, strict=True):
            kind, value = argument
            if not isinstance(value, int):
                continue
            if kind == "read":
                field.value = reads[value]
            elif kind == "write":
                field.value = writes[value]
            elif kind == "scratch":
                field.value = scratch + value
        if self.node is not None:
            self.node.apply()


def _type_of(argument: Argument) -> type[Any]:
    if isinstance(argument.value, bytes):
        return ctypes.c_uint8 * len(argument.value)
    kind: type[Any] = _NUMBERS.get(argument.kind, ctypes.c_uint64)
    return kind


class _Segment:
    """Consecutive CUDA steps: a driver graph whose kernels run one after the other."""

    def __init__(self, session: DeviceSession, steps: Sequence[tuple[int, Step]]) -> None:
        self._session = session
        self._graph: CudaGraph | None = None
        self._launch: Callable[[], object] | None = None
        self._stream_handle = session.stream.handle
        self.kernels = {
            number: [
                _Bound(launch, f"step {number}: {launch.spec.id}", session.status)
                for launch in step.launches
            ]
            for number, step in steps
        }
        self.label = f"steps {steps[0][0]} to {steps[-1][0]}"
        self._is_empty = not any(self.kernels.values())

    def run(self) -> None:
        """Submit the whole segment to the stream."""
        if self._is_empty:
            return
        if self._launch is None:
            self._launch = self._build()
        self._launch()  # the run has made the context current
        self._session.context.state.submit(self._stream_handle, self.label)
        if self._session.context.is_synchronous:
            self._session.stream.synchronize()

    def _build(self) -> Callable[[], object]:
        """Make the driver graph; return the call that launches it."""
        graph = CudaGraph(self._session.context, self.label)
        loader = self._session.loader
        loader.prepare([bound.launch.spec for all_ in self.kernels.values() for bound in all_])
        before: tuple[KernelNode, ...] = ()
        for number in sorted(self.kernels):
            for bound in self.kernels[number]:
                launch = bound.launch
                config = LaunchConfig(launch.grid, launch.block, launch.shared_bytes)
                bound.node = graph.add_kernel(
                    loader.function(launch.spec),
                    config,
                    bound.args,
                    after=before,
                    label=bound.label,
                )
                before = (bound.node,)
        graph.instantiate()
        graph.upload(stream=self._session.stream)
        self._graph = graph
        return graph.launcher(stream=self._session.stream)


class DeviceSteps:
    """The CUDA steps and transfers of one program, bound to addresses.

    Args:
        program: the program.
        session: the device that runs it.
        window: operand -> host array, for the host side of transfers.
        address: operand -> device address.
        scratch: step number -> device address of its scratch.
    """

    def __init__(
        self,
        program: Program,
        session: DeviceSession,
        window: Callable[[Operand], Any],
        address: Callable[[Operand], int],
        scratch: Callable[[int], int],
    ) -> None:
        self._program = program
        self._session = session
        self._window = window
        self._address = address
        self._scratch = scratch
        self._segment_of: dict[int, _Segment] = {}
        self._first: dict[int, int] = {}
        run: list[tuple[int, Step]] = []
        for number, step in enumerate(program.steps):
            if program.on_device(step) and step.backend_id != "transfer":
                run.append((number, step))
                continue
            self._close(run)
            run = []
        self._close(run)

    def _close(self, run: list[tuple[int, Step]]) -> None:
        if run:
            segment = _Segment(self._session, run)
            for number, _ in run:
                self._segment_of[number] = segment
                self._first[number] = run[0][0]

    def current(self) -> AbstractContextManager[object]:
        """Return what makes the device's context current; a run is inside it."""
        return self._session.context.current()

    def wait(self) -> None:
        """Wait for the device; a fault that shows is left to the next call."""
        with suppress(SoftCudaError):
            self._session.stream.synchronize()

    def bind(self, number: int) -> list[Call]:
        """Return the calls of a step; a segment is launched by its first step's."""
        step = self._program.steps[number]
        if step.backend_id == "transfer":
            return self._bind_transfer(step)
        segment = self._segment_of[number]
        reads = [self._address(operand) for operand in step.inputs]
        writes = [self._address(operand) for operand in step.outputs]
        scratch = self._scratch(number) if step.scratch_bytes else 0
        for bound in segment.kernels[number]:
            bound.point(reads, writes, scratch)
        return [(segment.run, ())] if self._first[number] == number else []

    def _bind_transfer(self, step: Step) -> list[Call]:
        source, target = step.inputs[0], step.outputs[0]
        if step.kernel == "h2d":
            return [(self._session.upload, (self._window(source), self._address(target)))]
        if step.kernel == "d2h":
            return [(self._session.download, (self._address(source), self._window(target)))]
        nbytes = self._program.graph.lines[source.value].nbytes
        copy = partial(self._session.copy, self._address(source), self._address(target), nbytes)
        return [(copy, ())]
