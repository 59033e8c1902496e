"""The cheapest assignment of nodes to two devices, by a minimum cut.

Each node costs something on either device. A tensor that is made on one device and read on the
other is copied once, however many read it there. The sum of both is least at a minimum cut of a
network whose source side is the CPU and whose sink side is the CUDA device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

__all__ = ["DEVICE_SIDE", "HOST_SIDE", "PricedNode", "assignment", "assignment_us"]

HOST_SIDE: Final = -1  # the reader that stands for the host: it wants the value there
DEVICE_SIDE: Final = -2  # and the one that stands for the device

_LARGEST: Final = 1 << 30  # capacities are 32-bit integers in scipy


class PricedNode(NamedTuple):
    """A node and the tensor that it makes.

    Attributes:
        cpu_us: what computing it on the CPU takes [microseconds]; inf where it cannot.
        cuda_us: the same on the device.
        h2d_us: copying its result to the device [microseconds].
        d2h_us: copying its result to the host.
        readers: the nodes that read the result, each once; HOST_SIDE or DEVICE_SIDE where it is
            wanted in any case.
    """

    cpu_us: float
    cuda_us: float
    h2d_us: float
    d2h_us: float
    readers: tuple[int, ...]


def assignment(nodes: Sequence[PricedNode]) -> list[bool]:
    """Return for each node whether it goes to the device: the modelled time is least.

    Exact to the 2^-30th part of all costs together. Where both devices are as good, the CPU.

    Args:
        nodes: the nodes; no node costs inf on both devices.

    Source:
        Stone, "Multiprocessor scheduling with the aid of network flow algorithms", IEEE
        Transactions on Software Engineering 3, 1977; Dinic's algorithm as scipy has it.
    """
    only = _one_side(nodes)
    if only is not None:
        return [only] * len(nodes)
    network = _Network(nodes)
    return network.sink_side()


def assignment_us(nodes: Sequence[PricedNode], on_device: Sequence[bool]) -> float:
    """Return the modelled time of an assignment [microseconds], copies included."""
    total = 0.0
    for node, there in zip(nodes, on_device, strict=True):
        total += node.cuda_us if there else node.cpu_us
        sides = {r == DEVICE_SIDE if r < 0 else on_device[r] for r in node.readers}
        if (not there) in sides:
            total += node.d2h_us if there else node.h2d_us
    return total


def _one_side(nodes: Sequence[PricedNode]) -> bool | None:
    """Return the side that every node likes better or as well, None where they differ."""
    wants = {r for node in nodes for r in node.readers if r < 0}
    likes_cpu = all(node.cpu_us <= node.cuda_us for node in nodes)
    if likes_cpu and DEVICE_SIDE not in wants:
        return False
    likes_cuda = all(node.cuda_us < node.cpu_us for node in nodes)
    return True if likes_cuda and HOST_SIDE not in wants else None


class _Network:
    """The network of a placement: node k is vertex k, the source and the sink come last."""

    def __init__(self, nodes: Sequence[PricedNode]) -> None:
        self.count = len(nodes)
        self._arcs: dict[tuple[int, int], float] = {}
        self._vertices = self.count + 2
        self.source, self.sink = self.count, self.count + 1
        for vertex, node in enumerate(nodes):
            spare = min(node.cpu_us, node.cuda_us)
            self._arc(self.source, vertex, node.cuda_us - spare)
            self._arc(vertex, self.sink, node.cpu_us - spare)
            self._copies(vertex, node)

    def _arc(self, tail: int, head: int, capacity: float) -> None:
        if capacity > 0 and tail != head:
            self._arcs[tail, head] = self._arcs.get((tail, head), 0.0) + capacity

    def _copies(self, vertex: int, node: PricedNode) -> None:
        """Add the copies of a result: an arc that is cut once, whoever reads behind it."""
        readers = [self._vertex(reader) for reader in node.readers]
        if len(readers) == 1:
            self._arc(vertex, readers[0], node.h2d_us)
            self._arc(readers[0], vertex, node.d2h_us)
        elif readers:
            there, here = self._vertices, self._vertices + 1
            self._vertices += 2
            self._arc(vertex, there, node.h2d_us)
            self._arc(here, vertex, node.d2h_us)
            for reader in readers:
                self._arc(there, reader, math.inf)
                self._arc(reader, here, math.inf)

    def _vertex(self, reader: int) -> int:
        if reader >= 0:
            return reader
        return self.source if reader == HOST_SIDE else self.sink

    def sink_side(self) -> list[bool]:
        """Return for each node whether it is on the side of the sink of a minimum cut."""
        from scipy.sparse import csr_array  # noqa: PLC0415 - loaded when a graph is cut
        from scipy.sparse.csgraph import (  # noqa: PLC0415
            breadth_first_order,
            maximum_flow,
        )

        ends = np.array(list(self._arcs), np.int32).reshape(-1, 2)
        capacities = self._whole(np.array(list(self._arcs.values())))
        shape = (self._vertices, self._vertices)
        graph: Any = csr_array((capacities, (ends[:, 0], ends[:, 1])), shape, dtype=np.int32)
        flow = maximum_flow(graph, self.source, self.sink).flow
        # A node from which the sink can still be reached is on the side of the sink.
        residual = (graph - flow).T.tocsr()
        residual.data[residual.data < 0] = 0
        residual.eliminate_zeros()
        reached, _ = breadth_first_order(residual, self.sink, return_predecessors=True)
        is_there = np.zeros(self._vertices, bool)
        is_there[reached] = True
        return [bool(each) for each in is_there[: self.count]]

    def _whole(self, capacities: Any) -> Any:
        """Return capacities as whole numbers; inf is more than all others together."""
        finite = np.isfinite(capacities)
        total = float(capacities[finite].sum())
        scale = (_LARGEST - len(capacities)) / max(total, 1e-9)
        whole = np.full(len(capacities), _LARGEST, np.int64)
        whole[finite] = np.maximum(np.rint(capacities[finite] * scale), 1)
        return whole.astype(np.int32)
