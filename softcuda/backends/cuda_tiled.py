"""cuda_tiled: contractions of floats by tiles in shared memory, an elementwise chain behind them.

A batch of products of matrices with any strides; the kernel's id names the tile, which a printed
rule chooses (softcuda/backends/cuda/gemm_tiles.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from softcuda.backends.cuda.gemm import GEMM_KERNELS, prepare_gemm
from softcuda.backends.cuda.gemm_plan import MAX_AXES
from softcuda.backends.steps import Step, Unit, Verdict
from softcuda.contraction.classes import classify
from softcuda.graph.lines import Line
from softcuda.graph.op import Kind
from softcuda.kernelspec import KernelSpec
from softcuda.target import Target

__all__ = [
    "BACKEND_ID",
    "DEVICE",
    "EPILOGUES",
    "FUSES",
    "KERNELS",
    "absorbs",
    "prepare",
    "supports",
]

BACKEND_ID: Final = "cuda_tiled"
DEVICE: Final = "cuda"
FUSES: Final = frozenset({Kind.CONTRACTION})
EPILOGUES: Final = frozenset({Kind.CONTRACTION})
KERNELS: Final[tuple[KernelSpec, ...]] = GEMM_KERNELS

_MAX_EXTENT: Final = 2**31 - 2**14  # a tile or split beyond still fits 32 bits


def supports(line: Line, operands: Sequence[Line], target: Target) -> Verdict:
    """Return whether the line is a contraction of floats whose extents fit 32-bit indices."""
    if line.op.kind is not Kind.CONTRACTION:
        return Verdict(False, f"cuda_tiled computes matmul, not {line.op.name}")
    if not line.dtype.is_float:
        return Verdict(False, f"cuda_tiled computes f16, bf16, f32 and f64, not {line.dtype}")
    for name, extents in _extents(line, operands).items():
        if math.prod(extents) > _MAX_EXTENT:
            return Verdict(
                False, f"{name} of {math.prod(extents)}; cuda_tiled takes up to {_MAX_EXTENT}"
            )
        if len(extents) > MAX_AXES:
            return Verdict(
                False, f"{len(extents)} labels of {name}; cuda_tiled takes up to {MAX_AXES}"
            )
    return Verdict(True)


def absorbs(line: Line, operands: Sequence[Line], target: Target) -> Verdict:
    """Return whether the line can be part of the chain behind a contraction."""
    if line.op.kind is not Kind.ELEMENTWISE:
        return Verdict(False, f"cuda_tiled fuses elementwise ops, not {line.op.name}")
    if line.op.name == "pow" and not line.dtype.is_float:
        return Verdict(False, "a power of integers reports errors, which cuda_tiled does not")
    return Verdict(True)


def prepare(unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step of a contraction and the chain behind it."""
    return prepare_gemm(BACKEND_ID, unit, target)


def _extents(line: Line, operands: Sequence[Line]) -> dict[str, list[int]]:
    """Return the extents above 1 of the labels of each class, by the class's name."""
    params: Any = line.params
    a, b = (
        {label: extent for label, extent in zip(labels, operand.dims, strict=True) if extent != 1}
        for labels, operand in zip((params.a, params.b), operands, strict=True)
    )
    classes = classify(tuple(a), tuple(b), tuple(x for x in params.out if x in a or x in b))
    found = {"batch": classes.batch, "m": classes.m, "n": classes.n, "k": classes.k}
    return {name: [(a | b)[label] for label in labels] for name, labels in found.items()}
