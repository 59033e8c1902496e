"""What a gradient rule is, and what it reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from softcuda.autograd.expressions import cast_to
from softcuda.dtype import compute_dtype
from softcuda.graph.node import Node

__all__ = ["Rule", "Use", "Vjp", "each", "flat", "of"]


class Use:
    """One operand of one node, and the gradient that reached the node.

    A wide use reads 16-bit values in f32, so that its rule rounds once, like the op itself.

    Attributes:
        node: the node.
        inputs: its operands, as they are.
        number: which operand the gradient is asked for.
        params: what the op carries beside its inputs.
    """

    __slots__ = ("_g", "_is_wide", "inputs", "node", "number", "params")

    def __init__(
        self, g: Node, node: Node, inputs: tuple[Node, ...], number: int, is_wide: bool
    ) -> None:
        self._g = g
        self._is_wide = is_wide
        self.node = node
        self.inputs = inputs
        self.number = number
        self.params: Any = node.params

    def _read(self, value: Node) -> Node:
        return cast_to(value, compute_dtype(value.dtype)) if self._is_wide else value

    @property
    def g(self) -> Node:
        """The gradient of the result, of its extents."""
        return self._read(self._g)

    @property
    def y(self) -> Node:
        """The result."""
        return self._read(self.node)

    @property
    def x(self) -> Node:
        """The operand that the gradient is asked for."""
        return self._read(self.inputs[self.number])

    @property
    def other(self) -> Node:
        """The other one of two operands."""
        return self._read(self.inputs[1 - self.number])

    @property
    def a(self) -> Node:
        """The first operand."""
        return self._read(self.inputs[0])

    @property
    def b(self) -> Node:
        """The second operand."""
        return self._read(self.inputs[1])

    @property
    def c(self) -> Node:
        """The third operand."""
        return self._read(self.inputs[2])


Vjp = Callable[[Use], Node | None]
"""The gradient of an operand; None where it is zero everywhere.

It may have the extents to which the operand was broadcast, and another float dtype: who calls it
sums and converts.
"""


@dataclass(frozen=True, slots=True)
class Rule:
    """The row of an op: one vjp rule an operand.

    Attributes:
        vjps: by operand; the last one serves every further operand. None for an operand that
            has no gradient.
        is_linear: the gradient is moved, added up, or scaled by a number: nothing in it makes
            NaN of zero, and 16-bit values are rounded once.
        masks: it makes zeros on purpose, which must stay zeros further down.
    """

    vjps: tuple[Vjp | None, ...]
    is_linear: bool = False
    masks: bool = False

    def vjp_of(self, number: int) -> Vjp | None:
        """Return the vjp rule of an operand."""
        vjps = self.vjps
        return vjps[number] if number < len(vjps) else vjps[-1]


def of(*vjps: Vjp | None, is_linear: bool = False, masks: bool = False) -> Rule:
    """Return the row with these vjp rules, in the order of the operands."""
    return Rule(vjps, is_linear, masks)


def each(vjp: Vjp, *, is_linear: bool = False) -> Rule:
    """Return the row of an op whose operands all have one vjp rule."""
    return Rule((vjp,), is_linear)


def flat(use: Use) -> None:
    """Return None: the op is constant but for steps."""
