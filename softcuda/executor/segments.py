"""Segments: runs of CUDA steps, each one driver graph that is launched with one call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from operator import or_
from typing import Any

from softcuda.backends.launches import Argument, KernelLaunch
from softcuda.backends.steps import Operand, Step
from softcuda.compiler.dependences import dependences
from softcuda.compiler.program import Place
from softcuda.driver.arguments import ArgBuffer
from softcuda.driver.graph import CudaGraph
from softcuda.driver.graph_nodes import GraphNode, KernelNode
from softcuda.driver.launch import LAUNCH, Launch, LaunchConfig
from softcuda.driver.module import Function
from softcuda.executor.devices import DeviceSession
from softcuda.executor.inlets import DeviceCopy, HostInlet, SharedInlet
from softcuda.graph.shapes import numel

__all__ = ["BoundKernel", "Segment", "pointed"]

_NUMBERS: Mapping[str, Any] = {
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
}


class BoundKernel:
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


def pointed(step: Step, argument: Argument) -> Operand | None:
    """Return the input or output of a step that an argument of its kernels points to.

    None for an argument that is no pointer to one.
    """
    kind, number = argument
    if kind not in ("read", "write") or not isinstance(number, int):
        return None
    return (step.inputs if kind == "read" else step.outputs)[number]


class Segment:
    """Consecutive CUDA steps: a driver graph whose nodes wait for what they depend on.

    One kernel alone is launched by itself: it reads its arguments at each launch, while the node
    of a driver graph has to be told each address by a call of its own.

    Small arrays that come from the host between them are nodes too, and copies on the device. The
    kernels of one step run one after the other; steps that share no memory, side by side.

    Args:
        session: the device.
        steps: number and step, in order: steps with kernels, transfers from the host of up to
            INLET_BYTES, and copies on the device.
        places: where the values of their program live.

    Attributes:
        kernels: step number -> its kernels.
        host_inlets: step number -> the array that comes from the host.
        copies: step number -> the copy on the device.
        shared_inlets: what else is copied before the first kernel; given before the first run.
        label: what messages call it.
        driver: the driver that it is launched by.
        note: tells the device's state that it was launched.
        is_synchronous: whether a run waits for it.
    """

    def __init__(
        self,
        session: DeviceSession,
        steps: Sequence[tuple[int, Step]],
        places: Mapping[int, Place],
    ) -> None:
        self._session = session
        self._steps = steps
        self._places = places
        self._graph: CudaGraph | None = None
        self._launches: list[Launch] = []  # of a kernel alone; their calls need them
        self._launch: Callable[[], int] | None = None
        self.kernels = {
            number: [
                BoundKernel(launch, f"step {number}: {launch.spec.id}", session.status)
                for launch in step.launches
            ]
            for number, step in steps
        }
        self.host_inlets = {
            number: HostInlet(session.staging, _nbytes(step), f"step {number}: host to device")
            for number, step in steps
            if step.kernel == "h2d"
        }
        self.copies = {
            number: DeviceCopy(_nbytes(step), f"step {number}: copy on the device")
            for number, step in steps
            if step.kernel == "d2d"
        }
        self.shared_inlets: list[SharedInlet] = []
        self.label = f"steps {steps[0][0]} to {steps[-1][0]}"
        moves = self.host_inlets or self.copies
        self._is_empty = not moves and not any(self.kernels.values())
        self.is_synchronous = session.context.is_synchronous
        self.driver = session.context.driver
        state = session.context.state
        self.note = partial(state.pending.setdefault, session.stream.handle, self.label)

    def run(self) -> None:
        """Submit the whole segment to the stream; the device's context is current.

        Raises:
            DriverError: the launch was refused; everything stays usable.
            DeviceLost: an earlier fault showed.
        """
        launch = self._launch
        if launch is None:
            if self._is_empty:
                return
            launch = self._launch = self._build()
        if self.host_inlets:
            with self._session.lock:
                self._session.staging.reserve(len(self.host_inlets))
                for inlet in self.host_inlets.values():
                    inlet.fill()
                launch()
        else:
            code = launch()
            if code:
                raise self.driver.failure(LAUNCH, code)
        self.note()
        if self.is_synchronous:
            self._session.stream.synchronize()

    @property
    def is_alone(self) -> bool:
        """Whether it is one kernel, which is launched by itself."""
        count = sum(map(len, self.kernels.values()))
        return count == 1 and not (self.host_inlets or self.copies or self.shared_inlets)

    def _build(self) -> Callable[[], int]:
        """Make the driver graph, or the launch of a kernel alone; return the call to launch it.

        The call of a driver graph raises where it fails; that of a kernel returns the result.
        """
        kernels = [bound for all_ in self.kernels.values() for bound in all_]
        self._session.loader.prepare([bound.launch.spec for bound in kernels])
        if self.is_alone:
            return self._launcher(kernels[0])
        graph = CudaGraph(self._session.context, self.label)
        try:
            self._add_nodes(graph)
            graph.instantiate()
            launch = graph.launcher(stream=self._session.stream)
        except BaseException:
            self._forget_nodes()
            raise
        self._graph = graph
        return launch

    def again(self) -> tuple[BoundKernel, Callable[[], int]]:
        """Return its only kernel with other arguments, and the call to launch that, as `_build`.

        Its pointers are not set yet.
        """
        ((bound,),) = filter(None, self.kernels.values())
        other = BoundKernel(bound.launch, bound.label, self._session.status)
        return other, self._launcher(other)

    def _launcher(self, bound: BoundKernel) -> Callable[[], int]:
        launch = Launch(*self._function_of(bound), bound.args, bound.label)
        self._launches.append(launch)
        return launch.launcher(stream=self._session.stream)

    def _forget_nodes(self) -> None:
        """Let the next run make the driver graph anew."""
        for inlet in self.host_inlets.values():
            inlet.node = None
        for copy in self.copies.values():
            copy.node = None
        for shared in self.shared_inlets:
            shared.node = None
        for kernels in self.kernels.values():
            for bound in kernels:
                bound.node = None

    def _add_nodes(self, graph: CudaGraph) -> None:
        inlets = [shared.add_to(graph, ()) for shared in self.shared_inlets]
        reading: dict[int, int] = {}  # step -> the inlets that it reads, as bits
        for place, shared in enumerate(self.shared_inlets):
            for number in shared.readers:
                reading[number] = reading.get(number, 0) | 1 << place
        behind: dict[int, int] = {}  # step -> the inlets that it comes after
        done: dict[int, GraphNode] = {}
        for number, earlier in dependences(self._steps, self._places).items():
            known, own = reduce(or_, map(behind.__getitem__, earlier), 0), reading.get(number, 0)
            before = [done[other] for other in earlier]
            before += [inlet for k, inlet in enumerate(inlets) if (own & ~known) >> k & 1]
            behind[number] = known | own
            done[number] = self._add_step(graph, number, before)

    def _function_of(self, bound: BoundKernel) -> tuple[Function, LaunchConfig]:
        """Return the function of a kernel, loaded, and the shape of its launch."""
        launch = bound.launch
        shape = LaunchConfig(launch.grid, launch.block, launch.shared_bytes)
        return self._session.loader.function(launch.spec), shape

    def _add_step(self, graph: CudaGraph, number: int, before: Sequence[GraphNode]) -> GraphNode:
        """Add the nodes of a step, one after the other; return the last one."""
        moving = self.host_inlets.get(number) or self.copies.get(number)
        if moving is not None:
            return moving.add_to(graph, before)
        for bound in self.kernels[number]:
            bound.node = graph.add_kernel(
                *self._function_of(bound), bound.args, after=before, label=bound.label
            )
            before = (bound.node,)
        return before[0]


def _nbytes(step: Step) -> int:
    """Return the size of what a transfer brings [bytes]."""
    result = step.outputs[0]
    return numel(result.dims) * result.dtype.itemsize
