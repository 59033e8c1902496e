"""The planning of tiled products: labels to matrices, tiles, splits, grids, packed parameters.

The packed parameters are read back here and carried out by NumPy, as the kernel would.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from gemm_units import layout_of_array, unit_of
from tolerance import assert_close

from softcuda.backends import cuda_tiled
from softcuda.backends.cuda.gemm import prepare_gemm
from softcuda.backends.cuda.naive_contraction import prepare_contraction
from softcuda.backends.launches import KernelLaunch, read
from softcuda.backends.steps import Step
from softcuda.dtype import DType, f16, f32, f64
from softcuda.errors import BackendError
from softcuda.target import Target

Array = np.ndarray[Any, Any]

H200 = Target("cuda", "sm_90a", 132, 227, 60)
MAX_GRID = 2**31 - 1


class Index(NamedTuple):
    """A MultiIndex: extents, innermost first."""

    extents: tuple[int, ...]

    def offsets(self, strides: Sequence[int]) -> Array:
        """Return the offset of every index."""
        made = np.zeros(1, np.int64)
        for extent, stride in zip(self.extents, strides, strict=False):
            made = (np.arange(extent)[:, None] * stride + made[None, :]).reshape(-1)
        return made


class Numbers(NamedTuple):
    """The numbers at the end of a GemmProblem."""

    m: int
    n: int
    k: int
    batches: int
    first_batch: int
    tiles_m: int
    block_m: int
    block_n: int
    whole: int
    splits: int
    k_chunk: int
    has_vectors: int
    tiles: int


class Problem(NamedTuple):
    """What a GemmProblem holds."""

    strides: tuple[tuple[int, ...], ...]  # a: batches rows depth; b likewise; out: b rows columns
    along_depth: tuple[int, int]
    vectors: tuple[int, int]
    indices: tuple[Index, ...]  # batches, rows, columns, depth
    numbers: Numbers


def problem_of(data: bytes) -> Problem:
    """Return the fields of a packed GemmProblem."""
    assert len(data) == 1080
    fields = struct.unpack("<24q2i24q2i24q100i12i9I4x", data)
    take = iter(fields)

    def some(count: int) -> tuple[int, ...]:
        return tuple(next(take) for _ in range(count))

    strides, flags = [], []
    for _ in range(2):
        strides += [some(8) for _ in range(3)]
        flags.append(some(2))
    strides += [some(8) for _ in range(3)]
    indices = []
    for _ in range(4):
        (count,) = some(1)
        divisors = [some(3) for _ in range(8)]
        indices.append(Index(tuple(d[0] for d in divisors[:count])))
    along, vectors = zip(*flags, strict=True)
    return Problem(tuple(strides), along, vectors, tuple(indices), Numbers(*some(13)))


def problem_in(launch: KernelLaunch) -> Problem:
    return problem_of(next(a.value for a in launch.arguments if isinstance(a.value, bytes)))


def carried_out(step: Step, a: Array, b: Array) -> Array:
    """Return what the step's one launch computes, in f64, by its parameters alone."""
    (launch,) = step.launches
    problem = problem_in(launch)
    factors = {read(0): a, read(1): b}
    x, y = (factors[argument] for argument in launch.arguments[2:4])
    batches, rows, columns, depth = problem.indices
    m, n, k = problem.numbers[:3]
    out = np.full(step.outputs[0].dims, np.nan).reshape(-1)
    s = problem.strides

    def matrix(array: Array, base: int, outer: Array, inner: Array) -> Array:
        number = ctypes.c_double if array.itemsize == 8 else ctypes.c_float
        places = array.ctypes.data + array.itemsize * (base + outer[:, None] + inner[None, :])
        read_at = np.vectorize(lambda place: number.from_address(int(place)).value, ["f8"])
        return np.asarray(read_at(places))

    every = zip(batches.offsets(s[0]), batches.offsets(s[3]), batches.offsets(s[6]), strict=True)
    for base_x, base_y, base_out in every:
        left = matrix(x, base_x, rows.offsets(s[1])[:m], depth.offsets(s[2])[:k])
        right = matrix(y, base_y, columns.offsets(s[4])[:n], depth.offsets(s[5])[:k])
        places = base_out + rows.offsets(s[7])[:, None] + columns.offsets(s[8])[None, :]
        out[places] = left.astype(np.float64) @ right.T.astype(np.float64)
    return out.reshape(step.outputs[0].dims)


