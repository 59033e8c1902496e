"""Launches of softmax, log_softmax and layer_norm with the elementwise ops around them.

Rows that the registers of a block hold take one kernel: what is in front makes the elements as they
are loaded, what is behind is computed of the results before they are written. Otherwise the chains
are launches of their own, in front and behind.
"""

from __future__ import annotations

from softcuda.backends.cuda.elementwise import PARAMETER_BYTES, chain_launches
from softcuda.backends.cuda.emitter import (
    Part,
    Parts,
    reports,
    split,
)
from softcuda.backends.cuda.planned import Planned, aligned, launch_in_row, one_step, redirected
from softcuda.backends.cuda.reduce_shapes import power_above
from softcuda.backends.cuda.row_chain_layout import first_row_axis, row_layout, row_window
from softcuda.backends.cuda.row_chain_tiles import CHAIN_RANKS, chain_tile, row_chain_spec
from softcuda.backends.cuda.row_spaces import pack_rows
from softcuda.backends.cuda.rows import MAX_BLOCKS, rows_launches
from softcuda.backends.launches import (
    KernelLaunch,
    f64,
    i32,
    i64,
    packed,
    read,
    scratch,
    status,
)
from softcuda.backends.launches import write as write_output
from softcuda.backends.steps import Micro, Operand, Step, Unit
from softcuda.dtype import DType, compute_dtype
from softcuda.graph.op import OPS
from softcuda.graph.params import Cast, Dims, value_of
from softcuda.graph.shapes import contiguous_strides, numel
from softcuda.target import Target

__all__ = ["chained_row_steps"]


def chained_row_steps(backend_id: str, unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step of a composite with elementwise ops around it."""

    def planned() -> Planned:
        parts = split(unit)
        found = _one_launch(unit, parts)
        return ((found,), 0) if found is not None else _apart(unit, parts, target)

    return one_step(backend_id, unit, planned)


# ---- one kernel ---------------------------------------------------------------------------------


def _one_launch(unit: Unit, parts: Parts) -> KernelLaunch | None:
    """Return the one launch of a unit; None where no tile holds its rows."""
    anchor, prologue = parts.anchor, parts.prologues[0]
    epilogue = _with_factors(parts)
    dims = anchor.dims
    numbers = (*prologue.operands, *epilogue.operands)
    windows = [row_window(unit.operands[number], number, dims) for number in numbers]
    layout = row_layout(dims, first_row_axis(anchor), windows)
    tile = layout and chain_tile(layout, windows, prologue, epilogue, anchor.dtype)
    if layout is None or tile is None:
        return None
    rank = next((r for r in CHAIN_RANKS if layout.outer.rank < r), None)
    if rank is None:
        return None
    family = "layer_norm" if anchor.op.name == "layer_norm" else "softmax"
    dtypes = (*prologue.dtypes, *epilogue.dtypes[1:])
    spec = row_chain_spec(family, anchor.dtype, prologue, epilogue, tile, rank, layout.lies)
    team = power_above(-(-layout.inner.numel // (tile.width * tile.vectors)))
    even = layout.is_even(tile.width)
    space = pack_rows(layout.outer, layout.inner, team.bit_length() - 1, even, rank)
    is_told = reports(prologue.chain) or reports(epilogue.chain)
    option = (
        f64(float(value_of(anchor.params.eps)))
        if family == "layer_norm"
        else i32(anchor.op.name == "log_softmax")
    )
    arguments = (
        *(write_output(), option, packed(space), status() if is_told else i64(0)),
        *(window.pointer for window in windows),
    )
    if len(space) + 8 * (len(dtypes) + 3) > PARAMETER_BYTES:
        return None
    blocks = -(-layout.outer.numel // (tile.threads // team))
    return launch_in_row(spec, blocks, arguments) if blocks <= MAX_BLOCKS else None


def _with_factors(parts: Parts) -> Part:
    """Return the epilogue with weight and bias of a layer_norm in front, rounded once behind them.

    Its argument 0 is then the row of mean 0 and deviation 1, in the compute dtype.
    """
    anchor, epilogue = parts.anchor, parts.epilogue
    if anchor.op.name != "layer_norm":
        return epilogue
    computed = compute_dtype(anchor.dtype)
    made: list[Micro] = []
    last, dtypes, operands = 0, [computed], []
    names = [
        name
        for name, given in (("mul", anchor.params.has_weight), ("add", anchor.params.has_bias))
        if given
    ]
    for name, factor in zip(names, parts.prologues[1:], strict=True):
        source = len(dtypes)
        dtypes.append(factor.dtypes[0])
        operands.append(factor.operands[0])
        if factor.dtypes[0] is not computed:
            made.append(Micro(OPS["cast"], (source,), (), computed, Cast(computed)))
            source = ~(len(made) - 1)
        made.append(Micro(OPS[name], (last, source), (), computed, ()))
        last = ~(len(made) - 1)
    if computed is not anchor.dtype:
        made.append(Micro(OPS["cast"], (last,), (), anchor.dtype, Cast(anchor.dtype)))
        last = ~(len(made) - 1)
    shift, before = len(operands), len(made)

    def moved(source: int) -> int:
        if source < 0:
            return ~(~source + before)
        return last if source == 0 else source + shift

    rest = [m._replace(sources=tuple(map(moved, m.sources))) for m in epilogue.chain]
    return Part((*made, *rest), (*operands, *epilogue.operands), (*dtypes, *epilogue.dtypes[1:]))


# ---- launches of their own ----------------------------------------------------------------------


def _apart(unit: Unit, parts: Parts, target: Target) -> Planned:
    """Return the chains and the composite as launches one after the other, and their scratch."""
    anchor, prologue, epilogue = parts.anchor, parts.prologues[0], parts.epilogue
    launches: list[KernelLaunch] = []
    used = 0
    first = unit.operands[prologue.operands[0]]
    pointers = [read(part.operands[0]) for part in parts.prologues]
    operands = [unit.operands[part.operands[0]] for part in parts.prologues]
    if prologue.chain:
        first = _dense(anchor.dims, prologue.result)
        own = Unit(prologue.chain, tuple(unit.operands[k] for k in prologue.operands), first, ())
        made, inside = chain_launches(own, target)
        used = aligned(numel(first.dims) * prologue.result.itemsize)
        launches += redirected(made, list(map(read, prologue.operands)), scratch(), used)
        used += aligned(inside)
        pointers[0], operands[0] = scratch(), first
    alone = anchor._replace(sources=tuple(range(len(operands))))
    value = _dense(anchor.dims, anchor.dtype)
    out = scratch(used) if epilogue.chain else write_output()
    rows = rows_launches(Unit((alone,), tuple(operands), value, ()), target)
    launches += redirected(rows, pointers, out)
    if epilogue.chain:
        place, used = used, used + aligned(numel(value.dims) * anchor.dtype.itemsize)
        behind = (value, *(unit.operands[k] for k in epilogue.operands))
        made, inside = chain_launches(Unit(epilogue.chain, behind, unit.result, ()), target)
        launches += redirected(
            made, [scratch(place), *map(read, epilogue.operands)], write_output(), used
        )
        used += aligned(inside)
    return tuple(launches), used


def _dense(dims: Dims, dtype: DType) -> Operand:
    return Operand(0, 0, dims, contiguous_strides(dims), dtype)
