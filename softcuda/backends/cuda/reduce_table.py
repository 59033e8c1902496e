"""The rows of cuda_reduce's table: kernels without ops around the reduction.

The states with the most registers by rows, by columns and in parts, and sums of every dtype.
Kernels that are left out differ from these in types, or in a state that takes less; they are
compiled when a graph needs them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from typing import Any, Final

from softcuda.backends.cuda.emitter import Part
from softcuda.backends.cuda.reduce_shapes import (
    SPACE_RANKS,
    family_tile,
    parts_spec,
    reduce_spec,
    reduce_tile,
)
from softcuda.backends.cuda.states import measure_of
from softcuda.backends.steps import Operand
from softcuda.dtype import REAL_DTYPES, DType, bf16, bool_, f16, f32, f64
from softcuda.errors import DTypeError
from softcuda.graph.op import OPS, Kind
from softcuda.graph.params import Moment, Norm, Reduce
from softcuda.kernelspec import KernelSpec

__all__ = ["REDUCE_KERNELS", "further_reductions"]

_PARAMS: Final[dict[str, Any]] = {
    "var": Moment((0,), False, "0"),
    "std": Moment((0,), False, "0"),
    "norm": Norm((0,), False, "2"),
    "powers": Norm((0,), False, "3"),
    "largest": Norm((0,), False, "inf"),
}
_OPS: Final = {"powers": "norm", "largest": "norm"}


_FAMILIES: Final = (
    "reduce_even_rows",
    "reduce_rows",
    "reduce_short_rows",
    "reduce_columns",
    "reduce_parts",
)


def _specs(name: str, dtype: DType, *families: str, rank: int = 8) -> Iterator[KernelSpec]:
    """Yield the kernels of one reduction of one dtype.

    Raises:
        DTypeError: the reduction does not take the dtype.
    """
    params = _PARAMS.get(name, Reduce((0,), False))
    op = OPS[_OPS.get(name, name)]
    result = op.dtype_rule((Operand(0, 0, (2,), (1,), dtype),), params)
    measure = measure_of(op.name, dtype, params, 2)
    prologue, epilogue = Part((), (0,), (dtype,)), Part((), (), (result,))
    tile = reduce_tile(measure, (dtype,))
    for family in families:
        if family == "reduce_parts":
            yield parts_spec(measure, epilogue, rank)
            continue
        of_family = family_tile(family, measure, tile)
        yield reduce_spec(measure, prologue, epilogue, family, of_family, rank)


def _table() -> Iterator[KernelSpec]:
    for dtype in REAL_DTYPES.values():
        yield from _specs("sum", dtype, "reduce_even_rows")
    for name in ("argmax", "var", "logsumexp"):
        yield from _specs(name, f32, "reduce_even_rows")
    for name in ("argmax", "var", "logsumexp", "norm"):
        yield from _specs(name, f32, "reduce_parts")
    for name in ("var", "logsumexp"):
        yield from _specs(name, f32, "reduce_columns")
    yield from _specs("sum", f32, "reduce_parts")
    for dtype in (bool_, f16, bf16, f32, f64):
        yield from _specs("sum", dtype, "reduce_columns")
    for dtype in (f16, bf16, f32, f64):
        yield from _specs("sum", dtype, "reduce_rows", "reduce_short_rows")
    yield from _specs("argmax", f32, "reduce_rows")


REDUCE_KERNELS: Final[tuple[KernelSpec, ...]] = tuple(_table())


def further_reductions() -> Iterator[KernelSpec]:
    """Yield every kernel without ops around the reduction, those that are compiled when met too."""
    names = (*(op.name for op in OPS.values() if op.kind is Kind.REDUCTION), *_OPS)
    for name, dtype, rank in product(names, REAL_DTYPES.values(), SPACE_RANKS):
        with suppress(DTypeError):
            yield from _specs(name, dtype, *_FAMILIES, rank=rank)
