"""Labels of matmul, dot and outer: all three are the one contraction op."""

from __future__ import annotations

from functools import lru_cache

from softcuda.errors import ShapeError
from softcuda.graph.params import Contraction, Dims
from softcuda.graph.shapes import check_dims

__all__ = ["OUTER", "dot_labels", "matmul_labels"]

_K, _M, _N, _FREE = 0, 1, 2, 3

OUTER = Contraction((_M,), (_N,), (_M, _N))


def matmul_labels(a: Dims, b: Dims) -> Contraction:
    """Return the labels under which extents `a` and `b` are multiplied as matrices.

    The last axis of a meets the second last, or only, axis of b; the axes before them broadcast.

    Raises:
        ShapeError: an operand has rank 0, or the two extents of k differ.
    """
    if not a or not b:
        raise ShapeError(
            f"matmul: shapes {list(a)} and {list(b)}; operands need at least one axis; "
            "use multiply for a number"
        )
    _check_k("matmul", a, b)
    return _matmul_of_ranks(len(a), len(b))


@lru_cache(maxsize=256)
def _matmul_of_ranks(a: int, b: int) -> Contraction:
    batch_a, batch_b = max(a - 2, 0), max(b - 2, 0)
    batch = tuple(range(_FREE, _FREE + max(batch_a, batch_b)))
    m = (_M,) if a > 1 else ()
    n = (_N,) if b > 1 else ()
    return Contraction(
        (*batch[len(batch) - batch_a :], *m, _K),
        (*batch[len(batch) - batch_b :], _K, *n),
        batch + m + n,
    )


def dot_labels(a: Dims, b: Dims) -> Contraction:
    """Return the labels of NumPy's dot of two tensors of rank 1 and above.

    Raises:
        ShapeError: the last extent of a is not the second last, or only, extent of b, or the
            result has more than 64 axes.
    """
    _check_k("dot", a, b)
    rest_a, rest_b = len(a) - 1, max(len(b) - 2, 0)
    free_a = tuple(range(_FREE, _FREE + rest_a))
    free_b = tuple(range(_FREE + rest_a, _FREE + rest_a + rest_b))
    n = (_N,) if len(b) > 1 else ()
    check_dims("dot", a[:-1] + b[:-2] + b[len(b) - len(n) :])
    return Contraction((*free_a, _K), (*free_b, _K, *n), free_a + free_b + n)


def _check_k(what: str, a: Dims, b: Dims) -> None:
    axis = max(len(b) - 2, 0)
    if a[-1] != b[axis]:
        raise ShapeError(
            f"{what}: shapes {list(a)} and {list(b)} do not fit: extent {a[-1]} of axis "
            f"{len(a) - 1} of operand 0 meets extent {b[axis]} of axis {axis} of operand 1; both "
            "must be equal; transpose or reshape an operand"
        )
