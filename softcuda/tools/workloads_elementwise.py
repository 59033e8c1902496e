"""Workloads of elementwise ops: one domain an operand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from softcuda.dtype import DType, bf16, bool_, f16, f32, f64, i32, i64
from softcuda.graph.op import Op
from softcuda.graph.params import Cast, Dims, Params
from softcuda.tools.workloads_base import Workload
from softcuda.tools.workloads_inputs import Source

__all__ = ["ELEMENTWISE_RECIPES", "CastRecipe", "ElementwiseRecipe"]

Array = np.ndarray[Any, Any]
Maker = Callable[[str, Dims, DType], Array]

_BROADCAST: Final = ((5, 1, 3), (4, 1), (3,))
_SPECIAL: Final = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, np.inf, -np.inf, np.nan)


@dataclass(frozen=True)
class ElementwiseRecipe:
    """Operands of equal shape, each from a domain.

    Attributes:
        domains: domain of each operand.
        condition: the first operand is a bool.
        bounds: all operands but the first are rank 0 in the typical workload.
    """

    domains: tuple[str, ...]
    condition: bool = False
    bounds: bool = False

    def _operands(self, make: Maker, shapes: tuple[Dims, ...], dtype: DType) -> tuple[Array, ...]:
        types = [dtype] * len(self.domains)
        if self.condition:
            types[0] = bool_
        return tuple(
            make(domain, dims, kind)
            for domain, dims, kind in zip(self.domains, shapes, types, strict=True)
        )

    def typical(self, op: Op, size: int, dtype: DType, source: Source) -> Workload:
        """Return operands [size]."""
        count = len(self.domains)
        shapes = ((size,), *((() if self.bounds else (size,)),) * (count - 1))
        return Workload(op, self._operands(source.array, shapes, dtype))

    def shapes(self, op: Op, dtype: DType, source: Source) -> dict[str, Workload]:
        """Return workloads of one element, primes, no elements, broadcast, strides, rank 0."""
        count = len(self.domains)

        def equal(dims: Dims, make: Maker = source.array) -> Workload:
            return Workload(op, self._operands(make, (dims,) * count, dtype))

        made = {
            "one": equal((1,)),
            "prime": equal((13, 7)),
            "zero": equal((3, 0, 2)),
            "rank0": equal(()),
            "strided": equal((6, 5, 3), source.strided),
            "stretched": equal((4, 5), source.stretched),
            "ones": equal((1, 3, 1)),
        }
        if count > 1:
            shapes = _BROADCAST[:count] if count < 3 else (_BROADCAST[1], *_BROADCAST[::2])
            made["broadcast"] = Workload(op, self._operands(source.array, shapes, dtype))
            nothing = ((0, 1), *((4,),) * (count - 1))
            made["zero_broadcast"] = Workload(op, self._operands(source.array, nothing, dtype))
            scalars = ((7,), *((),) * (count - 1))
            made["scalars"] = Workload(op, self._operands(source.array, scalars, dtype))
        if dtype.is_float:
            made["special"] = self._special(op, dtype)
        return made

    def _special(self, op: Op, dtype: DType) -> Workload:
        """Return every tuple of zeros, ones, halves, infinities and NaN."""
        values = np.array(_SPECIAL).astype(dtype.numpy)
        arrays = list(np.meshgrid(*[values] * len(self.domains), indexing="ij"))
        if self.condition:
            arrays[0] = np.sign(arrays[0]) == 1
        return Workload(op, tuple(arrays))


# Row's dtype -> (source, target) of the typical conversion.
_PAIRS: Final[Mapping[DType, tuple[DType, DType]]] = MappingProxyType(
    {
        f64: (f64, f32),
        f32: (i32, f32),
        f16: (i32, f16),
        bf16: (i32, bf16),
        i64: (i32, i64),
        i32: (bool_, i32),
        bool_: (bool_, bool_),
    }
)


class CastRecipe:
    """Conversions; the row's dtype is the wider of source and target."""

    def typical(self, op: Op, size: int, dtype: DType, source: Source) -> Workload:
        """Return a conversion of [size]."""
        own, target = _PAIRS[dtype]
        return Workload(op, (source.array("any", (size,), own),), Cast(target))

    def shapes(self, op: Op, dtype: DType, source: Source) -> dict[str, Workload]:
        """Return a conversion from `dtype` to each dtype, and the usual shapes."""
        made = {}
        for target in (bool_, i32, i64, f16, bf16, f32, f64):
            params: Params = Cast(target)
            made[f"to_{target}"] = Workload(op, (source.array("any", (13, 7), dtype),), params)
            if dtype.is_float:
                made[f"special_to_{target}"] = Workload(op, (_limits(dtype),), params)
        usual = ElementwiseRecipe(("any",)).shapes(op, dtype, source)
        to = Cast(f32 if dtype is not f32 else i32)
        made.update((name, Workload(op, w.arrays, to)) for name, w in usual.items())
        return made


def _limits(dtype: DType) -> Array:
    """Return values at and beyond the limits of other dtypes [18]."""
    values = np.array([*_SPECIAL, 1e4, -7e4, 3e9, -3e9, 1e19, -1e19, 1e39, 6e-8])
    with np.errstate(over="ignore", under="ignore"):
        return values.astype(dtype.numpy)


def _domains(*domains: str) -> ElementwiseRecipe:
    return ElementwiseRecipe(domains)


_ANYWHERE: Final = (
    "neg abs sign square relu conj real imag floor ceil round sin cos tan atan tanh asinh "
    "sigmoid gelu silu mish softplus softsign erf isnan isinf isfinite logical_not copy"
)
_PAIRWISE: Final = (
    "add sub mul minimum maximum atan2 eq ne lt le gt ge logical_and logical_or logical_xor"
)

ELEMENTWISE_RECIPES: Final[Mapping[str, ElementwiseRecipe | CastRecipe]] = MappingProxyType(
    {
        **{name: _domains("any") for name in _ANYWHERE.split()},
        **{name: _domains("small") for name in ("exp", "exp2", "expm1", "sinh", "cosh")},
        **{name: _domains("positive") for name in ("sqrt", "rsqrt", "log", "log2")},
        "log1p": _domains("above_minus_one"),
        "acosh": _domains("from_one"),
        "atanh": _domains("inside_one"),
        "asin": _domains("unit"),
        "acos": _domains("unit"),
        "reciprocal": _domains("nonzero"),
        "cast": CastRecipe(),
        **{name: _domains("any", "any") for name in _PAIRWISE.split()},
        **{name: _domains("any", "nonzero") for name in ("div", "floor_divide", "remainder")},
        "pow": _domains("positive", "exponent"),
        "where": ElementwiseRecipe(("any", "any", "any"), condition=True),
        "clip": ElementwiseRecipe(("any", "low", "high"), bounds=True),
        "multiply_add": _domains("any", "any", "any"),
    }
)
