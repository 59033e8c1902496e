"""The planning of contractions: labels to boxes, parameters that the kernel reads, launches.

The packed parameters are read back here and carried out by NumPy, as the kernel would.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import contract_model
import numpy as np
import pytest
from gemm_units import layout_of_array, unit_of
from tolerance import assert_close

from softcuda.backends import cuda_contract
from softcuda.backends.cuda.contract import contract_launches, planned_contraction
from softcuda.backends.cuda.contract_choice import BoxChoice, cut_bytes
from softcuda.backends.cuda.contract_pack import needs_wide_offsets
from softcuda.backends.cuda.contract_rule import choose, cuts, shapes
from softcuda.backends.cuda.contract_sides import SideAxes, joint_run, side_boxes
from softcuda.backends.cuda.contract_tiles import CONTRACT_TILES
from softcuda.backends.cuda.contract_ways import Way
from softcuda.dtype import f16, f32, f64
from softcuda.errors import BackendError
from softcuda.target import Target

Array = np.ndarray[Any, Any]

H200 = Target("cuda", "sm_90a", 132, 227, 60)
UNITS = H200.multiprocessors
EQUATIONS = [
    ("ij,jk->ik", (5, 7), (7, 3)),
    ("ij,jk->ki", (65, 12), (12, 36)),
    ("bij,bjk->ikb", (3, 34, 20), (3, 20, 36)),
    ("abc,dce->edab", (12, 9, 8), (4, 8, 24)),
    ("adb,cd->cba", (24, 12, 40), (24, 12)),
    ("aebd,ce->dcba", (20, 6, 5, 24), (10, 6)),
    ("cged,bafg->fedcba", (4, 12, 6, 8), (6, 8, 10, 12)),
    ("abcd,ebfd->acef", (3, 4, 5, 6), (7, 4, 3, 6)),
    ("ij,ij->ji", (33, 34), (33, 34)),
    ("i,i->", (9,), (9,)),
    (",ij->ij", (), (2, 3)),
    ("abcdefgh,hgfedcba->", (2,) * 8, (2,) * 8),
    ("aij,ajk->aik", (1, 4, 5), (3, 5, 6)),
    ("ij,jk->ik", (4, 0), (0, 5)),
]


def flat(array: Array) -> Array:
    """Return the elements from an array's first one on, by offset; offsets may be negative.

    Where strides are negative NumPy's own negative indices reach what lies before the first.
    """
    strides = [stride // array.itemsize for stride in array.strides]
    spans = [(n - 1) * s for n, s in zip(array.shape, strides, strict=True) if n]
    high, low = sum(s for s in spans if s > 0), -sum(s for s in spans if s < 0)
    found = np.full(high + low + 1, np.nan)
    if array.size:
        offsets = np.zeros(array.shape, np.int64)
        for axis, stride in enumerate(strides):
            steps = np.arange(array.shape[axis]) * stride
            offsets += np.expand_dims(steps, [k for k in range(array.ndim) if k != axis])
        found[offsets.reshape(-1)] = array.reshape(-1)
    return found


def operands_of(launch: Any, arrays: tuple[Array, Array]) -> tuple[Array, Array]:
    """Return what the launch's operands a and b are, flat."""
    first, second = (arrays[int(argument.value)] for argument in launch.arguments[2:4])
    return flat(first), flat(second)


def agrees(got: Array, equation: str, x: Array, y: Array) -> None:
    scale = np.einsum(equation, np.abs(x), np.abs(y))
    expected = np.einsum(equation, x, y)
    found = got.reshape(expected.shape)
    assert_close(found, expected, f64, "matmul", k_extent=max(x.size, 1), scale=scale)


def check_every_choice(equation: str, x: Array, y: Array) -> None:
    """Every box and cut that the rule may choose does the same."""
    unit = unit_of(equation, [layout_of_array(x), layout_of_array(y)], f32)
    _, problem = planned_contraction(unit)
    every: list[BoxChoice] = [choose(problem, UNITS)]
    for tile in CONTRACT_TILES[f32]:
        found = shapes(problem, tile, UNITS)
        assert found, "every tile takes every contraction"
        every += found
        every += list(cuts(problem, found[0], UNITS))[:2]
    count = int(np.prod(unit.result.dims))
    for choice in dict.fromkeys(every):
        launch, *_ = contract_launches(problem, choice, UNITS, 0)
        got = contract_model.carried_out(launch, *operands_of(launch, (x, y)), count)
        agrees(got, equation, x, y)


