"""Products of vectors and matrices: one contraction op, three ways to name its axes."""

from __future__ import annotations

from softcuda.functions.operands import TensorLike, as_tensor, as_tensors
from softcuda.graph.op import OPS
from softcuda.tensor import Tensor
from softcuda.tensor.contractions import OUTER

__all__ = ["dot", "matmul", "outer"]


def matmul(a: TensorLike, b: TensorLike) -> Tensor:
    """Return C[.., m, n] = sum over k of A[.., m, k] * B[.., k, n].

    A vector counts as a row on the left and as a column on the right, and its axis is dropped
    from the result; the axes before the last two broadcast. 16-bit floats accumulate in f32;
    integers wrap.

    Args:
        a: [.., m, k] or [k], any dtype.
        b: [.., k, n] or [k], any dtype.

    Returns:
        [broadcast axes, m, n], of the common dtype.

    Raises:
        ShapeError: an operand has rank 0, the extents of k differ, or the others do not broadcast.
        DTypeError: both operands are bool.
    """
    return as_tensor("matmul", a).matmul(b)


def dot(a: TensorLike, b: TensorLike) -> Tensor:
    """Return the sum of products over the last axis of a and the second last, or only, of b.

    C[i.., j.., n] = sum over k of A[i.., k] * B[j.., k, n]. Two vectors give their inner product;
    where an operand has rank 0 the result is multiply(a, b).

    Args:
        a: [i.., k] or [], any dtype.
        b: [j.., k, n], [k] or [], any dtype.

    Returns:
        [i.., j.., n], of the common dtype.

    Raises:
        ShapeError: the extents of k differ.
        DTypeError: both operands are bool.
    """
    x, y = as_tensors("dot", a, b)
    return x.dot(y)


def outer(a: TensorLike, b: TensorLike) -> Tensor:
    """Return C[m, n] = a[m] * b[n] of the elements of two tensors in row-major order.

    Args:
        a: [any shape], any dtype.
        b: [any shape], any dtype.

    Returns:
        [elements of a, elements of b], of the common dtype.

    Raises:
        DTypeError: both operands are bool.
    """
    x, y = as_tensor("outer", a), as_tensor("outer", b)
    pair = (x.reshape((x.size,)), y.reshape((y.size,)))
    return x.apply(OPS["matmul"], pair, OUTER)
