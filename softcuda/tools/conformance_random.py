"""Random einsum expressions with operands: repeated and broadcast labels, ellipses, extents 0, 1.

The values are quarters, so that products and sums of them are exact in f64 in any order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["MOST_OPERANDS", "RandomExpression", "laid_out", "random_expression"]

Array = np.ndarray[Any, Any]

LETTERS = "ijkabAZβж漢"
MOST_OPERANDS, MOST_AXES = 6, 4
MOST_PRODUCTS = 20_000


@dataclass(frozen=True)
class RandomExpression:
    """An expression and the shapes of operands that fit it."""

    seed: int
    text: str
    shapes: tuple[tuple[int, ...], ...]

    def operands(self) -> list[Array]:
        """Return operands in f64, of quarters from -1.25 to 1.25."""
        rng = np.random.default_rng([self.seed, 1])
        return [np.asarray(rng.integers(-5, 6, shape) / 4) for shape in self.shapes]


def random_expression(seed: int) -> RandomExpression:
    """Return the expression of a seed; its joint index space is small."""
    rng = np.random.default_rng(seed)
    while True:
        made = _Maker(rng)
        if made.products <= MOST_PRODUCTS:
            return RandomExpression(seed, made.text, made.shapes)


def laid_out(array: Array, rng: np.random.Generator) -> Array:
    """Return an equal array in another layout: permuted, reversed, stepped or with padding."""
    order = rng.permutation(array.ndim)
    steps = [int(rng.choice((1, 1, 2, -1, -2))) for _ in order]
    extents = [array.shape[axis] * abs(step) for axis, step in zip(order, steps, strict=True)]
    block = np.empty([extent + 1 for extent in extents], array.dtype)
    whole: Any = tuple(slice(extent) for extent in extents)
    inner = block[(..., *whole)]
    stepped: Any = tuple(slice(None, None, step) for step in steps)
    view = inner[(..., *stepped)].transpose(np.argsort(order))
    view[...] = array
    return view


class _Maker:
    """The draws of one expression, one after the other."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        count = int(rng.choice(MOST_OPERANDS, p=(0.2, 0.3, 0.2, 0.1, 0.1, 0.1))) + 1
        pool = rng.permutation(list(LETTERS))[: rng.integers(1, 7)]
        self.extents = {str(letter): self._extent() for letter in pool}
        self.depth = [self._extent() for _ in range(rng.integers(0, 3))]
        self.has_ellipses = self._some(3)
        terms, shapes = zip(*(self._operand() for _ in range(count)), strict=True)
        self.shapes = tuple(shapes)
        used = {letter for term in terms for letter in term.replace("...", "")}
        self.products = math.prod([self.extents[x] for x in used]) * math.prod(self.depth)
        self.text = self._spaced(",".join(terms) + self._output(sorted(used)))

    def _some(self, count: int) -> bool:
        return bool(self.rng.integers(count) == 0)

    def _extent(self) -> int:
        return int(self.rng.choice((0, 1, 2, 3, 4, 5), p=(0.02, 0.13, 0.3, 0.3, 0.15, 0.1)))

    def _operand(self) -> tuple[str, tuple[int, ...]]:
        """Return the labels and the shape of an operand."""
        rng = self.rng
        letters = list(rng.choice(list(self.extents), rng.integers(0, MOST_AXES + 1)))
        if not self._some(3):
            letters = list(dict.fromkeys(letters))
        stretched = {letter for letter in letters if self._some(6)}
        shape = [1 if letter in stretched else self.extents[letter] for letter in letters]
        if self.has_ellipses and not self._some(4):
            tail = self.depth[len(self.depth) - rng.integers(0, len(self.depth) + 1) :]
            place = int(rng.integers(0, len(letters) + 1))
            letters.insert(place, "...")
            shape[place:place] = [1 if self._some(5) else extent for extent in tail]
        return "".join(letters), tuple(shape)

    def _output(self, used: list[str]) -> str:
        """Return an arrow and an output, or nothing for the implicit one."""
        if self._some(4):
            return ""
        kept = [str(x) for x in self.rng.permutation(used) if not self._some(2)]
        if self.has_ellipses and not self._some(4):
            kept.insert(int(self.rng.integers(0, len(kept) + 1)), "...")
        return "->" + "".join(kept)

    def _spaced(self, text: str) -> str:
        if not self._some(4):
            return text
        return "".join(c + " " if self._some(4) else c for c in text)
