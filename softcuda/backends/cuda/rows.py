"""Launches of softmax, log_softmax and layer_norm: whole rows in one kernel."""

from __future__ import annotations

from typing import Final, NamedTuple

from softcuda.backends.cuda.axes import Axes, fuse_axes
from softcuda.backends.cuda.planned import Launches, launch_in_row, one_step
from softcuda.backends.cuda.reduce_shapes import MULTIPROCESSORS, REDUCE_THREADS, power_above
from softcuda.backends.cuda.row_spaces import axis_rows, pack_rows
from softcuda.backends.cuda.row_tiles import (
    VECTOR_BYTES,
    FullTile,
    HeldTile,
    full_spec,
    full_tiles,
    general_spec,
    held_spec,
    held_tiles,
)
from softcuda.backends.cuda.walks import DTYPE_CODES
from softcuda.backends.launches import (
    Argument,
    KernelLaunch,
    f64,
    i32,
    i64,
    packed,
    read,
)
from softcuda.backends.launches import write as write_output
from softcuda.backends.steps import Step, Unit
from softcuda.dtype import DType
from softcuda.graph.params import value_of
from softcuda.graph.shapes import contiguous_strides
from softcuda.target import Target

__all__ = [
    "MAX_BLOCKS",
    "RowPlan",
    "Rows",
    "fills",
    "plan_row",
    "row_launch",
    "row_steps",
    "rows_launches",
    "rows_of",
]

MAX_BLOCKS: Final = 2**31 - 1
_WIDEST: Final = 32  # columns that threads of a block lie across


class RowPlan(NamedTuple):
    """How rows are computed: in registers where `tile` is not None, by `team` threads each."""

    tile: HeldTile | FullTile | None
    team: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return REDUCE_THREADS if self.tile is None else self.tile.threads


