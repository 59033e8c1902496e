"""What kernels that read indices share: the struct of indices.cuh, and the check without output."""

from __future__ import annotations

import struct
from typing import Final

from softcuda.backends.cuda.axes import fuse_axes
from softcuda.backends.cuda.planned import Launches, launch_in_row
from softcuda.backends.cuda.walks import WALK_THREADS, blocks_for, pack_walk
from softcuda.backends.launches import Argument, i64, packed, read, status
from softcuda.backends.reports import where_of
from softcuda.backends.steps import Micro, Unit
from softcuda.dtype import i64 as long
from softcuda.graph.shapes import numel
from softcuda.kernelspec import KernelSpec
from softcuda.target import Target

__all__ = ["CHECK_KERNELS", "check_launches", "indexed"]

_CHECK: Final = KernelSpec(
    "check_indices", "i64", "gather.cu", "check_indices<i64>", ("i32", "i64"), WALK_THREADS
)
CHECK_KERNELS: Final[tuple[KernelSpec, ...]] = (_CHECK,)


def indexed(unit: Unit, micro: Micro) -> Argument:
    """Return the `Indexed` of an op that reads indices: operand 1, along params.axis of operand 0.

    Args:
        unit: whose operands the op reads.
        micro: the op; its params say the axis, and who asked.
    """
    data, indices = (unit.operands[source] for source in micro.sources[:2])
    axis = micro.params.axis
    where = where_of(micro.params.caller or micro.op.name, axis)
    return packed(struct.pack("<qqi4x", data.dims[axis], where, indices.dtype is long))


def check_launches(unit: Unit, micro: Micro, target: Target) -> Launches:
    """Return what reports an index out of range where the op has nothing else to do.

    None where there are no indices.
    """
    source = micro.sources[1]
    indices = unit.operands[source]
    count = numel(indices.dims)
    if not count:
        return ()
    axes = fuse_axes(indices.dims, [indices.strides])
    arguments = (
        read(source),
        status(),
        i64(count),
        packed(pack_walk(axes.dims, axes.strides, True)),
        indexed(unit, micro),
    )
    return (launch_in_row(_CHECK, blocks_for(count, WALK_THREADS, target), arguments),)
