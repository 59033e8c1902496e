"""Workloads of ops that move data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from softcuda.dtype import DType, f32, f64
from softcuda.graph.op import Op
from softcuda.graph.params import Concat, Dims, Pad, Params, Triangle
from softcuda.tools.workloads_base import Recipe, Workload
from softcuda.tools.workloads_inputs import Source, number_text, rows_and_columns

__all__ = ["MOVED_RECIPES", "JoinRecipe", "PlaneRecipe"]


class JoinRecipe:
    """concat and stack: two halves; one operand where the size is odd."""

    def typical(self, op: Op, size: int, dtype: DType, source: Source) -> Workload:
        """Return operands [size / 2], twice."""
        count = 1 if size % 2 else 2
        arrays = tuple(source.array("any", (size // count,), dtype) for _ in range(count))
        return Workload(op, arrays, Concat(0))

    def shapes(self, op: Op, dtype: DType, source: Source) -> dict[str, Workload]:
        """Return every axis, one and many operands, mixed dtypes, no elements, strides."""

        def joined(axis: int, *dims: Dims) -> Workload:
            return Workload(op, tuple(source.array("any", d, dtype) for d in dims), Concat(axis))

        if op.name == "stack":
            made = {
                "rank0": joined(0, (), (), ()),
                "first": joined(0, (13, 7), (13, 7)),
                "middle": joined(1, (13, 7), (13, 7)),
                "last": joined(2, (13, 7), (13, 7), (13, 7)),
                "one": joined(0, ()),
                "zero": joined(1, (3, 0), (3, 0)),
            }
        else:
            made = {
                "one": joined(0, (1,), (1,)),
                "first": joined(0, (13, 7), (5, 7)),
                "last": joined(1, (3, 5), (3, 1), (3, 7)),
                "zero": joined(0, (0, 3), (2, 3), (0, 3)),
                "single": joined(0, (1,)),
                "nothing": joined(1, (0, 3), (0, 2)),
            }
        strided = source.strided("any", (6, 5), dtype)
        stretched = source.stretched("any", (6, 5), dtype)
        made["strided"] = Workload(op, (strided, stretched), Concat(1))
        other = source.array("any", (6, 5), f64 if dtype is f32 else f32)
        made["mixed"] = Workload(op, (strided, other), Concat(0))
        return made


@dataclass(frozen=True)
class PlaneRecipe:
    """pad, tril, triu: one operand of at least two axes."""

    params: Callable[[DType, int], tuple[Params, ...]]  # (dtype, rank) -> variants
    margin: int = 0

    def typical(self, op: Op, size: int, dtype: DType, source: Source) -> Workload:
        """Return [rows, columns]; pad: a vector with one element before and one after."""
        if not self.margin:
            dims: Dims = rows_and_columns(size)
            return Workload(op, (source.array("any", dims, dtype),), self.params(dtype, 2)[0])
        side = min(self.margin, (size - 1) // 2)
        params = Pad((side,), (side,), number_text(dtype, 0))
        return Workload(op, (source.array("any", (size - 2 * side,), dtype),), params)

    def shapes(self, op: Op, dtype: DType, source: Source) -> dict[str, Workload]:
        """Return every variant of the params on primes, batches, no elements, strides."""
        made = {}
        for number, params in enumerate(self.params(dtype, 2)):
            for name, dims in (("one", (1, 1)), ("prime", (13, 7)), ("zero", (0, 3))):
                array = source.array("any", dims, dtype)
                made[f"{name}{number}"] = Workload(op, (array,), params)
            strided = source.strided("any", (5, 6), dtype)
            made[f"strided{number}"] = Workload(op, (strided,), params)
            stretched = source.stretched("any", (5, 6), dtype)
            made[f"stretched{number}"] = Workload(op, (stretched,), params)
        batch = source.array("any", (2, 5, 4), dtype)
        made["batch"] = Workload(op, (batch,), self.params(dtype, 3)[0])
        return made


def _pads(dtype: DType, rank: int) -> tuple[Params, ...]:
    zeros, ones = (0,) * rank, (1,) * rank
    return (
        Pad(ones, ones, number_text(dtype, 0)),
        Pad(zeros, (*ones[1:], 3), number_text(dtype, 1)),
        Pad(zeros, zeros, number_text(dtype, 0)),
    )


def _triangles(dtype: DType, rank: int) -> tuple[Params, ...]:
    return (Triangle(0), Triangle(2), Triangle(-3), Triangle(100))


MOVED_RECIPES: Final[Mapping[str, Recipe]] = MappingProxyType(
    {
        "concat": JoinRecipe(),
        "stack": JoinRecipe(),
        "pad": PlaneRecipe(_pads, 1),
        "tril": PlaneRecipe(_triangles),
        "triu": PlaneRecipe(_triangles),
    }
)
