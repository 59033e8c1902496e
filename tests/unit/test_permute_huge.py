"""Permuted copies of what only large devices hold, and of what none does: their parameters."""

from __future__ import annotations

import numpy as np
import pytest
from tile_model import moves, shape_of, unpacked

from softcuda.backends import cuda_elementwise, cuda_permute
from softcuda.backends.cuda.permute import Side, copy_launch
from softcuda.backends.launches import read
from softcuda.backends.steps import Micro, Operand, Unit
from softcuda.dtype import DType, bf16, bool_, f32, f64
from softcuda.errors import BackendError
from softcuda.graph.op import OPS
from softcuda.graph.shapes import contiguous_strides
from softcuda.target import Target

H200 = Target("cuda", "sm_90a", 132, 227, 60)

HUGE: list[tuple[tuple[int, ...], tuple[int, ...], DType]] = [
    ((2**29, 4), (1, 0), f32),
    ((4, 2**29), (1, 0), f32),
    ((2**29, 4), (1, 0), bool_),
    ((2**31, 8), (1, 0), bool_),
    ((2**28, 8), (1, 0), bf16),
    ((2**30, 2), (1, 0), bf16),
    ((2**30, 2), (1, 0), f64),
    ((2, 35, 5978, 1068, 5), (1, 3, 4, 2, 0), bf16),
]


@pytest.mark.parametrize("is_chain", [False, True])
@pytest.mark.parametrize(("shape", "axes", "dtype"), HUGE, ids=str)
def test_steps_between_vectors_beyond_32_bits(
    shape: tuple[int, ...], axes: tuple[int, ...], dtype: DType, is_chain: bool
) -> None:
    """An axis of one vector takes no step, however far its next one is."""
    dims = tuple(shape[axis] for axis in axes)
    given = contiguous_strides(shape)
    strides = tuple(given[axis] for axis in axes)
    if is_chain:
        micro = Micro(OPS["copy"], (0,), dims, dtype, ())
        operands = (Operand(0, 0, dims, strides, dtype),)
        result = Operand(1, 0, dims, contiguous_strides(dims), dtype)
        (step,) = cuda_elementwise.prepare(Unit((micro,), operands, result, (1,)), H200)
        (launch,) = step.launches
        if launch.spec.family != "elementwise_turned":
            return
        one = 1
    else:
        made = Side(0, contiguous_strides(dims))
        launch = copy_launch(dims, read(0), Side(0, strides), made, dtype.itemsize, H200)
        one = max(shape_of(launch).lane_bytes // dtype.itemsize, 1)
    total = unpacked(launch).total
    for number in (0, total // 3, total - 1):
        for source, to in moves(launch, number):
            places = np.array(np.unravel_index(to * one, dims))
            assert np.array_equal(source * one, np.array(strides) @ places)


@pytest.mark.parametrize("name", ["copy", "square"])
def test_no_grid_counts_the_tiles_of_what_no_device_holds(name: str) -> None:
    for dims in ((2**25, 2**25), (2**10, 2**40), (2**30, 2**32)):
        operands = (Operand(0, 0, dims, (1, dims[0]), f32),)
        result = Operand(1, 0, dims, contiguous_strides(dims), f32)
        unit = Unit((Micro(OPS[name], (0,), dims, f32, ()),), operands, result, (1,))
        backend = cuda_permute if name == "copy" else cuda_elementwise
        with pytest.raises(BackendError, match="is beyond what cuda_permute counts"):
            backend.prepare(unit, H200)
