"""A graph under construction, each node beside its value by the NumPy reference.

A node is drawn, evaluated by the reference, and kept where it still says something: values that
are mostly finite and not huge, errors that are mostly bounded. So a long graph stays meaningful.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy_bounds import Known, apply, known_leaf

from softcuda.dtype import DType, bool_
from softcuda.errors import SoftCudaError
from softcuda.graph.node import Node
from softcuda.graph.op import Op

MOST_ELEMENTS = 600
HUGE = 1e4


@dataclass(frozen=True)
class Made:
    """A node and what the reference says of it."""

    node: Node
    known: Known


@dataclass
class RandomGraph:
    """A graph under construction.

    Attributes:
        rng: where every decision comes from.
        made: the nodes so far, inputs before users.
        states: variables of random nodes and their first values, which runs change.
    """

    rng: np.random.Generator
    made: list[Made] = field(default_factory=list)
    states: list[tuple[Node, np.ndarray[Any, Any]]] = field(default_factory=list)

    def pick(self, choices: Sequence[Any]) -> Any:
        """Return one of the choices."""
        return choices[int(self.rng.integers(len(choices)))]

    def some(self, count: int) -> bool:
        """Return True once in `count` times."""
        return bool(self.rng.integers(count) == 0)

    def operand(self, fits: Callable[[Made], bool] = lambda made: True) -> Made | None:
        """Return a node that fits, later ones more often; None where none does."""
        found = [made for made in self.made if fits(made)]
        if not found:
            return None
        weights = np.arange(1, len(found) + 1, dtype=np.float64)
        return found[int(self.rng.choice(len(found), p=weights / weights.sum()))]

    def leaf(self, array: np.ndarray[Any, Any], dtype: DType) -> Made:
        """Return a leaf of an array."""
        return Made(Node.leaf(array), known_leaf(array, dtype))

    def number(self, dtype: DType) -> Made:
        """Return a number of the graph, of the dtype's kind."""
        value = self.pick((0, 1, -1, 2, 3)) if not dtype.is_float else self.pick((0.5, -1.5, 2.0))
        if dtype is bool_:
            value = bool(value)
        array = np.array(value).astype(dtype.numpy)
        return Made(
            Node.number(array.item() if dtype.is_float else value, dtype), known_leaf(array, dtype)
        )

    def add(self, op: Op, inputs: Sequence[Made], params: Any = ()) -> bool:
        """Append a node where it is allowed and says something; return whether it was."""
        try:
            node = Node.apply(op, tuple(x.node for x in inputs), params)
        except SoftCudaError:
            return False
        if math.prod(node.dims) > MOST_ELEMENTS or len(node.dims) > 5:
            return False
        with np.errstate(all="ignore"):
            known = apply(op, params, [x.known for x in inputs])
        if not self.some(30) and not _says_something(known):
            return False
        self.made.append(Made(node, known))
        return True


def _says_something(known: Known) -> bool:
    value, error = known.value, known.error
    if not value.size:
        return True
    if not known.dtype.is_float:
        return bool(np.mean(error < 0.5) > 0.95)
    fine = np.isfinite(value) & (np.abs(value) < HUGE)
    fine &= error < 0.02 * np.maximum(np.abs(value), 1)
    return bool(np.mean(fine) > 0.9)
