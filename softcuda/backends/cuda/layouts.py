"""How the operands of an elementwise loop lie, and how much of them a thread holds at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Final, NamedTuple

from softcuda.backends.cuda.axes import Axes
from softcuda.backends.launches import Argument
from softcuda.backends.steps import Micro
from softcuda.dtype import DType
from softcuda.graph.lines import Line
from softcuda.graph.params import Dims

__all__ = [
    "ChainInput",
    "Lies",
    "Strided",
    "Tile",
    "code_of",
    "dense_layouts",
    "fits_code",
    "fitted_tile",
    "strided_layouts",
    "work_bytes",
]

VECTOR_BYTES: Final = 16

# What a thread may hold: vectors of operands in flight, bytes of them, plain instructions.
_VECTORS_IN_FLIGHT: Final = 2  # measured on an H200: benchmarks/sweeps/elementwise.py
_MOST_UNROLLED: Final = 4
_LEAST_VECTOR_BYTES: Final = 8  # a vector below it costs more than lanes of operands with strides
_HELD_BYTES: Final = 256
_CODE: Final = 512
_WORK_NUMBERS: Final = 8  # of its own that a function holds

# Code of an op: 1 for plain ones, 8 for these, 24 for the others; twice that for 8-byte numbers,
# 16 times for complex ones, whose functions are computed in f64.
_SHORT: Final = frozenset(("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "div", "reciprocal"))
_PLAIN: Final = frozenset(
    (
        *("neg", "abs", "sign", "square", "relu", "conj", "real", "imag"),
        *("floor", "ceil", "round"),
        *("isnan", "isinf", "isfinite", "logical_not", "cast", "copy", "add", "sub", "mul"),
        *("minimum", "maximum", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or"),
        *("logical_xor", "where", "clip", "multiply_add"),
    )
)


class ChainInput(NamedTuple):
    """An operand of a launch.

    Attributes:
        argument: the pointer to its first element.
        dtype: of its elements.
        strides: over the extents of the result [elements].
        offset: of the first element in its buffer, for its alignment [elements].
        is_kept: it is a value inside the chain, and written.
    """

    argument: Argument
    dtype: DType
    strides: Dims
    offset: int = 0
    is_kept: bool = False


class Lies(Enum):
    """How an operand lies against the loop; the names of the layouts of operands.cuh."""

    DENSE = "Dense"
    SINGLE = "Single"
    ROW = "Row"
    LEVEL = "Level"
    STRIDED = "Strided"
    KEPT = "Kept"

    @property
    def letter(self) -> str:
        """One letter for a kernel's variant: d s r l k, and a for any strides."""
        return "a" if self is Lies.STRIDED else self.value[0].lower()

    @property
    def has_strides(self) -> bool:
        """True where the kernel takes strides for the operand."""
        return self not in (Lies.DENSE, Lies.SINGLE, Lies.KEPT)


class Tile(NamedTuple):
    """Elements of a vector, and vectors that a thread loads of each operand before it computes."""

    width: int
    unroll: int

    def narrowed(self, width: int) -> Tile:
        """Return the tile for narrower vectors, with about as many bytes in flight."""
        more = max(_MOST_UNROLLED // self.unroll, 1)
        return Tile(width, self.unroll * min(self.width // width, more))


class Strided(NamedTuple):
    """How a loop with strides is walked.

    Attributes:
        layouts: how each operand lies.
        width: elements of a vector.
        wraps: vectors go on in the next row of the innermost axis, which they do not divide.
    """

    layouts: tuple[Lies, ...]
    width: int
    wraps: bool


def dense_layouts(axes: Axes, inputs: Sequence[ChainInput]) -> tuple[Lies, ...]:
    """Return how the operands lie if all are dense or single values, else ()."""
    found = []
    for operand, given in enumerate(inputs):
        if given.is_kept:
            found.append(Lies.KEPT)
        elif axes.is_single(operand):
            found.append(Lies.SINGLE)
        elif axes.is_dense(operand):
            found.append(Lies.DENSE)
        else:
            return ()
    return tuple(found)


def strided_layouts(axes: Axes, inputs: Sequence[ChainInput], widest: int) -> Strided:
    """Return how operands lie and which vectors they allow.

    The result and dense operands are moved by vectors always; an operand with strides is so where
    the vectors divide the innermost axis and all its other strides, else it is read lane by lane.

    Args:
        axes: the loop; the operands come first.
        inputs: the operands.
        widest: elements of a vector, a power of two.
    """
    inner = axes.dims[-1]
    whole = next(w for w in _halves(widest) if inner % w == 0)
    itemsize = max(x.dtype.itemsize for x in inputs)
    wraps = whole < widest and whole * itemsize < _LEAST_VECTOR_BYTES
    width = next(w for w in _halves(widest) if w <= inner) if wraps else whole
    found = []
    for operand, given in enumerate(inputs):
        step, *others = axes.strides[operand][::-1]
        if given.is_kept:
            found.append(Lies.KEPT)
        elif axes.is_single(operand):
            found.append(Lies.SINGLE)
        elif axes.is_dense(operand):
            found.append(Lies.DENSE)
        elif wraps or width == 1 or step not in (0, 1):
            found.append(Lies.STRIDED)
        elif step == 0:
            found.append(Lies.LEVEL)
        else:
            fits = all(place % width == 0 for place in (given.offset, *others))
            found.append(Lies.ROW if fits else Lies.STRIDED)
    return Strided(tuple(found), width, wraps and width > 1)


def _halves(width: int) -> Iterator[int]:
    """Yield a power of two and the smaller ones."""
    while width:
        yield width
        width //= 2


def fitted_tile(chain: Sequence[Micro], moved: Sequence[DType], streamed: int) -> Tile:
    """Return a tile with enough bytes in flight, within registers and code.

    Args:
        chain: the ops of one element.
        moved: dtypes of the operands that are not single values.
        streamed: operands of which every element is read once; the others stay in the caches.
    """
    held = sum(dtype.itemsize for dtype in moved)

    def fits(elements: int) -> bool:
        return fits_code(chain, elements) and held * elements <= _HELD_BYTES

    width = VECTOR_BYTES // max(*(dtype.itemsize for dtype in moved), chain[-1].dtype.itemsize, 1)
    while width > 1 and not fits(width):
        width //= 2
    unroll = 1
    while unroll * max(streamed, 1) < _VECTORS_IN_FLIGHT and fits(width * unroll * 2):
        unroll *= 2
    return Tile(width, unroll)


def fits_code(chain: Sequence[Micro], elements: int) -> bool:
    """Return whether the code of a chain is short enough to stand there for so many elements."""
    return code_of(chain) * elements <= _CODE


def work_bytes(chain: Sequence[Micro]) -> int:
    """Return the registers that the largest function of a chain works in [bytes]."""
    functions = [micro for micro in chain if micro.op.name not in _PLAIN]
    return max([_WORK_NUMBERS * micro.dtype.itemsize for micro in functions], default=0)


def code_of(chain: Sequence[Micro | Line]) -> int:
    """Return how much code a chain is for one element, in plain instructions about."""
    total = 0
    for micro in chain:
        name = micro.op.name
        heavy = 1 if name in _PLAIN else 8 if name in _SHORT else 24
        total += heavy * (16 if micro.dtype.is_complex else 2 if micro.dtype.itemsize == 8 else 1)
    return total
