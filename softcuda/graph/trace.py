"""From nodes to lines: the graph that some outputs depend on, as frozen data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from softcuda.errors import ArgumentError
from softcuda.graph.lines import Graph, LeafLayout, Line
from softcuda.graph.node import Node, ancestors
from softcuda.graph.op import OPS, Kind, Op
from softcuda.graph.params import Dims, OnDevice, Transfer
from softcuda.graph.philox import philox_blocks
from softcuda.graph.shapes import contiguous_strides, numel

__all__ = ["Outline", "Traced", "on_device", "outline", "trace", "traced"]

_NONE = OPS["none"]
_ADD = OPS["add"]
_CONSTANT = OPS["constant"]
_VARIABLE = OPS["variable"]

_LEAF: Final = Kind.LEAF
_RANDOM: Final = Kind.RANDOM
_ARRAY: Final = np.ndarray

_row_major = lru_cache(maxsize=4096)(contiguous_strides)

# The fields of a Line; of a leaf its op, dims and dtype, and unless it is a dense one of the host
# (strides, device).
_Entry = tuple[Any, ...]

Outline = tuple[tuple[Any, ...], Sequence[Node], Sequence[Node]]
"""What a trace read: a key, the nodes and the leaves, both as in Traced.

Keys are equal where the graphs are, and made in a fraction of the time, which is all it takes to
find a graph that is known. Their last item is the graph's updates.
"""


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


def _lines(entries: Sequence[_Entry]) -> Iterator[Line]:
    position = 0
    for entry in entries:
        if len(entry) == len(Line._fields):
            yield Line(*entry)
            continue
        op, dims, dtype, *placed = entry
        strides, device = placed[0] if placed else (_row_major(dims), "cpu")
        yield Line(op, (), dims, dtype, LeafLayout(position, strides, device))
        position += 1


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
    return traced(outline(outputs, updates))


def traced(found: Outline) -> Traced:
    """Return an outline with its Graph."""
    key, nodes, leaves = found
    if key[0].__class__ is Op:
        *_, node = nodes
        entries = [_leaf_entry(leaf) for leaf in leaves]
        inputs = tuple(range(len(leaves)))
        entries.append((node.op, inputs, node.dims, node.dtype, node.params))
        key = (entries, (len(leaves),), ())
    entries, outputs, updates = key
    graph = Graph(tuple(_lines(entries)), outputs, updates)
    return Traced(graph, tuple(nodes), tuple(leaves))


def outline(outputs: Sequence[Node], updates: Mapping[Node, Node] | None = None) -> Outline:
    """Return what `trace` reads, with a key instead of a Graph.

    Args:
        outputs: as in `trace`.
        updates: as in `trace`.

    Raises:
        ArgumentError: as `trace`.
    """
    if not updates and len(outputs) == 1:
        found = _single(outputs[0])
        if found is not None:
            return found
    pairs = list(updates.items()) if updates else []
    changing = [*(v for v, _ in pairs), *(n for _, n in pairs)] if pairs else ()
    nodes = ancestors([*outputs, *changing])
    number: dict[Node, int] = {}
    leaves: list[Node] = []
    consumed: dict[int, int] = {}
    entries: list[_Entry] = []
    for at, node in enumerate(nodes):
        number[node] = at
        sources, data, op = node.inputs, node.data, node.op
        kind = op.kind
        if data is not None or (kind is _LEAF and op is not _CONSTANT):
            leaves.append(node)
            if data.__class__ is _ARRAY and data.flags.c_contiguous:
                entries.append((op if kind is _LEAF else _NONE, node.dims, node.dtype))
            else:
                entries.append(_leaf_entry(node))
            continue
        params = node.params
        if len(sources) == 2:
            inputs: tuple[int, ...] = (number[sources[0]], number[sources[1]])
        else:
            inputs = tuple([number[source] for source in sources])
        if kind is _RANDOM:
            taken = consumed.get(inputs[0], 0)
            params = params._replace(offset=taken)
            consumed[inputs[0]] = taken + philox_blocks(numel(node.dims), node.dtype)
        entries.append((op, inputs, node.dims, node.dtype, params))
    changed = [(number[v], number[n]) for v, n in pairs]
    for variable, blocks in consumed.items():
        if any(variable == updated for updated, _ in changed):
            raise ArgumentError(
                "updates: a generator's variable is advanced by the run itself and may not be "
                "updated beside it; leave it out of updates"
            )
        step = Node.leaf(np.array([0, blocks], np.int64))
        entries.append(_leaf_entry(step))
        leaves.append(step)
        changed.append((variable, len(entries)))
        entries.append((_ADD, (variable, len(entries) - 1), step.dims, step.dtype, ()))
    asked = tuple([number[node] for node in outputs])
    return (tuple(entries), asked, tuple(changed)), nodes, leaves


def _single(node: Node) -> Outline | None:
    """Return the outline of one op over different values, on the host dense; None for all others.

    Most evaluations are of one op: its key lists what it is made of, and takes a third of the time.
    """
    leaves, op = node.inputs, node.op
    if not leaves or node.data is not None or op.kind is _RANDOM:
        return None
    parts = [op, node.params, node.dims, node.dtype]
    for leaf in leaves:
        data = leaf.data
        if data is None:
            return None
        if data.__class__ is not _ARRAY:
            try:
                parts.append(data.layout)
            except AttributeError:  # an array of another class
                return None
            parts.append(data.ordinal)
        elif data.flags.c_contiguous:
            parts += (leaf.dims, leaf.dtype)
        else:
            return None
        parts.append(leaf.op is _VARIABLE)
    count = len(leaves)
    if count > 1 and (leaves[0] is leaves[1] if count == 2 else len(set(map(id, leaves))) < count):
        return None
    parts.append(())
    return tuple(parts), (*leaves, node), leaves


def _leaf_entry(leaf: Node) -> _Entry:
    op = leaf.op if leaf.op.kind is _LEAF else _NONE
    strides, device = _placed(leaf)
    if device == "cpu" and strides == _row_major(leaf.dims):
        return op, leaf.dims, leaf.dtype
    return op, leaf.dims, leaf.dtype, (strides, device)


def on_device(node: Node) -> str:
    """Return the device type that owns a leaf's value, or the value that it will be fed."""
    data = node.data
    if data is not None:
        return "cpu" if isinstance(data, np.ndarray) else "cuda"
    return str(node.params.device) if isinstance(node.params, OnDevice) else "cpu"


def _placed(node: Node) -> tuple[Dims, str]:
    """Return a leaf's strides and device.

    Where the extent is 1, or there is no element, the strides are row-major.
    """
    data, row_major = node.data, _row_major(node.dims)
    if data is None:
        return row_major, on_device(node)
    on_host = isinstance(data, np.ndarray)
    if on_host and data.flags.c_contiguous:
        return row_major, "cpu"
    size = data.itemsize
    strides = tuple(
        r if d <= 1 else s // size
        for d, s, r in zip(node.dims, data.strides, row_major, strict=True)
    )
    return strides, "cpu" if on_host else "cuda"
