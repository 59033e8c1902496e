"""The fake driver's modules, launches, driver graphs and tensor maps; kernels are Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from ctypes import c_void_p, memmove, sizeof, string_at
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, NamedTuple

from softcuda.driver.types import CUDA_MEMCPY3D

INVALID_VALUE, NO_BINARY, NOT_FOUND = 1, 209, 500


class FakeKernel(NamedTuple):
    """A kernel: the ctypes types of its parameters, and what it does with them."""

    types: tuple[Any, ...] = ()
    run: Callable[..., object] | None = None


@dataclass
class FakeNode:
    """A node of a fake driver graph; `work` is what it does."""

    handle: int
    kind: str
    work: tuple[Any, ...]
    after: tuple[int, ...] = ()
    early: list[int] = field(default_factory=list)
    cluster: tuple[int, int, int] = (1, 1, 1)


class FakeGraphs:
    """Modules whose kernels are those of `kernels`, and graphs of copies of their arguments.

    Nodes of a graph run in the order in which they were added; with a source of `chances`, in any
    order that the graph allows.
    """

    capturing: dict[int, int]
    chances: Random | None = None

    def __init__(self) -> None:
        super().__init__()
        self.kernels: dict[str, FakeKernel] = {"kernel": FakeKernel()}
        self.functions: dict[int, str] = {}
        self.graphs: dict[int, list[FakeNode]] = {}
        self.executables: dict[int, list[FakeNode]] = {}
        self.function_attributes: dict[tuple[int, int], int] = {}
        self.launched: list[tuple[str, tuple[Any, ...]]] = []
        self._node = 0x900000

    def make(self, kind: str) -> int:
        raise NotImplementedError

    def drop(self, handle: int | None, kind: str) -> int:
        raise NotImplementedError

    def rows(self, copy: Any) -> int:
        raise NotImplementedError

    def set_items(self, dst: int, value: int, count: int, itemsize: int) -> int:
        raise NotImplementedError

    # Modules and functions

    def cuModuleLoadDataEx(
        self, out: Any, image: int, count: int, options: Any, values: Any
    ) -> int:
        text = string_at(image)
        if text.startswith(b"bad"):
            memmove(values[0], b"ptxas says no\0", 14)
            return NO_BINARY
        out[0] = self.make("module")
        return 0

    def cuModuleUnload(self, module: int) -> int:
        return self.drop(module, "module")

    def cuModuleGetFunction(self, out: Any, module: int, name: bytes) -> int:
        if name.decode() not in self.kernels:
            return NOT_FOUND
        handle = 0x700000 + 0x10 * len(self.functions)
        self.functions[handle] = name.decode()
        out[0] = handle
        return 0

    def cuModuleGetFunctionCount(self, out: Any, module: int) -> None:
        out[0] = len(self.kernels)

    def cuFuncGetAttribute(self, out: Any, attribute: int, function: int) -> None:
        usual = {0: 1024, 1: 1024, 4: 32, 8: 49152}
        out[0] = self.function_attributes.get((function, attribute), usual.get(attribute, 0))

    def cuFuncSetAttribute(self, function: int, attribute: int, value: int) -> None:
        self.function_attributes[function, attribute] = value

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(
        self, out: Any, function: int, block: int, smem: int
    ) -> None:
        out[0] = 2048 // block

    def cuOccupancyMaxPotentialBlockSize(
        self, grid: Any, block: Any, function: int, sizes: Any, smem: int, limit: int
    ) -> None:
        grid[0], block[0] = 264, limit or 1024

    def cuOccupancyMaxActiveClusters(self, out: Any, function: int, config: Any) -> None:
        out[0] = 66

    # Launches

    def arguments(self, function: int, params: int | None) -> tuple[Any, ...]:
        """Return copies of the arguments that kernelParams points to."""
        types = self.kernels[self.functions[function]].types
        places = (c_void_p * len(types)).from_address(params) if params else ()
        return tuple(
            kind.from_buffer_copy(string_at(place, sizeof(kind)))
            for kind, place in zip(types, places, strict=True)
        )

    def run_kernel(self, function: int, arguments: Sequence[Any]) -> None:
        """Run a kernel."""
        name = self.functions[function]
        self.launched.append((name, tuple(getattr(a, "value", a) for a in arguments)))
        kernel = self.kernels[name]
        if kernel.run is not None:
            kernel.run(*arguments)

    def cuLaunchKernelEx(self, config: Any, function: int, params: int, extra: Any) -> None:
        arguments = self.arguments(function, params)
        if not self.record(config.contents.hStream, "kernel", function, arguments):
            self.run_kernel(function, arguments)

    def record(self, stream: int | None, kind: str, *work: Any) -> bool:
        """Record work of a capturing stream; return whether it is one."""
        if stream is None or stream not in self.capturing:
            return False
        if kind == "copy":
            dst, src, nbytes = work
            copy = CUDA_MEMCPY3D(Depth=1, WidthInBytes=nbytes, Height=1)
            copy.srcMemoryType = copy.dstMemoryType = 1
            copy.srcPitch = copy.dstPitch = nbytes
            copy.srcHost, copy.dstHost = src, dst
            work = (copy,)
        self.add(self.capturing[stream], kind, work)
        return True

    def cuStreamBeginCapture_v2(self, stream: int, mode: int) -> None:
        graph = self.make("graph")
        self.graphs[graph] = []
        self.capturing[stream] = graph

    def cuStreamEndCapture(self, stream: int, out: Any) -> int:
        if stream not in self.capturing:
            return 903
        out[0] = self.capturing.pop(stream)
        return 0

    # Driver graphs

    def add(self, graph: int, kind: str, work: tuple[Any, ...], *after: int) -> int:
        """Add a node; return its handle."""
        self._node += 0x10
        self.graphs[graph].append(FakeNode(self._node, kind, work, after))
        return self._node

    def _added(self, out: Any, graph: int, after: Any, count: int, kind: str, *work: Any) -> int:
        before = tuple(after[i] for i in range(count))
        if not set(before) <= {node.handle for node in self.graphs[graph]}:
            return INVALID_VALUE
        out[0] = self.add(graph, kind, work, *before)
        return 0

    def find(self, nodes: list[FakeNode], handle: int) -> FakeNode:
        """Return the node of a handle."""
        return next(node for node in nodes if node.handle == handle)

    def cuGraphCreate(self, out: Any, flags: int) -> None:
        out[0] = self.make("graph")
        self.graphs[out[0]] = []

    def cuGraphDestroy(self, graph: int) -> int:
        self.graphs.pop(graph, None)
        return self.drop(graph, "graph")

    def cuGraphAddKernelNode_v2(self, out: Any, graph: int, after: Any, n: int, p: Any) -> int:
        work = (p.contents.func, self.arguments(p.contents.func, p.contents.kernelParams))
        return self._added(out, graph, after, n, "kernel", *work)

    def cuGraphAddMemcpyNode(
        self, out: Any, graph: int, after: Any, n: int, p: Any, context: int
    ) -> int:
        copy = CUDA_MEMCPY3D.from_buffer_copy(p.contents)
        return self._added(out, graph, after, n, "copy", copy)

    def cuGraphAddMemsetNode(
        self, out: Any, graph: int, after: Any, n: int, p: Any, context: int
    ) -> int:
        fill = p.contents
        work = (fill.dst, fill.value, fill.width, fill.elementSize)
        return self._added(out, graph, after, n, "fill", *work)

    def cuGraphAddChildGraphNode(self, out: Any, graph: int, after: Any, n: int, child: int) -> int:
        return self._added(out, graph, after, n, "graph", tuple(self.graphs[child]))

    def cuGraphAddEmptyNode(self, out: Any, graph: int, after: Any, n: int) -> int:
        return self._added(out, graph, after, n, "empty")

    def cuGraphAddDependencies_v2(self, graph: int, a: Any, b: Any, edges: Any, n: int) -> None:
        for i in range(n):
            assert (edges[i].from_port, edges[i].to_port, edges[i].type) == (1, 0, 1)
            self.find(self.graphs[graph], b[i]).early.append(a[i])

    def cuGraphKernelNodeSetAttribute(self, handle: int, attribute: int, value: Any) -> None:
        nodes = [node for graph in self.graphs.values() for node in graph]
        cluster = value.contents.clusterDim
        self.find(nodes, handle).cluster = (cluster.x, cluster.y, cluster.z)

    def cuGraphGetNodes(self, graph: int, nodes: Any, count: Any) -> None:
        count[0] = len(self.graphs[graph])

    def cuGraphInstantiateWithFlags(self, out: Any, graph: int, flags: int) -> None:
        out[0] = self.make("executable")
        self.executables[out[0]] = [replace(node) for node in self.graphs[graph]]

    def cuGraphExecDestroy(self, executable: int) -> int:
        self.executables.pop(executable, None)
        return self.drop(executable, "executable")

    def cuGraphExecKernelNodeSetParams_v2(self, executable: int, node: int, p: Any) -> None:
        work = (p.contents.func, self.arguments(p.contents.func, p.contents.kernelParams))
        self.find(self.executables[executable], node).work = work

    def cuGraphExecMemcpyNodeSetParams(
        self, executable: int, node: int, p: Any, context: int
    ) -> None:
        copy = CUDA_MEMCPY3D.from_buffer_copy(p.contents)
        self.find(self.executables[executable], node).work = (copy,)

    def cuGraphExecMemsetNodeSetParams(
        self, executable: int, node: int, p: Any, context: int
    ) -> None:
        fill = p.contents
        work = (fill.dst, fill.value, fill.width, fill.elementSize)
        self.find(self.executables[executable], node).work = work

    def cuGraphUpload(self, executable: int, stream: int) -> int:
        return 0 if executable in self.executables else INVALID_VALUE

    def cuGraphLaunch(self, executable: int, stream: int) -> int:
        return self.replay(self.executables[executable])

    def replay(self, nodes: Sequence[FakeNode]) -> int:
        """Do the work of nodes."""
        code = 0
        for node in nodes if self.chances is None else self.shuffled(nodes):
            if node.kind == "kernel":
                self.run_kernel(*node.work)
            elif node.kind == "copy":
                code = code or self.rows(*node.work)
            elif node.kind == "fill":
                code = code or self.set_items(*node.work)
            elif node.kind == "graph":
                code = code or self.replay(*node.work)
        return code

    def shuffled(self, nodes: Sequence[FakeNode]) -> Iterator[FakeNode]:
        """Yield nodes in an order that the graph allows."""
        assert self.chances is not None
        left, done = list(nodes), set[int]()
        while left:
            ready = [node for node in left if done.issuperset((*node.after, *node.early))]
            node = self.chances.choice(ready)
            left.remove(node)
            done.add(node.handle)
            yield node

    # Tensor maps

    def cuTensorMapEncodeTiled(self, out: Any, dtype: int, rank: int, ptr: int, *rest: Any) -> None:
        out.contents.opaque[0] = ptr
        out.contents.opaque[1] = dtype << 8 | rank
