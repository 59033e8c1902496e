"""What the tiled backends refuse: of contractions, and of the chains behind them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from softcuda.backends.cuda.axes import MAX_INDEX
from softcuda.backends.cuda.complex_parts import real_verdict
from softcuda.backends.cuda.gemm_plan import MAX_AXES
from softcuda.backends.cuda.layouts import code_of
from softcuda.backends.steps import Verdict
from softcuda.contraction.classes import classify
from softcuda.graph.lines import Line
from softcuda.graph.op import Kind

__all__ = ["MAX_EXTRAS", "carried_verdict", "chain_verdict", "class_extents", "contraction_verdict"]

# Of the chain behind a product: operands beside it, whose strides along 8 axes of every index are
# parameters that gemm_tiled.cu takes; registers that operands and values inside take for one
# element, and code. Within them chains do not spill on 7 architectures, nor compile for long.
MAX_EXTRAS: Final = 8
_MOST_REGISTERS: Final = 16
_MOST_CODE: Final = 256

_LEAST_SIDE: Final = 16  # of a tile that does not hold the whole side
_MAX_EXTENT: Final = 2**31 - 2**14  # a tile or split beyond still fits 32 bits


def contraction_verdict(backend_id: str, line: Line, operands: Sequence[Line]) -> Verdict:
    """Return whether a line is a contraction of floats whose extents fit 32-bit indices.

    Args:
        backend_id: who is asked.
        line: what is to be computed.
        operands: the lines it reads.
    """
    if line.op.kind is not Kind.CONTRACTION:
        return Verdict(False, f"{backend_id} computes matmul, not {line.op.name}")
    if not line.dtype.is_float:
        return Verdict(False, f"{backend_id} computes f16, bf16, f32 and f64, not {line.dtype}")
    found = class_extents(line, operands)
    for name in ("batch", "m", "n", "k"):
        extents = found[name]
        if math.prod(extents) > _MAX_EXTENT:
            return Verdict(
                False, f"{name} of {math.prod(extents)}; {backend_id} takes up to {_MAX_EXTENT}"
            )
        if len(extents) > MAX_AXES:
            return Verdict(
                False, f"{len(extents)} labels of {name}; {backend_id} takes up to {MAX_AXES}"
            )
    batches, *sides = (math.prod(found[name]) for name in ("batch", "m", "n"))
    tiles = batches * math.prod(-(-side // _LEAST_SIDE) for side in sides)
    if tiles > MAX_INDEX:
        return Verdict(False, f"results in {tiles} tiles; {backend_id} counts up to {MAX_INDEX}")
    return Verdict(True)


def chain_verdict(backend_id: str, line: Line, operands: Sequence[Line]) -> Verdict:
    """Return whether a line can be part of the chain behind a contraction.

    Args:
        backend_id: who is asked.
        line: what is to be computed.
        operands: the lines it reads.
    """
    if line.op.kind is not Kind.ELEMENTWISE:
        return Verdict(False, f"{backend_id} fuses elementwise ops, not {line.op.name}")
    if line.op.name == "pow" and not line.dtype.is_float:
        return Verdict(False, f"a power of integers reports errors, which {backend_id} does not")
    return real_verdict(backend_id, line, operands)


def carried_verdict(
    backend_id: str, chain: Sequence[Line], reads: Sequence[Line], registers: int
) -> Verdict:
    """Return whether a kernel holds a chain behind a contraction.

    Args:
        backend_id: who is asked.
        chain: elementwise lines.
        reads: what they read beside the product.
        registers: that operands and values inside take of a thread for one element.
    """
    for found, most, what in (
        (len(reads), MAX_EXTRAS, "operands"),
        (registers, _MOST_REGISTERS, "registers"),
        (code_of(chain), _MOST_CODE, "instructions"),
    ):
        if found > most:
            return Verdict(
                False, f"{found} {what} behind a contraction; {backend_id} holds up to {most}"
            )
    return Verdict(True)


def class_extents(line: Line, operands: Sequence[Line]) -> dict[str, list[int]]:
    """Return the extents above 1 of the labels of each class, by the class's name.

    Args:
        line: a contraction.
        operands: the lines it reads; labels that one of them alone has are "private_a" and
            "private_b".
    """
    params: Any = line.params
    a, b = (
        {label: extent for label, extent in zip(labels, operand.dims, strict=True) if extent != 1}
        for labels, operand in zip((params.a, params.b), operands, strict=True)
    )
    classes = classify(tuple(a), tuple(b), tuple(x for x in params.out if x in a or x in b))
    found = {
        "batch": classes.batch,
        "m": classes.m,
        "n": classes.n,
        "k": classes.k,
        "private_a": classes.private_a,
        "private_b": classes.private_b,
    }
    return {name: [(a | b)[label] for label in labels] for name, labels in found.items()}
