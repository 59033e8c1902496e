"""The rows of cuda_reduce's table: kernels of reduce.cu without ops around the reduction.

Every state and every dtype, by rows, by columns, and in parts. The kernels of the pairs that are
left out differ from these in types alone; they are compiled when a graph needs them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from softcuda.backends.cuda.emitter import Part
from softcuda.backends.cuda.reduce_shapes import (
    ROWS,
    ReduceTile,
    parts_spec,
    reduce_spec,
    reduce_tile,
)
from softcuda.backends.cuda.states import measure_of
from softcuda.backends.steps import Operand
from softcuda.dtype import DTYPES, DType, f16, f32, f64, i64
from softcuda.graph.op import OPS
from softcuda.graph.params import Moment, Norm, Reduce
from softcuda.kernelspec import KernelSpec

__all__ = ["REDUCE_KERNELS"]

_ALL: Final = tuple(DTYPES.values())
_FLOATS: Final = tuple(d for d in _ALL if d.is_float)
_ROWS: Final = (
    *((name, _ALL) for name in ("sum", "max", "argmax")),
    ("prod", (f32, f64, i64)),
    ("any", (f16, f32, i64)),
    *((name, _FLOATS) for name in ("var", "logsumexp", "norm")),
)
_PARAMS: Final[dict[str, Any]] = {
    "var": Moment((0,), False, "0"),
    "norm": Norm((0,), False, "2"),
    "powers": Norm((0,), False, "3"),
}


def _specs(name: str, dtype: DType, *families: str) -> Iterator[KernelSpec]:
    """Yield the kernels of one reduction of one dtype."""
    params = _PARAMS.get(name, Reduce((0,), False))
    op = OPS["norm" if name == "powers" else name]
    measure = measure_of(op.name, dtype, params, 2)
    result = op.dtype_rule((Operand(0, 0, (2,), (1,), dtype),), params)
    prologue, epilogue = Part((), (0,), (dtype,)), Part((), (), (result,))
    tile = reduce_tile(measure, (dtype,))
    for family in families:
        if family == "reduce_parts":
            yield parts_spec(measure, epilogue)
            continue
        short = family == "reduce_short_rows"
        used = ReduceTile(tile.width, ROWS, 1) if short else tile
        yield reduce_spec(measure, prologue, epilogue, family, used)


def _table() -> Iterator[KernelSpec]:
    for name, dtypes in _ROWS:
        for dtype in dtypes:
            yield from _specs(name, dtype, "reduce_rows")
    for name in ("sum", "prod", "max", "argmax", "any", "var", "logsumexp", "norm", "powers"):
        yield from _specs(name, f32, "reduce_columns", "reduce_parts")
    for dtype in _ALL:
        yield from _specs("sum", dtype, "reduce_short_rows")
        if dtype is not f32:
            yield from _specs("sum", dtype, "reduce_columns")
    yield from _specs("powers", f32, "reduce_rows")
    yield from _specs("max", f32, "reduce_short_rows")


REDUCE_KERNELS: Final[tuple[KernelSpec, ...]] = tuple(_table())
