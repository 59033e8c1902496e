"""What each named-axis operation allows its labels, and layouts that overlap themselves."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from softcuda.contraction.equation import equation_of
from softcuda.contraction.layout import overlaps_itself
from softcuda.contraction.rules import (
    check_addend,
    check_keeps_labels,
    check_known_output,
    check_permutation,
)
from softcuda.errors import ArgumentError

# ---- rules of the operations ---------------------------------------------------------------------


def test_an_added_operand_has_output_labels_only() -> None:
    check_addend(equation_of(["ik", "kj", "i"], "ij"), 2)
    with pytest.raises(
        ArgumentError,
        match="label k of operand 2, which is added, is not in the "
        "output; allowed are output labels: i and j",
    ) as caught:
        check_addend(equation_of(["ik", "kj", "ik"], "ij"), 2)
    assert str(caught.value).endswith("\n    ik,kj,ik->ij\n" + " " * 11 + "^")


def test_what_does_not_sum_keeps_its_labels() -> None:
    check_keeps_labels(equation_of(["ij", "j"], "ji"), "an elementwise operation")
    with pytest.raises(
        ArgumentError,
        match="an elementwise operation may not discard a label, and "
        "j of operand 1 is not in the output",
    ):
        check_keeps_labels(equation_of(["i", "ij"], "i"), "an elementwise operation")


def test_a_permutation_has_each_label_once() -> None:
    check_permutation(equation_of(["ijk"], "kij"))
    with pytest.raises(ArgumentError, match="takes no diagonal, and label i is repeated"):
        check_permutation(equation_of(["iji"], "ij"))
    with pytest.raises(ArgumentError, match="may not discard a label, and j of operand 0"):
        check_permutation(equation_of(["ij"], "i"))
    with pytest.raises(
        ArgumentError, match="makes no new axis: output label x is in no input; allowed are i and j"
    ):
        check_permutation(equation_of(["ij"], "ixj"))


def test_new_axes_where_they_are_not_allowed() -> None:
    check_known_output(equation_of(["i", "j"], "ij"), "a sum")
    with pytest.raises(ArgumentError, match="a sum makes no new axis: output label 5"):
        check_known_output(equation_of([[3]], [3, 5]), "a sum")


# ---- layouts that overlap themselves -------------------------------------------------------------


@pytest.mark.parametrize(
    ("extents", "strides", "overlaps"),
    [
        ((2, 3), (3, 1), False),
        ((2, 3), (1, 2), False),
        ((2, 3), (4, 1), False),
        ((1, 3), (0, 1), False),
        ((0, 3), (0, 0), False),
        ((), (), False),
        ((2, 3), (0, 1), True),
        ((2, 2), (1, 1), True),
        ((2, 3), (2, 1), True),
        ((2, 3), (3, 2), False),
        ((3, 2), (2, 3), False),
        ((2, 3), (-3, 1), False),
        ((2, 3), (-2, 1), True),
        ((1, 10**6), (0, 0), True),
        ((10**6, 10**6, 10**6), (10**12, 10**6, 1), False),
        ((10**6, 10**6, 10**6), (10**12, 10**6 - 1, 1), True),
        ((10**9, 10**9), (3, 2), True),
        ((10**9, 10**9), (10**9 + 1, 10**9), False),
        ((10**9, 10**9 + 2), (10**9 + 1, 10**9 - 1), True),
    ],
)
def test_overlaps(extents: tuple[int, ...], strides: tuple[int, ...], overlaps: bool) -> None:
    assert overlaps_itself(extents, strides) is overlaps


def test_overlaps_are_exact() -> None:
    rng = np.random.default_rng(5)
    seen = set()
    for _ in range(500):
        extents = tuple(int(n) for n in rng.integers(1, 5, rng.integers(1, 5)))
        strides = tuple(int(s) for s in rng.integers(-12, 13, len(extents)))
        offsets = [
            sum(i * s for i, s in zip(index, strides, strict=True))
            for index in itertools.product(*map(range, extents))
        ]
        expected = len(set(offsets)) < len(offsets)
        assert overlaps_itself(extents, strides) is expected, (extents, strides)
        seen.add(expected)
    assert seen == {True, False}


def test_rank_64_is_decided_at_once() -> None:
    dense = [2**k for k in range(63, -1, -1)]
    assert not overlaps_itself([2] * 64, dense)
    assert overlaps_itself([2] * 64, [*dense[:-1], 2])
