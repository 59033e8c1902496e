"""Launches of fused elementwise chains: how the operands lie, which variant, how many blocks.

A chain whose operands all lie as the result does, or are single values, runs without index
arithmetic. Otherwise axes are fused, and the innermost one is walked by vectors where it is dense
or constant in every operand. Operands whose strides do not fit the parameters of a kernel are
first copied into scratch memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from softcuda.backends.cuda.axes import (
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
from softcuda.backends.cuda.layouts import (
    Lies,
    Tile,
    dense_layouts,
    fitted_tile,
    in_vectors,
    strided_layouts,
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

__all__ = ["Variant", "chain_launches", "chain_spec", "prepare_chain"]

THREADS: Final = 256
PARAMETER_BYTES: Final = 4096
MAX_BLOCKS: Final = 2**20
ALIGNMENT: Final = 256


@dataclass(frozen=True, slots=True)
class _Source:
    """An operand of a launch: where it is, its dtype, its strides over the result's extents."""

    argument: Argument
    dtype: DType
    strides: Dims


@dataclass(frozen=True, slots=True)
class Variant:
    """What is compiled for a chain.

    Attributes:
        layouts: how each operand lies.
        tile: what a thread makes.
        rank: fused axes; 0 for the dense variant.
        wide: 64-bit index arithmetic.
    """

    layouts: tuple[Lies, ...]
    tile: Tile
    rank: int = 0
    wide: bool = False


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
        launches.append(_copy(source, dims, scratch(used)))
        sources[number] = replace(source, argument=scratch(used), strides=contiguous_strides(dims))
        used += -(-numel(dims) * source.dtype.itemsize // ALIGNMENT) * ALIGNMENT
        last = _launch(unit.chain, sources, dims, write())
    return (*launches, last), used


def _copy(source: _Source, dims: Dims, out: Argument) -> KernelLaunch:
    chain = (Micro(OPS["copy"], (0,), dims, source.dtype, ()),)
    launch = _launch(chain, [source], dims, out)
    if launch is None:
        raise AssertionError("the axes of one operand always fit a kernel's parameters")
    return launch


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
    count = len(sources)
    axes = fuse_axes(dims, [*(s.strides for s in sources), contiguous_strides(dims)])
    dtypes = tuple(s.dtype for s in sources)
    tile = fitted_tile(chain, [d for k, d in enumerate(dtypes) if not axes.is_single(k)])
    told = status() if reports(chain) else i64(0)
    pointers = [s.argument for s in sources]
    flat = dense_layouts(axes, count)
    if flat:
        spec = chain_spec(chain, dtypes, Variant(flat, tile))
        return _launched(spec, axes.numel, (out, i64(axes.numel), told, *pointers))
    layouts, width = strided_layouts(axes, count, tile.width)
    vectors = in_vectors(axes, width)
    strided = [k for k, lies in enumerate(layouts) if lies.has_strides]
    wide = needs_wide_index(vectors, strided)
    rank = padded_rank(vectors.rank)
    total = i64(vectors.numel) if wide else i32(vectors.numel)
    arguments = (out, total, packed(pack_axes(vectors, rank, strided, wide)), told, *pointers)
    if _parameter_bytes(arguments) > PARAMETER_BYTES:
        return None
    spec = chain_spec(chain, dtypes, Variant(layouts, Tile(width, tile.unroll), rank, wide))
    return _launched(spec, axes.numel, arguments)


def _launched(spec: KernelSpec, count: int, arguments: tuple[Argument, ...]) -> KernelLaunch:
    blocks = min(-(-count // spec.tile[0]), MAX_BLOCKS)
    return KernelLaunch(spec, (blocks, 1, 1), arguments, (spec.threads, 1, 1))


def _parameter_bytes(arguments: Sequence[Argument]) -> int:
    """Return an upper bound of the parameters' size; each is at most 8-byte aligned."""
    return sum(len(a.value) + 8 if isinstance(a.value, bytes) else 8 for a in arguments)


def chain_spec(chain: Sequence[Micro], dtypes: Sequence[DType], shape: Variant) -> KernelSpec:
    """Return the kernel of a chain: its generated header and the variant of elementwise.cu."""
    header = chain_header(emit(chain, dtypes))
    operands = [f"{lies.value}<{d.name}>" for lies, d in zip(shape.layouts, dtypes, strict=True)]
    letters = "".join(lies.letter for lies in shape.layouts)
    if len(letters) > 8:
        letters = _runs(letters)
    tile = shape.tile
    variant = f"{chain_label(chain)}_{chain_digest(header)}_{letters}_{tile.width}x{tile.unroll}"
    family = "elementwise_dense"
    arguments = [str(tile.width), str(tile.unroll)]
    if shape.rank:
        family = "elementwise_strided"
        index = "i64" if shape.wide else "i32"
        variant = f"{variant}_rank{shape.rank}{'_wide' if shape.wide else ''}"
        arguments = [str(shape.rank), *arguments, index]
    return KernelSpec(
        family,
        variant,
        "elementwise.cu",
        f"{family}<Chain, {', '.join((*arguments, *operands))}>",
        dtypes=(chain[-1].dtype.name, *(dtype.name for dtype in dtypes)),
        threads=THREADS,
        tile=(THREADS * tile.width * tile.unroll,),
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
