"""Expressions with known values, each for a rule of named axes or for a fault met elsewhere.

The values follow from the rules in docs/named_axes.md; where NumPy takes the expression, it gives
the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["FAULTS", "RULES", "Case", "counting", "pattern"]

Array = np.ndarray[Any, Any]


class Case(NamedTuple):
    """An expression, its operands in f64, and its value."""

    expression: str
    operands: tuple[Any, ...]
    value: Any


def pattern(shape: tuple[int, ...], shift: int = 0) -> Array:
    """Return quarters from -1.25 to 1.25 that no two axes see alike; exact in every float."""
    place = np.arange(np.prod(shape, dtype=np.int64)).reshape(shape)
    return ((7 * place + 3 * shift) % 11 - 5) / 4


def counting(*shape: int) -> Array:
    """Return 0, 1, 2, ... in row-major order."""
    return np.arange(np.prod(shape, dtype=np.int64)).reshape(shape).astype(np.float64)


A = counting(2, 3) + 1
B = np.array([[1.0, 0], [0, 1], [1, 1]])
S = counting(2, 2) + 1
T = counting(3, 3) + 1
C3 = counting(2, 3, 4)
ONES = np.ones

RULES = (
    Case("ik,kj->ij", (A, B), [[4, 5], [10, 11]]),
    Case("ik,kj", (A, B), [[4, 5], [10, 11]]),
    Case("ki", (A,), A.T),
    Case("ba", (A,), A.T),
    Case("aB", (A,), A.T),
    Case("Ab", (A,), A),
    Case("ii->i", (T,), [1, 5, 9]),
    Case("ii->", (T,), 15),
    Case("ii", (T,), 15),
    Case("ij->", (A,), 21),
    Case("ij->j", (A,), [5, 7, 9]),
    Case("i,j->ij", ([1, 2], [3, 4, 5]), [[3, 4, 5], [6, 8, 10]]),
    Case("i,i->", ([1, 2, 3], [4, 5, 6]), 32),
    Case("i,i->i", ([1, 2, 3], [4, 5, 6]), [4, 10, 18]),
    Case("ij,jk,kl->il", (S, S, S), [[37, 54], [81, 118]]),
    Case("ij,jk,ki->", (S, S, S), 155),
    Case("ij,kj->ik", (A, A), [[14, 32], [32, 77]]),
    Case("ij,j->i", (A, ONES(3)), [6, 15]),
    Case("iij,jk->ik", (counting(2, 2, 2), S), [[3, 4], [27, 40]]),
    Case("abc,cde->abde", (ONES((2, 2, 3)), ONES((3, 2, 2))), np.full((2, 2, 2, 2), 3)),
    Case("ijk,ilk->ijl", (ONES((2, 2, 3)), ONES((2, 4, 3))), np.full((2, 2, 4), 3)),
    Case("ijk->ki", (C3,), [[12, 48], [15, 51], [18, 54], [21, 57]]),
    Case("...ij->...ji", (C3,), C3.transpose(0, 2, 1)),
    Case("i...", (C3,), C3.transpose(1, 2, 0)),
    Case("...ik,...kj->...ij", (ONES((2, 1, 2, 3)), ONES((5, 3, 4))), np.full((2, 5, 2, 4), 3)),
    Case("...i,...i->...", (ONES((2, 3)), ONES(3)), [3, 3]),
    Case("...i->i", (C3,), [60, 66, 72, 78]),
    Case("...->", (A,), 21),
    Case("ij->...ij", (A,), A),
    Case(",ij->ij", (2, A), 2 * A),
    Case("i,->i", ([1, 2], 3), [3, 6]),
    Case(",->", (2, 3), 6),
    Case("", (5,), 5),
    Case("->", (5,), 5),
    Case("i j , j k -> i k", (A, B), [[4, 5], [10, 11]]),
    Case("ij,ij->ij", ([[1], [2]], A), [[1, 2, 3], [8, 10, 12]]),
    Case("ik,kj->ij", ([[1], [2]], B), [[2, 2], [4, 4]]),
    Case("ik,kj->ij", (ONES((2, 0)), ONES((0, 3))), np.zeros((2, 3))),
    Case("ik,kj->ij", (ONES((0, 2)), ONES((2, 3))), np.zeros((0, 3))),
    Case("i,i->i", (ONES(1), ONES(0)), np.zeros(0)),
)

# What other libraries got wrong: a label that stretches, an ellipsis, a repeated label, a label
# order, an empty or rank-0 operand.
FAULTS = (
    Case("i,i->", (ONES(3), ONES(1)), 3),
    Case("i,i->", ([0.5, 0.25, 0.75], [2]), 3),
    Case(
        "t...i,ti->t...",
        (pattern((10, 2)), pattern((1, 2), 1)),
        [1.25, 1.8125, -1.0625, -0.5, 1.4375, -1.4375, -0.875, -0.3125, 1.625, -1.25],
    ),
    Case(
        "ik,kj->ij",
        (pattern((2, 1)), pattern((5, 3), 1)),
        pattern((2, 1)) * pattern((5, 3), 1).sum(0),
    ),
    Case("ik,kj->ij", (ONES((2, 1)), ONES((0, 3))), np.zeros((2, 3))),
    Case("bi,bi->b", (ONES((1, 3)), ONES((0, 3))), np.zeros(0)),
    Case(
        " ...ab , ...bc -> ...ac ",
        (pattern((2, 2, 3)), pattern((2, 3, 2), 1)),
        [[[0.25, -1.9375], [-1.3125, 1.375]], [[-1.5, 1.25], [-1.3125, 1.5]]],
    ),
    Case(
        "i...k,k...j->i...j",
        (pattern((2, 1, 3)), pattern((3, 2), 1)),
        [[[0.25, -1.9375]], [[-1.3125, 1.375]]],
    ),
    Case(
        "ii...->i...",
        (pattern((3, 3, 2, 4)),),
        np.stack([pattern((3, 3, 2, 4))[k, k] for k in range(3)]),
    ),
    Case(
        "i...i->...i",
        (pattern((3, 2, 3), 1),),
        [[-0.5, 0.75, -0.75], [-0.75, 0.5, -1.0]],
    ),
    Case("ij,j", (ONES((0, 3)), ONES(3)), np.zeros(0)),
    Case("->", (1.5,), 1.5),
    Case(
        ",ij->ij",
        (1.5, pattern((2, 3))),
        [[-1.875, 0.75, -0.75], [1.875, 0.375, -1.125]],
    ),
    Case(
        "ac,b->abc",
        (pattern((2, 3)), pattern((4,), 1)),
        pattern((2, 3))[:, None] * pattern((4,), 1)[:, None],
    ),
    Case(
        "ia,jb->ijab",
        (pattern((2, 3), 2), pattern((2, 3), 2)),
        pattern((2, 3), 2)[:, None, :, None] * pattern((2, 3), 2)[:, None],
    ),
    Case(
        "ps,tu,stq,urp->qr",
        (pattern((3, 3)), pattern((3, 3)), pattern((3, 3, 3), 1), pattern((3, 3, 3), 1)),
        [
            [-9.09375, -1.7734375, -2.57421875],
            [9.6796875, -1.5859375, -1.3359375],
            [-6.265625, -1.44140625, 0.03125],
        ],
    ),
    Case("aB", (pattern((2, 3)),), pattern((2, 3)).T),
    Case(
        "...,...,...->...",
        (pattern((2,)), pattern((2,), 1), pattern((1,), 2)),
        pattern((2,)) * pattern((2,), 1) * pattern((1,), 2),
    ),
    Case("iij->ij", (counting(2, 2, 4),), [[0, 1, 2, 3], [12, 13, 14, 15]]),
    Case("iij->i", (counting(2, 2, 4),), [6, 54]),
    Case(
        "iij,j->ij",
        (counting(2, 2, 4), pattern((4,), 2)),
        [[0, -0.75, 2, 0], [3, -9.75, 14, 0]],
    ),
    Case("i,ji->", (ONES(2), np.eye(2)), 2),
    Case("ij,i->", (counting(2, 3), -counting(2)), -12),
    Case("k,kj->j", ([1024.5], [[1.0]]), [1024.5]),
    Case("i,ij,j->", ([0, 3.25], np.eye(2), [0, 3.25]), 10.5625),
)
