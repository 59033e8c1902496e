"""Every op that takes complex numbers, and what NumPy makes of it in complex128.

A case is an op over one array of shape [3, 4, 5]; its name is the op's token and what is special.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import numpy as np

import softcuda as sc
from softcuda.dtype import DType, bool_, i64
from softcuda.errors import DTypeError
from softcuda.graph.op import OPS

__all__ = ["BOTH", "CASES", "LAYOUTS", "NEVER_COMPLEX", "Case", "accepting", "z"]

Array = np.ndarray[Any, Any]

BOTH: Final = (sc.complex64, sc.complex128)

# Their rule takes the dtype that they are asked for; their functions refuse complex ones.
NEVER_COMPLEX: Final = frozenset(("arange", "linspace", "uniform", "normal"))

ROWS: Final = np.array([2, -1, 0])
CELLS: Final = np.repeat([[[1]], [[-1]], [[0]]], 5, 2)
PARTNER: Final = (np.arange(20.0).reshape(4, 5) - 7) * (0.25 - 0.125j)
REAL: Final = np.arange(1.0, 6.0)


class Case(NamedTuple):
    """An op, its value in complex128, and how far results may lie: an op of the tolerance table."""

    made: Callable[[Any], sc.Tensor]
    expected: Callable[[Array], Any]
    tolerance: str = "sum"


def z(shape: tuple[int, ...], dtype: DType, seed: int = 5) -> Array:
    """Return complex numbers, both parts between -2 and 2, a zero among them."""
    rng = np.random.default_rng(seed)
    made = rng.uniform(-2, 2, shape) + 1j * rng.uniform(-2, 2, shape)
    made.reshape(-1)[1 % made.size] = 0
    return np.asarray(made).astype(dtype.numpy)


def narrow(x: Array) -> Array:
    """Return numbers as complex64 holds them."""
    return x.astype(np.complex64).astype(np.complex128)


LAYOUTS: Final[dict[str, Callable[[DType], Array]]] = {
    "dense": lambda dtype: z((3, 4, 5), dtype),
    "turned": lambda dtype: z((5, 4, 3), dtype).T,
    "backwards": lambda dtype: z((3, 8, 5), dtype)[:, ::-2],
    "stretched": lambda dtype: np.broadcast_to(z((3, 1, 5), dtype), (3, 4, 5)),
}


def accepting(dtype: DType) -> frozenset[str]:
    """Return the ops whose dtype rules take complex operands, or make complex results."""
    found = set()
    for name, op in OPS.items():
        kinds = {"where": (bool_, dtype, dtype), "one_hot": (i64,)}.get(name, (dtype,) * 3)
        if op.has_indices:
            kinds = (dtype, i64, dtype)
        operands = [SimpleNamespace(dtype=kind) for kind in kinds]
        try:
            op.dtype_rule(
                operands[: op.arity if op.arity >= 0 else 2], SimpleNamespace(dtype=dtype)
            )
        except DTypeError:
            continue
        if op.does_work:
            found.add(name)
    return frozenset(found - NEVER_COMPLEX)


def _function(name: str, public: str = "") -> Case:
    what = public or name
    return Case(getattr(sc, what), getattr(np, what), "hypot")


def _placed(name: str) -> Case:
    """Return index_add or scatter_add of values at repeated places."""

    def expected(x: Array) -> Array:
        added = x.copy()
        if name == "index_add":
            np.add.at(added, (slice(None), np.array([1, 1])), x[:, :2])
        else:
            where = (np.arange(3)[:, None, None], CELLS, np.arange(5))
            np.add.at(added, where, x[:, :1])
        return added

    def made(x: Any) -> sc.Tensor:
        if name == "index_add":
            return sc.index_add(x, np.array([1, 1]), x[:, :2], 1)
        return sc.scatter_add(x, CELLS, x[:, :1], 1)

    return Case(made, expected)


def _norm(order: float) -> Case:
    def expected(x: Array) -> Array:
        sizes = np.abs(x)
        if np.isinf(order):
            return np.asarray(sizes.max(1) if order > 0 else sizes.min(1))
        if order == 0:
            return np.asarray((sizes != 0).sum(1))
        return np.asarray((sizes**order).sum(1) ** (1 / order))

    return Case(lambda x: sc.norm(x, order, 1), expected)


_FUNCTIONS: Final = (
    *("square", "conj", "real", "imag", "sign", "reciprocal", "copy"),
    *("sqrt", "exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh"),
    *("isnan", "isinf", "isfinite", "logical_not"),
)
_PAIRS: Final = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "eq": "equal",
    "ne": "not_equal",
    "logical_and": "logical_and",
    "logical_or": "logical_or",
    "logical_xor": "logical_xor",
}


def _pair(public: str) -> Case:
    return Case(
        lambda x: getattr(sc, public)(x, PARTNER.astype(x.dtype.numpy)),
        lambda x: getattr(np, public)(x, PARTNER),
    )


CASES: Final[dict[str, Case]] = {
    **{name: _function(name) for name in _FUNCTIONS},
    "neg": _function("neg", "negative"),
    "abs": _function("abs"),
    "rsqrt": Case(lambda x: sc.rsqrt(x + 3), lambda x: 1 / np.sqrt(x + 3), "hypot"),
    "cast wider": Case(lambda x: x.cast("complex128"), lambda x: x),
    "cast narrower": Case(lambda x: x.cast("complex64"), narrow),
    "cast bool": Case(lambda x: x.cast("bool"), lambda x: x != 0),
    "cast of reals": Case(lambda x: sc.real(x).cast(x.dtype), lambda x: x.real + 0j),
    **{name: _pair(public) for name, public in _PAIRS.items()},
    "mul by reals": Case(lambda x: x * REAL.astype(np.float32), lambda x: x * REAL),
    "pow": Case(lambda x: x**2.5, lambda x: x**2.5),
    "pow of integers": Case(lambda x: x ** np.arange(5), lambda x: x ** np.arange(5)),
    "where": Case(lambda x: sc.where(sc.real(x) > 0, x, 2j), lambda x: np.where(x.real > 0, x, 2j)),
    "multiply_add": Case(lambda x: sc.multiply_add(x, x, 1j), lambda x: x * x + 1j),
    "sum": Case(lambda x: sc.sum(x, (0, 2)), lambda x: x.sum((0, 2))),
    "sum keepdims": Case(lambda x: sc.sum(x, 1, keepdims=True), lambda x: x.sum(1, keepdims=True)),
    "mean": Case(sc.mean, np.mean),
    "prod": Case(lambda x: sc.prod(x + 1, (0, 2)), lambda x: (x + 1).prod((0, 2))),
    "prod of all": Case(lambda x: sc.prod(x, keepdims=True), lambda x: x.prod(keepdims=True)),
    **{f"norm {order}": _norm(order) for order in (0, 0.5, 1, 2, 3, -1, np.inf, -np.inf)},
    "norm of all": Case(sc.norm, np.linalg.norm),
    "any": Case(lambda x: sc.any(x, 0), lambda x: x.any(0)),
    "all": Case(lambda x: sc.all(x, 0), lambda x: x.all(0)),
    "cumsum": Case(lambda x: sc.cumsum(x, 1), lambda x: x.cumsum(1)),
    "concat": Case(lambda x: sc.concat([x, x], 2), lambda x: np.concatenate([x, x], 2)),
    "concat mixed": Case(
        lambda x: sc.concat([x, REAL.reshape(1, 1, 5).repeat(3, 0), x.cast("complex64")], 1),
        lambda x: np.concatenate([x, REAL.reshape(1, 1, 5).repeat(3, 0), narrow(x)], 1),
    ),
    "stack": Case(lambda x: sc.stack([x, x], 1), lambda x: np.stack([x, x], 1)),
    "stack mixed": Case(
        lambda x: sc.stack([sc.real(x), x, x.cast("bool")], 1),
        lambda x: np.stack([x.real, x, x != 0], 1),
    ),
    "pad": Case(
        lambda x: sc.pad(x, ((1, 0), (0, 2), (0, 0)), constant_values=1 - 2j),
        lambda x: np.pad(x, ((1, 0), (0, 2), (0, 0)), constant_values=1 - 2j),
    ),
    "tril": Case(lambda x: sc.tril(x, -1), lambda x: np.tril(x, -1)),
    "triu": Case(lambda x: sc.triu(x, 1), lambda x: np.triu(x, 1)),
    "take": Case(lambda x: sc.take(x, ROWS, 1), lambda x: x[:, ROWS]),
    "gather": Case(lambda x: sc.gather(x, CELLS, 1), lambda x: np.take_along_axis(x, CELLS, 1)),
    "index_add": _placed("index_add"),
    "scatter_add": _placed("scatter_add"),
    "index_add mixed": Case(
        lambda x: sc.index_add(x, ROWS, np.ones((3, 3, 5), np.float32), 1),
        lambda x: x + np.array([1, 0, 1, 1]).reshape(1, 4, 1),
    ),
    "one_hot": Case(
        lambda x: sc.one_hot(ROWS, 3, dtype=x.dtype),
        lambda x: np.eye(3)[[2, 2, 0]] * [[1], [0], [1]],
    ),
    "full": Case(
        lambda x: sc.full((3, 4), 1 - 2j, dtype=x.dtype), lambda x: np.full((3, 4), 1 - 2j)
    ),
    "full of zeros": Case(lambda x: sc.zeros((3, 5), x.dtype), lambda x: np.zeros((3, 5))),
    "eye": Case(lambda x: sc.eye(3, 5, k=1, dtype=x.dtype), lambda x: np.eye(3, 5, k=1)),
    "matmul": Case(lambda x: x @ x.permute_dims((0, 2, 1)), lambda x: x @ x.transpose(0, 2, 1)),
    "matmul by reals": Case(lambda x: x @ REAL, lambda x: x @ REAL),
}
