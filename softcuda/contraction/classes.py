"""The classes of labels in a pairwise contraction: batch, m, n, k, and private ones."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Classes", "classify"]

Labels = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Classes:
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
