"""Every operand of every family as a view of every kind, one at a time, on the CPU backends."""

from __future__ import annotations

import pytest
from kernel_cases import taken_by
from numpy_bounds import apply, check, known_leaf
from op_cases import profile_of
from view_works import viewed_works

from softcuda.dtype import REAL_DTYPES, dtype_of_array
from softcuda.graph.node import Node, on_host
from softcuda.running import compile as compile_nodes
from softcuda.target import CPU


@pytest.mark.parametrize("backend_id", ["cpu_fallback", "cpu_blas", "cpu_fused"])
@pytest.mark.parametrize("name", ["bool", "i32", "f16", "f32", "f64"])
def test_one_operand_is_a_view(name: str, backend_id: str) -> None:
    """cupy-10303: strides of any sign in one position are read as the same values densely."""
    works = viewed_works(REAL_DTYPES[name])
    nodes = taken_by(backend_id, {what: w.node(Node) for what, w in works.items()}, CPU)
    if not nodes:
        assert backend_id == "cpu_blas" and not REAL_DTYPES[name].is_float
        return
    for what, result in compile_nodes(nodes, profile_of(backend_id)).run().items():
        work = works[what]
        leaves = [known_leaf(array, dtype_of_array(array.dtype)) for array in work.arrays]
        known = apply(work.op, work.params, leaves)
        check(on_host(result.data), known, f"{what} of {name} on {backend_id}")
