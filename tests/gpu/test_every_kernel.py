"""Every kernel of the backends' tables, each a few times, at the edges of its tiles."""

from __future__ import annotations

from functools import cache

import pytest
from device_leaves import device_leaf, node_of
from kernel_cases import KernelCase, kernel_cases
from numpy_bounds import apply, check, known_leaf
from op_cases import profile_of

from softcuda.dtype import dtype_of_array
from softcuda.executor.on_demand import cuda_target
from softcuda.graph.node import on_host
from softcuda.kernelspec import KernelSpec
from softcuda.running import compile as compile_nodes
from softcuda.target import Target
from softcuda.tools.inspect_rows import cuda_backends

BY_UPDATES = "elementwise_in_place"  # no node alone: test_updates_written_in_place.py
FAMILIES = list(
    dict.fromkeys(
        (backend_id, spec.family)
        for backend_id, specs in cuda_backends().items()
        for spec in specs
        if spec.family != BY_UPDATES
    )
)


@cache
def all_cases() -> dict[KernelSpec, list[KernelCase]]:
    found = cuda_target()
    assert isinstance(found, Target), found
    return kernel_cases(found)


@pytest.mark.sanitize
@pytest.mark.parametrize(("backend_id", "family"), FAMILIES)
def test_every_backend_kernel_at_its_edges(backend_id: str, family: str) -> None:
    """The operands lie on the device with the strides that they have."""
    table = cuda_backends()[backend_id]
    wanted = {s for s in table if s.family == family and all_cases().get(s)}
    assert wanted
    cases = {case.name: case for spec in wanted for case in all_cases()[spec]}
    nodes = {name: node_of(case.work, device_leaf) for name, case in cases.items()}
    executable = compile_nodes(nodes, profile_of(backend_id), strict=True)
    launched = {launch.spec for step in executable.program.steps for launch in step.launches}
    assert wanted <= launched
    for name, result in executable.run().items():
        work = cases[name].work
        leaves = [known_leaf(array, dtype_of_array(array.dtype)) for array in work.arrays]
        what = f"{name}, on {backend_id}"
        check(on_host(result.data), apply(work.op, work.params, leaves), what)
