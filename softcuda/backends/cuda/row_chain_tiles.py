"""Tiles of rows with ops around them: what a thread holds of a row, and the kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from softcuda.backends.cuda.emitter import Part, chain_digest, chain_header, chain_label, emit
from softcuda.backends.cuda.layouts import Lies, code_of, work_bytes
from softcuda.backends.cuda.row_chain_layout import RowLayout, RowWindow, first_row_axis
from softcuda.backends.cuda.row_tiles import VECTOR_BYTES
from softcuda.dtype import DType, compute_dtype
from softcuda.graph.lines import Line
from softcuda.graph.shapes import numel
from softcuda.kernelspec import KernelSpec

__all__ = ["CHAIN_RANKS", "ChainTile", "chain_tile", "row_chain_spec", "takes_chain"]

_ELEMENTS: Final = 16  # of a row that a thread holds; of f64 half as many
_LONG_16: Final = 4096  # elements of a row of 16 bits beyond which twice as many are sooner
CHAIN_RANKS: Final = (4, 12)  # axes of a kernel's space; most tensors have the first
# Threads of a block, blocks of a multiprocessor, and what a thread may hold then [registers], so
# that no compiler spills on 7 architectures.
_BLOCKS: Final = (
    *((256, 4, 60), (512, 2, 60), (1024, 1, 46)),
    *((256, 3, 66), (256, 2, 112), (512, 1, 76)),
)
_WORK: Final = 14  # registers of what is not counted otherwise
_WIDE_WORK: Final = 16  # of exponentials and roots of f64
_ASIDE: Final = {Lies.SINGLE: 1, Lies.ROW: 3, Lies.STRIDED: 16}  # of where an operand is read
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
    split_at = first_row_axis(line)
    length = numel(dims[split_at:])
    most = 1024 if compute_dtype(line.dtype).itemsize < 8 else 512
    return 1 < length <= most * _most_elements(line.dtype)


def chain_tile(
    layout: RowLayout, windows: Sequence[RowWindow], prologue: Part, epilogue: Part, dtype: DType
) -> ChainTile | None:
    """Return how a thread holds its part of a row; None where registers do not.

    Many elements a thread come first, and of these many threads of a multiprocessor.
    """
    pairs = list(zip(layout.lies, windows, strict=True))
    split_at = len(prologue.operands)
    sides = [_side_bytes(side) for side in (pairs[:split_at], pairs[split_at:])]
    sizes = [w.dtype.itemsize for lies, w in pairs if lies is not Lies.SINGLE]
    widest = VECTOR_BYTES // max(epilogue.result.itemsize, *sizes, 1)
    aside = _WORK + sum(_ASIDE[lies] for lies, _ in pairs)
    work = max(work_bytes(prologue.chain), work_bytes(epilogue.chain))
    aside += work // 4
    aside += _WIDE_WORK if compute_dtype(dtype).itemsize == 8 else 0
    code = code_of(prologue.chain) + code_of(epilogue.chain)
    length = layout.inner.numel
    for elements, threads, blocks, registers in _shapes(dtype, length, has_functions=work > 0):
        width = min(widest, elements)
        numbers = elements * compute_dtype(dtype).itemsize // 4
        held = numbers + aside + width * max(sides) // 4
        if threads * elements >= length and code * elements <= _CODE and held <= registers:
            return ChainTile(width, elements // width, threads, blocks)
    return None


def _shapes(
    dtype: DType, length: int, *, has_functions: bool
) -> Iterator[tuple[int, int, int, int]]:
    """Yield elements of a thread before what `_BLOCKS` has, the best first."""
    most = _most_elements(dtype)
    if dtype.itemsize == 2 and length > _LONG_16 and not has_functions:
        yield (2 * most, *_BLOCKS[3])
    for elements in (most, most // 2, most // 4):
        yield from ((elements, *shape) for shape in _BLOCKS)


def _side_bytes(operands: Sequence[tuple[Lies, RowWindow]]) -> int:
    """Return the bytes of an element of each operand that is loaded for it."""
    return sum(w.dtype.itemsize for lies, w in operands if lies is not Lies.SINGLE)


def _most_elements(dtype: DType) -> int:
    return _ELEMENTS // (2 if compute_dtype(dtype).itemsize == 8 else 1)


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
        variant if rank == CHAIN_RANKS[0] else f"{variant}_rank{rank}",
        "row_chain.cu",
        f"{family}_chain<{', '.join(arguments)}>",
        dtypes=(epilogue.result.name, *(d.name for d in dtypes)),
        threads=tile.threads,
        tile=(tile.width, tile.vectors),
        headers=(header,),
    )