def agrees(got: Array, equation: str, x: Array, y: Array) -> None:
    scale = np.einsum(equation, np.abs(x), np.abs(y))
    assert_close(got, np.einsum(equation, x, y), f64, "matmul", k_extent=x.size, scale=scale)


def steps_of(equation: str, *arrays: Array, dtype: DType = f64) -> Step:
    unit = unit_of(equation, list(map(layout_of_array, arrays)), dtype)
    (step,) = prepare_gemm(cuda_tiled.BACKEND_ID, unit, H200)
    return step


@pytest.mark.parametrize(
    ("equation", "a", "b"),
    [
        ("ij,jk->ik", (5, 7), (7, 3)),
        ("ij,jk->ki", (5, 7), (7, 3)),
        ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
        ("bij,bjk->ikb", (2, 3, 4), (2, 4, 5)),
        ("abc,dce->edab", (3, 4, 8), (4, 8, 4)),
        ("abcd,ebfd->acef", (3, 4, 5, 6), (7, 4, 3, 6)),
        ("ij,ij->ji", (3, 4), (3, 4)),
        ("ij,j->i", (9, 4), (4,)),
        ("i,i->", (9,), (9,)),
        (",ij->ij", (), (2, 3)),
        ("aij,ajk->aik", (1, 4, 5), (3, 5, 6)),
        ("bij,bij->b", (3, 4, 5), (3, 4, 5)),
    ],
)
def test_labels_become_matrices(equation: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal(a), rng.standard_normal(b)
    got = carried_out(steps_of(equation, x, y), x, y)
    agrees(got, equation, x, y)


def test_strides_of_any_sign() -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((8, 9, 4))[::-2, ::3, ::-1]
    y = np.broadcast_to(rng.standard_normal((3, 1, 5)), (3, 4, 5)).transpose(2, 1, 0)
    got = carried_out(steps_of("ijk,lkj->li", x, y), x, y)
    agrees(got, "ijk,lkj->li", x, y)


def test_private_labels_are_summed_first() -> None:
    unit = unit_of("ijp,jkq->ik", [(5, 6, 7), (6, 8, 9)], f16)
    for (step,) in (cuda_tiled.prepare(unit, H200), prepare_contraction(unit, H200)):
        families = [launch.spec.family for launch in step.launches]
        assert families[:2] == ["private_sum", "private_sum"]
        assert step.scratch_bytes >= 512
        assert "<f32, f32, f16" in step.launches[2].spec.expression


def test_jointly_contiguous_labels_are_one_axis() -> None:
    step = steps_of("abcd,cdef->abef", np.zeros((2, 3, 4, 8)), np.zeros((4, 8, 2, 4)))
    problem = problem_in(step.launches[0])
    assert [index.extents for index in problem.indices] == [(1,), (6,), (8,), (32,)]
    assert problem.along_depth == (1, 0)
    assert problem.vectors == (1, 1)


@pytest.mark.parametrize("dims", [(64, 64), (64, 66), (63, 64)])
@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)])
def test_vectors_lie_along_the_contiguous_axis(
    dims: tuple[int, int], turned: tuple[bool, bool]
) -> None:
    """Whichever of the four storage orders; not where an extent would cut a vector."""
    m, k = dims
    x, y = np.zeros((m, k), np.float32), np.zeros((k, m), np.float32)
    if turned[0]:
        x = np.zeros((k, m), np.float32).T
    if turned[1]:
        y = np.zeros((m, k), np.float32).T
    problem = problem_in(steps_of("ij,jk->ik", x, y, dtype=f32).launches[0])
    assert problem.along_depth == (not turned[0], turned[1])
    near = [m if turned[0] else k, k if turned[1] else m]
    assert problem.vectors == tuple(int(extent % 4 == 0) for extent in near)


def test_the_innermost_axis_of_the_result_is_a_column() -> None:
    step = steps_of("ij,jk->ki", np.zeros((5, 7)), np.zeros((7, 3)))
    problem = problem_in(step.launches[0])
    assert problem.numbers[:3] == (3, 5, 7)
    assert problem.strides[8][0] == 1
    assert step.launches[0].arguments[2:4] == (read(1), read(0))


