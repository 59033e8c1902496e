"""Boxes behind a copy of the operand that gives the rows: beside each other, as in the result.

A box reads rows that lie apart, or along the depth, element by element or in vectors that it takes
apart. A copy that is small beside the result is read in whole vectors, and its launch takes less
than it saves. What the L1 cache holds is read as fast in elements: it is not copied.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from softcuda.backends.cuda.contract_choice import BoxChoice
from softcuda.backends.cuda.contract_plan import ContractProblem, plan_contraction
from softcuda.backends.cuda.contract_rule import choose, contract_us
from softcuda.backends.cuda.contract_ways import Way
from softcuda.backends.cuda.copy_costs import copy_us
from softcuda.backends.cuda.gemm_packed import packed_pair
from softcuda.backends.cuda.gemm_tiles import MULTIPROCESSORS
from softcuda.backends.cuda.naive_contraction import PreparedPair
from softcuda.backends.cuda.products import PreparedProduct
from softcuda.backends.steps import Unit
from softcuda.target import Target

__all__ = ["Boxes", "sooner_boxes"]

MIN_BYTES: Final = 128 << 10  # of an operand that the L1 cache does not hold
MAX_BYTES: Final = 4 << 20  # of an operand: as far as measured
SMALL: Final = 8  # times as large is the result at least


class Boxes(NamedTuple):
    """A contraction as boxes, without private labels.

    Attributes:
        pair: the operands, and the launches that make those of them that are sums or copies.
        problem: what is computed.
        choice: how.
        expected_us: microseconds that all launches are expected to take.
    """

    pair: PreparedPair
    problem: ContractProblem
    choice: BoxChoice
    expected_us: float


def sooner_boxes(unit: Unit, made: PreparedProduct, target: Target) -> Boxes:
    """Return the boxes of a contraction; behind a copy of its rows where that takes less time.

    Args:
        unit: a contraction and the chain behind it.
        made: the same, without private labels.
        target: the device.
    """
    units = target.multiprocessors or MULTIPROCESSORS
    problem = plan_contraction(unit, made.pair, made.product, made.epilogue)
    choice = choose(problem, units)
    plain = Boxes(made.pair, problem, choice, contract_us(problem, choice, units))
    operand = 0 if problem.a is made.pair.a else 1
    nbytes = (made.pair.pair.a, made.pair.pair.b)[operand].numel * problem.a.dtype.itemsize
    is_small = MIN_BYTES <= nbytes <= MAX_BYTES
    result = math.prod(made.product.dims) * made.product.dtype.itemsize
    is_small = is_small and SMALL * nbytes <= result
    if _is_near(choice) or not is_small:
        return plain
    pair, _ = packed_pair(unit, made.pair, (operand,), target)
    problem = plan_contraction(unit, pair, made.product, made.epilogue)
    choice = choose(problem, units)
    expected_us = contract_us(problem, choice, units) + copy_us(nbytes)
    is_sooner = _is_near(choice) and expected_us < plain.expected_us
    return Boxes(pair, problem, choice, expected_us) if is_sooner else plain


def _is_near(choice: BoxChoice) -> bool:
    """Return whether rows are read and stored in vectors as they lie."""
    return choice.rows.way is Way.ROWS_VECTOR and choice.has_vectors
