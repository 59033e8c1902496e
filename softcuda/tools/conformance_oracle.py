"""An einsum that is slow, short and independent: every product over the joint index space, in f64.

Each operand is read at every index of the joint space of all labels, by one fancy index: a
repeated label then walks the diagonal, an extent of 1 stretches, a missing label broadcasts.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

__all__ = ["contract", "einsum", "labels_of", "magnitude"]

Array = np.ndarray[Any, Any]
Labels = Sequence[Hashable]


def einsum(expression: str, *operands: Any) -> Array:
    """Return the value of an expression in f64 (complex128 for complex operands)."""
    arrays = [_wide(operand) for operand in operands]
    return contract(*labels_of(expression, [array.ndim for array in arrays]), arrays)


def magnitude(expression: str, *operands: Any) -> Array:
    """Return what the absolute values of all products add up to: the scale of rounding errors."""
    return einsum(expression, *[np.abs(_wide(operand)) for operand in operands])


def contract(inputs: Sequence[Labels], output: Labels, operands: Sequence[Any]) -> Array:
    """Return sum over the labels that the output lacks of the product of all operands."""
    extents: dict[Hashable, int] = {}
    for labels, operand in zip(inputs, operands, strict=True):
        for label, extent in zip(labels, np.shape(operand), strict=True):
            extents[label] = extent if extents.get(label, 1) == 1 else extents[label]
    order = [*output, *(label for label in extents if label not in output)]
    space = tuple(extents[label] for label in order)
    product = np.ones(space)
    for labels, operand in zip(inputs, operands, strict=True):
        index = [
            _along(order.index(label), len(order), extent)
            for label, extent in zip(labels, np.shape(operand), strict=True)
        ]
        product = product * _wide(operand)[tuple(index)]
    return np.asarray(product.sum(axis=tuple(range(len(output), len(order)))))


def _along(axis: int, ndim: int, extent: int) -> Array:
    """Return 0, 1, ... along one axis of the joint space; for extent 1 the 0 that stretches."""
    shape = [1] * ndim
    shape[axis] = extent
    return np.arange(extent).reshape(shape)


def labels_of(expression: str, ranks: Sequence[int]) -> tuple[list[Labels], Labels]:
    """Return the labels of each operand and of the output; ellipsis axes are -1, -2, ..."""
    dense = "".join(expression.split())
    left, arrow, right = dense.partition("->")
    terms = left.split(",")
    depths = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True)]
    inputs = [_expanded(term, depth) for term, depth in zip(terms, depths, strict=True)]
    if arrow:
        return inputs, _expanded(right, max(depths))
    letters = left.replace("...", "").replace(",", "")
    once = sorted(letter for letter in letters if letters.count(letter) == 1)
    return inputs, [*range(-max(depths), 0), *once]


def _expanded(term: str, depth: int) -> Labels:
    before, dots, after = term.partition("...")
    return [*before, *(range(-depth, 0) if dots else ()), *after]


def _wide(operand: Any) -> Array:
    array = np.asarray(operand)
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
