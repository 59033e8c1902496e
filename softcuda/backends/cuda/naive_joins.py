"""Launches of concat and stack: one thread an output, up to 16 operands a launch.

Operands of another dtype are converted on their way where the result is real; where it is complex
they are converted into scratch first.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from softcuda.backends.cuda.axes import Axes, fuse_axes, needs_wide_index
from softcuda.backends.cuda.planned import Launches, Planned, aligned, launch_in_row
from softcuda.backends.cuda.walks import (
    DTYPE_CODES,
    INDICES,
    WALK_THREADS,
    blocks_for,
    each_block,
    index_name,
    large_rows,
    pack_divisor,
    pack_extents,
    pack_numbers,
    sized_rows,
    sized_spec,
)
from softcuda.backends.cuda.written import dense_operand, write_operand
from softcuda.backends.launches import Argument, KernelLaunch, i64, packed, read, scratch, write
from softcuda.backends.steps import Micro, Operand, Unit
from softcuda.dtype import REAL_DTYPES, DType
from softcuda.graph.params import Dims
from softcuda.graph.shapes import contiguous_strides, numel
from softcuda.kernelspec import KernelSpec
from softcuda.target import Target

__all__ = ["FURTHER_JOINS", "JOIN_KERNELS", "plan_join"]

GROUP: Final = 16  # operands of one launch of join
JOIN_STRIDES: Final = 256  # operands * rank of one launch of join
MAX_RANK: Final = 64

# Registers that a call of the long division saves, on sm_100 and sm_120.
_DIVISION_SPILLS: Final = 16
_MIXED: Final = tuple(name for name in REAL_DTYPES if name != "bool")
_FILE: Final = "movement.cu"


def _mixed_rows() -> tuple[KernelSpec, ...]:
    return tuple(
        KernelSpec(
            "join_mixed",
            f"{name}_{index}",
            _FILE,
            f"join_mixed<{name}, {index}>",
            (name,),
            WALK_THREADS,
            spill_bytes=_DIVISION_SPILLS if index == "i64" else 0,
        )
        for name in _MIXED
        for index in INDICES
    )


_MIXED_KERNELS: Final = {spec.variant: spec for spec in _mixed_rows()}
JOIN_KERNELS: Final[tuple[KernelSpec, ...]] = (
    *sized_rows("join", _FILE),
    *_MIXED_KERNELS.values(),
)
FURTHER_JOINS: Final[tuple[KernelSpec, ...]] = large_rows("join", _FILE)


class _Part(NamedTuple):
    """One operand of a join: its pointer, where it begins along the axis, its strides there."""

    pointer: Argument
    start: int
    extent: int
    strides: Dims
    dtype: DType


class _Joined(NamedTuple):
    """The result of a join: extents and strides [elements], the joined axis, the operands."""

    dims: Dims
    strides: Dims
    axis: int
    parts: tuple[_Part, ...]


def plan_join(unit: Unit, micro: Micro, target: Target) -> Planned:
    """Return the launches of a concat or stack whose result has elements, and the scratch."""
    is_stack = micro.op.name == "stack"
    axis = micro.params.axis
    converted: Launches = ()
    parts, start, used = [], 0, 0
    for source in micro.sources:
        operand, pointer = unit.operands[source], read(source)
        if _is_converted(operand, unit.result.dtype):
            pointer = scratch(used)
            converted += write_operand(unit, source, pointer)
            operand = dense_operand(operand, unit.result.dtype)
            used += aligned(numel(operand.dims) * operand.dtype.itemsize)
        extent = 1 if is_stack else operand.dims[axis]
        strides = operand.strides
        if is_stack:
            strides = (*strides[:axis], 0, *strides[axis:])
        if extent:
            parts.append(_Part(pointer, start, extent, strides, operand.dtype))
        start += extent
    joined = _fused_join(unit.result.dims, axis, parts)
    size = max(min(GROUP, JOIN_STRIDES // len(joined.dims)), 1)
    groups = [joined.parts[at : at + size] for at in range(0, len(joined.parts), size)]
    joins = (_join(joined._replace(parts=group), unit.result.dtype, target) for group in groups)
    return (*converted, *joins), used


def _is_converted(operand: Operand, dtype: DType) -> bool:
    return dtype.is_complex and operand.dtype is not dtype and numel(operand.dims) > 0


def _fused_join(dims: Dims, axis: int, parts: Sequence[_Part]) -> _Joined:
    """Return the join with as few axes as possible; the joined one may swallow those behind it."""
    out = contiguous_strides(dims)
    head = fuse_axes(dims[:axis], [out[:axis], *(p.strides[:axis] for p in parts)])
    tail = fuse_axes(dims[axis + 1 :], [out[axis + 1 :], *(p.strides[axis + 1 :] for p in parts)])
    tails = tail.strides[1:]
    scale, rest = 1, tail.dims
    if rest and all(
        p.extent == 1 or p.strides[axis] == rest[0] * t[0]
        for p, t in zip(parts, tails, strict=True)
    ):
        scale, rest = rest[0], rest[1:]
    fused, made = (*head.dims, dims[axis] * scale, *rest), []
    for part, before, behind in zip(parts, head.strides[1:], tails, strict=True):
        along = behind if scale > 1 else (part.strides[axis], *behind)
        made.append(
            part._replace(
                start=part.start * scale, extent=part.extent * scale, strides=(*before, *along)
            )
        )
    return _Joined(fused, contiguous_strides(fused), len(head.dims), tuple(made))


def _join(joined: _Joined, dtype: DType, target: Target) -> KernelLaunch:
    parts, axis = joined.parts, joined.axis
    first = parts[0].start
    span = parts[-1].start + parts[-1].extent - first
    dims = (*joined.dims[:axis], span, *joined.dims[axis + 1 :])
    is_wide = needs_wide_index(Axes(dims, (joined.strides, *(p.strides for p in parts))))
    pointers = [part.pointer for part in parts]
    pointers += pointers[:1] * (GROUP - len(parts))
    count = numel(dims)
    arguments = (
        write(),
        *pointers,
        i64(first * joined.strides[axis]),
        i64(count),
        packed(_packed_join(joined, dims, is_wide)),
    )
    spec = sized_spec("join", _FILE, dtype, is_wide)
    if any(part.dtype is not dtype for part in parts):
        spec = _MIXED_KERNELS[f"{dtype.name}_{index_name(is_wide)}"]
    return launch_in_row(spec, blocks_for(count, each_block(is_wide), target), arguments)


def _packed_join(joined: _Joined, dims: Dims, is_wide: bool) -> bytes:
    parts, rank = joined.parts, len(dims)
    first = parts[0].start
    starts = [part.start - first for part in parts]
    starts.append(starts[-1] + parts[-1].extent)
    strides = [s for part in parts for s in reversed(part.strides)]
    codes = [DTYPE_CODES[part.dtype] for part in parts] + [0] * (GROUP - len(parts))
    tail = struct.pack(f"<{GROUP}i3i", *codes, rank, rank - 1 - joined.axis, len(parts))
    return b"".join(
        (
            pack_extents(dims, is_wide),
            pack_divisor(numel(dims[joined.axis + 1 :]), is_wide),
            pack_numbers(tuple(reversed(joined.strides)), MAX_RANK, is_wide),
            pack_numbers(starts, GROUP + 1, is_wide),
            pack_numbers(strides, JOIN_STRIDES, is_wide),
            tail,
            bytes(4) if is_wide else b"",
        )
    )
