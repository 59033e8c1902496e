"""Launches of softmax, log_softmax and layer_norm with the elementwise ops around them.

Rows that the registers of a block hold take one kernel: what is in front makes the elements as they
are loaded, what is behind is computed of the results before they are written. Otherwise the chains
are launches of their own, in front and behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from softcuda.backends.cuda.axes import Axes, broadcast_strides, fuse_axes
from softcuda.backends.cuda.elementwise import PARAMETER_BYTES, chain_launches
from softcuda.backends.cuda.emitter import (
    Part,
    Parts,
    chain_digest,
    chain_header,
    chain_label,
    emit,
    reports,
    split,
)
from softcuda.backends.cuda.layouts import Lies, code_of, work_bytes
from softcuda.backends.cuda.planned import Planned, aligned, launch_in_row, one_step, redirected
from softcuda.backends.cuda.reduce_shapes import power_above
from softcuda.backends.cuda.row_spaces import pack_rows
from softcuda.backends.cuda.row_tiles import VECTOR_BYTES
from softcuda.backends.cuda.rows import rows_launches
from softcuda.backends.launches import (
    Argument,
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
from softcuda.graph.lines import Line
from softcuda.graph.op import OPS
from softcuda.graph.params import Cast, Dims, value_of
from softcuda.graph.shapes import contiguous_strides, numel
from softcuda.kernelspec import KernelSpec
from softcuda.target import Target

__all__ = ["ChainTile", "chained_row_steps", "row_chain_spec", "takes_chain"]

_ELEMENTS: Final = 16  # of a row that a thread holds; of f64 half as many
_LONG_16: Final = 4096  # elements of a row of 16 bits beyond which twice as many are sooner
_SHORT_RANK: Final = 4  # axes of the space that most tensors have
_LONG_RANK: Final = 12  # of others
# Threads of a block, blocks of a multiprocessor, and what a thread may hold then [registers], so
# that no compiler spills on 7 architectures.
_BLOCKS: Final = (
    *((256, 4, 60), (512, 2, 60), (1024, 1, 46)),
    *((256, 3, 72), (256, 2, 112), (512, 1, 76)),
)
_WORK: Final = 14  # registers of what is not counted otherwise
_WIDE_WORK: Final = 16  # of exponentials and roots of f64
_ASIDE: Final = {Lies.SINGLE: 1, Lies.ROW: 3, Lies.STRIDED: 16}  # of where an operand is read
_STRIDED_BYTES: Final = 1 << 20  # of an operand that is read element by element
_CODE: Final = 1024  # plain instructions of all elements of a thread


class ChainTile(NamedTuple):
    """How a thread of a row kernel with chains holds its part of a row.

    Attributes:
        width: elements of a vector.
        vectors: of a thread.
        threads: of a block.
        blocks: that a multiprocessor holds; they bound the registers of a thread.
    """

    width: int
    vectors: int
    threads: int
    blocks: int


def takes_chain(line: Line) -> bool:
    """Return whether ops around a composite run in its kernel: rows lie innermost and are short.

    Rows of f64 take more registers than the largest block has.
    """
    dims = line.dims
    split_at = _split(line)
    length = numel(dims[split_at:])
    most = 1024 if compute_dtype(line.dtype).itemsize < 8 else 512
    return 1 < length <= most * _most_elements(line.dtype)


def chained_row_steps(backend_id: str, unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step of a composite with elementwise ops around it."""

    def planned() -> Planned:
        parts = split(unit)
        found = _one_launch(unit, parts)
        return ((found,), 0) if found is not None else _apart(unit, parts, target)

    return one_step(backend_id, unit, planned)


def _most_elements(dtype: DType) -> int:
    return _ELEMENTS // (2 if compute_dtype(dtype).itemsize == 8 else 1)


def _split(anchor: Micro | Line) -> int:
    """Return the first axis of a row; the rank where axes that are longer than 1 lie behind it."""
    dims, params = anchor.dims, anchor.params
    if anchor.op.name == "layer_norm":
        return len(dims) - int(params.axes_count)
    axis = int(params.axis)
    return axis if numel(dims[axis + 1 :]) == 1 else len(dims)


# ---- one kernel ---------------------------------------------------------------------------------


class _Window(NamedTuple):
    """An operand of the kernel: its pointer, dtype, offset [elements], strides over the rows."""

    pointer: Argument
    dtype: DType
    offset: int
    strides: Dims


class _Layout(NamedTuple):
    """The axes of all sets, the result's first, and how each operand lies along a row."""

    outer: Axes
    inner: Axes
    lies: tuple[Lies, ...]


