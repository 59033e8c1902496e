"""At which values a gradient is taken: those that variables have when it is run.

An evaluated node keeps the value of its time, and a rule that read it beside a variable that was
assigned since would mix two points. What lies between the outputs and what the gradient is asked
for is therefore made again where it reads variables; simplify shares it with what it was made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final

from softcuda.graph.node import Node, ancestors, become
from softcuda.graph.op import OPS, Kind

__all__ = ["made_again"]

_INPUT: Final = OPS["input"]
_VARIABLE: Final = OPS["variable"]


class _Reads(IntEnum):
    """What the value of a node depends on; one that reads an input is never evaluated alone."""

    VALUES = 0
    VARIABLES = 1
    INPUTS = 2


def made_again(
    order: Sequence[Node], inputs: Mapping[int, tuple[Node, ...]], reached: set[int]
) -> dict[int, Node]:
    """Return what rules read instead of a node, by the identity of the node.

    What does not depend on what the gradient is asked for is a constant, and so stays as it is; a
    node of which a gradient is asked is a point, with the value that it has.

    Args:
        order: nodes, inputs first.
        inputs: those of each through which gradients can flow, by identity.
        reached: identities of the nodes asked for and of all that depend on them.
    """
    reads = _constants(order, inputs)
    fresh: dict[int, Node] = {}
    for node in order:
        key, sources = id(node), inputs[id(node)]
        if not sources:
            continue
        is_between = any(id(source) in reached for source in sources)
        if node.data is not None and not is_between:
            reads[key] = _Reads.VALUES
            continue
        found = reads[key] = max(reads[id(source)] for source in sources)
        if is_between and (
            found is _Reads.VARIABLES or any(id(source) in fresh for source in sources)
        ):
            again = tuple(fresh.get(id(source), source) for source in sources)
            made = Node(node.op, again, node.dims, node.dtype, node.params)
            fresh[key] = become(type(node), made)
    return fresh


def _constants(
    order: Sequence[Node], inputs: Mapping[int, tuple[Node, ...]]
) -> dict[int, _Reads]:
    """Return what the nodes depend on through which no gradient flows."""
    reads: dict[int, _Reads] = {}
    for node in ancestors([node for node in order if not inputs[id(node)]]):
        sources = node.inputs  # before data: settle() sets data, then drops the inputs
        if node.op is _VARIABLE:
            reads[id(node)] = _Reads.VARIABLES
        elif node.op is _INPUT:
            reads[id(node)] = _Reads.INPUTS
        elif node.data is not None or not sources or node.op.kind is Kind.RANDOM:
            reads[id(node)] = _Reads.VALUES  # a random node is drawn once
        else:
            reads[id(node)] = max(reads[id(source)] for source in sources)
    return reads
