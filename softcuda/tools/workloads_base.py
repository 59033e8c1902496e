"""What a workload is: an op, its params, and the arrays its node reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import numpy as np

from softcuda.dtype import DType
from softcuda.graph.node import Node
from softcuda.graph.op import OPS, Kind, Op
from softcuda.graph.params import Params
from softcuda.tools.workloads_inputs import Source

__all__ = ["Recipe", "Workload"]

Array = np.ndarray[Any, Any]
N = TypeVar("N", bound=Node)

_VARIABLE: Final = OPS["variable"]


@dataclass(frozen=True, eq=False, slots=True)
class Workload:
    """A node to be.

    Attributes:
        op: its op.
        arrays: the value of each leaf it reads, in order; any strides.
        params: what the op carries beside its inputs.
    """

    op: Op
    arrays: tuple[Array, ...]
    params: Params = ()

    def leaves(self, cls: type[N]) -> tuple[N, ...]:
        """Return the leaves; the state of a random op is a variable, which runs change."""
        if self.op.kind is Kind.RANDOM:
            return tuple(cls.leaf(array.copy(), _VARIABLE) for array in self.arrays)
        return tuple(cls.leaf(array) for array in self.arrays)

    def build(self, cls: type[N], leaves: tuple[N, ...]) -> N:
        """Return the node of the op over the leaves; nothing is computed."""
        return cls.apply(self.op, leaves, self.params)

    def node(self, cls: type[N]) -> N:
        """Return the node over leaves of its own."""
        return self.build(cls, self.leaves(cls))


class Recipe(Protocol):
    """How workloads of an op are made."""

    def typical(self, op: Op, size: int, dtype: DType, source: Source) -> Workload:
        """Return the typical workload of a row's size (>= 1) and dtype."""

    def shapes(self, op: Op, dtype: DType, source: Source) -> dict[str, Workload]:
        """Return small workloads of all kinds of shapes, by name, for tests."""
