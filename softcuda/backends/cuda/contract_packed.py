"""Boxes behind copies of operands: beside each other by depth, as in the result.

There are two reasons for a copy. A box reads rows that lie apart, or along the depth, element by
element or in vectors that it takes apart; a copy of rows that is small beside the result is read in
whole vectors, and its launch takes less than it saves. What the L1 cache holds is read as fast in
elements: it is not copied. And an operand of which boxes use a part of each sector, as where a
batch label is the contiguous one, goes through the L2 cache several times over: whatever its size,
a copy is one pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from softcuda.backends.cuda.contract_choice import BoxChoice
from softcuda.backends.cuda.contract_plan import ContractProblem, plan_contraction
from softcuda.backends.cuda.contract_rule import choose, contract_us
from softcuda.backends.cuda.contract_ways import Way
from softcuda.backends.cuda.copy_costs import COPY_US, copy_us
from softcuda.backends.cuda.gemm_packed import MAX_COPIED_BYTES, packed_pair
from softcuda.backends.cuda.gemm_tiles import MULTIPROCESSORS
from softcuda.backends.cuda.naive_contraction import PreparedPair
from softcuda.backends.cuda.products import PreparedProduct
from softcuda.backends.steps import Unit
from softcuda.target import Target

__all__ = ["Boxes", "sooner_boxes"]

MIN_BYTES: Final = 128 << 10  # of an operand that the L1 cache does not hold
MAX_BYTES: Final = 4 << 20  # of rows that are read whole: as far as measured
SMALL: Final = 8  # times as large is the result at least
WASTED: Final = 2.0  # times what they use of an operand boxes move of it, from which on it is far
WORTH: Final = 0.95  # of the time without copies of a far operand, which take scratch


class Boxes(NamedTuple):
    """A contraction as boxes, without private labels.

    Attributes:
        pair: the operands, and the launches that make those of them that are sums or copies.
        problem: what is computed.
        choice: how.
        expected_us: microseconds that all launches are expected to take.
        copied: numbers of the operands that are copies.
    """

    pair: PreparedPair
    problem: ContractProblem
    choice: BoxChoice
    expected_us: float
    copied: tuple[int, ...] = ()


def sooner_boxes(unit: Unit, made: PreparedProduct, target: Target) -> Boxes:
    """Return the boxes of a contraction; behind copies of operands where that takes less time.

    Args:
        unit: a contraction and the chain behind it.
        made: the same, without private labels.
        target: the device.
    """
    units = target.multiprocessors or MULTIPROCESSORS
    plain = _boxes(made, units, copies_us=0.0)
    sizes = [
        axes.numel * factor.dtype.itemsize
        for axes, factor in (
            (made.pair.pair.a, made.pair.a),
            (made.pair.pair.b, made.pair.b),
        )
    ]
    of_rows = 0 if plain.problem.a is made.pair.a else 1
    found = [plain]
    for copied in _copied(plain.choice, of_rows, sizes):
        pair, nbytes = packed_pair(unit, made.pair, copied, target)
        copies_us = copy_us(nbytes) + (len(copied) - 1) * COPY_US
        behind = _boxes(made._replace(pair=pair), units, copies_us, copied)
        if behind.expected_us < WORTH * plain.expected_us:
            found.append(behind)
    result = math.prod(made.product.dims) * made.product.dtype.itemsize
    nbytes = sizes[of_rows]
    is_small = MIN_BYTES <= nbytes <= MAX_BYTES and SMALL * nbytes <= result
    if len(found) == 1 and is_small and not _is_near(plain.choice):
        pair, _ = packed_pair(unit, made.pair, (of_rows,), target)
        behind = _boxes(made._replace(pair=pair), units, copy_us(nbytes), (of_rows,))
        if _is_near(behind.choice):
            found.append(behind)
    return min(found, key=lambda one: one.expected_us)


def _boxes(
    made: PreparedProduct, units: int, copies_us: float, copied: tuple[int, ...] = ()
) -> Boxes:
    """Return the boxes of a contraction some of whose operands are copies, which take so long."""
    problem = plan_contraction(made)
    choice = choose(problem, units)
    expected_us = contract_us(problem, choice, units) + copies_us
    return Boxes(made.pair, problem, choice, expected_us, copied)


def _copied(choice: BoxChoice, of_rows: int, sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the operands, by number, that are worth a look behind a copy: those of waste."""
    far = [
        operand
        for operand, wasted in zip((of_rows, 1 - of_rows), choice.waste.sectors, strict=False)
        if wasted >= WASTED and MIN_BYTES <= sizes[operand] <= MAX_COPIED_BYTES
    ]
    yield from ((operand,) for operand in far)
    if len(far) == 2:
        yield 0, 1


def _is_near(choice: BoxChoice) -> bool:
    """Return whether rows are read and stored in vectors as they lie."""
    return choice.rows.way is Way.ROWS_VECTOR and choice.has_vectors
