"""What the sweep of contractions tries: the published TCCG set, and shapes beside it."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

from benchmarks.contractions import TCCG
from softcuda.backends.cuda.contract_rule import BoxChoice
from softcuda.backends.cuda.contract_tiles import ContractTile

__all__ = ["ALTERNATIVES", "Contracted", "contractions", "shown"]

FLOPS_US: Final = 51e6  # of f32 on FMA units, a microsecond of an H200
BYTES_US: Final = 4.25e6  # copied


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


# Boxes that the rule does not have: whole depths of 24 in one or two steps, more threads for as
# many sums, deeper steps of narrow boxes.
ALTERNATIVES: Final = (
    ContractTile(128, 128, 16, 8, 8, 2, 8, 2, 0.7, 0.5),
    ContractTile(128, 128, 12, 8, 16, 2, 8, 2, 0.7, 0.5),
    ContractTile(128, 64, 24, 8, 8, 2, 8, 3, 0.7, 0.3),
    ContractTile(64, 64, 24, 8, 8, 2, 8, 5, 0.7, 0.15),
    ContractTile(256, 24, 16, 8, 12, 2, 16, 4, 0.6, 0.2),
    ContractTile(256, 24, 8, 4, 12, 3, 16, 4, 0.6, 0.2),
)

# Equation, extents of its labels by letter: prime extents, a network of tensor-train cores, a
# batch, a narrow and a short operand.
_BESIDE: Final = (
    ("primes", "aebd,ce->dcba", (71, 73, 23, 67, 61)),
    ("primes ccsd", "aged,cbfg->fedcba", (23, 17, 13, 19, 17, 19, 29)),
    ("train", "abc,cde->abde", (64, 64, 256, 64, 256)),
    ("batch", "bij,bjk->bik", (256, 128, 160, 144)),
    ("batch inside", "ijb,jkb->ikb", (32, 96, 128, 112)),
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
    """Return a choice as text: tile, ways to read, parts of labels in a box, cut."""

    def boxes(side: Any) -> str:
        parts = "x".join(f"{d.axis}:{d.extent}" for d in side.places)
        return "flat" if side.is_flat else parts

    ways = f"{choice.rows.way.value} {choice.columns.way.value}"
    stores = "rows" if choice.has_vectors else "single"
    cut = f" / {choice.whole}+{choice.splits}" if choice.splits > 1 else ""
    return (
        f"{choice.tile.name} {ways} -> {stores} [{boxes(choice.rows)} | "
        f"{boxes(choice.columns)}]{cut}"
    )