def row_steps(backend_id: str, unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step of a softmax, a log_softmax or a layer_norm."""
    return one_step(backend_id, unit, lambda: (rows_launches(unit, target), 0))


def rows_launches(unit: Unit, target: Target) -> Launches:
    """Return the one launch of a unit of one composite."""
    rows = rows_of(unit)
    return (row_launch(rows, plan_row(rows, target), target),)


class Rows(NamedTuple):
    """A softmax, a log_softmax or a layer_norm as its kernels see it.

    Attributes:
        family: "softmax" or "layer_norm".
        dtype: of the result.
        outer: the axes that number rows, with the strides of every set.
        inner: the axes along a row, likewise.
        is_own: all operands are of that dtype and dense along a row.
        is_columns: neighbouring rows lie closer than the elements of a row do.
        pointers: what is read.
        codes: of the dtypes of what is read.
        options: what follows them: whether the logarithm is taken; eps.
    """

    family: str
    dtype: DType
    outer: Axes
    inner: Axes
    is_own: bool
    is_columns: bool
    pointers: tuple[Argument, ...]
    codes: tuple[Argument, ...]
    options: tuple[Argument, ...]

    @property
    def is_even(self) -> bool:
        """Whether rows are vectors from their first element to their last."""
        width = VECTOR_BYTES // self.dtype.itemsize
        steps = [step for strides in self.outer.strides for step in strides]
        return self.is_own and all(n % width == 0 for n in (self.inner.numel, *steps))


def fills(rows: Rows, tile: FullTile) -> bool:
    """Return whether rows fill the registers of their teams."""
    vectors = rows.inner.numel * rows.dtype.itemsize // VECTOR_BYTES
    return rows.is_even and rows.outer.rank <= 1 and vectors == tile.vectors * tile.team


def rows_of(unit: Unit) -> Rows:
    """Return the rows of a unit of one composite."""
    return (_layer_norm if unit.chain[-1].op.name == "layer_norm" else _softmax)(unit)


def plan_row(rows: Rows, target: Target) -> RowPlan:
    """Return how rows are computed."""
    if rows.is_columns:
        return RowPlan(None, min(_WIDEST, power_above(rows.outer.dims[-1])))
    count, length = rows.outer.numel, rows.inner.numel
    lanes = target.multiprocessors or MULTIPROCESSORS
    width = VECTOR_BYTES // rows.dtype.itemsize
    vectors = -(-length // width)
    for full in full_tiles(rows.family, rows.dtype):
        if fills(rows, full) and not full_spec(rows.family, rows.dtype, full).refusal(target.arch):
            return RowPlan(full, full.team)
    for tile in held_tiles(rows.family, rows.dtype) if rows.is_own else ():
        team = power_above(-(-vectors // tile.vectors))
        if team <= tile.team:
            return RowPlan(tile, team)
    team = min(8, power_above(length))
    while team < min(REDUCE_THREADS, power_above(-(-length // 4))) and (
        team < length // 64 or count * team < lanes * 1024
    ):
        team *= 2
    return RowPlan(None, team)


def row_launch(rows: Rows, plan: RowPlan, target: Target) -> KernelLaunch:
    """Return the launch that computes rows by a plan."""
    multiprocessors = target.multiprocessors or MULTIPROCESSORS
    if isinstance(plan.tile, FullTile):
        return _full_launch(rows, plan.tile, multiprocessors)
    even = plan.tile is not None and rows.is_even
    space = packed(pack_rows(rows.outer, rows.inner, plan.team.bit_length() - 1, even))
    out, pointers, codes = write_output(), rows.pointers, rows.codes
    if plan.tile is not None:
        spec = held_spec(rows.family, rows.dtype, plan.tile)
        codes = ()
    elif rows.family == "layer_norm":
        spec = general_spec("layer_norm", rows.dtype)
    else:
        spec = general_spec("softmax_columns" if rows.is_columns else "softmax_rows", rows.dtype)
    each = plan.team if rows.is_columns else plan.threads // plan.team
    blocks = min(-(-rows.outer.numel // each), MAX_BLOCKS)
    if plan.tile is not None and plan.tile.is_ahead:
        blocks = min(blocks, multiprocessors * plan.tile.blocks)
    return launch_in_row(spec, blocks, (out, *pointers, *codes, *rows.options, space))


def _full_launch(rows: Rows, tile: FullTile, multiprocessors: int) -> KernelLaunch:
    count = rows.outer.numel
    blocks = min(-(-count // (tile.threads // tile.team)), MAX_BLOCKS)
    if tile.ahead:
        blocks = min(blocks, multiprocessors * tile.blocks)
    source = rows.outer.strides[1 if rows.family == "softmax" else 0]
    spaces = (i64(count), i64(source[0] if source else 0))
    spec = full_spec(rows.family, rows.dtype, tile)
    return launch_in_row(spec, blocks, (write_output(), *rows.pointers, *rows.options, *spaces))


def _softmax(unit: Unit) -> Rows:
    micro = unit.chain[-1]
    source = unit.operands[micro.sources[0]]
    dims, axis = source.dims, micro.params.axis
    rows = axis_rows(dims, axis, [contiguous_strides(dims), source.strides], 1)
    return Rows(
        "softmax",
        micro.dtype,
        rows.outer,
        Axes((dims[axis],), tuple((step,) for step in rows.steps)),
        source.dtype is micro.dtype and rows.steps == (1, 1),
        rows.is_columns(1),
        (read(micro.sources[0]),),
        (i32(DTYPE_CODES[source.dtype]),),
        (i32(micro.op.name == "log_softmax"),),
    )


def _layer_norm(unit: Unit) -> Rows:
    micro = unit.chain[-1]
    params, dtype = micro.params, micro.dtype
    numbers = list(micro.sources)
    source = unit.operands[numbers[0]]
    split = len(source.dims) - params.axes_count
    outer_dims, tail = source.dims[:split], source.dims[split:]
    factors: list[int | None] = [
        numbers.pop(1) if given else None for given in (params.has_weight, params.has_bias)
    ]
    strides = [source.strides[split:]]
    pointers: list[Argument] = [read(numbers[0])]
    codes = [i32(DTYPE_CODES[source.dtype])]
    own = source.dtype is dtype
    for number in factors:
        if number is None:
            strides.append((0,) * len(tail))
            pointers.append(i64(0))
            codes.append(i32(0))
            continue
        factor = unit.operands[number]
        strides.append(factor.strides)
        pointers.append(read(number))
        codes.append(i32(DTYPE_CODES[factor.dtype]))
        own = own and factor.dtype is dtype
    found = fuse_axes(tail, [*strides, contiguous_strides(tail)])
    inner = Axes(found.dims, found.strides[:3])
    rows = fuse_axes(outer_dims, [source.strides[:split], contiguous_strides(outer_dims)])
    none = (0,) * rows.rank
    outer = Axes(rows.dims, (rows.strides[0], none, none))
    needed = [0, *(k + 1 for k, number in enumerate(factors) if number is not None)]
    own = own and inner.rank == 1 and all(inner.strides[k] == (1,) for k in needed)
    eps = f64(float(value_of(params.eps)))
    return Rows(
        "layer_norm", dtype, outer, inner, own, False, tuple(pointers), tuple(codes), (eps,)
    )
