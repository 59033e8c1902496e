"""The packed parameters of contract.cu: Contraction and ExtraOperands of contract.cuh."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Final

from softcuda.backends.cuda.contract_choice import BoxChoice
from softcuda.backends.cuda.contract_plan import ContractProblem
from softcuda.backends.cuda.contract_sides import Digit, SideAxes, SideBoxes
from softcuda.backends.cuda.gemm_plan import MAX_AXES
from softcuda.graph.params import Dims
from softcuda.kernelspec import fast_divisor

__all__ = ["extra_rank", "needs_wide_offsets", "pack_contraction", "pack_extra_operands"]

MAX_OFFSET: Final = 2**31 - 1
BAND: Final = 8  # tile rows that neighbouring tasks share out, column by column
CONTRACTION_BYTES: Final = 2208
EXTRA_INDICES: Final = 5  # whose strides an operand of the chain has

_RANKS: Final = (1, 2, 4, 8)


def pack_contraction(problem: ContractProblem, choice: BoxChoice) -> bytes:
    """Return the bytes of Contraction.

    Args:
        problem: what is computed.
        choice: how.
    """
    rows, columns, batches, depth = choice.rows, choice.columns, problem.batches, problem.depth
    every = _whole_digits(batches)
    tiles_m, tiles_n = rows.boxes, columns.boxes
    band = min(BAND, tiles_m)
    divisors = (
        *(tiles_m * tiles_n, band * tiles_n),
        *(band, tiles_m % band or band, choice.splits),
    )
    numbers = (
        *(tiles_m, depth.count, choice.tasks(batches.count)),
        *(choice.whole, choice.k_chunk, choice.has_vectors, choice.apart_ns),
    )
    return b"".join(
        (
            _side(rows),
            _side(columns),
            _index(every),
            *(_strides(x) for x in (batches.source, problem.batches_b, batches.result)),
            _index(depth.digits),
            *(_strides(_steps(depth.digits, x)) for x in (depth.a, depth.b)),
            *(struct.pack("<3I", *fast_divisor(x)) for x in divisors),
            struct.pack("<7if4x", *numbers, 1.0),
        )
    )


def _side(side: SideBoxes) -> bytes:
    """Return the bytes of Side."""
    axes = side.axes
    weight = dict(zip(side.places, _weights(side.places), strict=True))
    edges = [*side.edges, *(None,) * (2 - len(side.edges))]
    halves = {edge.axis: number for number, edge in enumerate(side.edges)}
    edge_axes = [
        next(k for k, digit in enumerate(side.tiles) if digit.axis == edge.axis) if edge else -1
        for edge in edges
    ]

    def coordinates(digits: Sequence[Digit]) -> Dims:
        return tuple(
            digit.step << 32 * halves[digit.axis] if digit.axis in halves else 0 for digit in digits
        )

    return b"".join(
        (
            _index(side.tiles),
            _strides(side.strides(side.tiles, axes.source)),
            _strides(side.strides(side.tiles, axes.result)),
            _index(side.entries),
            _strides(side.strides(side.entries, axes.source)),
            _strides(_places(side.entries, weight)),
            _strides(coordinates(side.entries)),
            _index(side.places),
            _strides(side.strides(side.places, axes.result)),
            _strides(coordinates(side.places)),
            struct.pack(
                "<8i",
                *(side.rows, side.block, side.is_flat),
                *edge_axes,
                *(edge.limit if edge else 0 for edge in edges),
                side.pitch,
            ),
        )
    )


def _places(entries: Sequence[Digit], weight: dict[Digit, int]) -> Dims:
    return tuple(weight[digit] for digit in entries)


def _weights(digits: Sequence[Digit]) -> Dims:
    return tuple(math.prod(d.extent for d in digits[:k]) for k in range(len(digits)))


def _steps(digits: Sequence[Digit], strides: Dims) -> Dims:
    return tuple(digit.step * strides[digit.axis] for digit in digits)


def _whole_digits(axes: SideAxes) -> tuple[Digit, ...]:
    return tuple(Digit(axis, extent, 1) for axis, extent in enumerate(axes.dims))


def _index(digits: Sequence[Digit]) -> bytes:
    """Return the bytes of a MultiIndex, padded to those of the i64 behind it."""
    extents = [digit.extent for digit in digits] or [1]
    padded = (*extents, *(1,) * (MAX_AXES - len(extents)))
    divisors = b"".join(struct.pack("<3I", *fast_divisor(extent)) for extent in padded)
    return struct.pack("<i", len(extents)) + divisors + bytes(4)


def _strides(given: Sequence[int]) -> bytes:
    return struct.pack("<8q", *given, *(0,) * (MAX_AXES - len(given)))


def needs_wide_offsets(problem: ContractProblem, choice: BoxChoice) -> bool:
    """Return whether an offset inside a box, or a flat side, passes 32 bits."""
    depth = problem.depth
    sides = (choice.rows, choice.columns)
    reads = [
        _span(side.places, side.axes.source) + _span(depth.digits, strides)
        for side, strides in zip(sides, (depth.a, depth.b), strict=True)
    ]
    writes = [_span(side.places, side.axes.result) for side in sides]
    return max(*reads, *writes) > MAX_OFFSET


def _span(digits: Sequence[Digit], strides: Dims) -> int:
    return sum((d.extent - 1) * d.step * abs(strides[d.axis]) for d in digits)


def extra_rank(problem: ContractProblem, choice: BoxChoice) -> int:
    """Return for how many axes of an index the kernel takes strides of the extras."""
    if not problem.epilogue.operands:
        return 1
    most = max(
        len(problem.batches.dims),
        *(len(digits) for side in (choice.rows, choice.columns) for digits in _digits(side)),
    )
    return next(rank for rank in _RANKS if most <= rank)


def _digits(side: SideBoxes) -> tuple[tuple[Digit, ...], tuple[Digit, ...]]:
    return side.tiles, side.places


def pack_extra_operands(problem: ContractProblem, choice: BoxChoice) -> bytes:
    """Return the bytes of ExtraOperands; one of zeros where there are none."""
    rank = extra_rank(problem, choice)
    numbers: list[int] = []
    for extra in range(len(problem.epilogue.operands)):
        groups = [problem.batches.extras[extra]]
        for side in (choice.rows, choice.columns):
            groups += [side.strides(digits, side.axes.extras[extra]) for digits in _digits(side)]
        for group in groups:
            numbers += [*group, *(0,) * (rank - len(group))]
    numbers = numbers or [0] * (EXTRA_INDICES * rank)
    return struct.pack(f"<{len(numbers)}q", *numbers)
