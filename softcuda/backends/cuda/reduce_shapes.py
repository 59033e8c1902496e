"""The kernels of reduce.cu and reduce_even.cu, and what a thread of them reads at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from softcuda.backends.cuda.emitter import Part, chain_digest, chain_header, chain_label, emit
from softcuda.backends.cuda.layouts import fits_code, work_bytes
from softcuda.backends.cuda.states import Measure
from softcuda.backends.steps import Micro
from softcuda.dtype import DType
from softcuda.kernelspec import KernelSpec

__all__ = [
    "MULTIPROCESSORS",
    "REDUCE_THREADS",
    "SPACE_RANKS",
    "ReduceTile",
    "family_tile",
    "is_light",
    "parts_across",
    "parts_spec",
    "power_above",
    "reduce_spec",
    "reduce_tile",
]

MULTIPROCESSORS: Final = 132  # where the target does not say
REDUCE_THREADS: Final = 256
SPACE_RANKS: Final = (8, 4, 64)  # of the spaces that kernels walk; 4 leaves room for more operands
_VECTOR_BYTES: Final = 16
_COPIES: Final = 2  # of a batch in a kernel: a whole one and the last
_VECTOR_LEAST: Final = 8  # bytes of a vector below which one block of wider ones is better
# By blocks of a multiprocessor: what a thread holds of operands, numbers and states without
# spilling, 7 architectures [registers]; and of that for where an operand is read.
_HELD: Final = {2: 57, 1: 137}
_SEVERAL: Final = 63  # the same of two blocks that have several batches in flight
_OFFSETS: Final = 9
_EXPONENTIAL: Final = 12  # that of f64 works in so many registers
_WIDEST_ALONE: Final = 4  # elements of one block: 8 of bf16 are converted at once, and spill
_PAIR_BYTES: Final = 16  # of values of a chain that are alive in any case
_EVEN: Final = ("reduce_even_rows", "reduce_short_rows")  # of reduce_even.cu


class ReduceTile(NamedTuple):
    """What a thread reads at once, and how many threads there are.

    Attributes:
        width: elements of a vector.
        loads: vectors of every operand in flight; rows of a team in reduce_short_rows.
        group: vectors measured at a time.
        blocks: blocks that a multiprocessor holds; they bound the registers of a thread.
    """

    width: int
    loads: int
    group: int
    blocks: int


def power_above(value: int) -> int:
    """Return the smallest power of two that is at least `value`.

    Example:
        >>> power_above(0), power_above(5), power_above(8)
        (1, 8, 8)
    """
    return 1 << max(value - 1, 0).bit_length()


def is_light(measure: Measure) -> bool:
    """Return whether states are cheap to join: short rows have a kernel for these."""
    return measure.state.startswith(("Sum", "Extreme", "Norm"))


def reduce_tile(
    measure: Measure, dtypes: Sequence[DType], varying: int = 1, prologue: Sequence[Micro] = ()
) -> ReduceTile:
    """Return what a thread reads at once: 128 bytes of one operand, less of several operands.

    Args:
        measure: wide values and states take more registers an element.
        dtypes: of the operands.
        varying: how many of them are more than one number.
        prologue: ops in front. Their code stands there for every element that is read at once, and
            takes the registers of a third block; many operands take narrower vectors, or one block.
    """
    tile = _bare_tile(measure, dtypes, varying)
    if not prologue:
        return tile
    width, loads = tile.width, tile.loads
    while loads > 1 and not fits_code(prologue, _COPIES * width * loads):
        loads //= 2
    while width > 1 and not fits_code(prologue, _COPIES * width):
        width //= 2
    while loads > 1 and _held(width * loads, measure, dtypes, prologue) > _SEVERAL:
        loads //= 2
    made = ReduceTile(width, loads, min(tile.group, loads), 2)
    return made if loads > 1 else _held_tile(made, measure, dtypes, prologue)


def _held(
    elements: int, measure: Measure, dtypes: Sequence[DType], prologue: Sequence[Micro]
) -> float:
    """Return the registers of a thread that reads so many elements of each operand at once."""
    aside = (work_bytes(prologue) + max(_alive_bytes(prologue) - _PAIR_BYTES, 0)) / 4
    each = sum(d.itemsize for d in dtypes) + measure.value + measure.nbytes / 2
    if measure.state == "LogSumExp<f64>":
        aside += _EXPONENTIAL
    return _OFFSETS * len(dtypes) + elements * each / 4 + aside


def _held_tile(
    tile: ReduceTile, measure: Measure, dtypes: Sequence[DType], prologue: Sequence[Micro]
) -> ReduceTile:
    """Return a tile of one load with the widest vectors whose registers blocks have.

    Two blocks of vectors of 8 bytes or more come first, then one block of any.
    """
    itemsize = max(d.itemsize for d in dtypes)
    widths = [tile.width >> shift for shift in range(tile.width.bit_length())]
    for blocks, most in _HELD.items():
        for width in widths:
            if blocks > 1 and width < tile.width and width * itemsize < _VECTOR_LEAST:
                continue
            if blocks == 1 and width > _WIDEST_ALONE:
                continue
            if _held(width, measure, dtypes, prologue) <= most:
                return tile._replace(width=width, blocks=blocks)
    return tile._replace(width=1, blocks=1)


def _alive_bytes(prologue: Sequence[Micro]) -> int:
    """Return what values inside a chain take where most of them are alive at once."""
    last = {~source: at for at, micro in enumerate(prologue) for source in micro.sources}
    most = held = 0
    ends: dict[int, int] = {}
    for at, micro in enumerate(prologue):
        size = max(micro.dtype.itemsize, 4)
        held += size - ends.pop(at, 0)
        most = max(most, held)
        end = last.get(at, at) + 1
        ends[end] = ends.get(end, 0) + size
    return most


def _bare_tile(measure: Measure, dtypes: Sequence[DType], varying: int) -> ReduceTile:
    """Return what a thread reads at once where no ops stand in front."""
    if measure.state.startswith("Powers"):
        return ReduceTile(1, 1, 1, 2)
    widest = max(d.itemsize for d in dtypes)
    most = 4 if measure.is_placed or measure.value > 4 else 16
    width = min(_VECTOR_BYTES // widest, most)
    is_wide = is_light(measure) and len(dtypes) == 1
    held = 4 if measure.state == "LogSumExp<f64>" else 64 if is_wide and measure.value > 1 else 32
    loads = max(min(8, held // width) // max(varying, 1), 1)
    loads = 1 << (loads.bit_length() - 1)
    is_lean = measure.is_placed or measure.state.startswith(("Sum", "Extreme"))
    elements = 32 if is_lean and width <= 8 and len(dtypes) == 1 else 16
    blocks = 3 if is_wide and width == 4 and measure.value >= 4 else 2
    return ReduceTile(width, loads, max(min(loads, elements // width), 1), blocks)


def family_tile(
    family: str, measure: Measure, tile: ReduceTile, is_bare: bool = True
) -> ReduceTile:
    """Return what a thread of one of the kernels reads at once.

    Args:
        family: the kernel.
        measure: what is reduced.
        tile: that of rows.
        is_bare: no ops stand in front.
    """
    if family == "reduce_short_rows":  # a vector of each of some rows
        rows = min(4, 64 // tile.width)
        if not is_bare:
            return tile._replace(loads=min(rows, tile.loads), group=1)
        return tile._replace(loads=rows, group=1, blocks=4)
    if family == "reduce_columns":  # a state a column
        is_halved = tile.width in (2, 8)
        has_third = tile.loads == 8 if is_halved else tile.blocks == 3 and measure.value == 4
        blocks = min(tile.blocks, 2) if not is_bare else 3 if has_third else 2
        loads = max(tile.loads // 2, 1) if is_halved else tile.loads
        return tile._replace(loads=loads, blocks=blocks)
    if family == "reduce_rows":  # places of vectors beside each other rise within each alone
        if measure.is_placed:
            return tile._replace(loads=min(tile.loads, 4), group=1)
        return tile._replace(group=min(tile.group, max(16 // tile.width, 1)))
    return tile


def reduce_spec(
    measure: Measure,
    prologue: Part,
    epilogue: Part,
    family: str,
    tile: ReduceTile,
    rank: int = 8,
) -> KernelSpec:
    """Return the kernel of a reduction in one of the variants."""
    header = chain_header(
        emit(prologue.chain, prologue.dtypes, "Prologue"),
        emit(epilogue.chain, epilogue.dtypes, "Epilogue"),
    )
    read = [d.name for d in (*prologue.dtypes, *epilogue.dtypes[1:])]
    is_grouped = family in ("reduce_rows", "reduce_even_rows")
    kept = tile if is_grouped else (tile.width, tile.loads, tile.blocks)
    numbers = [str(n) for n in kept]
    arguments = (measure.state, "Prologue", "Epilogue", *numbers, str(rank), *read)
    ops = (*prologue.chain, *epilogue.chain)
    label = f"{chain_label(ops)}_{chain_digest(header)}_" if ops else ""
    variant = f"{label}{measure.name}_{prologue.dtypes[0]}_{epilogue.result}_{'x'.join(numbers)}"
    return KernelSpec(
        family,
        variant if rank == 8 else f"{variant}_rank{rank}",
        "reduce_even.cu" if family in _EVEN else "reduce.cu",
        f"{family}<{', '.join(arguments)}>",
        dtypes=(epilogue.result.name, *read),
        threads=REDUCE_THREADS,
        tile=(tile.width, tile.loads),
        headers=(header,),
    )


def parts_spec(measure: Measure, epilogue: Part, rank: int = 8) -> KernelSpec:
    """Return the kernel that joins the parts of a reduction."""
    header = chain_header(emit(epilogue.chain, epilogue.dtypes, "Epilogue"))
    read = [d.name for d in epilogue.dtypes[1:]]
    arguments = (measure.state, "Epilogue", str(rank), *read)
    label = f"{chain_label(epilogue.chain)}_{chain_digest(header)}_" if epilogue.chain else ""
    variant = f"{label}{measure.name}_{epilogue.result}"
    return KernelSpec(
        "reduce_parts",
        variant if rank == 8 else f"{variant}_rank{rank}",
        "reduce.cu",
        f"reduce_parts<{', '.join(arguments)}>",
        dtypes=(epilogue.result.name, *read),
        threads=REDUCE_THREADS,
        headers=(header,),
    )


def parts_across(parts: int, results: int) -> int:
    """Return over how many results the threads of a block of reduce_parts lie.

    The others share the parts of each of these.
    """
    across = 32
    while across > 1 and (across >= 2 * results or REDUCE_THREADS // across * 4 < parts):
        across //= 2
    return across
