"""How the operands of an elementwise loop lie, and how much of them a thread holds at once."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from softcuda.backends.cuda.axes import Axes, fuse_axes
from softcuda.backends.steps import Micro
from softcuda.dtype import DType

__all__ = ["Lies", "Tile", "dense_layouts", "fitted_tile", "in_vectors", "strided_layouts"]

VECTOR_BYTES: Final = 16

# What a thread may hold: vectors of operands in flight, bytes of them, plain instructions.
_VECTORS_IN_FLIGHT: Final = 4
_HELD_BYTES: Final = 256
_CODE: Final = 512

# Code of an op: 1 for plain ones, 8 for these, 24 for the others; twice that for 8-byte numbers.
_SHORT: Final = frozenset(("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "div", "reciprocal"))
_PLAIN: Final = frozenset(
    (
        *("neg", "abs", "sign", "square", "relu", "conj", "floor", "ceil", "round"),
        *("isnan", "isinf", "isfinite", "logical_not", "cast", "copy", "add", "sub", "mul"),
        *("minimum", "maximum", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or"),
        *("logical_xor", "where", "clip", "multiply_add"),
    )
)


class Lies(Enum):
    """How an operand lies against the loop; the names of the layouts of operands.cuh."""

    DENSE = "Dense"
    SINGLE = "Single"
    ROW = "Row"
    LEVEL = "Level"
    STRIDED = "Strided"

    @property
    def letter(self) -> str:
        """One letter for a kernel's variant: d s r l, and a for any strides."""
        return "a" if self is Lies.STRIDED else self.value[0].lower()

    @property
    def has_strides(self) -> bool:
        """True where the kernel takes strides for the operand."""
        return self not in (Lies.DENSE, Lies.SINGLE)


class Tile(NamedTuple):
    """Elements of a vector, and vectors that a thread loads of each operand before it computes."""

    width: int
    unroll: int


def dense_layouts(axes: Axes, count: int) -> tuple[Lies, ...]:
    """Return how the first `count` operands lie if all are dense or single values, else ()."""
    found = []
    for operand in range(count):
        if axes.is_single(operand):
            found.append(Lies.SINGLE)
        elif axes.is_dense(operand):
            found.append(Lies.DENSE)
        else:
            return ()
    return tuple(found)


def strided_layouts(axes: Axes, count: int, widest: int) -> tuple[tuple[Lies, ...], int]:
    """Return how the first `count` operands lie, and the width of vectors that they allow.

    Vectors lie along the innermost axis: it is a multiple of the width, and so are all other
    strides of an operand that moves by vectors.
    """
    found = []
    for operand, inner in enumerate(axes.inner_strides[:count]):
        if axes.is_single(operand):
            found.append(Lies.SINGLE)
        elif axes.is_dense(operand):
            found.append(Lies.DENSE)
        elif inner in (0, 1):
            found.append(Lies.ROW if inner else Lies.LEVEL)
        else:
            found.append(Lies.STRIDED)
    width = 1 if Lies.STRIDED in found else widest
    steps = [axes.dims[-1]]
    for operand, lies in enumerate(found):
        if lies is Lies.ROW:
            steps.extend(axes.strides[operand][:-1])
    while any(step % width for step in steps):
        width //= 2
    if width == 1:
        found = [Lies.STRIDED if lies.has_strides else lies for lies in found]
    return tuple(found), width


def in_vectors(axes: Axes, width: int) -> Axes:
    """Return the loop that counts vectors along the innermost axis; strides stay in elements."""
    if width == 1:
        return axes
    dims = (*axes.dims[:-1], axes.dims[-1] // width)
    return fuse_axes(dims, [(*s[:-1], s[-1] * width) for s in axes.strides])


def fitted_tile(chain: Sequence[Micro], moved: Sequence[DType]) -> Tile:
    """Return a tile with enough bytes in flight, within registers and code.

    Args:
        chain: the ops of one element.
        moved: dtypes of the operands that are not single values.
    """
    sizes = [dtype.itemsize for dtype in moved]
    code = _code(chain)

    def fits(elements: int) -> bool:
        return code * elements <= _CODE and sum(sizes) * elements <= _HELD_BYTES

    width = VECTOR_BYTES // max((*sizes, chain[-1].dtype.itemsize))
    while width > 1 and not fits(width):
        width //= 2
    unroll = 1
    while unroll * max(len(sizes), 1) < _VECTORS_IN_FLIGHT and fits(width * unroll * 2):
        unroll *= 2
    return Tile(width, unroll)


def _code(chain: Sequence[Micro]) -> int:
    total = 0
    for micro in chain:
        name = micro.op.name
        heavy = 1 if name in _PLAIN else 8 if name in _SHORT else 24
        total += heavy * (2 if micro.dtype.itemsize == 8 else 1)
    return total
