"""Workloads of ops that create data, of random ops and of contractions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from softcuda.dtype import DType
from softcuda.graph.op import Op
from softcuda.graph.params import (
    Arange,
    Contraction,
    Dims,
    Eye,
    Full,
    Linspace,
    Params,
    Random,
)
from softcuda.tools.workloads_base import Recipe, Workload
from softcuda.tools.workloads_inputs import Source, number_text, rows_and_columns

__all__ = ["MADE_RECIPES", "CreationRecipe", "MatmulRecipe", "RandomRecipe"]


class CreationRecipe:
    """full, arange, linspace, eye."""

    def typical(self, op: Op, size: int, dtype: DType, source: Source) -> Workload:
        """Return [size] elements; eye: as square as can be."""
        return Workload(op, (), self._params(op.name, size, dtype))

    def shapes(self, op: Op, dtype: DType, source: Source) -> dict[str, Workload]:
        """Return one, prime and no elements, and what else the params can say."""
        made = {
            "one": Workload(op, (), self._params(op.name, 1, dtype)),
            "prime": Workload(op, (), self._params(op.name, 101, dtype)),
        }
        others: dict[str, tuple[Params, ...]] = {
            "full": (
                Full((), dtype, number_text(dtype, 1)),
                Full((3, 0), dtype, number_text(dtype, 1)),
                Full((3, 5), dtype, number_text(dtype, 0)),
            ),
            "arange": (
                Arange(number_text(dtype, 5), number_text(dtype, -2), 7, dtype),
                Arange(number_text(dtype, 5), number_text(dtype, 1), 0, dtype),
            ),
            "linspace": (
                Linspace("2.0", "-3.0", 7, False, dtype),
                Linspace("0.0", "1.0", 0, True, dtype),
                Linspace("0.25", "1.0", 1, True, dtype),
            ),
            "eye": (Eye(3, 5, 1, dtype), Eye(5, 3, -2, dtype), Eye(0, 3, 0, dtype)),
        }
        for number, params in enumerate(others[op.name]):
            made[f"other{number}"] = Workload(op, (), params)
        return made

    def _params(self, name: str, size: int, dtype: DType) -> Params:
        if name == "full":
            return Full((size,), dtype, number_text(dtype, 1))
        if name == "arange":
            return Arange(number_text(dtype, -3), number_text(dtype, 1), size, dtype)
        if name == "linspace":
            return Linspace("-1.0", "2.0", size, True, dtype)
        return Eye(*rows_and_columns(size), 0, dtype)


@dataclass(frozen=True)
class RandomRecipe:
    """uniform and normal from a generator's variable."""

    low: str = "-1.0"
    high: str = "2.0"

    def typical(self, op: Op, size: int, dtype: DType, source: Source) -> Workload:
        """Return [size] numbers."""
        return self._made(op, (size,), dtype, source)

    def shapes(self, op: Op, dtype: DType, source: Source) -> dict[str, Workload]:
        """Return one, prime and no elements, and rank 0."""
        dims: dict[str, Dims] = {"one": (1,), "prime": (13, 7), "zero": (3, 0), "rank0": ()}
        return {name: self._made(op, d, dtype, source) for name, d in dims.items()}

    def _made(self, op: Op, dims: Dims, dtype: DType, source: Source) -> Workload:
        params = Random(dims, dtype, self.low, self.high, 0)
        return Workload(op, (source.generator_state(),), params)


class MatmulRecipe:
    """Products of matrices, and every other class of contraction."""

    def typical(self, op: Op, size: int, dtype: DType, source: Source) -> Workload:
        """Return [size, size] times [size, size], whose row size is `size`."""
        arrays = tuple(source.array("small", (size, size), dtype) for _ in range(2))
        return Workload(op, arrays, Contraction((0, 1), (1, 2), (0, 2)))

    def shapes(self, op: Op, dtype: DType, source: Source) -> dict[str, Workload]:
        """Return matrices, vectors, batches, private, stretched, permuted, empty labels."""
        plain = Contraction((0, 1), (1, 2), (0, 2))
        batch = Contraction((0, 1, 2), (0, 2, 3), (0, 1, 3))
        cases: dict[str, tuple[Dims, Dims, Contraction]] = {
            "one": ((1, 1), (1, 1), plain),
            "prime": ((13, 7), (7, 11), plain),
            "dot": ((13,), (13,), Contraction((0,), (0,), ())),
            "matrix_vector": ((13, 7), (7,), Contraction((0, 1), (1,), (0,))),
            "vector_matrix": ((7,), (7, 5), Contraction((1,), (1, 2), (2,))),
            "outer": ((5,), (3,), Contraction((0,), (1,), (0, 1))),
            "scalar": ((), (3, 2), Contraction((), (0, 1), (0, 1))),
            "batch": ((2, 5, 3), (2, 3, 4), batch),
            "batch_stretched": ((1, 5, 3), (2, 3, 4), batch),
            "k_stretched": ((5, 1), (3, 4), plain),
            "k_zero": ((5, 0), (0, 4), plain),
            "m_zero": ((0, 3), (3, 4), plain),
            "permuted": ((5, 3, 2), (4, 3, 2), Contraction((0, 2, 3), (1, 2, 3), (1, 0))),
            "private": ((5, 3, 2), (3, 4), Contraction((0, 1, 5), (1, 2), (2, 0))),
            "elementwise": ((5, 3), (5, 3), Contraction((0, 1), (0, 1), (1, 0))),
        }
        made = {}
        for name, (a, b, params) in cases.items():
            arrays = (source.array("small", a, dtype), source.array("small", b, dtype))
            made[name] = Workload(op, arrays, params)
        strided = (source.strided("small", (6, 5), dtype), source.strided("small", (5, 4), dtype))
        made["strided"] = Workload(op, strided, plain)
        stretched = source.stretched("small", (6, 5), dtype)
        made["stretched"] = Workload(op, (stretched, strided[1]), plain)
        transposed = (source.array("small", (5, 6), dtype).T, strided[1])
        made["transposed"] = Workload(op, transposed, plain)
        return made


MADE_RECIPES: Final[Mapping[str, Recipe]] = MappingProxyType(
    {
        **{name: CreationRecipe() for name in ("full", "arange", "linspace", "eye")},
        "uniform": RandomRecipe(),
        "normal": RandomRecipe(),
        "matmul": MatmulRecipe(),
    }
)
