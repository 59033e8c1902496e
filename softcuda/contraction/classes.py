"""The classes of labels in a pairwise contraction: batch, m, n, k, and private ones."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from softcuda.contraction.axes import Axes, FusedAxes, fuse_axes

__all__ = [
    "Classes",
    "StepKind",
    "classify",
    "classify_fused",
    "kind_of_pair",
    "kind_of_single",
]

Labels = tuple[int, ...]


class Classes(NamedTuple):
    """Where each label of D[out] = sum A[a] * B[b] occurs.

    Attributes:
        batch: in a, b and out.
        m: in a and out.
        n: in b and out.
        k: in a and b, summed.
        private_a: in a alone, summed.
        private_b: in b alone, summed.
    """

    batch: Labels
    m: Labels
    n: Labels
    k: Labels
    private_a: Labels
    private_b: Labels


def classify(a: Labels, b: Labels, out: Labels) -> Classes:
    """Return the classes of a pair's labels; batch, m and n in the order of out, k of a.

    Example:
        >>> classify((0, 1, 2), (0, 2, 3), (0, 1, 3))
        Classes(batch=(0,), m=(1,), n=(3,), k=(2,), private_a=(), private_b=())
    """
    in_a, in_b, in_out = set(a), set(b), set(out)
    return Classes(
        batch=tuple(x for x in out if x in in_a and x in in_b),
        m=tuple(x for x in out if x in in_a and x not in in_b),
        n=tuple(x for x in out if x in in_b and x not in in_a),
        k=tuple(dict.fromkeys(x for x in a if x in in_b and x not in in_out)),
        private_a=tuple(dict.fromkeys(x for x in a if x not in in_b and x not in in_out)),
        private_b=tuple(dict.fromkeys(x for x in b if x not in in_a and x not in in_out)),
    )


class StepKind(Enum):
    """What one or two operands become a result by; a batched kind repeats it over batch labels."""

    COPY = "copy"
    PERMUTE = "permute"
    REDUCE = "reduce"
    SCALE = "scale"
    HADAMARD = "hadamard"
    OUTER = "outer"
    BATCHED_OUTER = "batched outer"
    DOT = "dot"
    BATCHED_DOT = "batched dot"
    GEMV = "gemv"
    BATCHED_GEMV = "batched gemv"
    GEMM = "gemm"
    BATCHED_GEMM = "batched gemm"
    GENERAL = "general"

    def __str__(self) -> str:
        return self.value


_SUMMED = {
    (0, False): StepKind.DOT,
    (0, True): StepKind.BATCHED_DOT,
    (1, False): StepKind.GEMV,
    (1, True): StepKind.BATCHED_GEMV,
    (2, False): StepKind.GEMM,
    (2, True): StepKind.BATCHED_GEMM,
}


def kind_of_single(source: Axes, out: Axes) -> StepKind:
    """Return what makes the result of one operand; axes of extent 1 do not count.

    Example:
        >>> kind_of_single(Axes.dense((0, 1), (2, 3)), Axes.dense((1, 0), (3, 2))).value
        'permute'
    """
    source, out = fuse_axes([source, out]).operands
    if set(source.labels) - set(out.labels):
        return StepKind.REDUCE
    return StepKind.COPY if source.labels == out.labels else StepKind.PERMUTE


def kind_of_pair(a: Axes, b: Axes, out: Axes) -> StepKind:
    """Return what a pair without private labels is, once jointly contiguous labels are fused.

    A sum is a product of matrices or vectors when m, n and k are at most one axis each, and
    general when not. Without a sum the layout does not matter.

    Example:
        >>> a, b = Axes.dense((0, 1, 2), (2, 3, 4)), Axes.dense((2, 3), (4, 5))
        >>> kind_of_pair(a, b, Axes.dense((0, 1, 3), (2, 3, 5))).value
        'gemm'
        >>> kind_of_pair(a, b, Axes.dense((1, 3, 0), (3, 5, 2))).value
        'general'
    """
    c = classify_fused(fuse_axes([a, b, out]))
    is_batched = bool(c.batch)
    if c.k:
        if max(len(c.m), len(c.n), len(c.k)) > 1:
            return StepKind.GENERAL
        return _SUMMED[len(c.m) + len(c.n), is_batched]
    if c.m and c.n:
        return StepKind.BATCHED_OUTER if is_batched else StepKind.OUTER
    if is_batched:
        return StepKind.BATCHED_OUTER if c.m or c.n else StepKind.HADAMARD
    return StepKind.SCALE


def classify_fused(fused: FusedAxes) -> Classes:
    """Return the classes of the axes of a, b and out after fusion.

    Example:
        >>> a, b = Axes.dense((0, 1), (2, 3)), Axes.dense((1, 2), (3, 4))
        >>> classify_fused(fuse_axes([a, b, Axes.dense((0, 2), (2, 4))])).k
        (1,)
    """
    a, b, out = fused.operands
    return classify(a.labels, b.labels, out.labels)
