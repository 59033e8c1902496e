"""From nodes to lines: the graph that some outputs depend on, as frozen data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from softcuda.errors import ArgumentError
from softcuda.graph.lines import Graph, GraphBuilder, LeafLayout, Line
from softcuda.graph.node import Node, ancestors
from softcuda.graph.op import OPS, Kind
from softcuda.graph.params import OnDevice, Transfer
from softcuda.graph.philox import philox_blocks
from softcuda.graph.shapes import contiguous_strides, numel

__all__ = ["Traced", "on_device", "trace"]

_NONE = OPS["none"]
_ADD = OPS["add"]


class Traced(NamedTuple):
    """A graph and the nodes it was read from.

    Attributes:
        graph: the lines; equal structures give equal graphs.
        nodes: the node of each line; lines made by the trace itself have none at the end.
        leaves: the leaf nodes, by their position.
    """

    graph: Graph
    nodes: tuple[Node, ...]
    leaves: tuple[Node, ...]

    @property
    def is_on_device(self) -> bool:
        """Whether a leaf's value is on a CUDA device, or the graph copies one there."""
        return any(
            line.params.device == "cuda"
            for line in self.graph.lines
            if isinstance(line.params, (LeafLayout, Transfer))
        )


def trace(outputs: Sequence[Node], updates: Mapping[Node, Node] | None = None) -> Traced:
    """Return the graph of `outputs` and of the new values of variables.

    Random nodes of one generator get consecutive places of its counter in the order of the
    trace, and the generator's variable an update that advances it behind the last one.

    Args:
        outputs: nodes that are asked for.
        updates: variable -> node of its new value.

    Raises:
        ArgumentError: a generator's variable is updated twice.
    """
    pairs = list((updates or {}).items())
    builder = GraphBuilder()
    number: dict[int, int] = {}
    nodes: list[Node] = []
    leaves: list[Node] = []
    consumed: dict[int, int] = {}
    lines = builder.lines
    for node in ancestors([*outputs, *(v for v, _ in pairs), *(n for _, n in pairs)]):
        sources = node.inputs
        op, params = node.op, node.params
        if node.data is not None or op.kind is Kind.LEAF:
            sources = ()
            if op.name != "constant":
                params = LeafLayout(len(leaves), _leaf_strides(node), on_device(node))
                leaves.append(node)
                if op.kind is not Kind.LEAF:
                    op = _NONE
        inputs = tuple([number[id(source)] for source in sources])
        if op.kind is Kind.RANDOM:
            taken = consumed.get(inputs[0], 0)
            params = params._replace(offset=taken)
            consumed[inputs[0]] = taken + philox_blocks(numel(node.dims), node.dtype)
        number[id(node)] = len(lines)
        nodes.append(node)
        lines.append(Line(op, inputs, node.dims, node.dtype, params))
    changed = [(number[id(v)], number[id(n)]) for v, n in pairs]
    for variable, blocks in consumed.items():
        if any(variable == updated for updated, _ in changed):
            raise ArgumentError(
                "updates: a generator's variable is advanced by the run itself and may not be "
                "updated beside it; leave it out of updates"
            )
        step = Node.leaf(np.array([0, blocks], np.int64))
        place = builder.append(
            Line(_NONE, (), step.dims, step.dtype, LeafLayout(len(leaves), (1,)))
        )
        leaves.append(step)
        changed.append((variable, builder.add(_ADD, (variable, place))))
    graph = builder.finish([number[id(node)] for node in outputs], changed)
    return Traced(graph, tuple(nodes), tuple(leaves))


def on_device(node: Node) -> str:
    """Return the device type that owns a leaf's value, or the value that it will be fed."""
    device = node.device
    if device is not None:
        return device.type
    return str(node.params.device) if isinstance(node.params, OnDevice) else "cpu"


def _leaf_strides(node: Node) -> tuple[int, ...]:
    """Return a leaf's strides; where the extent is 1 or there is no element they are row-major."""
    data = node.data
    if data is None or (isinstance(data, np.ndarray) and data.flags.c_contiguous):
        return contiguous_strides(node.dims)
    size = data.itemsize
    row_major = contiguous_strides(node.dims)
    return tuple(
        r if d <= 1 else s // size
        for d, s, r in zip(node.dims, data.strides, row_major, strict=True)
    )
