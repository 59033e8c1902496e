"""Launches of ops that move data, one thread an output; index_add and scatter_add by a sort."""

from __future__ import annotations

from typing import Final

from softcuda.backends.cuda.axes import Axes, fuse_axes, needs_wide_index
from softcuda.backends.cuda.indexed import CHECK_KERNELS, check_launches, indexed
from softcuda.backends.cuda.naive_joins import FURTHER_JOINS, JOIN_KERNELS, plan_join
from softcuda.backends.cuda.planned import Maker, Planned, launch_in_row, step_by_table
from softcuda.backends.cuda.scatter import SCATTER_KERNELS, plan_scatter
from softcuda.backends.cuda.sort import SORT_KERNELS
from softcuda.backends.cuda.walks import (
    blocks_for,
    each_block,
    element_of,
    large_rows,
    pack_numbers,
    pack_walk,
    sized_rows,
    sized_spec,
)
from softcuda.backends.launches import Argument, i32, i64, packed, read, status, write
from softcuda.backends.steps import Micro, Operand, Step, Unit
from softcuda.dtype import i64 as long
from softcuda.graph.params import Dims, value_of
from softcuda.graph.shapes import numel
from softcuda.kernelspec import KernelSpec
from softcuda.target import Target

__all__ = ["FURTHER_MOVEMENT", "MOVEMENT_KERNELS", "prepare_movement"]

MAX_RANK: Final = 64

_FILES: Final = {
    "pad": "movement.cu",
    "triangle": "movement.cu",
    "gather": "gather.cu",
    "one_hot": "gather.cu",
}
MOVEMENT_KERNELS: Final[tuple[KernelSpec, ...]] = (
    *JOIN_KERNELS,
    *(row for family, file in _FILES.items() for row in sized_rows(family, file)),
    *CHECK_KERNELS,
    *SORT_KERNELS,
    *SCATTER_KERNELS,
)
FURTHER_MOVEMENT: Final[tuple[KernelSpec, ...]] = (
    *FURTHER_JOINS,
    *(row for family, file in _FILES.items() for row in large_rows(family, file)),
)


def prepare_movement(unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step of an op that moves data.

    A result without elements launches nothing but the check of the indices, where the op has any.

    Raises:
        BackendError: the unit is another op.
    """
    micro = unit.chain[-1]
    checks = check_launches(unit, micro, target) if micro.op.has_indices else ()
    return step_by_table("cuda_naive", unit, target, _MAKERS, "movement", checks)


def _planned(
    family: str, out: Operand, is_wide: bool, target: Target, arguments: tuple[Argument, ...]
) -> Planned:
    spec = sized_spec(family, _FILES[family], out.dtype, is_wide)
    blocks = blocks_for(numel(out.dims), each_block(is_wide), target)
    return (launch_in_row(spec, blocks, arguments),), 0


# ---- pad, tril, triu ----------------------------------------------------------------------------


def _pads(unit: Unit, micro: Micro, target: Target) -> Planned:
    source = micro.sources[0]
    operand, out = unit.operands[source], unit.result
    dims, inside, before, strides = _fused_pad(operand, out.dims, micro.params.before)
    is_wide = needs_wide_index(Axes(dims, ())) or needs_wide_index(Axes(inside, (strides,)))
    struct_bytes = (
        _aligned(pack_walk(dims, (strides,), is_wide), is_wide)
        + pack_numbers(tuple(reversed(before)), MAX_RANK, is_wide)
        + pack_numbers(tuple(reversed(inside)), MAX_RANK, is_wide)
    )
    value = element_of(value_of(micro.params.value), out.dtype)
    arguments = (write(), read(source), i64(numel(dims)), packed(struct_bytes), value)
    return _planned("pad", out, is_wide, target, arguments)


def _fused_pad(operand: Operand, out: Dims, given: Dims) -> tuple[Dims, Dims, Dims, Dims]:
    """Return extents of the result and of the operand, what is before it, its strides.

    An axis without a border joins the one in front of it where the operand allows it.
    """
    axes: list[tuple[int, int, int, int]] = []
    for wide, extent, before, stride in zip(out, operand.dims, given, operand.strides, strict=True):
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


def _triangles(unit: Unit, micro: Micro, target: Target) -> Planned:
    source = micro.sources[0]
    operand, out = unit.operands[source], unit.result
    head = fuse_axes(out.dims[:-2], [operand.strides[:-2]])
    dims = (*head.dims, *out.dims[-2:])
    strides = (*head.strides[0], *operand.strides[-2:])
    is_wide = needs_wide_index(Axes(dims, (strides,)))
    k = max(min(micro.params.k, 2**62), -(2**62))
    arguments = (
        write(),
        read(source),
        i64(numel(dims)),
        packed(_aligned(pack_walk(dims, (strides,), is_wide), is_wide)),
        i64(k),
        i32(micro.op.name == "tril"),
    )
    return _planned("triangle", out, is_wide, target, arguments)


# ---- take, gather, one_hot ----------------------------------------------------------------------


def _gathers(unit: Unit, micro: Micro, target: Target) -> Planned:
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
    arguments = (
        write(),
        *(read(source) for source in micro.sources),
        status(),
        i64(axes.numel),
        packed(_aligned(pack_walk(axes.dims, axes.strides, is_wide), is_wide)),
        indexed(unit, micro),
        i64(data.strides[axis]),
    )
    return _planned("gather", unit.result, is_wide, target, arguments)


def _one_hots(unit: Unit, micro: Micro, target: Target) -> Planned:
    source = micro.sources[0]
    indices, out = unit.operands[source], unit.result
    head = fuse_axes(indices.dims, [indices.strides])
    dims, strides = (*head.dims, micro.params.depth), (*head.strides[0], 0)
    is_wide = needs_wide_index(Axes(dims, (strides,)))
    arguments = (
        write(),
        read(source),
        i64(numel(dims)),
        packed(_aligned(pack_walk(dims, (strides,), is_wide), is_wide)),
        element_of(1, out.dtype),
        i32(indices.dtype is long),
    )
    return _planned("one_hot", out, is_wide, target, arguments)


_MAKERS: Final[dict[str, Maker]] = {
    "concat": plan_join,
    "stack": plan_join,
    "pad": _pads,
    "tril": _triangles,
    "triu": _triangles,
    "take": _gathers,
    "gather": _gathers,
    "one_hot": _one_hots,
    "index_add": plan_scatter,
    "scatter_add": plan_scatter,
}
