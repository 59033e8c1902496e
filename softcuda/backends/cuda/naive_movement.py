"""Launches of concat, stack, pad, tril, triu, take, gather and one_hot: one thread an output."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from softcuda.backends.cuda.axes import Axes, fuse_axes, needs_wide_index
from softcuda.backends.cuda.walks import (
    INDICES,
    SIZED,
    THREADS,
    bits_of,
    blocks_for,
    each_block,
    index_name,
    pack_divisor,
    pack_extents,
    pack_numbers,
    pack_walk,
    size_name,
    sized_dtypes,
    sized_rows,
)
from softcuda.backends.launches import Argument, KernelLaunch, i32, i64, packed, read, status, write
from softcuda.backends.steps import Micro, Operand, Step, Unit
from softcuda.dtype import DTYPES, DType
from softcuda.errors import BackendError
from softcuda.graph.params import Dims, value_of
from softcuda.graph.shapes import contiguous_strides, numel
from softcuda.kernelspec import KernelSpec
from softcuda.target import Target

__all__ = ["MOVEMENT_KERNELS", "prepare_movement"]

GROUP: Final = 16  # operands of one launch of join
JOIN_STRIDES: Final = 256  # operands * rank of one launch of join
MAX_RANK: Final = 64

_CODES: Final = {dtype: code for code, dtype in enumerate(DTYPES.values())}
_MIXED: Final = tuple(name for name in DTYPES if name != "bool")


def _mixed_rows() -> tuple[KernelSpec, ...]:
    return tuple(
        KernelSpec(
            "join_mixed",
            f"{name}_{index}",
            "movement.cu",
            f"join_mixed<{name}, {index}>",
            (name,),
            THREADS,
        )
        for name in _MIXED
        for index in INDICES
    )


def _indexed_rows(family: str) -> tuple[KernelSpec, ...]:
    return tuple(
        KernelSpec(
            family,
            f"{size}_by_{indices}_{index}",
            "gather.cu",
            f"{family}<{size}, {indices}, {index}>",
            (*sized_dtypes(size), indices),
            THREADS,
        )
        for size in SIZED
        for indices in INDICES
        for index in INDICES
    )


MOVEMENT_KERNELS: Final[tuple[KernelSpec, ...]] = (
    *sized_rows("join", "movement.cu"),
    *_mixed_rows(),
    *sized_rows("pad", "movement.cu"),
    *sized_rows("triangle", "movement.cu"),
    *_indexed_rows("gather"),
    *_indexed_rows("one_hot"),
)
_SPECS: Final = {(spec.family, spec.variant): spec for spec in MOVEMENT_KERNELS}


def prepare_movement(unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step of a concat, stack, pad, tril, triu, take, gather or one_hot.

    A result without elements launches nothing.

    Raises:
        BackendError: the unit is another op.
    """
    micro = unit.chain[-1]
    maker = _MAKERS.get(micro.op.name)
    if maker is None:
        raise BackendError(
            f"{micro.op.name} is no movement that cuda_naive launches; allowed are "
            f"{', '.join(_MAKERS)}"
        )
    launches: tuple[KernelLaunch, ...] = ()
    if numel(unit.result.dims):
        launches = maker(unit, micro, target)
    return (
        Step(
            "cuda_naive",
            launches[0].spec.id if launches else micro.op.name,
            unit.operands,
            (unit.result,),
            chain=unit.chain,
            lines=unit.lines,
            launches=launches,
        ),
    )


def _launch(
    spec: KernelSpec, count: int, is_wide: bool, target: Target, arguments: tuple[Argument, ...]
) -> KernelLaunch:
    blocks = blocks_for(count, each_block(is_wide), target)
    return KernelLaunch(spec, (blocks, 1, 1), arguments, (spec.threads, 1, 1))


# ---- concat, stack ------------------------------------------------------------------------------


class _Part(NamedTuple):
    """One operand of a join: its number, where it begins along the axis, its strides there."""

    number: int
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


