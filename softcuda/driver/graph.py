"""Driver graphs: work described once, instantiated, and launched with one call.

Source: CUDA Driver API, "Graph Management"; for capture, "Stream Management".
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import byref, c_size_t, c_void_p
from functools import partial
from typing import NoReturn, Self

from softcuda.driver.arguments import ArgBuffer
from softcuda.driver.context import Context
from softcuda.driver.copies import CopyEnd
from softcuda.driver.graph_nodes import (
    CopyNode,
    FillNode,
    GraphNode,
    KernelNode,
    Nodes,
    held,
    node_handles,
)
from softcuda.driver.launch import LaunchConfig
from softcuda.driver.library import Driver
from softcuda.driver.module import Function
from softcuda.driver.owner import Owner, Resource
from softcuda.driver.stream import Stream
from softcuda.errors import ArgumentError, ClosedError

__all__ = ["CudaGraph"]


def _destroy_graph(driver: Driver, handle: int) -> None:
    driver.cuGraphDestroy(handle)


def _destroy_executable(driver: Driver, handle: int) -> None:
    driver.cuGraphExecDestroy(handle)


class CudaGraph(Owner):
    """A driver graph: nodes and the order between them.

    It keeps functions, and whatever `keep` names, alive until it is destroyed.

    Attributes:
        label: what messages call it.
        nodes: the nodes that were added, in order, until it is closed; not those of a capture.
    """

    __slots__ = ("_executable", "_launch", "label", "nodes")

    def __init__(self, context: Context, label: str = "driver graph") -> None:
        """Make an empty graph."""
        handle = c_void_p()
        with context.current():
            context.driver.cuGraphCreate(byref(handle), 0)
        self._take(context, handle.value or 0, label)

    def _take(self, context: Context, handle: int, label: str) -> None:
        super().__init__(context, Resource(context.primary, handle, _destroy_graph, label))
        self.label = label
        self.nodes: list[GraphNode] = []
        self._executable: Resource | None = None
        self._launch: Callable[[c_void_p], int] | None = None

    @classmethod
    def adopt(cls, context: Context, handle: int, label: str) -> Self:
        """Return a graph that takes over a CUgraph, such as one that a capture made."""
        graph = cls.__new__(cls)
        graph._take(context, handle, label)
        return graph

    def _about(self) -> str:
        state = "instantiated" if self._executable is not None else "not instantiated"
        return f"{self.label}, {len(self.nodes)} nodes, {state}"

    def _refuse(self) -> NoReturn:
        raise ClosedError(f"{self!r} cannot be launched: instantiate() comes first, close() last")

    def keep(self, *owners: object) -> None:
        """Keep owners of memory, or any objects, alive until the graph is destroyed."""
        needs = self.resource.needs
        for owner in owners:
            needs["kept", len(needs)] = held(owner)

    def add_kernel(
        self,
        function: Function,
        config: LaunchConfig,
        args: ArgBuffer,
        *,
        after: Nodes = (),
        early_after: Nodes = (),
        label: str | None = None,
    ) -> KernelNode:
        """Return a new node that runs a kernel.

        Args:
            function: the kernel.
            config: its shape; clusters are kept, `is_programmatic` has no meaning here.
            args: its arguments; their present values are copied.
            after: nodes that must be done before.
            early_after: kernels that must have begun and let it go (programmatic dependent
                launch); it then waits for their results by itself. Needs a CUDA 12.3 driver.
            label: what messages call it; None for the kernel's name.

        Raises:
            ArgumentError: the device has not that much shared memory a block.
            ClosedError: the graph is closed, or instantiated already.
        """
        function.allow(config.smem_bytes, config.cluster_blocks)
        name = label or f"kernel {function.name!r}"
        node = KernelNode(self.context.primary, len(self.nodes), name, function, config, args)
        resource = self.resource
        add = self.context.driver.cuGraphAddKernelNode_v2
        self._add(node, add, after, byref(node.params))
        resource.needs["function", node.number] = function.resource
        with self.context.current():
            node.set_cluster()
            if early_after:
                node.add_early(resource.handle, early_after)
        return node

    def add_copy(
        self,
        dst: CopyEnd,
        src: CopyEnd,
        width_bytes: int,
        height: int = 1,
        *,
        after: Nodes = (),
        label: str = "copy",
    ) -> CopyNode:
        """Return a new node that copies `height` rows of `width_bytes`.

        Raises:
            ArgumentError: there is nothing to copy, or rows of an end overlap.
            ClosedError: the graph is closed, or instantiated already.
        """
        if width_bytes < 1 or height < 1:
            raise ArgumentError(
                f"a copy node of {height} rows of {width_bytes} bytes; allowed is at least 1 of 1"
            )
        primary = self.context.primary
        node = CopyNode(primary, len(self.nodes), label, dst, src, width_bytes, height)
        add = self.context.driver.cuGraphAddMemcpyNode
        self._add(node, add, after, byref(node.params), primary.handle)
        return node

    def add_fill(
        self,
        ptr: int,
        value: int,
        count: int,
        itemsize: int = 1,
        *,
        after: Nodes = (),
        label: str = "fill",
    ) -> FillNode:
        """Return a new node that sets `count` items of 1, 2 or 4 bytes to one value.

        Raises:
            ArgumentError: there is nothing to fill, or the item is of another size, misaligned,
                or too small for the value.
            ClosedError: the graph is closed, or instantiated already.
        """
        if count < 1:
            raise ArgumentError(f"a fill node of {count} items; allowed is at least 1")
        primary = self.context.primary
        node = FillNode(primary, len(self.nodes), label, ptr, value, count, itemsize)
        add = self.context.driver.cuGraphAddMemsetNode
        self._add(node, add, after, byref(node.params), primary.handle)
        return node

    def add_graph(
        self, child: CudaGraph, *, after: Nodes = (), label: str = "child graph"
    ) -> GraphNode:
        """Return a new node that does a copy of all that `child` holds now.

        What `child` keeps alive is kept alive by this graph too.
        """
        node = GraphNode(self.context.primary, len(self.nodes), label)
        self._add(node, self.context.driver.cuGraphAddChildGraphNode, after, child.handle)
        self.resource.needs["child", node.number] = child.resource
        return node

    def add_empty(self, *, after: Nodes = (), label: str = "join") -> GraphNode:
        """Return a new node that does nothing but wait for others."""
        node = GraphNode(self.context.primary, len(self.nodes), label)
        self._add(node, self.context.driver.cuGraphAddEmptyNode, after)
        return node

    def _add(self, node: GraphNode, add: Callable[..., int], after: Nodes, *rest: object) -> None:
        if self._executable is not None:
            raise ClosedError(f"{self!r} takes no more nodes; make another graph")
        resource = self.resource
        with self.context.current():
            add(byref(node.pointer), resource.handle, node_handles(after), len(after), *rest)
        node.attach(resource.needs)
        self.nodes.append(node)

    def node_count(self) -> int:
        """Return the number of nodes, those of a capture included."""
        count = c_size_t()
        with self.context.current():
            self.context.driver.cuGraphGetNodes(self.handle, None, byref(count))
        return count.value

    def instantiate(self) -> None:
        """Make the graph ready to launch; from then on no node can be added.

        Raises:
            DriverError: the graph cannot run, or memory is short; it can be tried again.
            ClosedError: the graph is closed.
        """
        if self._executable is not None:
            return
        driver, resource = self.context.driver, self.resource
        handle = c_void_p()
        with self.context.current():
            driver.cuGraphInstantiateWithFlags(byref(handle), resource.handle, 0)
        executable = Resource(
            self.context.primary, handle.value or 0, _destroy_executable, self.label, resource
        )
        self._executable = executable
        self._launch = partial(driver.cuGraphLaunch, c_void_p(executable.handle))
        for node in self.nodes:
            node.bind(executable)

    def upload(self, *, stream: Stream) -> None:
        """Bring the instantiated graph to the device, so that its first launch is quick.

        Returns when it is there, and all that the stream was given before is done. Drivers were
        seen (580.159, on graphs whose nodes run side by side) that begin a launch in the same
        stream before its arguments have arrived.

        Raises:
            ClosedError: the graph is not instantiated, or is closed.
            DeviceLost: an earlier fault showed.
        """
        if self._executable is None:
            self._refuse()
        with self.context.current():
            self.context.driver.cuGraphUpload(self._executable.handle, stream.handle)
        stream.synchronize()

    def launch(self, *, stream: Stream) -> None:
        """Give the whole graph to a stream; returns before it runs.

        With SOFTCUDA_SYNC=1, waits for it.

        Raises:
            ClosedError: the graph is not instantiated, or is closed.
            DeviceLost: an earlier fault showed, or the graph's own with SOFTCUDA_SYNC=1.
        """
        context, handle, launch = self.context, stream.handle, self._launch
        if launch is None:
            self._refuse()
        primary = context.primary
        if primary.is_current():
            launch(stream.pointer)
        else:
            with primary.current():
                launch(stream.pointer)
        primary.state.submit(handle, self.label)
        if context.is_synchronous and not stream.is_capturing:
            stream.synchronize()

    def launcher(self, *, stream: Stream) -> Callable[[], int]:
        """Return a call without arguments that launches the graph into a stream.

        It is the bare driver call: the caller has the context current, notes the step with
        `context.state.submit`, and keeps graph and stream open as long as it uses the call.

        Raises:
            ClosedError: the graph is not instantiated, or is closed.
        """
        if self._launch is None:
            self._refuse()
        return partial(self._launch, stream.pointer)

    def close(self) -> None:
        """Let go of the graph; it is destroyed once nothing else needs it. Idempotent."""
        for node in self.nodes:
            node.unbind()
        self.nodes = []
        self._executable = None
        self._launch = None
        super().close()
