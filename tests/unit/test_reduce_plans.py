"""The rules of cuda_reduce: every iteration is some block's, and blocks fill the device."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from chain_cases import micro_of
from reduce_steps import H200

from softcuda.backends.cuda.reduce import Reduction, reduction_of
from softcuda.backends.cuda.reduce_plans import Plan, dealt
from softcuda.backends.cuda.reduce_problem import problem_of
from softcuda.backends.cuda.reduce_shapes import REDUCE_THREADS, reduce_tile
from softcuda.backends.cuda.spaces import SPLIT_BESIDE, SPLIT_CHUNKS, SPLIT_REST
from softcuda.backends.cuda.states import measure_of
from softcuda.backends.steps import Operand, Unit
from softcuda.dtype import REAL_DTYPES, DType, bf16, f32, f64
from softcuda.graph.params import Dims, Moment, Reduce
from softcuda.graph.shapes import contiguous_strides, numel

SHAPES = [
    *(((n,), (0,)) for n in (1, 5, 1024, 40_000, 1 << 20, 1 << 26, (1 << 26) + 4, 1 << 34)),
    *(
        ((m, n), (axis,))
        for m in (3, 64, 8192, 1 << 20)
        for n in (2, 64, 2048, 8190)
        for axis in (0, 1)
    ),
    ((256, 256, 1024), (0, 2)),
    ((256, 256, 1024), (1,)),
    ((3, 2, 4096), (0, 2)),
    ((9, 5, 7, 11), (1, 3)),
]


def found(dims: Dims, axes: Dims, name: str = "sum", dtype: DType = f32) -> Reduction:
    operand = Operand(0, 0, dims, contiguous_strides(dims), dtype)
    params: object = Moment(axes, False, "0") if name == "var" else Reduce(axes, False)
    micro = micro_of(name, (0,), [operand], params)
    result = Operand(0, 0, micro.dims, contiguous_strides(micro.dims), micro.dtype)
    return reduction_of(problem_of(Unit((micro,), (operand,), result, (0,))), H200)


def dealt_out(plan: Plan, batches: int) -> np.ndarray:
    """Return how many blocks take each batch: Space::dealt of reduce_space.cuh."""
    taken = np.zeros(batches, np.int64)
    for part in range(plan.parts):
        if part >= plan.longs:
            begin, count = plan.longs * plan.each + part - plan.longs, 1
        else:
            place = part % plan.turn
            begin = (part - place) * plan.each + place
            count = min(plan.each, -(-(batches - begin) // plan.turn))
        taken[begin : begin + max(count, 0) * plan.turn : plan.turn] += 1
    return taken


@pytest.mark.parametrize(("dims", "axes"), SHAPES, ids=str)
@pytest.mark.parametrize(
    ("name", "dtype"), [("sum", f32), ("max", bf16), ("var", f32), ("sum", f64)]
)
def test_parts_share_every_iteration_once(dims: Dims, axes: Dims, name: str, dtype: DType) -> None:
    reduction = found(dims, axes, name, dtype)
    plan, loops = reduction.plan, reduction.loops
    assert plan.team & (plan.team - 1) == 0
    assert 1 <= plan.team <= REDUCE_THREADS
    if plan.parts == 1:
        return
    vectors = -(-loops.inner.extent // plan.tile.width)
    down = 1 if loops.is_rows else REDUCE_THREADS // plan.team
    counts = {
        SPLIT_REST: loops.outer_reduced // loops.beside.extent,
        SPLIT_BESIDE: -(-loops.beside.extent // down),
        SPLIT_CHUNKS: -(-(vectors + 1) // plan.team),
    }
    count = counts[plan.split]
    if plan.by_chunk:
        count = -(-vectors // plan.team)
    if plan.family == "reduce_rows" or plan.split != SPLIT_BESIDE:
        assert plan.parts * plan.each >= count > 0
        assert (plan.parts - 1) * plan.each < count + plan.parts
    else:
        assert plan.turn & (plan.turn - 1) == 0
        assert np.all(dealt_out(plan, -(-count // plan.tile.loads)) == 1)


@pytest.mark.parametrize("rounds", [1, 2, 7, 64])
@pytest.mark.parametrize("batches", [2, 63, 4096, 20_011])
def test_batches_are_dealt_once_in_any_rounds(batches: int, rounds: int) -> None:
    plan = found((1 << 26,), (0,)).plan
    for blocks in (1, 5, 400):
        parted = dealt(plan, batches, blocks, H200.multiprocessors, rounds)
        assert np.all(dealt_out(parted, batches) == 1)
        assert parted.parts <= 65535


@pytest.mark.parametrize(
    ("name", "dtype"), list(itertools.product(("sum", "max", "var"), (f32, bf16)))
)
def test_large_reductions_fill_the_device(name: str, dtype: DType) -> None:
    for dims, axes in SHAPES:
        plan, loops = (reduction := found(dims, axes, name, dtype)).plan, reduction.loops
        if numel(dims) < 1 << 26:
            continue
        rows = loops.results if loops.is_rows else loops.outer_kept
        tiles = -(-loops.inner.extent // (plan.team * plan.tile.width))
        blocks = -(-rows // plan.outputs) * (1 if loops.is_rows else tiles) * plan.parts
        assert blocks >= H200.multiprocessors, (dims, axes, plan)


@pytest.mark.parametrize("dtype", REAL_DTYPES.values(), ids=str)
def test_threads_read_whole_vectors(dtype: DType) -> None:
    tile = reduce_tile(measure_of("sum", dtype, Reduce((0,), False), 2), (dtype,))
    assert tile.width * dtype.itemsize == 16
    assert tile.loads % tile.group == 0