def _one_launch(unit: Unit, parts: Parts) -> KernelLaunch | None:
    """Return the one launch of a unit; None where no tile holds its rows."""
    anchor, prologue = parts.anchor, parts.prologues[0]
    epilogue = _with_factors(parts)
    dims = anchor.dims
    windows = [_window(unit, number, dims) for number in (*prologue.operands, *epilogue.operands)]
    at = _split(anchor)
    layout = _layout(dims, at, windows)
    tile = layout and _tile(layout, windows, prologue, epilogue, anchor.dtype)
    if layout is None or tile is None:
        return None
    rank = next((r for r in (_SHORT_RANK, _LONG_RANK) if layout.outer.rank < r), None)
    if rank is None:
        return None
    family = "layer_norm" if anchor.op.name == "layer_norm" else "softmax"
    dtypes = (*prologue.dtypes, *epilogue.dtypes[1:])
    spec = row_chain_spec(family, anchor.dtype, prologue, epilogue, tile, rank, layout.lies)
    team = power_above(-(-layout.inner.numel // (tile.width * tile.vectors)))
    even = _is_even(layout, windows, tile.width)
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
    return launch_in_row(spec, blocks, arguments)


def _window(unit: Unit, number: int, dims: Dims) -> _Window:
    x = unit.operands[number]
    return _Window(read(number), x.dtype, x.offset, broadcast_strides(x.dims, x.strides, dims))


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


def _layout(dims: Dims, at: int, windows: Sequence[_Window]) -> _Layout | None:
    """Return how rows lie; None where no one axis runs along a row, or one is turned.

    Kernels of elementwise ops turn a large operand by tiles; here it would be read by elements.
    """
    sets = [contiguous_strides(dims), *(window.strides for window in windows)]
    inner = fuse_axes(dims[at:], [strides[at:] for strides in sets])
    outer = fuse_axes(dims[:at], [strides[:at] for strides in sets])
    if inner.rank != 1 or inner.strides[0] != (1,):
        return None
    kinds = {0: Lies.SINGLE, 1: Lies.ROW}
    lies = tuple(kinds.get(strides[0], Lies.STRIDED) for strides in inner.strides[1:])
    for how, window in zip(lies, windows, strict=True):
        if how is Lies.STRIDED and _read_bytes(dims, window) > _STRIDED_BYTES:
            return None
    return _Layout(outer, inner, lies)


def _read_bytes(dims: Dims, window: _Window) -> int:
    """Return the bytes of an operand, of what is broadcast once."""
    pairs = zip(dims, window.strides, strict=True)
    return numel(tuple(d for d, step in pairs if step)) * window.dtype.itemsize


def _is_even(layout: _Layout, windows: Sequence[_Window], width: int) -> bool:
    """Return whether rows are vectors from end to end in all operands that are read by vectors."""
    found = [layout.inner.numel, *layout.outer.strides[0]]
    rows = zip(layout.lies, layout.outer.strides[1:], windows, strict=True)
    for lies, strides, window in rows:
        if lies is Lies.ROW:
            found += [*strides, window.offset]
    return all(number % width == 0 for number in found)


def _tile(
    layout: _Layout, windows: Sequence[_Window], prologue: Part, epilogue: Part, dtype: DType
) -> ChainTile | None:
    """Return how a thread holds its part of a row; None where registers do not.

    Many elements a thread come first, and of these many threads of a multiprocessor.
    """
    pairs = list(zip(layout.lies, windows, strict=True))
    split_at = len(prologue.operands)
    sides = [_side_bytes(side) for side in (pairs[:split_at], pairs[split_at:])]
    sizes = [w.dtype.itemsize for lies, w in pairs if lies is Lies.ROW]
    widest = VECTOR_BYTES // max(epilogue.result.itemsize, *sizes, 1)
    aside = _WORK + sum(_ASIDE[lies] for lies, _ in pairs)
    aside += max(work_bytes(prologue.chain), work_bytes(epilogue.chain)) // 4
    aside += _WIDE_WORK if compute_dtype(dtype).itemsize == 8 else 0
    code = code_of(prologue.chain) + code_of(epilogue.chain)
    length = layout.inner.numel
    for elements, threads, blocks, registers in _shapes(dtype, length):
        width = min(widest, elements)
        numbers = elements * compute_dtype(dtype).itemsize // 4
        held = numbers + aside + width * max(sides) // 4
        if threads * elements >= length and code * elements <= _CODE and held <= registers:
            return ChainTile(width, elements // width, threads, blocks)
    return None


def _shapes(dtype: DType, length: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield elements of a thread before what `_BLOCKS` has, the best first."""
    most = _most_elements(dtype)
    if dtype.itemsize == 2 and length > _LONG_16:
        yield (2 * most, *_BLOCKS[3])
    for elements in (most, most // 2, most // 4):
        yield from ((elements, *shape) for shape in _BLOCKS)


def _side_bytes(operands: Sequence[tuple[Lies, _Window]]) -> int:
    """Return the bytes of an element of each operand that is loaded for it."""
    return sum(w.dtype.itemsize for lies, w in operands if lies is not Lies.SINGLE)


def row_chain_spec(
    family: str,
    dtype: DType,
    prologue: Part,
    epilogue: Part,
    tile: ChainTile,
    rank: int,
    lies: Sequence[Lies],
) -> KernelSpec:
    """Return the kernel of rows with ops around them.

    Args:
        family: "softmax" or "layer_norm".
        dtype: what the prologue's values become.
        prologue: makes the elements.
        epilogue: makes the results; argument 0 is the row's.
        tile: how a thread holds them.
        rank: axes of the kernel's space.
        lies: how the operands of both lie along a row.
    """
    header = chain_header(
        emit(prologue.chain, prologue.dtypes, "Prologue"),
        emit(epilogue.chain, epilogue.dtypes, "Epilogue"),
    )
    dtypes = (*prologue.dtypes, *epilogue.dtypes[1:])
    operands = [f"{how.value}<{d.name}>" for how, d in zip(lies, dtypes, strict=True)]
    numbers = [str(n) for n in tile]
    label = f"{chain_label((*prologue.chain, *epilogue.chain))}_{chain_digest(header)}"
    letters = "".join(how.letter for how in lies)
    variant = f"{label}_{dtype.name}_{letters}_{'x'.join(numbers)}"
    arguments = (dtype.name, "Prologue", "Epilogue", *numbers, str(rank), *operands)
    return KernelSpec(
        f"{family}_chain",
        variant if rank == _SHORT_RANK else f"{variant}_rank{rank}",
        "row_chain.cu",
        f"{family}_chain<{', '.join(arguments)}>",
        dtypes=(epilogue.result.name, *(d.name for d in dtypes)),
        threads=tile.threads,
        tile=(tile.width, tile.vectors),
        headers=(header,),
    )


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
