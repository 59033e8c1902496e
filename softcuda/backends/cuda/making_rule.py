"""The rule that decides where the elementwise ops in front of a product run.

    apart = COPY_US + 2 * bytes / COPIED
    loads = elements * code * again / (ISSUED * SHARE * multiprocessors * CLOCK)
    again = extents of the other operand's own labels / side, rounded up
    side = SIDE, half of it where boxes of SIDE x SIDE are fewer than multiprocessors

A launch in front of the product writes the operand once more, `bytes` in all, and the product reads
that copy. In the loads of the product the ops cost no memory, but every box makes the elements that
it loads: one of A is made once for each box of columns, one of B once for each of rows. `code` are
the plain instructions of the ops, and HELD more where the element would have gone to shared memory
without passing registers. The fewer microseconds win: cheap ops, and operands that few boxes share,
are made in the loads; exp in front of a large product is not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from softcuda.backends.cuda.contraction_limits import class_extents
from softcuda.backends.cuda.copy_costs import copy_us
from softcuda.backends.cuda.gemm_tiles import CLOCK, MULTIPROCESSORS
from softcuda.backends.cuda.layouts import code_of
from softcuda.backends.cuda.naive_contraction import Factor
from softcuda.backends.steps import Verdict
from softcuda.dtype import compute_dtype
from softcuda.graph.lines import Line
from softcuda.graph.shapes import numel
from softcuda.target import Target

__all__ = ["ISSUED", "MAX_REGISTERS", "MOST_CODE", "SHARE", "loading_code", "makes_verdict"]

ISSUED: Final = 128.0  # plain instructions a cycle of a multiprocessor
SHARE: Final = 0.73  # of them that are issued beside loads and barriers, as products are
SIDE: Final = 128  # rows or columns of a box
HELD: Final = 2.0  # instructions of an element that passes registers, as measured
MAX_REGISTERS: Final = 3  # of numbers of a chain, of a thread that has few left
MOST_CODE: Final = 48  # for one element, of which a thread makes up to 16 at a time


def loading_code(factor: Factor) -> float:
    """Return the instructions that make an element of an operand as it is loaded; 0 for none."""
    return factor.making.code + HELD if factor.making else 0.0


def makes_verdict(
    backend_id: str,
    chain: Sequence[Line],
    reads: Sequence[Line],
    product: Line,
    operands: Sequence[Line],
    number: int,
    target: Target,
) -> Verdict:
    """Return whether a chain in front of a product runs in its loads, and why, in both cases.

    Args:
        backend_id: who is asked.
        chain: elementwise lines, in order.
        reads: what they read: a value of their extents, then numbers of one element each.
        product: a contraction of floats.
        operands: the lines that it reads, the value of the chain among them.
        number: which of them the chain makes, 0 or 1.
        target: the device.
    """
    private = class_extents(product, operands)[("private_a", "private_b")[number]]
    if private:
        return Verdict(
            False, f"labels of operand {number} alone are summed in front of the product"
        )
    registers = sum(-(-each.dtype.itemsize // 4) for each in reads[1:])
    for found, most, what in (
        (registers, MAX_REGISTERS, "registers of numbers"),
        (code_of(chain), MOST_CODE, "instructions"),
        (reads[0].dtype.itemsize, compute_dtype(product.dtype).itemsize, "bytes an element"),
    ):
        if found > most:
            return Verdict(
                False, f"{found} {what} in the loads of a product; {backend_id} holds up to {most}"
            )
    apart, loads = _expected_us(chain, product, operands, number, target)
    told = f"est. {loads:.1f} us in the loads of {product.op.name}, {apart:.1f} us apart"
    return Verdict(loads < apart, told)


def _expected_us(
    chain: Sequence[Line], product: Line, operands: Sequence[Line], number: int, target: Target
) -> tuple[float, float]:
    """Return the microseconds of a launch in front of a product, and of the same ops in its loads.

    The arguments are those of `makes_verdict`.
    """
    own = operands[number]
    is_direct = own.dtype is compute_dtype(product.dtype)
    code = code_of(chain) + (HELD if is_direct else 0.0)
    extents = class_extents(product, operands)
    batches, m, n = (math.prod(extents[name]) for name in ("batch", "m", "n"))
    units = target.multiprocessors or MULTIPROCESSORS
    side = SIDE if batches * -(-m // SIDE) * -(-n // SIDE) >= units else SIDE // 2
    again = -(-(n, m)[number] // side)
    rate = ISSUED * SHARE * CLOCK * units
    return copy_us(chain[-1].nbytes), numel(own.dims) * code * again / rate
