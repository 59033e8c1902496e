"""At which values a gradient is taken: those that variables have when it is run.

An evaluated node keeps the value of its time, and a rule that read it beside a variable that was
assigned since would mix two points. What lies between the outputs and what the gradient is asked
for is therefore made again where it reads variables; simplify shares it with what it was made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from softcuda.autograd.history import History
from softcuda.graph.flow import Flow
from softcuda.graph.node import Node, become
from softcuda.graph.op import OPS, Kind

__all__ = ["made_again"]


class _Reads(IntEnum):
    """What the value of a node depends on; one that reads an input is never evaluated alone."""

    VALUES = 0
    VARIABLES = 1
    INPUTS = 2


_LEAVES: Final = {OPS["variable"]: _Reads.VARIABLES, OPS["input"]: _Reads.INPUTS}


def made_again(outputs: Sequence[Node], wanted: set[int]) -> dict[int, Node]:
    """Return what rules read instead of a node, by the identity of the node.

    What does not depend on what the gradient is asked for is a constant, and so stays as it is; a
    node of which a gradient is asked is a point, with the value that it has.

    Args:
        outputs: whose gradient is asked for.
        wanted: identities of the nodes it is asked of.
    """
    history = History(outputs, is_whole=True)
    reads: dict[int, _Reads] = {}
    reached: set[int] = set()
    fresh: dict[int, Node] = {}
    for node in history.order:
        key, sources = id(node), history.inputs[id(node)]
        if node.op.kind is Kind.RANDOM:  # drawn once
            sources = ()
        is_between = any(id(source) in reached for source in sources)
        if is_between or key in wanted:
            reached.add(key)
        if not sources or (node.data is not None and not is_between):
            reads[key] = _LEAVES.get(node.op, _Reads.VALUES)
            continue
        found = reads[key] = max(reads[id(source)] for source in sources)
        if is_between and (
            found is _Reads.VARIABLES or any(id(source) in fresh for source in sources)
        ):
            again = tuple(fresh.get(id(source), source) for source in sources)
            fresh[key] = _made(node, again)
    return fresh


def _made(node: Node, inputs: tuple[Node, ...]) -> Node:
    """Return a node of the same op and params over other inputs."""
    made = Node(node.op, inputs, node.dims, node.dtype, node.params)
    if node.flow is Flow.STOPPED:
        made.flow = Flow.STOPPED
    return become(type(node), made)
