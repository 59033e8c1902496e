"""Launches of fused elementwise chains: how the operands lie, which variant, how many blocks.

A chain whose operands all lie as the result does, or are single values, runs without index
arithmetic. Otherwise axes are fused, and the innermost one is walked by vectors where it is dense
or constant in every operand. Operands whose strides do not fit the parameters of a kernel are
first copied into scratch memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from softcuda.backends.cuda.axes import (
    Axes,
    broadcast_strides,
    fuse_axes,
    needs_wide_index,
    pack_axes,
    padded_rank,
)
from softcuda.backends.cuda.emitter import (
    chain_digest,
    chain_header,
    chain_label,
    emit,
    reports,
)
from softcuda.backends.launches import (
    Argument,
    KernelLaunch,
    i32,
    i64,
    packed,
    read,
    scratch,
    status,
    write,
)
from softcuda.backends.steps import Micro, Step, Unit
from softcuda.dtype import DType
from softcuda.graph.op import OPS
from softcuda.graph.params import Dims
from softcuda.graph.shapes import contiguous_strides, numel
from softcuda.kernelspec import KernelSpec

__all__ = ["THREADS", "chain_launches", "chain_spec", "prepare_chain"]

THREADS: Final = 256
PARAMETER_BYTES: Final = 4096
VECTOR_BYTES: Final = 16
MAX_BLOCKS: Final = 2**20
ALIGNMENT: Final = 256

# What a thread may hold: vectors of operands in flight, registers for them, and code.
_VECTORS_IN_FLIGHT: Final = 4
_HELD_BYTES: Final = 256
_CODE: Final = 512

# How much code an op is, beside the plain ones that are 1.
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
        """One letter for a kernel's variant."""
        return self.value[0].lower() if self is not Lies.STRIDED else "a"

    @property
    def has_strides(self) -> bool:
        """True where the kernel takes strides for the operand."""
        return self not in (Lies.DENSE, Lies.SINGLE)


@dataclass(frozen=True, slots=True)
class _Source:
    """An operand of a launch: where it is, its dtype, its strides over the result's extents."""

    argument: Argument
    dtype: DType
    strides: Dims


@dataclass(frozen=True, slots=True)
class _Shape:
    """What is compiled for a chain.

    Attributes:
        layouts: how each operand lies.
        rank: fused axes; 0 for the dense variant.
        width: elements a vector.
        unroll: vectors that a thread loads of each operand.
        wide: 64-bit index arithmetic.
    """

    layouts: tuple[Lies, ...]
    rank: int
    width: int
    unroll: int
    wide: bool


def prepare_chain(backend_id: str, unit: Unit) -> tuple[Step, ...]:
    """Return the one step of a unit of elementwise ops."""
    launches: tuple[KernelLaunch, ...] = ()
    scratch_bytes = 0
    if numel(unit.result.dims):
        launches, scratch_bytes = chain_launches(unit)
    return (
        Step(
            backend_id,
            launches[-1].spec.id if launches else "nothing",
            unit.operands,
            (unit.result,),
            chain=unit.chain,
            scratch_bytes=scratch_bytes,
            lines=unit.lines,
            launches=launches,
        ),
    )


