"""The reverse pass: from a graph and the gradients of its outputs to those of earlier nodes."""

from __future__ import annotations

import cmath
from collections.abc import Sequence
from typing import Final, TypeVar

from softcuda.autograd.expressions import (
    constant_value,
    fitted,
    made_by,
    number_like,
    zero_where,
    zeros,
)
from softcuda.autograd.history import History
from softcuda.autograd.points import made_again
from softcuda.autograd.reductions import kept
from softcuda.autograd.rule import Use
from softcuda.autograd.table import RULES
from softcuda.dtype import compute_dtype
from softcuda.errors import ArgumentError
from softcuda.graph.flow import Flow
from softcuda.graph.node import Node
from softcuda.graph.op import Kind

__all__ = ["gradients", "traced_leaves"]

N = TypeVar("N", bound=Node)

_GUARDED: Final = (Kind.ELEMENTWISE, Kind.REDUCTION)
_MIXING: Final = (Kind.CONTRACTION, Kind.COMPOSITE)  # a gradient of these has no zeros of its own

_add, _eq = map(made_by, ("add", "eq"))


def traced_leaves(outputs: Sequence[N]) -> list[N]:
    """Return the marked leaves that the outputs depend on, each once."""
    history = History(outputs)
    return [
        node  # type: ignore[misc]
        for node in history.order
        if node.flow is Flow.TRACED and not history.inputs[id(node)]
    ]


def gradients(outputs: Sequence[N], wrt: Sequence[Node], seeds: Sequence[N]) -> list[N | None]:
    """Return the gradients of outputs with respect to nodes, as nodes of the same graph.

    d[i] = sum over outputs k and elements j of seeds_k[j] * d outputs_k[j] / d wrt[i]. For
    complex numbers it is the direction of steepest ascent, as in PyTorch: where the sum of
    Re(conj(seeds_k) * outputs_k) is L and wrt = x + iy, d = dL/dx + i dL/dy.

    Args:
        outputs: float or complex nodes.
        wrt: float or complex nodes.
        seeds: one for each output, of its extents and dtype.

    Returns:
        For each of `wrt` its gradient, of its extents and dtype; zeros where all paths to it are
        flat; None where there is no path.

    Raises:
        ArgumentError: an output depends on a node that dropped its inputs when it was evaluated,
            so that paths to a node of `wrt` may be missing.
    """
    history = History(outputs)
    wanted = {id(node) for node in wrt}
    _check_nothing_is_lost(history, wrt, wanted)
    reached: set[int] = set()
    for node in history.order:
        inputs = history.inputs[id(node)]
        if id(node) in wanted or any(id(source) in reached for source in inputs):
            reached.add(id(node))
    pass_ = _Pass(history, reached, made_again(outputs, wanted))
    for output, seed in zip(outputs, seeds, strict=True):
        pass_.give(output, seed)
    found = pass_.run(wanted)
    results: list[N | None] = []
    for node in wrt:
        gradient = found.get(id(node))
        if gradient is None and id(node) in reached:
            gradient = zeros(outputs[0], node.dims, node.dtype)
        results.append(gradient)  # type: ignore[arg-type]
    return results


def _check_nothing_is_lost(history: History, wrt: Sequence[Node], wanted: set[int]) -> None:
    if all(node.flow is Flow.TRACED for node in wrt):
        return  # what depends on a marked node keeps its inputs
    for node in history.order:
        if node.flow is Flow.LOST and id(node) not in wanted and not history.inputs[id(node)]:
            raise ArgumentError(
                f"grad: a tensor of shape {list(node.dims)} made by {node.op.name} was evaluated "
                "and has dropped what it was computed from, so that it is not known whether it "
                "depends on what the gradient is asked for; mark that with requires_grad=True "
                "before it is used, or detach the evaluated tensor where it counts as constant"
            )


class _Pass:
    """Gradients on their way from the outputs to the leaves."""

    def __init__(self, history: History, reached: set[int], fresh: dict[int, Node]) -> None:
        self._history = history
        self._reached = reached
        self._fresh = fresh
        self._given: dict[int, Node] = {}
        self._masked: set[int] = set()  # nodes whose gradient has zeros that must stay zeros

    def give(self, node: Node, gradient: Node) -> None:
        """Add what one use of a node contributes to its gradient."""
        before = self._given.get(id(node))
        self._given[id(node)] = gradient if before is None else _add(before, gradient)

    def run(self, wanted: set[int]) -> dict[int, Node]:
        """Return the gradients of the wanted nodes by identity."""
        found: dict[int, Node] = {}
        for node in reversed(self._history.order):
            g = self._given.pop(id(node), None)
            if g is None:
                continue
            if id(node) in wanted:
                found[id(node)] = g
            inputs = self._history.inputs[id(node)]
            for number, source in enumerate(inputs):
                if id(source) in self._reached:
                    self._flow(node, inputs, number, g)
        return found

    def _flow(self, node: Node, inputs: tuple[Node, ...], number: int, g: Node) -> None:
        rule = RULES[node.op.name]
        vjp = rule.vjp_of(number)
        if vjp is None:
            return
        is_linear = rule.is_linear or _is_scaled(node, inputs, number)
        is_wide = not is_linear and compute_dtype(node.dtype) is not node.dtype
        fresh = self._fresh
        if fresh:
            read = tuple(fresh.get(id(source), source) for source in inputs)
            use = Use(g, fresh.get(id(node), node), read, number, is_wide)
        else:
            use = Use(g, node, inputs, number, is_wide)
        gradient = vjp(use)
        if gradient is None:
            return
        source = inputs[number]
        is_masked = id(node) in self._masked
        if is_masked and not is_linear:
            gradient = _guarded(use, gradient)
        if rule.masks or (is_masked and node.op.kind not in _MIXING):
            self._masked.add(id(source))
        if gradient.dims != source.dims or gradient.dtype is not source.dtype:
            gradient = fitted(gradient, source.dims, source.dtype)
        self.give(source, gradient)


def _is_scaled(node: Node, inputs: tuple[Node, ...], number: int) -> bool:
    """Return whether a node is its operand times, or over, a finite number."""
    if node.op.name != "mul" and (node.op.name != "div" or number):
        return False
    factor = constant_value(inputs[1 - number])
    return factor is not None and cmath.isfinite(factor)


def _guarded(use: Use, gradient: Node) -> Node:
    """Return a gradient that is 0 where g is 0, though the slope there may be infinite or NaN."""
    kind = use.node.op.kind
    if kind not in _GUARDED:
        return gradient
    g = kept(use, use.g) if kind is Kind.REDUCTION else use.g
    return zero_where(_eq(g, number_like(g, 0)), gradient)
