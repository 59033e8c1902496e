"""Recipes: the graph of an operation with a place for each operand, made once and used often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple

import numpy as np

from softcuda.contraction.explicit import read_path
from softcuda.contraction.path import ContractionPath
from softcuda.graph.lines import Line
from softcuda.graph.node import Node
from softcuda.graph.op import OPS
from softcuda.tensor import Tensor

__all__ = ["PathOptions", "Recipe", "Scalar", "as_optimizer", "instantiate"]

_INPUT: Final = OPS["input"]


class Scalar(Enum):
    """How a scalar enters a recipe: as an operand of rank 0, or not at all."""

    ONE = "1: nothing is multiplied"
    NUMBER = "a number other than 0"
    GIVEN = "known when it runs"
    ZERO = "0: what is added is not read"


class PathOptions(NamedTuple):
    """How the path of a contraction is found: as `softcuda.contraction.planning.find_path`."""

    optimize: Any = "auto"
    memory_limit: int | None = None


def as_optimizer(given: Any) -> Any:
    """Return what `optimize=` was given: a path as data, NumPy's bool as Python's, else as it is.

    Raises:
        ArgumentTypeError: a list or tuple that is no path.
    """
    if isinstance(given, (list, tuple)):
        return read_path(given)
    return bool(given) if isinstance(given, np.bool_) else given


@dataclass(frozen=True, slots=True)
class Recipe:
    """Lines of a graph, some of which stand for operands, in their order, then for scalars.

    Attributes:
        lines: all of them; an input stands for an operand or a scalar.
        result: the line of the result.
        path: the path of a contraction.
        steps: the line of each step of the path.
        operands: how many operands there are; their lines are the first ones.
        made: the fields of the lines behind those of operands, as plain tuples.
    """

    lines: tuple[Line, ...]
    result: int
    path: ContractionPath | None
    steps: tuple[int, ...]
    operands: int
    made: tuple[tuple[Any, ...], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Note what is made each time."""
        object.__setattr__(self, "made", tuple(map(tuple, self.lines[self.operands :])))

    @property
    def places(self) -> tuple[int, ...]:
        """The lines that stand for operands and scalars."""
        return tuple(number for number, line in enumerate(self.lines) if line.op is _INPUT)


def instantiate(recipe: Recipe, operands: Sequence[Tensor]) -> list[Tensor]:
    """Return the tensor of every line of a recipe.

    Args:
        recipe: what is made.
        operands: of the dims and dtypes of its inputs; scalars last.
    """
    place = recipe.operands  # of the next scalar among the operands
    nodes: list[Any] = [*operands[:place]]
    for op, inputs, dims, dtype, params in recipe.made:
        if op is _INPUT:
            nodes.append(operands[place])
            place += 1
            continue
        is_two = len(inputs) == 2  # as in most recipes: without a comprehension
        read = (nodes[inputs[0]], nodes[inputs[1]]) if is_two else tuple([nodes[k] for k in inputs])
        made = Node(op, read, dims, dtype, params)
        made.__class__ = Tensor  # what Tensor.apply does, without asking the rules again
        nodes.append(made)
    return nodes
