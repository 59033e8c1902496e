"""Axes of a strided loop: broadcast, fused where jointly contiguous, packed for a kernel.

Every operand of a loop is a set of strides over one set of extents; the dense result is one of
them. Two neighbouring axes become one where that is possible for all sets at once.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from softcuda.errors import ShapeError
from softcuda.graph.params import Dims
from softcuda.graph.shapes import contiguous_strides, numel
from softcuda.kernelspec import fast_divisor

__all__ = [
    "MAX_INDEX",
    "RANKS",
    "Axes",
    "broadcast_strides",
    "fuse_axes",
    "needs_wide_index",
    "pack_axes",
    "padded_rank",
]

RANKS: Final = (1, 2, 3, 4, 6, 8, 16, 64)
MAX_INDEX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Axes:
    """A loop over `dims`, outermost axis first, with the strides [elements] of every operand."""

    dims: Dims
    strides: tuple[Dims, ...]

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.dims)

    @property
    def numel(self) -> int:
        """The number of iterations."""
        return numel(self.dims)

    @property
    def inner_strides(self) -> Dims:
        """Each operand's stride along the innermost axis; 0 where there is no axis."""
        return tuple(s[-1] if s else 0 for s in self.strides)

    def is_dense(self, operand: int) -> bool:
        """Return whether the operand lies as a dense row-major result does."""
        return self.strides[operand] == contiguous_strides(self.dims)

    def is_reused(self, operand: int) -> bool:
        """Return whether elements of the operand are read more than once."""
        return 0 in self.strides[operand]

    def is_single(self, operand: int) -> bool:
        """Return whether the operand is one value for all iterations."""
        return not any(self.strides[operand])


def broadcast_strides(dims: Dims, strides: Dims, target: Dims) -> Dims:
    """Return strides by which an operand of `dims` is read as if it had the extents `target`.

    Raises:
        ShapeError: `dims` does not broadcast to `target`.

    Example:
        >>> broadcast_strides((3, 1), (1, 1), (2, 3, 4))
        (0, 1, 0)
    """
    missing = len(target) - len(dims)
    if missing < 0 or any(d not in (1, t) for d, t in zip(dims, target[missing:], strict=False)):
        raise ShapeError(f"an operand of extents {list(dims)} does not broadcast to {list(target)}")
    inner = target[missing:]
    return (0,) * missing + tuple(
        0 if d == 1 != t else s for d, s, t in zip(dims, strides, inner, strict=True)
    )


def fuse_axes(dims: Dims, strides: Sequence[Dims]) -> Axes:
    """Return the same loop with as few axes as possible, in the same order.

    Axes of extent 1 go; axes i and i+1 become one where strides[i] == dims[i+1] * strides[i+1]
    for every operand. A loop of one iteration has no axes left.

    Args:
        dims: extents, none of them 0.
        strides: one set for every operand, in elements, any sign.

    Example:
        >>> fuse_axes((2, 3, 4), [(12, 4, 1), (4, 0, 1)])
        Axes(dims=(2, 3, 4), strides=((12, 4, 1), (4, 0, 1)))
        >>> fuse_axes((2, 3, 4), [(12, 4, 1), (0, 0, 0)])
        Axes(dims=(24,), strides=((1,), (0,)))
    """
    if len(dims) == 1 and dims[0] != 1:
        return Axes(dims, tuple(strides))
    kept: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for axis, extent in enumerate(dims):
        if extent == 1:
            continue
        joins = bool(kept) and all(
            made[-1] == extent * given[axis] for made, given in zip(steps, strides, strict=True)
        )
        if joins:
            kept[-1] *= extent
        else:
            kept.append(extent)
        for made, given in zip(steps, strides, strict=True):
            if joins:
                made[-1] = given[axis]
            else:
                made.append(given[axis])
    return Axes(tuple(kept), tuple(tuple(made) for made in steps))


def needs_wide_index(axes: Axes, operands: Sequence[int] | None = None) -> bool:
    """Return whether the loop needs 64-bit numbers: for its count or for an operand's offset.

    A kernel may count up to one grid beyond the last iteration, hence the margin.

    Args:
        axes: the loop.
        operands: those whose offsets are computed; all where None.
    """
    if axes.numel > MAX_INDEX - 2**24:
        return True
    chosen = axes.strides if operands is None else [axes.strides[k] for k in operands]
    return any(
        sum((d - 1) * abs(s) for d, s in zip(axes.dims, strides, strict=True)) > MAX_INDEX
        for strides in chosen
    )


def padded_rank(rank: int) -> int:
    """Return the smallest rank that kernels are compiled for and that holds `rank` axes.

    Example:
        >>> padded_rank(0), padded_rank(5), padded_rank(64)
        (1, 6, 64)
    """
    return next(allowed for allowed in RANKS if rank <= allowed)


def pack_axes(axes: Axes, rank: int, operands: Sequence[int], wide: bool) -> bytes:
    """Return the bytes of `Axes<RANK, COUNT, INDEX>` of strided.cuh.

    The innermost axis comes first; axes of extent 1 are added outside up to `rank`.

    Args:
        axes: the loop, at most `rank` axes.
        rank: a member of RANKS.
        operands: the operands whose strides the kernel takes, in its order.
        wide: INDEX is i64; else i32, and `needs_wide_index` is false.
    """
    added = rank - axes.rank
    extents = (*reversed(axes.dims), *([1] * added))
    parts = [
        struct.pack("<q", extent) if wide else struct.pack("<3I", *fast_divisor(extent))
        for extent in extents
    ]
    code = "q" if wide else "i"
    for operand in operands:
        steps = (*reversed(axes.strides[operand]), *([0] * added))
        parts.append(struct.pack(f"<{rank}{code}", *steps))
    return b"".join(parts)
