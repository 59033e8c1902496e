"""Products and boxes behind copies of operands: what is copied where, and when it is worth it.

Copies are carried out by NumPy from their packed tiles, and so is the contraction behind them.
"""

from __future__ import annotations

from typing import Any

import contract_model
import numpy as np
import pytest
from gemm_units import layout_of_array, unit_of
from tile_model import moved

from softcuda.backends import cuda_contract
from softcuda.backends.cuda.contract import contract_launches
from softcuda.backends.cuda.contract_packed import sooner_boxes
from softcuda.backends.cuda.contract_plan import plan_contraction
from softcuda.backends.cuda.contract_rule import choose
from softcuda.backends.cuda.contract_ways import Way
from softcuda.backends.cuda.gemm_packed import packed_pair, packings
from softcuda.backends.cuda.gemm_plan import Reading
from softcuda.backends.cuda.naive_contraction import PreparedPair
from softcuda.backends.cuda.products import PreparedProduct, prepared_product
from softcuda.backends.launches import KernelLaunch
from softcuda.backends.steps import Unit
from softcuda.contraction.axes import Axes
from softcuda.dtype import f32
from softcuda.target import Target

Array = np.ndarray[Any, Any]

H200 = Target("cuda", "sm_90a", 132, 227, 60)
ALIGNMENT = 256  # of a piece of scratch [bytes]
# Cases 31 to 47 of TCCG: a depth of one label and two of each side.
SMALL = {"a": 24, "b": 16, "c": 16, "d": 24, "e": 16, "f": 16, "g": 24}


def made_of(unit: Unit) -> PreparedProduct:
    return prepared_product("cuda_contract", unit)


def shapes_of(equation: str, extents: dict[str, int]) -> list[tuple[int, ...]]:
    operands = equation.split("->", maxsplit=1)[0].split(",")
    return [tuple(extents[label] for label in operand) for operand in operands]


