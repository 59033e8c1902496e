"""Workloads of reductions, scans and composites: typically rows along the last axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from softcuda.dtype import DType
from softcuda.graph.op import Op
from softcuda.graph.params import (
    Cumulative,
    Dims,
    LayerNorm,
    Moment,
    Norm,
    Params,
    Reduce,
    Softmax,
)
from softcuda.tools.workloads_base import Workload
from softcuda.tools.workloads_inputs import Source, rows_and_columns

__all__ = ["ROW_RECIPES", "AlongAxis", "LayerNormRecipe", "ReductionRecipe"]

_NEEDS_ELEMENTS: Final = frozenset({"min", "max", "argmin", "argmax"})

Shaped = tuple[Dims, Dims, bool]  # extents, reduced axes, keepdims

_SHAPED: Final[Mapping[str, Shaped]] = MappingProxyType(
    {
        "one": ((1,), (0,), False),
        "prime_rows": ((13, 7), (1,), False),
        "prime_columns": ((13, 7), (0,), True),
        "all": ((5, 3, 7), (0, 1, 2), False),
        "middle": ((4, 5, 3), (1,), False),
        "outer": ((4, 5, 3), (0, 2), True),
        "none": ((4, 3), (), False),
        "rank0": ((), (), False),
        "long": ((3, 1031), (1,), False),
        "tall": ((1031, 3), (0,), False),
        "zero_kept": ((0, 3), (1,), False),
        "zero": ((3, 0), (1,), False),
    }
)


@dataclass(frozen=True)
class ReductionRecipe:
    """Rows reduced over the last axis.

    Attributes:
        domain: where the elements come from.
        params: (axes, keepdims) -> params, one for each variant of the op.
    """

    domain: str
    params: tuple[Callable[[Dims, bool], Params], ...] = (Reduce,)

    def typical(self, op: Op, size: int, dtype: DType, source: Source) -> Workload:
        """Return the reduction of [rows, columns] to [rows]."""
        dims = rows_and_columns(size)
        array = source.array(self.domain, dims, dtype)
        return Workload(op, (array,), self.params[0]((1,), False))

    def shapes(self, op: Op, dtype: DType, source: Source) -> dict[str, Workload]:
        """Return reductions of every kind of axes, with strides, of nothing, of NaN."""
        made = {}
        for number, params in enumerate(self.params):
            for name, (dims, axes, keepdims) in _SHAPED.items():
                if name == "zero" and op.name in _NEEDS_ELEMENTS:
                    continue
                array = source.array(self.domain, dims, dtype)
                made[f"{name}{number or ''}"] = Workload(op, (array,), params(axes, keepdims))
        first = self.params[0]
        strided = source.strided(self.domain, (6, 5, 3), dtype)
        made["strided"] = Workload(op, (strided,), first((0, 2), False))
        made["strided_last"] = Workload(op, (strided,), first((2,), False))
        stretched = source.stretched(self.domain, (4, 5), dtype)
        made["stretched"] = Workload(op, (stretched,), first((0,), False))
        if dtype.is_float:
            made["special"] = Workload(op, (_special_rows(dtype),), first((1,), False))
        return made


@dataclass(frozen=True)
class AlongAxis:
    """Ops that keep the shape and run along an axis: cumsum, softmax, log_softmax."""

    domain: str
    params: Callable[[int], Params]

    def typical(self, op: Op, size: int, dtype: DType, source: Source) -> Workload:
        """Return [rows, columns], along the last axis."""
        array = source.array(self.domain, rows_and_columns(size), dtype)
        return Workload(op, (array,), self.params(1))

    def shapes(self, op: Op, dtype: DType, source: Source) -> dict[str, Workload]:
        """Return every axis, no elements, strides, NaN."""
        shaped = {
            "one": ((1,), 0),
            "prime_rows": ((13, 7), 1),
            "prime_columns": ((13, 7), 0),
            "middle": ((4, 5, 3), 1),
            "long": ((3, 1031), 1),
            "zero": ((3, 0), 1),
            "zero_kept": ((0, 3), 1),
        }
        made = {
            name: Workload(op, (source.array(self.domain, dims, dtype),), self.params(axis))
            for name, (dims, axis) in shaped.items()
        }
        strided = source.strided(self.domain, (6, 5, 3), dtype)
        made["strided"] = Workload(op, (strided,), self.params(1))
        stretched = source.stretched(self.domain, (4, 5), dtype)
        made["stretched"] = Workload(op, (stretched,), self.params(0))
        if dtype.is_float:
            made["special"] = Workload(op, (_special_rows(dtype),), self.params(1))
        return made


@dataclass(frozen=True)
class LayerNormRecipe:
    """layer_norm over the last axis, with weight and bias."""

    eps: str = "1e-05"

    def _made(
        self, op: Op, source: Source, dims: Dims, count: int, parts: tuple[bool, bool]
    ) -> Callable[[DType], Workload]:
        def make(dtype: DType) -> Workload:
            tail = dims[len(dims) - count :]
            beside = tuple(source.array("any", tail, dtype) for given in parts if given)
            params = LayerNorm(count, self.eps, *parts)
            return Workload(op, (source.array("any", dims, dtype), *beside), params)

        return make

    def typical(self, op: Op, size: int, dtype: DType, source: Source) -> Workload:
        """Return [rows, columns] with weight [columns] and bias [columns]."""
        return self._made(op, source, rows_and_columns(size), 1, (True, True))(dtype)

    def shapes(self, op: Op, dtype: DType, source: Source) -> dict[str, Workload]:
        """Return one and two normalised axes, with and without weight and bias, and strides."""
        made = {
            "prime": self._made(op, source, (13, 7), 1, (True, True))(dtype),
            "plain": self._made(op, source, (3, 5), 1, (False, False))(dtype),
            "weight": self._made(op, source, (3, 5), 1, (True, False))(dtype),
            "bias": self._made(op, source, (3, 5), 1, (False, True))(dtype),
            "two_axes": self._made(op, source, (3, 4, 5), 2, (True, True))(dtype),
            "one": self._made(op, source, (1,), 1, (True, True))(dtype),
            "zero": self._made(op, source, (0, 3), 1, (True, True))(dtype),
            "long": self._made(op, source, (3, 1031), 1, (True, True))(dtype),
        }
        strided = source.strided("any", (6, 5), dtype)
        stretched = source.stretched("any", (6, 5), dtype)
        weight = source.stretched("any", (5,), dtype)
        plain, weighted = (LayerNorm(1, self.eps, given, False) for given in (False, True))
        made["strided"] = Workload(op, (strided,), plain)
        made["stretched"] = Workload(op, (stretched, weight), weighted)
        return made


def _special_rows(dtype: DType) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """Return rows [7, 3] with NaN, infinities and zeros of both signs."""
    nan, inf = np.nan, np.inf
    rows = [
        [1, nan, 2],
        [inf, 1, 2],
        [-inf, 1, 0],
        [inf, -inf, 1],
        [-inf, -inf, -inf],
        [0.0, -0.0, 0.0],
        [nan, inf, nan],
    ]
    return np.array(rows).astype(dtype.numpy)


def _moment(correction: str) -> Callable[[Dims, bool], Params]:
    return lambda axes, keepdims: Moment(axes, keepdims, correction)


def _norm(order: str) -> Callable[[Dims, bool], Params]:
    return lambda axes, keepdims: Norm(axes, keepdims, order)


_MOMENTS: Final = ReductionRecipe("any", (_moment("0"), _moment("1"), _moment("2.5")))

ROW_RECIPES: Final[Mapping[str, ReductionRecipe | AlongAxis | LayerNormRecipe]] = MappingProxyType(
    {
        **{
            name: ReductionRecipe("any")
            for name in ("sum", "min", "max", "mean", "any", "all", "argmin", "argmax")
        },
        "prod": ReductionRecipe("near_one"),
        "var": _MOMENTS,
        "std": _MOMENTS,
        "norm": ReductionRecipe(
            "any", tuple(_norm(order) for order in ("2", "1", "inf", "-inf", "0", "3.0"))
        ),
        "logsumexp": ReductionRecipe("any"),
        "cumsum": AlongAxis("any", Cumulative),
        "softmax": AlongAxis("any", Softmax),
        "log_softmax": AlongAxis("any", Softmax),
        "layer_norm": LayerNormRecipe(),
    }
)