def test_a_split_product_is_summed_by_a_second_launch() -> None:
    unit = unit_of("ij,jk->ik", [(40, 100_000), (100_000, 50)], f32, [("relu", (-1,), None)])
    (step,) = cuda_tiled.prepare(unit, H200)
    product, total = step.launches
    assert (product.spec.family, total.spec.family) == ("gemm_tiled", "gemm_split_sum")
    assert product.arguments[1] == total.arguments[1]
    numbers = problem_in(product).numbers
    assert numbers.whole == 0
    tile_elems = numbers.block_m * numbers.block_n
    assert step.scratch_bytes == 4 * product.grid[0] * tile_elems
    assert product.grid[0] == numbers.tiles * numbers.splits
    assert total.grid[0] * total.block[0] * 4 >= numbers.tiles * tile_elems
    assert step.kernel == product.spec.id


def test_tiles_that_do_not_fill_the_device_are_cut() -> None:
    """The others keep a block of their own; the scratch holds the parts of the cut ones."""
    (step,) = cuda_tiled.prepare(unit_of("ij,jk->ik", [(2053, 2053)] * 2, f32), H200)
    product = step.launches[0]
    numbers = problem_in(product).numbers
    cut = numbers.tiles - numbers.whole
    assert 0 < cut < numbers.whole
    assert product.grid[0] == numbers.whole + cut * numbers.splits
    assert numbers.splits * numbers.k_chunk >= 2053
    assert step.scratch_bytes == 4 * cut * numbers.splits * numbers.block_m * numbers.block_n


def test_a_depth_of_several_axes_is_read_in_any_way() -> None:
    flat = steps_of("ij,kj->ik", np.zeros((64, 8), np.float32), np.zeros((64, 8), np.float32))
    assert "DEPTH_VECTOR, DEPTH_VECTOR" in flat.launches[0].spec.expression
    deep = steps_of("abc,dcb->ad", np.zeros((8, 4, 6)), np.zeros((8, 6, 4)))
    assert "ANY, ANY" in deep.launches[0].spec.expression


def test_grids_stay_within_limits() -> None:
    batches = 2**30
    column, row = ((batches, 300, 1), (0, 1, 0)), ((batches, 1, 300), (0, 0, 1))
    (step,) = cuda_tiled.prepare(unit_of("bij,bjk->bik", [column, row], f32), H200)
    first = 0
    for launch in step.launches:
        numbers = problem_in(launch).numbers
        assert launch.grid == (numbers.whole, 1, 1)
        assert launch.grid[0] <= MAX_GRID
        assert numbers.first_batch == first
        first += launch.grid[0] // numbers.tiles
    assert first == batches
    assert len(step.launches) > 1


def test_nothing_is_launched_for_nothing() -> None:
    for backend in (cuda_tiled.prepare, prepare_contraction):
        (empty,) = backend(unit_of("ij,jk->ik", [(0, 3), (3, 5)], f32), H200)
        assert (empty.launches, empty.kernel, empty.scratch_bytes) == ((), "nothing", 0)
        (zeros,) = backend(unit_of("ij,jk->ik", [(4, 0), (0, 5)], f32), H200)
        assert len(zeros.launches) == 1
        (stretched,) = backend(unit_of("ij,jk->ik", [(4, 1), (0, 5)], f32), H200)
        assert stretched.launches[-1].arguments[0] == zeros.launches[0].arguments[0]


def test_extras_broadcast_to_the_product() -> None:
    chain = [("mul", (-1, 2), None), ("add", (-1, 3), None)]
    unit = unit_of("bij,bjk->bik", [(2, 40, 8), (2, 8, 24), (), (40, 1)], f32, chain)
    (step,) = cuda_tiled.prepare(unit, H200)
    launch = step.launches[0]
    assert launch.arguments[-2:] == (read(2), read(3))
    extras = launch.arguments[5].value
    assert isinstance(extras, bytes)
    assert struct.unpack("<6q", extras) == (0, 0, 0, 0, 1, 0)


def test_parameters_fit_a_kernel() -> None:
    dims = (2, 3, 2, 3, 2)
    strides = (1, 2, 6, 12, 36)
    a, b = "abcdex", "x"
    chain = [("add", (-1, k), None) for k in range(2, 40)]
    shapes: list[Any] = [(*dims, 4), (4,), *[(dims, strides)] * 38]
    with pytest.raises(BackendError, match="38 operands whose strides take"):
        cuda_tiled.prepare(unit_of(f"{a},{b}->abcde", shapes, f32, chain), H200)
    few = unit_of(f"{a},{b}->abcde", shapes[:12], f32, chain[:10])
    for launch in cuda_tiled.prepare(few, H200)[0].launches:
        assert (
            sum(len(x.value) if isinstance(x.value, bytes) else 8 for x in launch.arguments) < 4096
        )
