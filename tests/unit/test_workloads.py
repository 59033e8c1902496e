"""The table of typical work: complete, of the size and dtype it claims, the same every time."""

from __future__ import annotations

import numpy as np
import pytest

from softcuda.dtype import REAL_DTYPES, DType
from softcuda.errors import ArgumentError
from softcuda.graph.lines import row_dtype, row_size
from softcuda.graph.node import Node
from softcuda.graph.op import OPS
from softcuda.graph.trace import trace
from softcuda.profile.vocabulary import work_ops
from softcuda.tools.workloads import WORKLOADS, accepted_dtypes, shape_variants, typical
from softcuda.tools.workloads_base import Workload
from softcuda.tools.workloads_inputs import Source, rows_and_columns

SIZES = (1, 2, 7, 8, 64, 100)

each_op = pytest.mark.parametrize("op", work_ops())


def source(seed: int = 0) -> Source:
    return Source(np.random.default_rng(seed))


def dtypes(op: str) -> tuple[DType, ...]:
    return accepted_dtypes(op, source())


def test_every_op_that_does_work_has_a_workload() -> None:
    assert set(WORKLOADS) == set(work_ops())


@each_op
def test_typical_work_has_the_size_and_dtype_of_its_row(op: str) -> None:
    for dtype in dtypes(op):
        for size in SIZES:
            graph = trace([typical(op, size, dtype, source()).node(Node)]).graph
            line = graph.lines[graph.outputs[0]]
            operands = [graph.lines[number] for number in line.inputs]
            assert line.op.name == op
            assert row_size(line, operands) == size, (dtype, size)
            assert row_dtype(line, operands) is dtype, (dtype, size)


@each_op
def test_every_op_takes_some_dtype(op: str) -> None:
    assert dtypes(op)


@each_op
def test_inputs_follow_from_the_seed(op: str) -> None:
    dtype = dtypes(op)[-1]
    same = [typical(op, 30, dtype, source(4)).arrays for _ in range(2)]
    for one, other in zip(*same, strict=True):
        np.testing.assert_array_equal(one, other)


def layouts(work: Workload) -> set[str]:
    found = set()
    for array in work.arrays:
        found.add("rank0" if array.ndim == 0 else "rank")
        if 0 in array.shape:
            found.add("zero")
        strides = [s for s, d in zip(array.strides, array.shape, strict=True) if d > 1]
        if 0 in strides:
            found.add("stretched")
        if any(s < 0 for s in strides):
            found.add("backwards")
    return found


@each_op
def test_variants_cover_the_kinds_of_shapes(op: str) -> None:
    for dtype in dtypes(op):
        made = shape_variants(op, dtype, source())
        dims = [work.node(Node).dims for work in made.values()]
        assert any(0 in d for d in dims)
        assert any(np.prod(d) == 1 for d in dims) or op == "one_hot"
        if any(work.arrays for work in made.values()) and op not in ("uniform", "normal"):
            kinds = set().union(*(layouts(work) for work in made.values()))
            assert {"backwards", "zero"} <= kinds, (op, kinds)
            assert "stretched" in kinds or op == "one_hot", (op, kinds)


def test_bool_is_refused_where_it_has_no_meaning() -> None:
    assert REAL_DTYPES["bool"] not in dtypes("add")
    assert REAL_DTYPES["bool"] not in dtypes("matmul")
    assert dtypes("logical_and") == tuple(REAL_DTYPES.values())
    assert {d.name for d in dtypes("one_hot")} == {"i32", "i64"}


def test_domains_hold() -> None:
    for op, low, high in (("log", 0.0, 10.0), ("acos", -1.0, 1.0), ("sqrt", 0.0, 10.0)):
        (array,) = typical(op, 1000, REAL_DTYPES["f32"], source()).arrays
        assert array.min() >= low and array.max() <= high


def test_large_inputs_repeat_a_block() -> None:
    (array,) = typical("exp", 200_000, REAL_DTYPES["f32"], source()).arrays
    assert array.shape == (200_000,)
    np.testing.assert_array_equal(array[: 1 << 16], array[1 << 16 : 2 << 16])


def test_unknown_ops_and_sizes_are_errors() -> None:
    with pytest.raises(ArgumentError, match="no workload for 'reshape'"):
        shape_variants("reshape", REAL_DTYPES["f32"], source())
    with pytest.raises(ArgumentError, match="size is 0"):
        typical("add", 0, REAL_DTYPES["f32"], source())
    assert "reshape" in OPS


@pytest.mark.parametrize("size", [1, 2, 12, 97, 1 << 21])
def test_rows_and_columns(size: int) -> None:
    rows, columns = rows_and_columns(size)
    assert rows * columns == size and rows <= columns
