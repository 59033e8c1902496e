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
from softcuda.backends.cuda.chain_headers import header_of
from softcuda.backends.cuda.emitter import chain_digest, chain_label, reports
from softcuda.backends.cuda.layouts import (
    ChainInput,
    Lies,
    Tile,
    dense_layouts,
    fitted_tile,
    strided_layouts,
)
from softcuda.backends.cuda.planned import aligned, launch_in_row, one_step
from softcuda.backends.cuda.turned import turned_launch
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
from softcuda.target import Target

__all__ = [
    "PlannedChain",
    "Variant",
    "chain_launches",
    "chain_spec",
    "in_place_spec",
    "planned_chain",
    "prepare_chain",
]

THREADS: Final = 128  # 1 % ahead of 256 on an H200: benchmarks/sweeps/elementwise.py
PARAMETER_BYTES: Final = 4096
MAX_BLOCKS: Final = 2**20
USUAL_DEVICE: Final = Target("cuda")


@dataclass(frozen=True, slots=True)
class Variant:
    """What is compiled for a chain.

    Attributes:
        layouts: how each operand lies.
        tile: what a thread makes.
        rank: fused axes; 0 for the dense variant.
        wide: 64-bit index arithmetic.
        threads: of a block.
        wraps: vectors go on in the next row of the innermost axis.
    """

    layouts: tuple[Lies, ...]
    tile: Tile
    rank: int = 0
    wide: bool = False
    threads: int = THREADS
    wraps: bool = False