def written(launches: tuple[KernelLaunch, ...], sources: list[Array], nbytes: int) -> Array:
    """Return the scratch behind copies: i32, zero where nothing was written."""
    scratch = np.zeros(nbytes // 4, np.int32)
    for launch in launches:
        place, read = launch.arguments[:2]
        assert place.kind == "scratch" and read.kind == "read"
        assert isinstance(place.value, int) and isinstance(read.value, int)
        assert place.value % ALIGNMENT == 0
        source = sources[read.value]
        moved(launch, source.reshape(-1), 0, scratch[place.value // 4 :])
    return scratch


def elements(flat: Array, axes: Axes, labels: tuple[int, ...]) -> Array:
    """Return an operand's elements by label."""
    own = axes.over(labels)
    offsets = np.zeros(own.dims, np.int64)
    for axis, (extent, stride) in enumerate(zip(own.dims, own.strides, strict=True)):
        along = [extent if k == axis else 1 for k in range(len(own.dims))]
        offsets += (np.arange(extent) * stride).reshape(along)
    return flat[offsets]


def place_of(pair: PreparedPair, operand: int) -> int:
    argument = (pair.a, pair.b)[operand].argument
    assert argument.kind == "scratch" and isinstance(argument.value, int)
    return argument.value // 4


@pytest.mark.parametrize("copied", [(0,), (1,), (0, 1)], ids=str)
@pytest.mark.parametrize(
    ("equation", "extents"),
    [
        ("fbea,cedf->dcba", dict(zip("abcdef", (8, 12, 5, 4, 6, 7), strict=True))),
        ("cfea,debf->dcba", dict(zip("abcdef", (3, 5, 7, 9, 4, 8), strict=True))),
        ("ijkl,jmln->imkn", dict(zip("ijklmn", (8, 4, 12, 16, 8, 4), strict=True))),
        ("baij,bcji->abc", dict(zip("abcij", (8, 3, 16, 5, 4), strict=True))),
    ],
)
def test_copies_hold_rows_beside_each_other_by_depth(
    equation: str, extents: dict[str, int], copied: tuple[int, ...]
) -> None:
    shapes = shapes_of(equation, extents)
    unit = unit_of(equation, shapes, f32)
    made = made_of(unit).pair
    packed, nbytes = packed_pair(unit, made, copied, H200)
    assert len(packed.launches) == len(copied)
    assert nbytes == sum(4 * int(np.prod(shapes[operand])) for operand in copied)
    assert nbytes <= packed.scratch_bytes < nbytes + 2 * ALIGNMENT
    sources = [np.arange(1, 1 + np.prod(shape), dtype=np.int32) for shape in shapes]
    scratch = written(packed.launches, sources, packed.scratch_bytes)
    classes = made.pair.classes
    for operand in range(2):
        before = (made.pair.a, made.pair.b)[operand]
        after = (packed.pair.a, packed.pair.b)[operand]
        if operand not in copied:
            assert after == before
            continue
        rows = (classes.m, classes.n)[operand]
        assert after.labels[-1] in rows and after.strides[-1] == 1
        flat = scratch[place_of(packed, operand) :]
        got = elements(flat, after, before.labels)
        assert np.array_equal(got, elements(sources[operand], before, before.labels))


@pytest.mark.parametrize("equation", ["fbea,cedf->dcba", "cfea,debf->dcba", "cfae,edfb->dcba"])
def test_products_behind_copies_look_nothing_up(equation: str) -> None:
    unit = unit_of(equation, [(72,) * 4, (72,) * 4], f32)
    found = list(packings(unit, made_of(unit), H200))
    assert found
    for one in found:
        assert Reading.ANY not in one.plan.readings
        launches, nbytes = one.planned()
        assert launches[: len(one.copies)] == one.copies
        assert nbytes >= one.scratch_bytes >= len(one.copies) * 4 * 72**4


@pytest.mark.parametrize("equation", ["fbea,cedf->dcba", "cfea,debf->dcba", "cfae,edfb->dcba"])
def test_a_long_depth_of_labels_that_lie_apart_is_worth_copies(equation: str) -> None:
    (step,) = cuda_contract.prepare(unit_of(equation, [(72,) * 4, (72,) * 4], f32), H200)
    assert step.kernel.startswith("gemm_tiled.") and not step.kernel.endswith("any")
    first, *_, last = step.launches
    assert first.spec.family.startswith("permute_") and last.spec.family == "gemm_split_sum"
    (short,) = cuda_contract.prepare(unit_of(equation, [(20,) * 4, (20,) * 4], f32), H200)
    assert not any(launch.spec.family.startswith("permute_") for launch in short.launches)


@pytest.mark.parametrize(
    ("equation", "extents", "copies"),
    [
        ("ik,jk->ij", (2048, 2048, 2048), 1),
        ("ki,jk->ij", (2048, 2048, 2048), 1),
        ("ik,jk->ij", (4096, 1024, 1024), 1),
        ("ik,kj->ij", (2048, 2048, 2048), 0),  # A alone is no slower
        ("ki,kj->ij", (2048, 2048, 2048), 0),
        ("ik,jk->ij", (4096, 4096, 4096), 0),  # a few percent for 128 MiB
        ("ik,jk->ij", (512, 512, 512), 0),
    ],
)
def test_vectors_that_are_taken_apart_are_worth_a_copy(
    equation: str, extents: tuple[int, int, int], copies: int
) -> None:
    """Tiles of 128 x 128 read B in vectors along the depth 9% slower than in rows."""
    named = dict(zip("ikj", (extents[0], extents[2], extents[1]), strict=True))
    unit = unit_of(equation, shapes_of(equation, named), f32)
    (step,) = cuda_contract.prepare(unit, H200)
    found = [launch for launch in step.launches if launch.spec.family.startswith("permute_")]
    assert len(found) == copies
    assert step.kernel.startswith("gemm_tiled.")


@pytest.mark.parametrize(
    "equation",
    ["aged,cbfg->fedcba", "cged,bafg->fedcba", "cgfe,badg->fedcba", "baeg,cgfd->fedcba"],
)
def test_rows_of_a_short_depth_are_copied(equation: str) -> None:
    """Case 31, 33, 39 and 43 of TCCG: boxes of 128 x 64 read a copy in vectors."""
    unit = unit_of(equation, shapes_of(equation, SMALL), f32)
    (step,) = cuda_contract.prepare(unit, H200)
    copy, contract = step.launches
    assert copy.spec.family.startswith("permute_")
    assert contract.spec.id.startswith("contract.f32_128x64x8_r4_")
    assert step.kernel == contract.spec.id


@pytest.mark.parametrize(
    ("equation", "extents"),
    [
        # The L1 cache holds the operand that gives the rows.
        ("ae,dcbe->dcba", dict.fromkeys("abcde", 72)),
        # A copy is not small beside the result.
        ("adb,cd->cba", {"a": 64, "b": 64, "c": 24, "d": 64}),
        # Rows that are no multiple of a vector stay single elements.
        ("aged,cbfg->fedcba", dict(zip("abcdefg", (23, 17, 13, 19, 17, 19, 29), strict=True))),
    ],
)
def test_rows_that_are_not_copied(equation: str, extents: dict[str, int]) -> None:
    unit = unit_of(equation, shapes_of(equation, extents), f32)
    boxes = sooner_boxes(unit, made_of(unit), H200)
    assert not boxes.pair.launches


def test_boxes_behind_a_copy_are_the_contraction() -> None:
    """Of a part of an operand: what the copy writes is what the boxes read."""
    equation = "cged,bafg->fedcba"
    rng = np.random.default_rng(3)
    x = rng.integers(-9, 9, (12, 24, 12, 24)).astype(np.int32)
    whole = rng.integers(-9, 9, (12, 40, 12, 24)).astype(np.int32)
    y = whole[:, 4:28]
    unit = unit_of(equation, [layout_of_array(x), layout_of_array(y)], f32)
    made = made_of(unit)
    pair, _ = packed_pair(unit, made.pair, (1,), H200)
    problem = plan_contraction(made._replace(pair=pair))
    assert problem.a is pair.b and problem.ways[0] is Way.ROWS_VECTOR
    choice = choose(problem, H200.multiprocessors)
    launch, *_ = contract_launches(problem, choice, H200.multiprocessors, pair.scratch_bytes)
    scratch = written(pair.launches, [x, whole.reshape(-1)[4 * 12 * 24 :]], pair.scratch_bytes)
    kinds = [argument.kind for argument in launch.arguments[2:4]]
    assert kinds == ["scratch", "read"]
    expected = np.einsum(equation, x.astype(np.int64), y.astype(np.int64))
    first, second = scratch.astype(np.float64), x.reshape(-1).astype(np.float64)
    got = contract_model.carried_out(launch, first, second, expected.size)
    assert np.array_equal(got.reshape(expected.shape), expected)
