"""Faults that were reported of libraries that do the same job: an input, and the right values.

Each function takes what makes a leaf of an array, with the array's strides, and returns pairs of
a tensor and what it must be, exactly. Values come by a rule that f16 and bf16 hold exactly:
pattern(n, s) = (((7 n + 3 s) mod 11) - 5) / 4, n the row-major number of an element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gemm_units import labels_of

import softcuda as sc
from softcuda.dtype import REAL_DTYPES, f64
from softcuda.graph.op import OPS

Array = np.ndarray[Any, Any]
Leaf = Callable[[Array], sc.Tensor]
Pairs = list[tuple[sc.Tensor, Array]]


def pattern(shape: tuple[int, ...], seed: int, dtype: Any = np.float64) -> Array:
    """Return an array of the rule above."""
    numbers = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
    return np.asarray(((7 * numbers + 3 * seed) % 11 - 5) / 4).astype(dtype)


def contraction(equation: str, a: sc.Tensor, b: sc.Tensor) -> sc.Tensor:
    """Return the contraction of two tensors by its labels."""
    return a.apply(OPS["matmul"], (a, b), labels_of(equation))


# More outputs than a grid has blocks


def sums_of_short_inner_axes(leaf: Leaf) -> Pairs:
    """chainer-1494: (69, 64, 2, 947) summed over axis 2 was wrong, (68, ...) right."""
    pairs = []
    for count in (69, 68):
        x = pattern((count, 64, 2, 947), 0, np.float32)
        right = x[:, :, 0] + x[:, :, 1]
        if count == 69:
            assert right.size == 4_181_952
            assert [right[0, 0, 0], right[68, 63, 946], right[34, 17, 500]] == [-0.75, -0.25, 0.75]
        pairs.append((sc.sum(leaf(x), axis=2), right))
    return pairs


# Views in one position


def reversed_operands(leaf: Leaf) -> Pairs:
    """cupy-10303: negative strides of one operand alone gave silently wrong results."""
    a, b = pattern((5,), 0), pattern((5, 3), 1)
    both, rows, columns = b[::-1, ::-1], b[::-1], b[:, ::-1]
    turned = [1.25, -1.25, -1, -0.75, -0.5, 0.25, 0.5, 0.75, 1, 1.25, -0.75, -0.5, -0.25, 0, 0.25]
    product = "i,ij->j"
    return [
        (contraction(product, leaf(a[::-1]), leaf(columns)), np.array([0.875, 1.125, -2.75])),
        (contraction(product, leaf(a), leaf(rows)), a @ rows.copy()),
        (contraction(product, leaf(a[::-1]), leaf(b)), a[::-1].copy() @ b),
        (sc.sum(leaf(both), axis=0), np.array([-1.25, 3.75, -2.25])),
        (sc.max(leaf(rows), axis=1), np.array([1.25, 0.5, 0.75, 1, 1.25])),
        (sc.copy(sc.permute_dims(leaf(rows), (1, 0))), np.reshape(turned, (3, 5))),
    ]


def sliding_windows(leaf: Leaf) -> Pairs:
    """pytorch-42418: windows that overlap had no leading dimension that BLAS takes."""
    base = np.array([[1.0, 2, 3], [4, 5, 6]])
    windows = np.lib.stride_tricks.as_strided(base, (2, 2, 2), (24, 8, 8))
    right = np.array([[[5, 8], [8, 13]], [[41, 50], [50, 61]]], np.float64)
    x = leaf(windows)
    single = leaf(np.lib.stride_tricks.as_strided(base, (2, 2, 2), (24, 8, 8)))
    return [
        (x @ x, right),
        (x @ leaf(windows.copy()), right),
        (leaf(windows.copy()) @ single, right),
    ]


def converted_between_gaps(leaf: Leaf) -> Pairs:
    """numpy-5907: a result that is converted as it is written goes to its places, not between.

    Results are dense here; the nearest to a strided one is a stack, which writes its operands
    between each other.
    """
    ones = leaf(np.ones((2, 2), np.float32))
    wide = sc.cast(ones @ ones, f64)
    gaps = sc.stack([wide, sc.zeros((2, 2), f64)], axis=2)
    right = np.reshape([2.0, 0.0] * 4, (2, 2, 2))
    return [(gaps, right), (gaps[:, :, 0], np.full((2, 2), 2.0)), (gaps[:, :, 1], np.zeros((2, 2)))]


# Numbers as arguments of kernels


def numbers_of_every_type(leaf: Leaf) -> Pairs:
    """cupy-8485: a number is packed as the kernel's argument is declared, whatever Python has."""
    pairs: Pairs = []
    for dtype in REAL_DTYPES.values():
        if dtype.is_bool:
            continue
        values = pattern((5,), 0) + 1.5 if dtype.is_float else np.arange(-2, 3)
        x = np.asarray(values).astype(dtype.numpy)
        right = (values * 5).astype(dtype.numpy)
        numbers: list[Any] = [5, np.int64(5), np.int32(5), np.uint8(5)]
        if dtype.is_float:
            numbers += [5.0, np.float64(5.0), np.float32(5.0), np.float16(5.0)]
        pairs += [(leaf(x) * number, right) for number in numbers]
        pairs += [(number * leaf(x), right) for number in numbers]
    return pairs


REPORTS: tuple[Callable[[Leaf], Pairs], ...] = (
    sums_of_short_inner_axes,
    reversed_operands,
    sliding_windows,
    converted_between_gaps,
    numbers_of_every_type,
)

# cupy-7812: the same descriptors under other labels are another contraction.
LABELS = ("ijkl,ik->jl", "ijkl,jl->ik", "ijkl,ik->jl", "ijkl,kj->li", "ijkl,ik->lj")


def repeated() -> list[sc.Tensor]:
    """Return what must have the same bits in every run (cupy-8350)."""
    cents = sc.tensor(np.full(250_000, 0.01))
    numbers = sc.tensor(pattern((1_000_003,), 0, np.float32) * np.float32(1.1))
    a, b = (
        sc.tensor(pattern(dims, 1, np.float32) * np.float32(1.1))
        for dims in ((70, 3001), (3001, 50))
    )
    reductions = (sc.sum, sc.mean, sc.max)
    return [*(f(x) for x in (cents, numbers) for f in reductions), a @ b]