def _joins(unit: Unit, micro: Micro, target: Target) -> tuple[KernelLaunch, ...]:
    is_stack = micro.op.name == "stack"
    axis = micro.params.axis
    parts, start = [], 0
    for source in micro.sources:
        operand = unit.operands[source]
        extent = 1 if is_stack else operand.dims[axis]
        strides = operand.strides
        if is_stack:
            strides = (*strides[:axis], 0, *strides[axis:])
        if extent:
            parts.append(_Part(source, start, extent, strides, operand.dtype))
        start += extent
    joined = _fused_join(unit.result.dims, axis, parts)
    size = max(min(GROUP, JOIN_STRIDES // len(joined.dims)), 1)
    groups = [joined.parts[at : at + size] for at in range(0, len(joined.parts), size)]
    return tuple(_join(joined._replace(parts=g), unit.result.dtype, target) for g in groups)


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
    is_mixed = any(part.dtype is not dtype for part in parts)
    family = "join_mixed" if is_mixed else "join"
    name = dtype.name if is_mixed else size_name(dtype)
    numbers = [part.number for part in parts]
    numbers += numbers[:1] * (GROUP - len(parts))
    return _launch(
        _SPECS[family, f"{name}_{index_name(is_wide)}"],
        numel(dims),
        is_wide,
        target,
        (
            write(),
            *(read(number) for number in numbers),
            i64(first * joined.strides[axis]),
            i64(numel(dims)),
            packed(_packed_join(joined, dims, is_wide)),
        ),
    )


def _packed_join(joined: _Joined, dims: Dims, is_wide: bool) -> bytes:
    parts, rank = joined.parts, len(dims)
    first = parts[0].start
    starts = [part.start - first for part in parts]
    starts.append(starts[-1] + parts[-1].extent)
    strides = [s for part in parts for s in reversed(part.strides)]
    codes = [_CODES[part.dtype] for part in parts] + [0] * (GROUP - len(parts))
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


# ---- pad, tril, triu ----------------------------------------------------------------------------


def _pads(unit: Unit, micro: Micro, target: Target) -> tuple[KernelLaunch, ...]:
    source = micro.sources[0]
    operand, out = unit.operands[source], unit.result
    dims, inside, before, strides = _fused_pad(operand, out.dims, micro.params.before)
    is_wide = needs_wide_index(Axes(dims, ())) or needs_wide_index(Axes(inside, (strides,)))
    value = bits_of(value_of(micro.params.value), out.dtype)
    struct_bytes = (
        _aligned(pack_walk(dims, (strides,), is_wide), is_wide)
        + pack_numbers(tuple(reversed(before)), MAX_RANK, is_wide)
        + pack_numbers(tuple(reversed(inside)), MAX_RANK, is_wide)
    )
    spec = _SPECS["pad", f"{size_name(out.dtype)}_{index_name(is_wide)}"]
    count = numel(dims)
    arguments = (write(), read(source), i64(count), packed(struct_bytes), i64(value))
    return (_launch(spec, count, is_wide, target, arguments),)


def _fused_pad(operand: Operand, out: Dims, given: Dims) -> tuple[Dims, Dims, Dims, Dims]:
    """Return extents of the result and of the operand, what is before it, its strides.

    An axis without a border joins the one in front of it where the operand allows it.
    """
    axes: list[tuple[int, int, int, int]] = []
    for wide, extent, before, stride in zip(
        out, operand.dims, given, operand.strides, strict=True
    ):
        if wide == 1 and extent == 1:
            continue
        if axes and wide == extent and axes[-1][3] == extent * stride:
            last = axes[-1]
            axes[-1] = (last[0] * wide, last[1] * extent, last[2] * extent, stride)
        else:
            axes.append((wide, extent, before, stride))
    if not axes:
        return (), (), (), ()
    dims, inside, before_all, strides = zip(*axes, strict=True)
    return dims, inside, before_all, strides


def _aligned(data: bytes, is_wide: bool) -> bytes:
    """Return a packed struct of i64 with the bytes that C adds behind a last i32."""
    return data + bytes(-len(data) % (8 if is_wide else 4))


def _triangles(unit: Unit, micro: Micro, target: Target) -> tuple[KernelLaunch, ...]:
    source = micro.sources[0]
    operand, out = unit.operands[source], unit.result
    head = fuse_axes(out.dims[:-2], [operand.strides[:-2]])
    dims = (*head.dims, *out.dims[-2:])
    strides = (*head.strides[0], *operand.strides[-2:])
    is_wide = needs_wide_index(Axes(dims, (strides,)))
    spec = _SPECS["triangle", f"{size_name(out.dtype)}_{index_name(is_wide)}"]
    k = max(min(micro.params.k, 2**62), -(2**62))
    arguments = (
        write(),
        read(source),
        i64(numel(dims)),
        packed(_aligned(pack_walk(dims, (strides,), is_wide), is_wide)),
        i64(k),
        i32(micro.op.name == "tril"),
    )
    return (_launch(spec, numel(dims), is_wide, target, arguments),)


# ---- take, gather, one_hot ----------------------------------------------------------------------


def _gathers(unit: Unit, micro: Micro, target: Target) -> tuple[KernelLaunch, ...]:
    axis = micro.params.axis
    data, indices = (unit.operands[source] for source in micro.sources)
    before, behind = data.strides[:axis], data.strides[axis + 1 :]
    if micro.op.name == "take":
        places = (*before, *(0,) * len(indices.dims), *behind)
        wanted = (*(0,) * len(before), *indices.strides, *(0,) * len(behind))
    else:
        places, wanted = (*before, 0, *behind), indices.strides
    axes = fuse_axes(unit.result.dims, [places, wanted])
    is_wide = needs_wide_index(axes)
    name = f"{size_name(data.dtype)}_by_{indices.dtype.name}_{index_name(is_wide)}"
    arguments = (
        write(),
        *(read(source) for source in micro.sources),
        status(),
        i64(axes.numel),
        packed(_aligned(pack_walk(axes.dims, axes.strides, is_wide), is_wide)),
        i64(data.dims[axis]),
        i64(data.strides[axis]),
    )
    return (_launch(_SPECS["gather", name], axes.numel, is_wide, target, arguments),)


def _one_hots(unit: Unit, micro: Micro, target: Target) -> tuple[KernelLaunch, ...]:
    source = micro.sources[0]
    indices, out = unit.operands[source], unit.result
    head = fuse_axes(indices.dims, [indices.strides])
    dims, strides = (*head.dims, micro.params.depth), (*head.strides[0], 0)
    is_wide = needs_wide_index(Axes(dims, (strides,)))
    name = f"{size_name(out.dtype)}_by_{indices.dtype.name}_{index_name(is_wide)}"
    arguments = (
        write(),
        read(source),
        i64(numel(dims)),
        packed(_aligned(pack_walk(dims, (strides,), is_wide), is_wide)),
        i64(bits_of(1, out.dtype)),
    )
    return (_launch(_SPECS["one_hot", name], numel(dims), is_wide, target, arguments),)


_MAKERS: Final = {
    "concat": _joins,
    "stack": _joins,
    "pad": _pads,
    "tril": _triangles,
    "triu": _triangles,
    "take": _gathers,
    "gather": _gathers,
    "one_hot": _one_hots,
}