def chain_launches(unit: Unit) -> tuple[tuple[KernelLaunch, ...], int]:
    """Return the launches of a chain with a result that is not empty, and the scratch [bytes].

    One launch, unless more strides are needed than a kernel takes: then some operands are copied
    into scratch first, a launch each.
    """
    dims = unit.result.dims
    sources = [
        _Source(read(number), x.dtype, broadcast_strides(x.dims, x.strides, dims))
        for number, x in enumerate(unit.operands)
    ]
    launches: list[KernelLaunch] = []
    used = 0
    last = _launch(unit.chain, sources, dims, write())
    while last is None:
        number = _bulkiest(sources, dims)
        source = sources[number]
        copy = Micro(OPS["copy"], (0,), dims, source.dtype, ())
        launch = _launch((copy,), [source], dims, scratch(used))
        if launch is None:
            raise AssertionError("the axes of one operand always fit a kernel's parameters")
        launches.append(launch)
        sources[number] = replace(source, argument=scratch(used), strides=contiguous_strides(dims))
        used += -(-numel(dims) * source.dtype.itemsize // ALIGNMENT) * ALIGNMENT
        last = _launch(unit.chain, sources, dims, write())
    return (*launches, last), used


def _bulkiest(sources: Sequence[_Source], dims: Dims) -> int:
    """Return the operand to copy: strided, with the fewest values read more than once."""
    dense = contiguous_strides(dims)

    def stretch(number: int) -> int:
        pairs = zip(dims, sources[number].strides, strict=True)
        return numel(tuple(d for d, s in pairs if s == 0))

    strided = [k for k, s in enumerate(sources) if any(s.strides) and s.strides != dense]
    return min(strided, key=stretch)


def _launch(
    chain: Sequence[Micro], sources: Sequence[_Source], dims: Dims, out: Argument
) -> KernelLaunch | None:
    """Return the launch of a chain; None where its strides are more than a kernel takes."""
    axes = fuse_axes(dims, [*(s.strides for s in sources), contiguous_strides(dims)])
    dtypes = tuple(s.dtype for s in sources)
    flat = _dense_layouts(axes, len(sources))
    told = status() if reports(chain) else i64(0)
    pointers = [s.argument for s in sources]
    if flat:
        width, unroll = _fitted(chain, dtypes, flat, _widest(chain, dtypes, flat))
        spec = chain_spec(chain, dtypes, _Shape(flat, 0, width, unroll, False))
        blocks = -(-axes.numel // (THREADS * width * unroll))
        arguments = (out, i64(axes.numel), told, *pointers)
        return _launched(spec, blocks, arguments)
    layouts, widest = _strided_layouts(axes, len(sources), chain, dtypes)
    width, unroll = _fitted(chain, dtypes, layouts, widest)
    vectors = _in_vectors(axes, width)
    wide = needs_wide_index(vectors)
    rank = padded_rank(vectors.rank)
    packed_axes = packed(
        pack_axes(vectors, rank, [k for k, lies in enumerate(layouts) if lies.has_strides], wide)
    )
    spec = chain_spec(chain, dtypes, _Shape(layouts, rank, width, unroll, wide))
    blocks = -(-vectors.numel // (THREADS * unroll))
    count = i64(vectors.numel) if wide else i32(vectors.numel)
    arguments = (out, count, packed_axes, told, *pointers)
    if _parameter_bytes(arguments) > PARAMETER_BYTES:
        return None
    return _launched(spec, blocks, arguments)


def _launched(spec: KernelSpec, blocks: int, arguments: tuple[Argument, ...]) -> KernelLaunch:
    grid = (min(blocks, MAX_BLOCKS), 1, 1)
    return KernelLaunch(spec, grid, arguments, (spec.threads, 1, 1))


def _parameter_bytes(arguments: Sequence[Argument]) -> int:
    """Return an upper bound of the parameters' size; each is at most 8-byte aligned."""
    return sum(len(a.value) + 8 if isinstance(a.value, bytes) else 8 for a in arguments)


def _dense_layouts(axes: Axes, count: int) -> tuple[Lies, ...]:
    """Return how the operands lie where all are dense or single values, else ()."""
    found = []
    for operand in range(count):
        if axes.is_single(operand):
            found.append(Lies.SINGLE)
        elif axes.is_dense(operand):
            found.append(Lies.DENSE)
        else:
            return ()
    return tuple(found)


def _strided_layouts(
    axes: Axes, count: int, chain: Sequence[Micro], dtypes: Sequence[DType]
) -> tuple[tuple[Lies, ...], int]:
    """Return how the operands lie, and the widest vectors along the innermost axis."""
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
    width = 1 if Lies.STRIDED in found else _widest(chain, dtypes, found)
    steps = [axes.dims[-1]]
    for operand, lies in enumerate(found):
        if lies is Lies.ROW:
            steps.extend(axes.strides[operand][:-1])
    while any(step % width for step in steps):
        width //= 2
    if width == 1:
        found = [Lies.STRIDED if lies.has_strides else lies for lies in found]
    return tuple(found), width


def _in_vectors(axes: Axes, width: int) -> Axes:
    """Return the loop that counts vectors along the innermost axis; strides stay in elements."""
    if width == 1:
        return axes
    dims = (*axes.dims[:-1], axes.dims[-1] // width)
    return fuse_axes(dims, [(*s[:-1], s[-1] * width) for s in axes.strides])


def _widest(chain: Sequence[Micro], dtypes: Sequence[DType], layouts: Sequence[Lies]) -> int:
    """Return the elements of a vector: 16 bytes of the largest dtype that moves by vectors."""
    moved = [
        dtype.itemsize
        for dtype, lies in zip(dtypes, layouts, strict=True)
        if lies in (Lies.DENSE, Lies.ROW)
    ]
    return VECTOR_BYTES // max((*moved, chain[-1].dtype.itemsize))


def _code(chain: Sequence[Micro]) -> int:
    """Return how much code one element of a chain is, in plain instructions, roughly."""
    total = 0
    for micro in chain:
        name = micro.op.name
        heavy = 1 if name in _PLAIN else 8 if name in _SHORT else 24
        total += heavy * (2 if micro.dtype.itemsize == 8 else 1)
    return total


def _fitted(
    chain: Sequence[Micro], dtypes: Sequence[DType], layouts: Sequence[Lies], widest: int
) -> tuple[int, int]:
    """Return width and unroll: enough bytes in flight, within registers and code."""
    moved = [d.itemsize for d, lies in zip(dtypes, layouts, strict=True) if lies is not Lies.SINGLE]
    code = _code(chain)
    width = widest
    while width > 1 and (code * width > _CODE or sum(moved) * width > _HELD_BYTES):
        width //= 2
    if widest > width and any(lies in (Lies.ROW, Lies.LEVEL) for lies in layouts) and width == 1:
        width = 2 if widest >= 2 else 1  # a layout of rows has vectors
    unroll = 1
    while (
        unroll * max(len(moved), 1) < _VECTORS_IN_FLIGHT
        and code * width * unroll * 2 <= _CODE
        and sum(moved) * width * unroll * 2 <= _HELD_BYTES
    ):
        unroll *= 2
    return width, unroll


def chain_spec(chain: Sequence[Micro], dtypes: Sequence[DType], shape: _Shape) -> KernelSpec:
    """Return the kernel of a chain: its generated header and the variant of elementwise.cu."""
    header = chain_header(emit(chain, dtypes))
    operands = [f"{lies.value}<{d.name}>" for lies, d in zip(shape.layouts, dtypes, strict=True)]
    letters = "".join(lies.letter for lies in shape.layouts)
    if len(letters) > 8:
        letters = _runs(letters)
    variant = f"{chain_label(chain)}_{chain_digest(header)}_{letters}_{shape.width}x{shape.unroll}"
    numbers = [shape.width, shape.unroll]
    family = "elementwise_dense"
    arguments = [*map(str, numbers), *operands]
    if shape.rank:
        family = "elementwise_strided"
        index = "i64" if shape.wide else "i32"
        variant = f"{variant}_rank{shape.rank}{'_wide' if shape.wide else ''}"
        arguments = [str(shape.rank), *map(str, numbers), index, *operands]
    return KernelSpec(
        family,
        variant,
        "elementwise.cu",
        f"{family}<Chain, {', '.join(arguments)}>",
        dtypes=(chain[-1].dtype.name, *(dtype.name for dtype in dtypes)),
        threads=THREADS,
        tile=(THREADS * shape.width * shape.unroll,),
        headers=(header,),
    )


def _runs(letters: str) -> str:
    """Return letters with their counts, such as "d3sd2" for "dddsdd"."""
    parts: list[str] = []
    start = 0
    for end in range(1, len(letters) + 1):
        if end == len(letters) or letters[end] != letters[start]:
            parts.append(letters[start] + (str(end - start) if end - start > 1 else ""))
            start = end
    return "".join(parts)
