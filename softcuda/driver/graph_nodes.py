"""Nodes of a driver graph, and how they are changed after it was instantiated.

Source: CUDA Driver API, "Graph Management", cuGraphExecKernelNodeSetParams and its siblings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import addressof, byref, c_void_p
from functools import partial

from softcuda.driver.arguments import ArgBuffer
from softcuda.driver.context import PrimaryContext
from softcuda.driver.copies import CopyEnd, check_fill, set_copy
from softcuda.driver.enums import (
    CUgraphDependencyType,
    CUgraphKernelNodePort,
    CUlaunchAttributeID,
)
from softcuda.driver.launch import LaunchConfig
from softcuda.driver.module import Function
from softcuda.driver.owner import Owner, Resource
from softcuda.driver.types import (
    CUDA_MEMCPY3D,
    CUDA_MEMSET_NODE_PARAMS,
    CUDA_KERNEL_NODE_PARAMS_v2,
    CUgraphEdgeData,
)
from softcuda.errors import ClosedError

__all__ = ["CopyNode", "FillNode", "GraphNode", "KernelNode", "Nodes", "held", "node_handles"]


def held(owner: object) -> object:
    """Return what keeps an owner's handle alive: its resource, or the object itself."""
    return owner.resource if isinstance(owner, Owner) else owner


def _refuse(node: str) -> None:
    raise ClosedError(f"{node} cannot be changed: its graph is not instantiated, or is closed")


class GraphNode:
    """A node of a driver graph; an empty one, or one that holds another graph.

    Attributes:
        label: what messages call it.
        number: its position in the graph, in the order of adding.
        pointer: the CUgraphNode as a prepared ctypes argument.
        apply: writes what the node holds now into the instantiated graph, by one driver call;
            raises ClosedError before the graph is instantiated and after it is closed.
    """

    __slots__ = ("_executable", "_needs", "_primary", "apply", "label", "number", "pointer")

    def __init__(self, primary: PrimaryContext, number: int, label: str) -> None:
        """Prepare a node; the graph gives it its handle."""
        self._primary = primary
        self._needs: dict[object, object] = {}
        self._executable: Resource | None = None  # lives as long as `apply` may be called
        self.label = label
        self.number = number
        self.pointer = c_void_p()
        self.apply: Callable[[], object] = partial(_refuse, repr(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.number}, {self.label})"

    def attach(self, needs: dict[object, object]) -> None:
        """Note where the graph keeps what its nodes need."""
        self._needs = needs

    def bind(self, executable: Resource) -> None:
        """Prepare `apply` for an instantiated graph."""

    def unbind(self) -> None:
        """Forget the instantiated graph."""
        self.apply = partial(_refuse, repr(self))
        self._executable = None

    def keep(self, *owners: object) -> None:
        """Keep owners of memory alive for this node, instead of those kept before."""
        self._needs[self.number] = tuple(held(owner) for owner in owners)


Nodes = Sequence[GraphNode]


def node_handles(nodes: Nodes) -> object:
    """Return the handles of nodes as the driver takes them, None for no nodes."""
    if not nodes:
        return None
    return (c_void_p * len(nodes))(*(node.pointer.value for node in nodes))


