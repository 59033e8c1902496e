"""Huge and far work without a device: right at a small size, planned at the real one."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from device_leaves import planned
from far_views import FAR_DTYPES, VIEWS, FarView, far_works
from huge_arithmetic import ARITHMETIC
from huge_claims import (
    COLUMNS,
    FEW_COLUMNS,
    FEW_ROWS,
    ROWS,
    Everywhere,
    Few,
    Fields,
    HugeCase,
    Repeats,
    judge,
    make_fields,
)
from huge_movement import MOVEMENT
from numpy_bounds import apply, check, known_leaf
from op_cases import fast_profile, profile_of

import softcuda as sc
from softcuda.compiler.compile import compile_graph
from softcuda.compiler.program import Program
from softcuda.compiler.settings import Settings
from softcuda.dtype import REAL_DTYPES, dtype_of_array
from softcuda.graph.node import Node, on_host
from softcuda.graph.shapes import contiguous_strides
from softcuda.graph.trace import trace
from softcuda.profile.resolve import default_profile
from softcuda.running import compile as compile_nodes
from softcuda.target import Target

H200 = Target("cuda", "sm_90a", 132, 227, 60)
MOST_BYTES = 20 << 30  # that the work of one test may take, beside the operands
CASES = [*ARITHMETIC, *MOVEMENT]


def on_cpu(outputs: Any) -> Any:
    return sc.compile(outputs, "default").run()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_claims_hold_at_a_small_size(case: HugeCase) -> None:
    fields = make_fields(FEW_ROWS, FEW_COLUMNS, on_cpu)
    judge(case.build(fields), on_cpu, on_cpu)


@pytest.mark.parametrize("place", [(0, 0), (36, 130), (18, 64), (7, 3)])
def test_one_wrong_element_is_noticed(place: tuple[int, int]) -> None:
    fields = make_fields(FEW_ROWS, FEW_COLUMNS, on_cpu)
    rows, columns = fields.rows[:, None], fields.columns
    wrong = fields.numbers.numpy().copy()
    wrong[place] += 1
    found = sc.tensor(wrong)
    for claim in (
        Everywhere(found, operator.mul, rows, columns),
        Few(found, rows * columns),
        Repeats(found, 0, 7, rows[:7] * columns, "mul", 1),
    ):
        with pytest.raises(AssertionError):
            judge([claim], on_cpu, on_cpu)


def in_memory(value: sc.Tensor) -> sc.Tensor:
    """Return a leaf as if a device held the value."""
    itemsize = value.dtype.itemsize
    strides = tuple(s * itemsize for s in contiguous_strides(value.shape))
    return planned(sc.Tensor, value.shape, strides, value.dtype.numpy)


def plan(outputs: Any, **chosen: str) -> Program:
    """Return the program of tensors for an H200, where no backend may stand in for another."""
    nodes = list(outputs)
    settings = Settings(fast_profile(**chosen), default_profile(), H200, True, "")
    return compile_graph(trace(nodes).graph, settings)


def bytes_of(program: Program) -> int:
    """Return what a run of a program takes on the device."""
    outputs = sum(program.graph.lines[number].nbytes for number in set(program.output_lines))
    return outputs + program.arena_bytes("cuda")


def huge_fields() -> Fields:
    return make_fields(ROWS, COLUMNS, in_memory)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_huge_work_is_taken_and_fits(case: HugeCase) -> None:
    assert ROWS * COLUMNS > 2**31
    for backend_id in case.backends:
        claims = case.build(huge_fields())
        program = plan([claim.found for claim in claims], **{case.op: backend_id})
        makers = {step.backend_id for step in program.steps}
        assert backend_id in makers, f"{case.name} runs on {makers}"
        known = [claim._replace(found=in_memory(claim.found)) for claim in claims]
        judging = plan([x for claim in known for x in claim.outputs()])
        held = sum(program.graph.lines[number].nbytes for number in set(program.output_lines))
        assert max(bytes_of(program), held + bytes_of(judging)) <= MOST_BYTES


# Far views


@pytest.mark.parametrize("name", FAR_DTYPES)
def test_far_arrays_pass_31_bits_and_never_meet(name: str) -> None:
    taken: dict[tuple[int, FarView], set[int]] = {}
    for each in far_works(REAL_DTYPES[name]):
        itemsize = each.array.itemsize
        reach = np.abs(each.places - each.places[0, 0]).max() // itemsize
        assert reach > 2**31 and each.places.min() >= 0
        assert each.places.max() < MOST_BYTES
        assert not (each.places % itemsize).any()
        bytes_ = each.places[..., None] + np.arange(itemsize)
        taken[each.number, each.view] = set(bytes_.ravel().tolist())
    assert sum(map(len, taken.values())) == len(set.union(*taken.values()))


@pytest.mark.parametrize("name", FAR_DTYPES)
def test_far_work_is_right_on_the_host(name: str) -> None:
    works = {each.name.rpartition(",")[0]: each.work for each in far_works(REAL_DTYPES[name])}
    nodes = {what: work.node(Node) for what, work in works.items()}
    for what, result in compile_nodes(nodes, profile_of("cpu_fallback")).run().items():
        work = works[what]
        leaves = [known_leaf(array, dtype_of_array(array.dtype)) for array in work.arrays]
        check(on_host(result.data), apply(work.op, work.params, leaves), f"{what} of {name}")


def test_far_work_reads_every_operand_by_every_view() -> None:
    seen = {(each.work.op.name, each.operand) for each in far_works(REAL_DTYPES["f32"])}
    for op, operand in (("take", 0), ("take", 1), ("gather", 1), ("concat", 1), ("matmul", 1)):
        assert (op, operand) in seen
    assert {each.view for each in far_works(REAL_DTYPES["bool"])} == set(VIEWS.values())
