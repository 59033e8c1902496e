"""Workloads of ops that read indices, or make rows of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from softcuda.dtype import DType, dtype_of_array, f32, f64, i32, i64
from softcuda.graph.node import Node
from softcuda.graph.op import OPS, Op
from softcuda.graph.params import Dims, Gather, OneHot
from softcuda.tools.workloads_base import Recipe, Workload
from softcuda.tools.workloads_inputs import Source, rows_and_columns

__all__ = ["INDEXED_RECIPES", "IndexRecipe", "OneHotRecipe", "ScatterRecipe"]


class IndexRecipe:
    """take and gather: rows of a table by random indices."""

    def typical(self, op: Op, size: int, dtype: DType, source: Source) -> Workload:
        """Return [rows, columns] read along the first axis (take) or the last (gather)."""
        rows, columns = rows_and_columns(size)
        array = source.array("any", (rows, columns), dtype)
        if op.name == "take":
            return Workload(op, (array, source.indices(rows, (rows,), i64, 0)), Gather(0))
        return Workload(op, (array, source.indices(columns, (rows, columns), i64, 0)), Gather(1))

    def shapes(self, op: Op, dtype: DType, source: Source) -> dict[str, Workload]:
        """Return every axis, negative indices, both index dtypes, no elements, strides."""
        taken: dict[str, tuple[Dims, int, Dims]] = {
            "one": ((1,), 0, (1,)),
            "prime": ((13, 7), 1, (5,)),
            "first": ((13, 7), 0, (3, 2)),
            "middle": ((4, 5, 3), 1, (7,)),
            "rank0": ((5, 3), 0, ()),
            "zero": ((5, 3), 0, (0,)),
        }
        gathered: dict[str, tuple[Dims, int, Dims]] = {
            "one": ((1,), 0, (1,)),
            "prime": ((13, 7), 1, (13, 5)),
            "fewer": ((13, 7), 0, (3, 2)),
            "middle": ((4, 5, 3), 1, (4, 7, 3)),
            "zero": ((5, 3), 0, (0, 3)),
        }
        made = {}
        for name, (dims, axis, asked) in (taken if op.name == "take" else gathered).items():
            for kind in (i32, i64):
                indices = source.indices(dims[axis], asked, kind)
                array = source.array("any", dims, dtype)
                made[f"{name}_{kind}"] = Workload(op, (array, indices), Gather(axis))
        strided = source.strided("any", (6, 5), dtype)
        indices = source.indices(6, (5, 6), i64).T[::-1, ::1]
        made["strided"] = Workload(op, (strided, indices[:, :5]), Gather(0))
        stretched = source.stretched("any", (6, 5), dtype)
        made["stretched"] = Workload(op, (stretched, indices[:, :5]), Gather(0))
        return made


@dataclass(frozen=True)
class ScatterRecipe:
    """index_add and scatter_add: values are added where their counterpart would read them."""

    reader: Op

    def typical(self, op: Op, size: int, dtype: DType, source: Source) -> Workload:
        """Return what IndexRecipe does, with as many values as x has elements."""
        return self._added(op, IndexRecipe().typical(self.reader, size, dtype, source), source)

    def shapes(self, op: Op, dtype: DType, source: Source) -> dict[str, Workload]:
        """Return what IndexRecipe does, many repeats, no elements, values of another dtype."""
        read = IndexRecipe().shapes(self.reader, dtype, source)
        made = {name: self._added(op, work, source) for name, work in read.items()}
        for name, dims, asked in (
            ("repeats", (3,), (1000,)),
            ("pieces", (300,), (5000,)),
            ("empty", (0, 3), (0, 3)) if op.name == "scatter_add" else ("empty", (5, 0), (4,)),
        ):
            arrays = (source.array("any", dims, dtype), source.indices(dims[0], asked, i64))
            made[name] = self._added(op, Workload(self.reader, arrays, Gather(0)), source)
        prime = made["prime_i64"]
        dims = prime.arrays[2].shape
        for name, values in (
            ("mixed", source.array("any", dims, f64 if dtype is f32 else f32)),
            ("values_strided", source.strided("any", dims, dtype)),
            ("values_stretched", source.stretched("any", dims, dtype)),
        ):
            made[name] = Workload(op, (*prime.arrays[:2], values), prime.params)
        return made

    def _added(self, op: Op, read: Workload, source: Source) -> Workload:
        dims = read.node(Node).dims
        x, indices = read.arrays
        values = source.array("any", dims, dtype_of_array(x.dtype))
        return Workload(op, (x, indices, values), read.params)


class OneHotRecipe:
    """one_hot: rows of zeros with a one; its row's dtype is that of the indices."""

    def typical(self, op: Op, size: int, dtype: DType, source: Source) -> Workload:
        """Return [rows] indices spread over [rows, columns], f32."""
        rows, columns = rows_and_columns(size)
        return Workload(op, (source.indices(columns, (rows,), dtype, 0),), OneHot(columns, f32))

    def shapes(self, op: Op, dtype: DType, source: Source) -> dict[str, Workload]:
        """Return every rank up to 2, indices out of range, every result dtype, strides."""
        made = {}
        for name, dims in (
            ("rank0", ()),
            ("one", (1,)),
            ("prime", (13,)),
            ("zero", (0, 3)),
            ("two", (3, 2)),
        ):
            indices = source.indices(7, dims, dtype)
            made[name] = Workload(op, (indices,), OneHot(5, f32))
        wide = source.indices(3, (6, 5), dtype, 0).T[::-1]
        made["strided"] = Workload(op, (wide,), OneHot(3, i32))
        made["no_depth"] = Workload(op, (wide,), OneHot(0, f64))
        return made


INDEXED_RECIPES: Final[Mapping[str, Recipe]] = MappingProxyType(
    {
        "take": IndexRecipe(),
        "gather": IndexRecipe(),
        "one_hot": OneHotRecipe(),
        "index_add": ScatterRecipe(OPS["take"]),
        "scatter_add": ScatterRecipe(OPS["gather"]),
    }
)
