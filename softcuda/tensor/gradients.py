"""Gradients of tensors: marks, seeds, and `backward`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final, Self

from softcuda import evaluating
from softcuda.errors import ArgumentError, DTypeError, ShapeError
from softcuda.forks import renew_in_child
from softcuda.graph.flow import Flow, no_grad
from softcuda.graph.node import Node, amend
from softcuda.graph.op import OPS
from softcuda.graph.params import Cast, Full, Shape, literal
from softcuda.tensor.operands import partner

__all__ = ["Gradients", "autograd", "mark", "seed_of"]

_ADD: Final = OPS["add"]
_CAST: Final = OPS["cast"]
_FULL: Final = OPS["full"]
_RESHAPE: Final = OPS["reshape"]
_BROADCAST: Final = OPS["broadcast_to"]
_COPY: Final = OPS["copy"]
_VARIABLE: Final = OPS["variable"]


def autograd() -> Any:
    """Return softcuda.autograd, loaded when the first gradient is asked for."""
    return import_module("softcuda.autograd")


class _Exchange:
    """Compare-and-set of a tensor's `grad`: threads may go backward to one leaf at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        renew_in_child(self)

    def after_fork(self) -> None:
        """Make the lock anew."""
        self._lock = threading.Lock()

    def set(self, leaf: Node, before: Node | None, after: Node | None) -> bool:
        """Set `grad`, unless it is no longer `before`; return whether it was."""
        with self._lock:
            if leaf.grad is not before:
                return False
            amend(leaf, "grad", after)
            return True


_EXCHANGE: Final = _Exchange()


def mark(what: str, leaf: Node) -> None:
    """Mark a leaf that gradients are wanted of: what depends on it keeps its inputs.

    Raises:
        DTypeError: it is of integers or bools.
    """
    if not leaf.dtype.is_inexact:
        raise DTypeError(
            f"{what}: requires_grad=True of a tensor of {leaf.dtype}; gradients exist of floats "
            "and complex numbers alone; use astype first"
        )
    amend(leaf, "flow", Flow.TRACED)


def seed_of(what: str, output: Node, seed: Any) -> Node:
    """Return the gradient of an output that the reverse pass begins with.

    Args:
        what: who asks, first word of the errors.
        output: a float tensor.
        seed: a tensor or anything that becomes one, whose shape broadcasts to the output's; None
            for ones.

    Returns:
        [shape of the output], of its dtype.

    Raises:
        DTypeError: the output is of integers or bools, or is real and the seed complex.
        ShapeError: the shape of the seed does not broadcast to that of the output.
        ArgumentError: the seed cannot be a tensor.
    """
    dims, dtype = output.dims, output.dtype
    if not dtype.is_inexact:
        raise DTypeError(
            f"{what}: the output has dtype {dtype}; gradients exist of floats and complex numbers "
            "alone; use one that comes before its conversion"
        )
    if seed is None and dtype.is_complex:
        raise DTypeError(
            f"{what}: the output of shape {list(dims)} is {dtype} and has no seed; complex outputs "
            "need one; give it, or use a real number made of the output, such as its abs"
        )
    if seed is None:
        return output.apply(_FULL, (), Full(dims, dtype, literal(1.0)))
    node = partner(output, seed)
    if node is None:
        raise ArgumentError(
            f"{what}: a seed is of type {type(seed).__name__}; allowed are tensors, arrays, lists, "
            "numbers, and None for ones"
        )
    shift = len(dims) - len(node.dims)
    if shift < 0 or any(d not in (1, dims[shift + k]) for k, d in enumerate(node.dims)):
        raise ShapeError(
            f"{what}: a seed has shape {list(node.dims)} and its output {list(dims)}; allowed are "
            "shapes that broadcast to the output's"
        )
    if node.dtype.is_complex and not dtype.is_complex:
        raise DTypeError(
            f"{what}: a seed is {node.dtype} and its output of shape {list(dims)} is {dtype}; "
            "allowed are real seeds of real outputs; use its real"
        )
    if node.op is _VARIABLE:  # which may change before the gradient is looked at
        node = output.apply(_COPY, (node,))
    if node.dtype is not dtype:
        node = output.apply(_CAST, (node,), Cast(dtype))
    return node if node.dims == dims else output.apply(_BROADCAST, (node,), Shape(dims))


class Gradients(Node):
    """A node with its part in gradients."""

    __slots__ = ()

    @property
    def requires_grad(self) -> bool:
        """Whether it was marked by requires_grad=True, or depends on a tensor that was."""
        return self.flow is Flow.TRACED

    @property
    def grad_compute(self) -> Callable[..., Any] | None:
        """The gradient rule of its op: a function of one operand's place, or None."""
        rule = autograd().RULES.get(self.op.name)
        return None if rule is None else rule.vjp_of

    def detach(self) -> Self:
        """Return the same value as a tensor that no gradient flows through.

        Nothing is copied.
        """
        if self.data is not None and self.op is not _VARIABLE:
            return self.leaf(self.data)
        with no_grad():
            return self.apply(_RESHAPE, (self,), Shape(self.dims))

    def zero_grad(self) -> None:
        """Forget the gradient: the next backward begins a new sum."""
        while not _EXCHANGE.set(self, self.grad, None):
            pass

    def backward(self, seed: Any = None) -> None:
        """Add the gradient of this tensor to `grad` of every marked leaf that it depends on.

        leaf.grad[i] += sum over j of seed[j] * d self[j] / d leaf[i]. The tensor and the gradients
        are evaluated, in one run; gradients have no history, so use softcuda.grad for gradients of
        gradients. Threads may go backward to one leaf at once.

        Args:
            seed: [shape that broadcasts to this one], a tensor or what becomes one; None for ones.

        Raises:
            ArgumentError: it depends on no leaf that was marked by requires_grad=True.
            DTypeError: it is of integers or bools.
            ShapeError: the shape of the seed does not broadcast to this one.
            FeedError: it depends on an input, which has no value; compile softcuda.grad of it.
        """
        rules = autograd()
        begin = seed_of("backward", self, seed)
        leaves = rules.traced_leaves([self])
        if not leaves:
            raise ArgumentError(
                f"backward: the tensor of shape {list(self.dims)} made by {self.op.name} depends "
                "on no leaf that is marked; make one with requires_grad=True, or use softcuda.grad"
            )
        with no_grad():
            found = rules.gradients([self], leaves, [begin])
            evaluating.evaluate_nodes([self, *found])
            pending = list(zip(leaves, found, strict=True))
            while pending:
                pending = _added(pending)


def _added(pairs: Sequence[tuple[Node, Node]]) -> list[tuple[Node, Node]]:
    """Add gradients to leaves; return what another thread came between."""
    before = [leaf.grad for leaf, _ in pairs]
    sums = [
        gradient if old is None else gradient.apply(_ADD, (old, gradient))
        for old, (_, gradient) in zip(before, pairs, strict=True)
    ]
    evaluating.evaluate_nodes(sums)
    return [
        pair
        for pair, old, total in zip(pairs, before, sums, strict=True)
        if not _EXCHANGE.set(pair[0], old, total)
    ]
