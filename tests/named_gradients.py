"""Cases of gradients of named-axis operations: diagonals, broadcast and private labels, factors."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from gradient_cases import Case

import softcuda as sc
from softcuda import BinaryOp, ReductionOp, UnaryOp

__all__ = ["NAMED"]

# Expression -> shapes of its operands.
_EINSUMS = {
    "ij,jk->ik": ((2, 3), (3, 4)),
    "ij,jk,kl->il": ((2, 3), (3, 4), (4, 2)),
    "ki": ((3, 2),),
    "ii->i": ((3, 3),),
    "ii->": ((3, 3),),
    "iij->ij": ((2, 2, 3),),
    "iij,jk->ik": ((2, 2, 3), (3, 2)),
    "nd,nn->d": ((4, 2), (4, 4)),
    "iii,i->": ((2, 2, 2), (2,)),
    "abcd->bd": ((3, 2, 3, 2),),
    "ijkl,ki->lj": ((2, 3, 4, 2), (4, 2)),
    "ij,kl->ik": ((2, 3), (3, 4)),  # j and l are private
    "ij,j->j": ((2, 3), (3,)),
    "ij,ij->ij": ((2, 1), (2, 3)),
    "ik,kj->ij": ((2, 1), (3, 4)),  # k stretches
    "bik,bkj->bij": ((1, 2, 3), (4, 3, 2)),  # b stretches
    "bnij,bnjc->bnic": ((1, 1, 5, 3), (1, 1, 3, 2)),
    "...ik,...kj->...ij": ((2, 1, 2, 3), (5, 3, 4)),
    "...i->i": ((2, 3, 4),),
    ",ij->ij": ((), (2, 3)),
    "i,i->": ((3,), (3,)),
    "i,j->ij": ((2,), (0,)),
}

_MATRICES = ((2, 3), (3, 4), (2,))


def _joined(op: BinaryOp) -> Callable[..., sc.Tensor]:
    return lambda a, b, alpha, beta: sc.elementwise_binary(
        a, "ij", b, "j", "ji", op, alpha=alpha, beta=beta, unary=[UnaryOp.Tanh, UnaryOp.Exp]
    )


def _reduced(op: ReductionOp) -> Callable[..., sc.Tensor]:
    return lambda x, alpha: sc.reduce(x, "ijk", "k", op, alpha=alpha)


_FUNCTIONS: dict[str, tuple[tuple[tuple[int, ...], ...], Callable[..., sc.Tensor]]] = {
    "contract": (
        (*_MATRICES, (), ()),
        lambda a, b, c, alpha, beta: sc.contract(
            a,
            "ij",
            b,
            "jk",
            "ki",
            c=c,
            c_modes="i",
            alpha=alpha,
            beta=beta,
            unary=[UnaryOp.Tanh, UnaryOp.Sin, UnaryOp.Exp],
        ),
    ),
    "contract diagonals": (
        ((3, 2, 3), (3, 3)),
        lambda a, b: sc.contract(a, "iji", b, "ii", "ji", alpha=-2.5),
    ),
    "permute": (((2, 3, 4), ()), lambda x, alpha: sc.permute(x, "ijk", "kij", alpha=alpha)),
    "trinary": (
        ((2, 3), (3,), (1, 2), (), (), ()),
        lambda a, b, c, alpha, beta, gamma: sc.elementwise_trinary(
            a,
            "ij",
            b,
            "j",
            c,
            "ki",
            "kij",
            BinaryOp.Mul,
            BinaryOp.Sub,
            alpha=alpha,
            beta=beta,
            gamma=gamma,
        ),
    ),
    **{f"binary {op.name}": (((2, 3), (3,), (), ()), _joined(op)) for op in list(BinaryOp)[:6]},
    **{
        f"reduce {op.name}": (((2, 3, 4), ()), _reduced(op))
        for op in ReductionOp
        if op.value not in ("any", "all", "argmin", "argmax")
    },
}


def _arrays(name: str, shapes: tuple[tuple[int, ...], ...]) -> tuple[Any, ...]:
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return tuple(np.asarray(rng.normal(size=shape)) for shape in shapes)


def _einsum(expression: str) -> Callable[..., sc.Tensor]:
    return lambda *operands: sc.einsum(expression, *operands)


NAMED = {
    **{name: Case(_arrays(name, s), _einsum(name)) for name, s in _EINSUMS.items()},
    **{name: Case(_arrays(name, s), f) for name, (s, f) in _FUNCTIONS.items()},
}
