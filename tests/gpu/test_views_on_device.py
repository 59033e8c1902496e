"""Every operand of every family as a view of every kind, one at a time, on the CUDA backends."""

from __future__ import annotations

import pytest
from device_leaves import device_leaf
from kernel_cases import taken_by
from numpy_bounds import apply, check, known_leaf
from op_cases import profile_of
from view_works import viewed_works

from softcuda.dtype import REAL_DTYPES, dtype_of_array
from softcuda.executor.on_demand import cuda_target
from softcuda.graph.node import Node, on_host
from softcuda.running import compile as compile_nodes
from softcuda.target import Target
from softcuda.tools.inspect_rows import cuda_backends


@pytest.mark.sanitize
@pytest.mark.parametrize("backend_id", cuda_backends())
@pytest.mark.parametrize("name", ["bool", "i32", "f16", "f32", "f64"])
def test_one_operand_is_a_view(name: str, backend_id: str) -> None:
    """cupy-10303: strides of any sign in one position are read as the same values densely."""
    target = cuda_target()
    assert isinstance(target, Target), target
    works = viewed_works(REAL_DTYPES[name])
    leaves = {id(x): device_leaf(x) for work in works.values() for x in work.arrays}
    nodes = {
        what: work.build(Node, tuple(leaves[id(x)] for x in work.arrays))
        for what, work in works.items()
    }
    nodes = taken_by(backend_id, nodes, target)
    if not nodes:
        return
    executable = compile_nodes(nodes, profile_of(backend_id), strict=True)
    for what, result in executable.run().items():
        work = works[what]
        known = [known_leaf(array, dtype_of_array(array.dtype)) for array in work.arrays]
        right = apply(work.op, work.params, known)
        check(on_host(result.data), right, f"{what} of {name} on {backend_id}")
