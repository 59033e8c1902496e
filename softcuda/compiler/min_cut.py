"""The cheapest assignment of nodes to two devices, by a minimum cut.

Each node costs something on either device. A tensor that is made on one device and read on the
other is copied once, however many read it there. The sum of both is least at a minimum cut of a
network whose source side is the CPU and whose sink side is the CUDA device.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np

from softcuda.compiler.cut_network import CutNetwork

__all__ = ["DEVICE_SIDE", "HOST_SIDE", "PricedNode", "assignment", "assignment_us"]

HOST_SIDE: Final = -1  # the reader that stands for the host: it wants the value there
DEVICE_SIDE: Final = -2  # and the one that stands for the device

_WITHIN: Final = 2.0**-40  # of what the assignment costs beyond the cheaper side of each node


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

    What it takes beyond the cheaper side of each node is least but for the 2^-40th part of it,
    however large single costs are. Where both devices are as good, the CPU.

    Args:
        nodes: the nodes; no node costs inf on both devices.

    Source:
        Stone, "Multiprocessor scheduling with the aid of network flow algorithms", IEEE
        Transactions on Software Engineering 3, 1977; Dinic's algorithm as scipy has it.
    """
    only = _one_side(nodes)
    if only is not None:
        return [only] * len(nodes)
    return _Placing(nodes).best()


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


class _Placing:
    """The network of a placement: node k is vertex k, the source and the sink come last.

    Two vertices between stand for each set of readers: "there" is on the side of the device where
    a reader is, "here" on that of the CPU; whoever has the same readers shares them.
    """

    def __init__(self, nodes: Sequence[PricedNode]) -> None:
        count = self._count = len(nodes)
        costs = np.array([node[:4] for node in nodes], np.float64)
        self._cpu, self._cuda, h2d, d2h = costs.T
        sets: dict[tuple[int, ...], int] = {}
        read = [number for number, node in enumerate(nodes) if node.readers]
        owned = [sets.setdefault(nodes[number].readers, len(sets)) for number in read]
        self._sizes = np.array([len(each) for each in sets], np.int64)
        readers = np.fromiter(chain.from_iterable(sets), np.int64, int(self._sizes.sum()))
        self._vertices = count + 2 * len(sets) + 2
        self._source, self._sink = self._vertices - 2, self._vertices - 1
        readers[readers == HOST_SIDE] = self._source
        readers[readers == DEVICE_SIDE] = self._sink
        self._readers = readers
        self._there = count + np.arange(len(sets))
        self._here = self._there + len(sets)
        self._network = self._made(np.array(read, np.int64), np.array(owned, np.int64), h2d, d2h)

    def _made(self, read: Any, owned: Any, h2d: Any, d2h: Any) -> CutNetwork:
        numbers, readers = np.arange(self._count), self._readers
        behind = np.repeat(np.arange(len(self._sizes)), self._sizes)
        there, here = self._there[owned], self._here[owned]
        dearer = self._cuda - self._cpu  # what the device costs more; inf where it cannot
        never = np.full(len(readers), np.inf)
        arcs = [
            (np.full(self._count, self._source), numbers, dearer),
            (numbers, np.full(self._count, self._sink), -dearer),
            (read, there, h2d[read]),
            (here, read, d2h[read]),
            (self._there[behind], readers, never),
            (readers, self._here[behind], never),
        ]
        tails, heads, capacities = (np.concatenate(each) for each in zip(*arcs, strict=True))
        some = (capacities > 0) & (tails != heads)
        positions = np.zeros(self._vertices)
        positions[: self._count] = numbers
        np.maximum.at(positions, there, read + 0.5)
        positions[self._here] = positions[self._there]
        return CutNetwork(tails[some], heads[some], capacities[some], positions)

    def best(self) -> list[bool]:
        """Return the sides of the nodes in a minimum cut."""
        starts = (self._cuda < self._cpu, np.isinf(self._cpu), ~np.isinf(self._cuda))
        completed = [self._completed(each) for each in starts]
        start = min(completed, key=self._network.value)
        return [bool(each) for each in self._network.sink_side(start, _WITHIN)[: self._count]]

    def _completed(self, on_device: Any) -> Any:
        """Return the sides of all vertices, where those between cost least."""
        sides = np.zeros(self._vertices, bool)
        sides[: self._count] = on_device
        sides[self._sink] = True
        if len(self._sizes):
            starts = np.cumsum(self._sizes) - self._sizes
            sides[self._there] = np.logical_or.reduceat(sides[self._readers], starts)
            sides[self._here] = np.logical_and.reduceat(sides[self._readers], starts)
        return sides
