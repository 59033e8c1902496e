"""Views of operands, fusion of jointly contiguous labels, and what a pair is recognised as."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from softcuda.contraction.axes import Axes, FusedAxes, fuse_axes
from softcuda.contraction.classes import (
    StepKind,
    classify_fused,
    kind_of_pair,
    kind_of_single,
)
from softcuda.contraction.operands import OperandView, view_of

EXTENTS = dict(zip("abcdefgh", (2, 3, 4, 5, 6, 7, 8, 9), strict=True))


def dense(labels: str, **extents: int) -> Axes:
    sizes = tuple(extents.get(x, EXTENTS[x]) for x in labels)
    return Axes.dense(tuple(map(ord, labels)), sizes)


def groups(fused: FusedAxes) -> set[str]:
    return {"".join(map(chr, group)) for group in fused.groups}


# ---- views -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "dims", "kept", "axes"),
    [
        ("iij", (2, 2, 3), "ij", ((0, 1), (2,))),
        ("iji", (2, 3, 2), "ij", ((0, 2), (1,))),
        ("iii", (2, 2, 2), "i", ((0, 1, 2),)),
        ("ijk", (1, 3, 1), "j", ((1,),)),
        ("ii", (1, 1), "", ()),
        ("ij", (0, 1), "i", ((0,),)),
        ("", (), "", ()),
    ],
)
def test_a_view_has_each_label_once(
    labels: str, dims: tuple[int, ...], kept: str, axes: tuple[tuple[int, ...], ...]
) -> None:
    view = view_of(tuple(map(ord, labels)), dims)
    assert view == OperandView(tuple(map(ord, kept)), axes)


def test_a_view_walks_the_diagonal() -> None:
    view = view_of((4, 9, 4, 7), (3, 2, 3, 1))
    assert view.axes_of((3, 2, 3, 1), (-6, 1, 2, 99)) == Axes((4, 9), (3, 2), (-4, 1))


# ---- fusion ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operands", "expected"),
    [
        (["abcd", "cdef", "abef"], {"ab", "cd", "ef"}),
        (["abcd", "dcef", "abef"], {"ab", "c", "d", "ef"}),
        (["abcd", "cdef", "efab"], {"ab", "cd", "ef"}),
        (["abcd", "cdef", "aebf"], {"a", "b", "cd", "e", "f"}),
        (["abcd", "abcd", "abcd"], {"abcd"}),
        (["habc", "hcde", "habde"], {"h", "ab", "c", "de"}),
        (["ghab", "ghbc", "ghac"], {"gh", "a", "b", "c"}),
        (["abc"], {"abc"}),
        (["", "ab", "ab"], {"ab"}),
    ],
)
def test_labels_that_lie_together_everywhere_are_one_axis(
    operands: list[str], expected: set[str]
) -> None:
    fused = fuse_axes([dense(labels) for labels in operands])
    assert groups(fused) == expected
    for labels, axes in zip(operands, fused.operands, strict=True):
        assert axes.numel == dense(labels).numel


def test_an_axis_of_extent_1_does_not_part_others() -> None:
    strided = Axes((1, 2, 3), (4, 1, 5), (5, 77, 1))
    fused = fuse_axes([strided, Axes((2, 1, 3), (6, 4, 5), (20, 5, 1))])
    assert fused.groups == ((1, 3), (2,))
    assert fused.operands[0] == Axes((3,), (20,), (1,))


def test_a_step_between_elements_fuses_and_padding_does_not() -> None:
    assert fuse_axes([Axes((0, 1), (3, 4), (8, 2))]).groups == ((0, 1),)
    assert fuse_axes([Axes((0, 1), (3, 4), (-8, -2))]).operands[0] == Axes((1,), (12,), (-2,))
    assert fuse_axes([Axes((0, 1), (3, 4), (5, 1))]).groups == ((0,), (1,))


def test_stride_0_fuses_with_stride_0() -> None:
    fused = fuse_axes([Axes((0, 1, 2), (3, 4, 5), (0, 0, 1)), Axes((0, 1), (3, 4), (4, 1))])
    assert fused.groups == ((0, 1), (2,))
    alone = fuse_axes([Axes((0, 1, 2), (3, 4, 5), (0, 0, 0))])
    assert len(alone.groups) == 1 and sorted(alone.groups[0]) == [0, 1, 2]


def offsets(axes: Axes, index: dict[int, int]) -> int:
    return sum(
        stride * index[label] for label, stride in zip(axes.labels, axes.strides, strict=True)
    )


def test_fusion_keeps_the_joint_offsets_of_every_element() -> None:
    rng = np.random.default_rng(3)
    fewer = 0
    for _ in range(200):
        extents = {label: int(rng.integers(1, 4)) for label in range(5)}
        operands = [random_axes(rng, extents) for _ in range(3)]
        fused = fuse_axes(operands)
        fewer += len(fused.groups) < sum(extent > 1 for extent in extents.values())
        for group in fused.groups:
            held = [set(group) <= set(axes.labels) for axes in operands]
            assert held == [bool(set(group) & set(axes.labels)) for axes in operands]
        for values in itertools.product(*map(range, extents.values())):
            index = dict(zip(extents, values, strict=True))
            joint = {group[-1]: position(group, index, extents) for group in fused.groups}
            for before, after in zip(operands, fused.operands, strict=True):
                assert offsets(before, index) == offsets(after, joint)
    assert fewer > 20


def random_axes(rng: np.random.Generator, extents: dict[int, int]) -> Axes:
    """Return axes of some labels, mostly in the order 0, 1, ..., those of extent 1 at offset 0."""
    labels = [label for label in extents if rng.integers(4)]
    if not rng.integers(3):
        labels = [int(label) for label in rng.permutation(labels)]
    return Axes.dense(tuple(labels), tuple(extents[label] for label in labels))


def position(group: tuple[int, ...], index: dict[int, int], extents: dict[int, int]) -> int:
    place = 0
    for label in group:
        place = place * extents[label] + index[label]
    return place


def test_fused_axes_are_classified() -> None:
    classes = classify_fused(fuse_axes([dense("habcd"), dense("hcdef"), dense("habef")]))
    named = [tuple(map(chr, part)) for part in classes]
    assert named == [("h",), ("b",), ("f",), ("d",), (), ()]


# ---- kinds -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("ab,ab->ab", "hadamard"),
        ("ab,ba->ab", "hadamard"),
        (",ab->ab", "scale"),
        (",->", "scale"),
        ("a,b->ab", "outer"),
        ("ac,bd->abcd", "outer"),
        ("ab,b->ab", "batched outer"),
        ("ab,bc->abc", "batched outer"),
        ("a,a->", "dot"),
        ("abc,abc->", "dot"),
        ("abc,cab->", "general"),
        ("habc,habc->h", "batched dot"),
        ("ab,b->a", "gemv"),
        ("b,ab->a", "gemv"),
        ("hab,hb->ha", "batched gemv"),
        ("ab,bc->ac", "gemm"),
        ("ba,cb->ca", "gemm"),
        ("abcd,cdef->abef", "gemm"),
        ("abcd,cdef->efab", "gemm"),
        ("abcd,cdef->aebf", "general"),
        ("hab,hbc->hac", "batched gemm"),
        ("abh,hbc->cha", "batched gemm"),
        ("ghab,hgbc->ghac", "batched gemm"),
    ],
)
def test_pairs_are_recognised(expression: str, kind: str) -> None:
    left, _, out = expression.partition("->")
    a, b = left.split(",")
    assert str(kind_of_pair(dense(a), dense(b), dense(out))) == kind


@pytest.mark.parametrize(
    ("expression", "extents", "kind"),
    [
        ("ab,bc->ac", {"b": 1}, "outer"),
        ("ab,bc->ac", {"a": 1}, "gemv"),
        ("ab,bc->ac", {"a": 1, "c": 1}, "dot"),
        ("hab,hbc->hac", {"h": 1}, "gemm"),
        ("ab,bc->ac", {"a": 1, "b": 1, "c": 1}, "scale"),
        ("abcd,cdef->aebf", {"a": 1, "f": 1}, "gemm"),
    ],
)
def test_extents_of_1_do_not_count(expression: str, extents: dict[str, int], kind: str) -> None:
    left, _, out = expression.partition("->")
    a, b = left.split(",")
    pair = [dense(labels, **extents) for labels in (a, b, out)]
    assert str(kind_of_pair(*pair)) == kind


def test_strides_decide_whether_a_pair_is_a_product_of_matrices() -> None:
    a, b, out = dense("abc"), dense("cd"), dense("abd")
    assert kind_of_pair(a, b, out) is StepKind.GEMM
    padded = a._replace(strides=(100, 8, 1))
    assert kind_of_pair(padded, b, out) is StepKind.GENERAL


@pytest.mark.parametrize(
    ("labels", "out", "extents", "kind"),
    [
        ("abc", "abc", {}, StepKind.COPY),
        ("", "", {}, StepKind.COPY),
        ("ab", "ba", {"a": 1}, StepKind.COPY),
        ("abc", "acb", {}, StepKind.PERMUTE),
        ("abc", "ca", {}, StepKind.REDUCE),
        ("abc", "ca", {"b": 1}, StepKind.PERMUTE),
    ],
)
def test_single_operands_are_recognised(
    labels: str, out: str, extents: dict[str, Any], kind: StepKind
) -> None:
    assert kind_of_single(dense(labels, **extents), dense(out, **extents)) is kind
