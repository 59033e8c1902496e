"""What the sweep of contractions tries: the published TCCG set, and shapes beside it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final, NamedTuple

from benchmarks.contractions import TCCG
from softcuda.backends import Micro, Operand, Unit
from softcuda.backends.cuda.contract_choice import BoxChoice
from softcuda.backends.cuda.contract_plan import ContractProblem
from softcuda.backends.cuda.contract_rule import apart_ns, contract_us, cuts, shapes, spread
from softcuda.backends.cuda.contract_tiles import ContractTile
from softcuda.backends.cuda.contract_ways import Way
from softcuda.dtype import f32
from softcuda.graph.op import OPS
from softcuda.graph.params import Contraction
from softcuda.graph.shapes import contiguous_strides

__all__ = [
    "Contracted",
    "boxes_of",
    "contractions",
    "cuts_of",
    "shown",
    "starts",
    "unit_of",
]

FLOPS_US: Final = 51e6  # of f32 on FMA units, a microsecond of an H200
BYTES_US: Final = 4.25e6  # copied
SHAPES: Final = 3  # boxes of a tile
STARTS: Final = (0.0, 0.3, 0.6, 1.0, 1.5)  # of the time by which blocks start apart


class Contracted(NamedTuple):
    """A contraction of two dense f32 tensors, labels by letters, the last label contiguous."""

    name: str
    equation: str
    extents: dict[str, int]

    @property
    def labels(self) -> tuple[str, str, str]:
        """Labels of a, of b and of the result."""
        operands, out = self.equation.split("->")
        a, b = operands.split(",")
        return a, b, out

    def dims(self, operand: int) -> tuple[int, ...]:
        """Return the extents of a (0), of b (1) or of the result (2)."""
        return tuple(self.extents[label] for label in self.labels[operand])

    @property
    def flops(self) -> int:
        """Floating point operations."""
        return 2 * math.prod(self.extents.values())

    @property
    def nbytes(self) -> int:
        """Bytes that must be read and written at least once."""
        return 4 * sum(math.prod(self.dims(operand)) for operand in range(3))

    @property
    def floor_us(self) -> float:
        """Microseconds that neither arithmetic nor memory allows to undercut."""
        return max(self.flops / FLOPS_US, self.nbytes / BYTES_US)


# Equation, extents of its labels by letter: prime extents, a network of tensor-train cores, a
# batch, a narrow and a short operand.
_BESIDE: Final = (
    ("primes", "aebd,ce->dcba", (71, 73, 23, 67, 61)),
    ("primes ccsd", "aged,cbfg->fedcba", (23, 17, 13, 19, 17, 19, 29)),
    ("train", "abc,cde->abde", (64, 64, 256, 64, 256)),
    ("batch", "bij,bjk->bik", (256, 128, 160, 144)),
    ("batch inside", "ijb,jkb->ikb", (32, 96, 128, 112)),
    ("batch inside the result", "caed,cdb->baec", (37, 128, 96, 48, 72)),
    ("odd runs", "gade,ecbf->gcbafd", (17, 16, 17, 23, 16, 16, 20)),
    ("odd rows", "edfc,eba->afcbd", (31, 37, 16, 17, 24, 16)),
    ("odd columns", "ecbd,eca->bead", (150, 96, 64, 72, 37)),
    ("narrow", "abc,cd->abd", (256, 256, 256, 16)),
    ("square", "ij,jk->ik", (2048, 2048, 2048)),
    ("square turned", "ji,kj->ki", (2048, 2048, 2048)),
    ("exchanged", "ijkl,jmln->imkn", (48, 48, 48, 48, 48, 48)),
)


def contractions() -> list[Contracted]:
    """Return all cases, the published ones first."""
    published = [Contracted(name, one.expression, one.extents) for name, one in TCCG.items()]
    beside = [Contracted(name, text, _extents(text, dims)) for name, text, dims in _BESIDE]
    return published + beside


def _extents(equation: str, dims: tuple[int, ...]) -> dict[str, int]:
    letters = sorted(set(equation) - set(",->"))
    return dict(zip(letters, dims, strict=True))


def shown(choice: BoxChoice) -> str:
    """Return a choice as text: tile, sums of a thread, ways to read, boxes, cut, start."""

    def boxes(side: Any) -> str:
        parts = "x".join(f"{d.axis}:{d.extent}" for d in side.places)
        return "flat" if side.is_flat else parts

    ways = f"{choice.rows.way.value} {choice.columns.way.value}"
    stores = "rows" if choice.has_vectors else "single"
    cut = f" / {choice.whole}+{choice.splits}" if choice.splits > 1 else ""
    apart = f" apart {choice.apart_ns}" if choice.apart_ns else ""
    tile = choice.tile
    part = f"{tile.thread_m}x{tile.thread_n}, {tile.stages} stages, copies at {tile.fetch_k}:"
    return (
        f"{tile.name} by {part} {ways} -> {stores} [{boxes(choice.rows)} | "
        f"{boxes(choice.columns)}]{cut}{apart}"
    )


def unit_of(case: Contracted) -> Unit:
    """Return the contraction as the compiler hands it to a backend."""
    a, b, out = (tuple(map(ord, x)) for x in case.labels)
    operands = [
        Operand(k, 0, case.dims(k), contiguous_strides(case.dims(k)), f32) for k in range(3)
    ]
    micro = Micro(OPS["matmul"], (0, 1), case.dims(2), f32, Contraction(a, b, out))
    return Unit((micro,), tuple(operands[:2]), operands[2], (2,))


def starts(problem: ContractProblem, choice: BoxChoice, multiprocessors: int) -> list[BoxChoice]:
    """Return a choice whose blocks start together, and by several times apart."""
    full = apart_ns(problem, choice, multiprocessors)
    return [replace(choice, apart_ns=round(full * part)) for part in STARTS]


def boxes_of(problem: ContractProblem, tile: ContractTile, multiprocessors: int) -> list[BoxChoice]:
    """Return boxes of a tile, the best of them also apart, and one of each further way to read."""
    every = shapes(problem, tile, multiprocessors)
    best = every[:SHAPES]
    turned = [one for one in every[SHAPES:] if one.rows.way is Way.ROWS_APART][:1]
    apart = [spread(problem, one, multiprocessors) for one in (*best[:1], *turned)]
    return [*best, *turned, *apart]


def cuts_of(problem: ContractProblem, tile: ContractTile, multiprocessors: int) -> list[BoxChoice]:
    """Return boxes of a tile with cuts along the depth, the best first."""
    best = shapes(problem, tile, multiprocessors)[:2]
    found = [cut for one in best for cut in cuts(problem, one, multiprocessors)]
    return sorted(found, key=lambda one: contract_us(problem, one, multiprocessors))
