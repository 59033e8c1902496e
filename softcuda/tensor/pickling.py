"""Pickling and copying of whole graphs without recursion over their depth.

Leaves and random nodes are pickled as objects of their own, so that what one pickle or deep copy
contains twice stays one; the nodes between are flattened into records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from softcuda.dtype import DType
from softcuda.executor.on_demand import duplicate
from softcuda.executor.variables import VARIABLE_LOCKS
from softcuda.graph.flow import Flow
from softcuda.graph.node import Node, amend, ancestors, on_host
from softcuda.graph.op import OPS, Kind, Op
from softcuda.graph.params import Dims, Params
from softcuda.pool.buffers import dense_copy
from softcuda.tensor.exchange import value_now

__all__ = ["copied_graph", "copied_variable", "reduced", "restored", "restored_leaf"]

N = TypeVar("N", bound=Node)

_VARIABLE: Final = OPS["variable"]


class Record(NamedTuple):
    """A node in a pickle; `inputs` are places of earlier entries."""

    op: Op
    inputs: tuple[int, ...]
    dims: Dims
    dtype: DType
    params: Params
    flow: Flow


def reduced(node: Node) -> tuple[Any, tuple[Any, ...]]:
    """Return what pickles a node: a function and its arguments.

    An evaluated node keeps its value and not what it was computed from. Gradients and backend_id
    are not kept.
    """
    if node.data is None and node.op.kind is not Kind.LEAF:
        entries = tuple(_entries(node))
        if node.data is None:  # else evaluated meanwhile
            return restored, (type(node), entries)
    flow = Flow.LOST if node.inputs and node.flow is Flow.TRACED else node.flow
    record = Record(node.op, (), node.dims, node.dtype, node.params, flow)
    data = value_now(node) if node.op is _VARIABLE else on_host(node.data)
    return restored_leaf, (type(node), record, data, node.name)


def _entries(root: Node) -> list[Node | Record]:
    places: dict[int, int] = {}
    entries: list[Node | Record] = []
    for node in _above_anchors(root):
        inputs = node.inputs  # before data: settle() sets data first, then drops the inputs
        places[id(node)] = len(entries)
        if node is not root and _is_anchor(node):
            entries.append(node)
        else:
            numbers = tuple(places.get(id(source), 0) for source in inputs)
            entries.append(Record(node.op, numbers, node.dims, node.dtype, node.params, node.flow))
    return entries


def _is_anchor(node: Node) -> bool:
    return node.data is not None or node.op.kind in (Kind.LEAF, Kind.RANDOM)


def _above_anchors(root: Node) -> list[Node]:
    """Return the nodes that root needs, inputs first, random nodes without their generator."""
    found = ancestors([root])
    read = {
        id(source)
        for node in found
        if node is root or node.op.kind is not Kind.RANDOM
        for source in node.inputs
    }
    return [node for node in found if node is root or id(node) in read]


def restored(cls: type[N], entries: Sequence[N | Record]) -> N:
    """Return the last node of a flattened graph."""
    nodes: list[N] = []
    for entry in entries:
        if isinstance(entry, Record):
            inputs = tuple(nodes[number] for number in entry.inputs)
            nodes.append(_with_flow(_over(cls, entry, inputs), entry.flow))
        else:
            nodes.append(entry)
    return nodes[-1]


def _over(cls: type[N], like: Any, inputs: tuple[N, ...]) -> N:
    return cls(like.op, inputs, like.dims, like.dtype, like.params)


def _with_flow(made: N, flow: Flow) -> N:
    amend(made, "flow", flow)
    return made


def restored_leaf(cls: type[N], record: Record, data: Any, name: str | None) -> N:
    """Return a leaf, or an evaluated node, with its value."""
    made = cls(record.op, (), record.dims, record.dtype, record.params, data, name)
    return _with_flow(made, record.flow)


def copied_variable(node: N) -> N:
    """Return a variable of the same name and value with a buffer of its own."""
    data = node.data
    with VARIABLE_LOCKS.held([data]):
        is_here = isinstance(data, np.ndarray)
        data = dense_copy(data) if is_here else duplicate(data, is_volatile=True)
    made = type(node)(_VARIABLE, (), node.dims, node.dtype, (), data, node.name)
    return _with_flow(made, node.flow)


def copied_graph(root: N, memo: dict[int, Any]) -> N:
    """Return a deep copy: variables are copied, and with them what reads them.

    What cannot change (values, constants, inputs, and nodes over them alone) is shared.
    """
    for node in ancestors([root]):
        if id(node) in memo:
            continue
        inputs = node.inputs
        if node.op is _VARIABLE:
            memo[id(node)] = copied_variable(node)
        elif node.data is not None or all(memo[id(x)] is x for x in inputs):
            memo[id(node)] = node
        else:
            fresh = tuple(memo[id(x)] for x in inputs)
            memo[id(node)] = _with_flow(_over(type(node), node, fresh), node.flow)
    return memo[id(root)]  # type: ignore[no-any-return]