@pytest.mark.parametrize(("equation", "a", "b"), EQUATIONS)
def test_boxes_cover_every_element_once(
    equation: str, a: tuple[int, ...], b: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(1)
    check_every_choice(equation, rng.standard_normal(a), rng.standard_normal(b))


def test_strides_of_any_sign() -> None:
    rng = np.random.default_rng(2)
    big = rng.standard_normal((40, 36, 24))
    views = [
        big[::2, ::-1, 3:15],
        np.broadcast_to(big[:1, :, :12], (20, 36, 12)),
        np.broadcast_to(big[:20, :1, :12], (20, 36, 12)),
        big.transpose(1, 0, 2)[::-1, :36, 12:].transpose(1, 0, 2)[:20],
    ]
    for x in views:
        for y in views:
            check_every_choice("abk,bck->ca", x, y.transpose(1, 0, 2))


def test_the_result_is_contiguous_along_rows() -> None:
    """Rows are the labels among which the result is contiguous, and are stored as vectors."""
    for equation, way in (("ij,jk->ik", Way.ROWS_VECTOR), ("ji,jk->ki", Way.ROWS_VECTOR)):
        _, problem = planned_contraction(unit_of(equation, [(64, 64), (64, 64)], f32))
        assert problem.rows.result == (1,)
        assert problem.can_store_vectors
        assert problem.ways[0] is way


def test_ways_to_read() -> None:
    def ways(equation: str, *shapes: tuple[int, ...]) -> tuple[Way, Way]:
        return planned_contraction(unit_of(equation, shapes, f32))[1].ways

    assert ways("ij,jk->ik", (8, 8), (8, 8)) == (Way.ROWS_VECTOR, Way.DEPTH_SINGLE)
    assert ways("ij,kj->ik", (8, 8), (8, 8)) == (Way.DEPTH_SINGLE, Way.DEPTH_SINGLE)
    assert ways("ij,kj->ik", (8, 6), (8, 6)) == (Way.DEPTH_SINGLE, Way.DEPTH_SINGLE)
    assert ways("ji,jk->ik", (8, 9), (8, 7)) == (Way.ROWS_SINGLE, Way.ROWS_SINGLE)
    assert ways("ji,jk->ik", (8, 12), (8, 7)) == (Way.ROWS_SINGLE, Way.ROWS_VECTOR)


def test_boxes_hold_the_contiguous_labels_of_both() -> None:
    """Neither the operand's nor the result's contiguous label is walked element by element."""
    unit = unit_of("afbce,df->edcba", [(48, 48, 32, 32, 48), (24, 48)], f32)
    _, problem = planned_contraction(unit)
    choice = choose(problem, UNITS)
    assert not choice.rows.is_flat
    assert choice.rows.run(choice.rows.axes.source) >= 8
    assert choice.rows.run(choice.rows.axes.result) >= 8
    assert choice.tile.n == 24 and choice.columns.use == 1.0


def test_few_outputs_are_cut() -> None:
    unit = unit_of("dca,cbd->ba", [(312, 296, 312), (296, 296, 312)], f32)
    (step,) = cuda_contract.prepare(unit, H200)
    assert [launch.spec.family for launch in step.launches] == ["contract", "contract_sum"]
    _, problem = planned_contraction(unit)
    choice = choose(problem, UNITS)
    assert choice.splits > 1 and step.scratch_bytes == cut_bytes(problem, choice)
    assert step.kernel.startswith("contract.f32")


def test_wide_offsets() -> None:
    """Offsets inside a box that pass 2^31 are 64 bits; far apart boxes alone are not."""
    far = ((64, 64), (1 << 26, 1))
    unit = unit_of("ij,jk->ik", [far, (64, 64)], f32)
    (step,) = cuda_contract.prepare(unit, H200)
    assert ", i64, " in step.launches[0].spec.expression
    near = unit_of("ij,jk->ik", [(64, 64), (64, 64)], f32)
    _, problem = planned_contraction(near)
    assert not needs_wide_offsets(problem, choose(problem, UNITS))


def test_blocks_fit_what_they_do() -> None:
    """As many blocks as a device holds at once, and never more than there are tasks."""
    for m in (8, 4096):
        unit = unit_of("ij,jk->ik", [(m, 24), (24, m)], f32)
        _, problem = planned_contraction(unit)
        choice = choose(problem, UNITS)
        launch, *_ = contract_launches(problem, choice, UNITS, 0)
        slots = UNITS * choice.tile.resident
        assert launch.grid == (min(choice.tasks(1), slots), 1, 1)


def test_private_labels_are_summed_first() -> None:
    unit = unit_of("adbp,cdq->cba", [(5, 6, 4, 3), (7, 6, 4)], f32)
    (step,) = cuda_contract.prepare(unit, H200)
    families = [launch.spec.family for launch in step.launches]
    assert families == ["private_sum", "private_sum", "contract"]


def test_chains_behind() -> None:
    chain = [("add", (-1, 2), None), ("relu", (-1,), None), ("cast", (-1,), f16)]
    unit = unit_of("adb,cd->cba", [(24, 12, 40), (24, 12), (24, 40, 24)], f32, chain)
    (step,) = cuda_contract.prepare(unit, H200)
    (launch,) = step.launches
    assert "Chain" in launch.spec.expression and launch.spec.dtypes[0] == "f16"
    assert launch.arguments[-1].kind == "read" and launch.arguments[-1].value == 2


def test_chains_of_many_operands_are_left_to_tiles() -> None:
    """Their strides take more parameters than contract.cu has, their offsets all shared memory."""
    stretched = [(3, 1, 5, 1, 7, 1, 9), (1, 4, 1, 6, 1, 8, 1)]
    shapes_of = [(3, 4, 5, 6, 7), (8, 9), *stretched * 7]
    for equation, sizes, count in (
        ("abcde,fg->abcdefg", shapes_of, 14),
        ("ijp,jk->kip", [(9, 9, 4), (9, 9), *[(9, 9, 4)] * 40], 40),
    ):
        chain = [("add", (-1, 2 + number), None) for number in range(count)]
        (step,) = cuda_contract.prepare(unit_of(equation, sizes, f32, chain), H200)
        assert step.launches[0].spec.family == "gemm_tiled"
        assert step.kernel == step.launches[0].spec.id


def test_chains_beyond_what_a_kernel_takes_are_refused() -> None:
    """No compiled graph has such units: `carries` ends the chain before."""
    shapes: list[Any] = [(9, 9, 4), (9, 9), *[(9, 9, 4)] * 90]
    chain = [("add", (-1, 2 + number), None) for number in range(90)]
    with pytest.raises(BackendError, match="reads 90 operands whose strides take"):
        cuda_contract.prepare(unit_of("ijp,jk->kip", shapes, f32, chain), H200)


def test_half_precision_takes_vectors_of_its_compute_type() -> None:
    _, problem = planned_contraction(unit_of("ji,jk->ik", [(64, 64), (64, 64)], f16))
    assert problem.width == 4
    assert replace(problem, dtype=f64).width == 2


@pytest.mark.parametrize(
    ("equation", "shapes_of", "family"),
    [
        ("ij,jk->ik", [(2048, 2048), (2048, 2048)], "gemm_tiled"),
        ("adb,cd->cba", [(312, 312, 312), (24, 312)], "contract"),  # a is far where it is read
        ("ijb,jkb->ikb", [(96, 128, 32), (128, 112, 32)], "contract"),  # k is far in the result
        ("cged,bafg->fedcba", [(16, 24, 16, 24), (16, 24, 16, 24)], "contract"),
    ],
)
def test_plain_products_go_to_tiles(
    equation: str, shapes_of: list[tuple[int, ...]], family: str
) -> None:
    (step,) = cuda_contract.prepare(unit_of(equation, shapes_of, f32), H200)
    assert step.kernel.startswith(f"{family}.")
    assert family in [launch.spec.family for launch in step.launches]


# Of the published set, as a sweep on an H200 found them best or within 1 % of it: 72 or 312 long
# labels and one of 24, and those of 48 and 32 of case 07.
@pytest.mark.parametrize(
    ("equation", "extents", "kernels"),
    [
        ("adb,cd->cba", "a312 b312 c24 d312", ["256x24x8by4x12_r4_k"]),
        ("aebd,ce->dcba", "a72 b72 c24 d72 e72", ["256x24x8by4x12_r4_k"]),
        ("dabe,ec->dcba", "a72 b72 c24 d72 e72", ["256x24x8by4x12_k_r4"]),
        ("afbce,df->edcba", "a48 b32 c32 d24 e48 f48", ["256x24x8_r_k"]),
        ("ae,dcbe->dcba", "a72 b72 c72 d72 e72", ["72x128x8_k_k"]),
        ("ce,deba->dcba", "a72 b72 c72 d72 e72", ["256x24x8_r4_k"]),
        ("dca,cbd->ba", "a312 b296 c296 d312", ["64x64x8_r4_k", "sum"]),
        ("ceda,dbe->cba", "a72 b72 c72 d72 e72", ["128x72x8_r4_k", "sum"]),
    ],
)
def test_choices_are_those_of_the_sweep(equation: str, extents: str, kernels: list[str]) -> None:
    size = {part[0]: int(part[1:]) for part in extents.split()}
    operands = equation.split("->", maxsplit=1)[0].split(",")
    shapes_of = [tuple(size[label] for label in operand) for operand in operands]
    (step,) = cuda_contract.prepare(unit_of(equation, shapes_of, f32), H200)
    expected = ["contract_sum.f32" if x == "sum" else f"contract.f32_{x}" for x in kernels]
    assert [launch.spec.id for launch in step.launches] == expected


def test_results_of_both_sides_lie_beside_each_other() -> None:
    """Columns of 4 continue rows of 8 that fill their label; a part of a label ends a run."""
    rows = SideAxes((8, 6), (1, 8), (1, 32))
    columns = SideAxes((4,), (1,), (8,))
    whole = side_boxes(columns, 4, Way.ROWS_SINGLE, 4, False)[0]
    for block, run in ((8, 32), (4, 4), (16, 64)):
        assert joint_run(side_boxes(rows, block, Way.ROWS_SINGLE, 4, False)[0], whole) == run


def test_every_box_has_a_name_of_its_own() -> None:
    for tiles in CONTRACT_TILES.values():
        assert len({tile.name for tile in tiles}) == len(tiles)