class KernelNode(GraphNode):
    """A kernel of a driver graph; change `args`, then call `apply()`.

    Attributes:
        function: the kernel.
        config: its shape.
        args: its arguments, copied into the graph when it is added and at `apply()`.
        params: the driver's struct for it.
    """

    __slots__ = ("args", "config", "function", "params")

    def __init__(
        self,
        primary: PrimaryContext,
        number: int,
        label: str,
        function: Function,
        config: LaunchConfig,
        args: ArgBuffer,
    ) -> None:
        """Describe a kernel node."""
        super().__init__(primary, number, label)
        self.function = function
        self.config = config
        self.args = args
        self.params = CUDA_KERNEL_NODE_PARAMS_v2(
            function.pointer, *config.grid, *config.block, config.smem_bytes
        )
        if args.pointers is not None:
            self.params.kernelParams = addressof(args.pointers)

    def set_cluster(self) -> None:
        """Give the node the cluster of its shape; the context is current."""
        for attribute in self.config.attributes():
            if attribute.id == CUlaunchAttributeID.CLUSTER_DIMENSION:
                self._primary.driver.cuGraphKernelNodeSetAttribute(
                    self.pointer, attribute.id, byref(attribute.value)
                )

    def add_early(self, graph: int, before: Nodes) -> None:
        """Let the node begin when `before` allow it; the context is current."""
        count = len(before)
        edges = (CUgraphEdgeData * count)()
        for edge in edges:
            edge.from_port = CUgraphKernelNodePort.PROGRAMMATIC
            edge.type = CUgraphDependencyType.PROGRAMMATIC
        self._primary.driver.cuGraphAddDependencies_v2(
            graph, node_handles(before), node_handles([self] * count), edges, count
        )

    def reshape(self, config: LaunchConfig) -> None:
        """Take another grid, block and shared memory, then call `apply()`; clusters stay."""
        self.function.allow(config.smem_bytes)
        params = self.params
        params.gridDimX, params.gridDimY, params.gridDimZ = config.grid
        params.blockDimX, params.blockDimY, params.blockDimZ = config.block
        params.sharedMemBytes = config.smem_bytes
        self.config = config

    def bind(self, executable: Resource) -> None:
        """Prepare `apply` for an instantiated graph."""
        self._executable = executable
        self.apply = partial(
            self._primary.driver.cuGraphExecKernelNodeSetParams_v2,
            c_void_p(executable.handle),
            self.pointer,
            self.params,  # whose address goes to the driver, found sooner than by byref
        )


class CopyNode(GraphNode):
    """A copy of a driver graph.

    Attributes:
        params: the driver's struct for it.
    """

    __slots__ = ("_height", "_width_bytes", "params")

    def __init__(
        self,
        primary: PrimaryContext,
        number: int,
        label: str,
        dst: CopyEnd,
        src: CopyEnd,
        width_bytes: int,
        height: int,
    ) -> None:
        """Describe a copy node.

        Raises:
            ArgumentError: rows of an end overlap.
        """
        super().__init__(primary, number, label)
        self._width_bytes = width_bytes
        self._height = height
        self.params = CUDA_MEMCPY3D(Depth=1)
        set_copy(self.params, dst, src, width_bytes, height)

    def redirect(self, dst: CopyEnd, src: CopyEnd) -> None:
        """Copy between other addresses of the same kinds from the next launch on.

        Raises:
            ArgumentError: rows of an end overlap.
            ClosedError: the graph is not instantiated, or is closed.
            DriverError: an end is in memory of another kind or device than before.
        """
        set_copy(self.params, dst, src, self._width_bytes, self._height)
        self.apply()

    def bind(self, executable: Resource) -> None:
        """Prepare `apply` for an instantiated graph."""
        self._executable = executable
        self.apply = partial(
            self._primary.driver.cuGraphExecMemcpyNodeSetParams,
            c_void_p(executable.handle),
            self.pointer,
            self.params,
            c_void_p(self._primary.handle),
        )


class FillNode(GraphNode):
    """A fill of a driver graph.

    Attributes:
        params: the driver's struct for it.
    """

    __slots__ = ("params",)

    def __init__(
        self,
        primary: PrimaryContext,
        number: int,
        label: str,
        ptr: int,
        value: int,
        count: int,
        itemsize: int,
    ) -> None:
        """Describe a fill node.

        Raises:
            ArgumentError: the item is of another size, misaligned, or too small for the value.
        """
        super().__init__(primary, number, label)
        check_fill(ptr, value, itemsize)
        self.params = CUDA_MEMSET_NODE_PARAMS(
            dst=ptr, value=value, elementSize=itemsize, width=count, height=1
        )

    def redirect(self, ptr: int) -> None:
        """Fill another address from the next launch on.

        Raises:
            ArgumentError: the address is misaligned.
            ClosedError: the graph is not instantiated, or is closed.
        """
        check_fill(ptr, self.params.value, self.params.elementSize)
        self.params.dst = ptr
        self.apply()

    def bind(self, executable: Resource) -> None:
        """Prepare `apply` for an instantiated graph."""
        self._executable = executable
        self.apply = partial(
            self._primary.driver.cuGraphExecMemsetNodeSetParams,
            c_void_p(executable.handle),
            self.pointer,
            self.params,
            c_void_p(self._primary.handle),
        )