@dataclass(frozen=True, slots=True)
class PlannedChain:
    """A chain with all that its launch needs.

    Attributes:
        chain: the ops.
        dtypes: of its operands, and of the values that it keeps.
        variant: what is compiled for it; the arguments fit every tile of the same width.
        count: elements of the result.
        arguments: of the kernel.
        kept: ops whose values are written too.
    """

    chain: Sequence[Micro]
    dtypes: tuple[DType, ...]
    variant: Variant
    count: int
    arguments: tuple[Argument, ...]
    kept: tuple[int, ...] = ()

    def launch(self) -> KernelLaunch:
        """Return the launch, a tile a block where the grid allows it."""
        spec = chain_spec(self.chain, self.dtypes, self.variant, self.kept)
        blocks = min(-(-self.count // spec.tile[0]), MAX_BLOCKS)
        return launch_in_row(spec, blocks, self.arguments)


def prepare_chain(backend_id: str, unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step of a unit of elementwise ops."""
    return one_step(backend_id, unit, lambda: chain_launches(unit, target))


def chain_launches(
    unit: Unit, target: Target = USUAL_DEVICE
) -> tuple[tuple[KernelLaunch, ...], int]:
    """Return the launches of a chain with a result that is not empty, and the scratch [bytes].

    One launch, unless more strides are needed than a kernel takes: then some operands are copied
    into scratch first, a launch each.

    Args:
        unit: the chain.
        target: its multiprocessors and caches decide on the tiles of operands that are turned.
    """
    dims, sources = unit.result.dims, _sources(unit)
    kept = tuple(number for number, _ in unit.kept)
    turned = turned_launch(unit.chain, sources, dims, target, kept)
    if turned is not None:
        return (turned,), 0
    launches: list[KernelLaunch] = []
    used = 0
    last = _planned(unit.chain, sources, dims, write(), kept)
    while last is None:
        number = _bulkiest(sources, dims)
        source = sources[number]
        launches.append(_copy(source, dims, scratch(used)))
        sources[number] = ChainInput(scratch(used), source.dtype, contiguous_strides(dims))
        used += aligned(numel(dims) * source.dtype.itemsize)
        last = _planned(unit.chain, sources, dims, write(), kept)
    return (*launches, last.launch()), used


def planned_chain(unit: Unit) -> PlannedChain | None:
    """Return the launch of a chain before it is one; None where it takes several."""
    kept = tuple(number for number, _ in unit.kept)
    return _planned(unit.chain, _sources(unit), unit.result.dims, write(), kept)


def _sources(unit: Unit) -> list[ChainInput]:
    """Return the operands of a unit, and behind them the values that it keeps."""
    dims = unit.result.dims
    inputs = [
        ChainInput(read(number), x.dtype, broadcast_strides(x.dims, x.strides, dims), x.offset)
        for number, x in enumerate(unit.operands)
    ]
    dense = contiguous_strides(dims)
    for number, (_, x) in enumerate(unit.kept):
        inputs.append(ChainInput(write(1 + number), x.dtype, dense, is_kept=True))
    return inputs


def _copy(source: ChainInput, dims: Dims, out: Argument) -> KernelLaunch:
    chain = (Micro(OPS["copy"], (0,), dims, source.dtype, ()),)
    planned = _planned(chain, [source], dims, out, ())
    if planned is None:
        raise AssertionError("the axes of one operand always fit a kernel's parameters")
    return planned.launch()


def _bulkiest(sources: Sequence[ChainInput], dims: Dims) -> int:
    """Return the operand to copy: strided, with the fewest values read more than once."""
    dense = contiguous_strides(dims)

    def stretch(number: int) -> int:
        pairs = zip(dims, sources[number].strides, strict=True)
        return numel(tuple(d for d, s in pairs if s == 0))

    strided = [k for k, s in enumerate(sources) if any(s.strides) and s.strides != dense]
    return min(strided, key=stretch)


def _planned(
    chain: Sequence[Micro],
    sources: Sequence[ChainInput],
    dims: Dims,
    out: Argument,
    kept: tuple[int, ...],
) -> PlannedChain | None:
    """Return the launch of a chain; None where its strides are more than a kernel takes."""
    axes = fuse_axes(dims, [*(s.strides for s in sources), contiguous_strides(dims)])
    dtypes = tuple(s.dtype for s in sources)
    tile = fitted_tile(
        chain,
        [d for k, d in enumerate(dtypes) if sources[k].is_kept or not axes.is_single(k)],
        sum(not (axes.is_reused(k) or x.is_kept) for k, x in enumerate(sources)),
    )
    told = status() if reports(chain) else i64(0)
    pointers = [s.argument for s in sources]
    flat = dense_layouts(axes, sources)
    if flat:
        dense = (out, i64(axes.numel), told, *pointers)
        return PlannedChain(chain, dtypes, Variant(flat, tile), axes.numel, dense, kept)
    walked = strided_layouts(axes, sources, tile.width)
    strided = [k for k, lies in enumerate(walked.layouts) if lies.has_strides]
    wide = needs_wide_index(axes, strided)
    rank = padded_rank(axes.rank)
    total = i64(axes.numel) if wide else i32(axes.numel)
    arguments = (out, total, packed(pack_axes(axes, rank, strided, wide)), told, *pointers)
    if _parameter_bytes(arguments) > PARAMETER_BYTES:
        return None
    tile = tile.narrowed(walked.width)
    variant = Variant(walked.layouts, tile, rank, wide, wraps=walked.wraps)
    return PlannedChain(chain, dtypes, variant, axes.numel, arguments, kept)


def _parameter_bytes(arguments: Sequence[Argument]) -> int:
    """Return an upper bound of the parameters' size; each is at most 8-byte aligned."""
    return sum(len(a.value) + 8 if isinstance(a.value, bytes) else 8 for a in arguments)


def chain_spec(
    chain: Sequence[Micro], dtypes: Sequence[DType], shape: Variant, kept: Sequence[int] = ()
) -> KernelSpec:
    """Return the kernel of a chain: its generated header and the variant of elementwise.cu.

    Args:
        chain: the ops.
        dtypes: of its operands, and of the values that it keeps.
        shape: what is compiled for it.
        kept: ops whose values are written too.
    """
    header = header_of(chain, dtypes[: len(dtypes) - len(kept)], kept)
    operands = [f"{lies.value}<{d.name}>" for lies, d in zip(shape.layouts, dtypes, strict=True)]
    letters = "".join(lies.letter for lies in shape.layouts)
    if len(letters) > 8:
        letters = _runs(letters)
    tile = shape.tile
    variant = f"{chain_label(chain)}_{chain_digest(header)}_{letters}_{tile.width}x{tile.unroll}"
    family = "elementwise_dense"
    arguments = [str(tile.width), str(tile.unroll), str(shape.threads)]
    if shape.rank:
        family = "elementwise_strided"
        index = "i64" if shape.wide else "i32"
        marks = f"{'_wraps' if shape.wraps else ''}{'_wide' if shape.wide else ''}"
        variant = f"{variant}_rank{shape.rank}{marks}"
        arguments = [str(shape.rank), *arguments, str(shape.wraps).lower(), index]
    return KernelSpec(
        family,
        variant,
        "elementwise.cu",
        f"{family}<Chain, {', '.join((*arguments, *operands))}>",
        dtypes=(chain[-1].dtype.name, *(dtype.name for dtype in dtypes)),
        threads=shape.threads,
        tile=(shape.threads * tile.width * tile.unroll,),
        headers=(header,),
    )


def in_place_spec(spec: KernelSpec) -> KernelSpec:
    """Return the kernel like an `elementwise_dense` one that may write what it reads."""
    expression = spec.expression.replace("elementwise_dense<", "elementwise_in_place<", 1)
    return replace(spec, family="elementwise_in_place", expression=expression)


def _runs(letters: str) -> str:
    """Return letters with their counts, such as "d3sd2" for "dddsdd"."""
    parts: list[str] = []
    start = 0
    for end in range(1, len(letters) + 1):
        if end == len(letters) or letters[end] != letters[start]:
            parts.append(letters[start] + (str(end - start) if end - start > 1 else ""))
            start = end
    return "".join(parts)
