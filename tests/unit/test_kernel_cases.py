"""The sanitizers' cases reach every kernel of the tables: planned, on no device."""

from __future__ import annotations

import pytest
from device_leaves import planned
from far_views import FAR_DTYPES, far_works
from huge_arithmetic import ARITHMETIC
from huge_claims import COLUMNS, ROWS, make_fields
from huge_movement import MOVEMENT
from kernel_cases import kernel_cases, launched
from op_cases import fast_profile

import softcuda as sc
from softcuda.compiler.compile import compile_graph
from softcuda.compiler.settings import Settings
from softcuda.dtype import REAL_DTYPES
from softcuda.graph.node import Node
from softcuda.graph.op import OPS
from softcuda.graph.shapes import contiguous_strides
from softcuda.graph.trace import trace
from softcuda.kernelspec import KernelSpec
from softcuda.profile.resolve import default_profile
from softcuda.target import Target
from softcuda.tools.inspect_rows import cuda_backends

H200 = Target("cuda", "sm_90a", 132, 227, 60)


def far_kernels() -> set[KernelSpec]:
    """Return the kernels that small arrays with long strides reach."""
    reached: set[KernelSpec] = set()
    for name in FAR_DTYPES:
        nodes = {
            each.name: each.node(planned(Node, each.array.shape, each.strides, each.array.dtype))
            for each in far_works(REAL_DTYPES[name])
        }
        for backend_id in cuda_backends():
            reached = reached.union(*launched(backend_id, nodes, H200).values())
    return reached


def huge_kernels() -> set[KernelSpec]:
    """Return the kernels that huge arrays reach."""

    def in_memory(value: sc.Tensor) -> sc.Tensor:
        itemsize = value.dtype.itemsize
        strides = tuple(stride * itemsize for stride in contiguous_strides(value.shape))
        return planned(sc.Tensor, value.shape, strides, value.dtype.numpy)

    fields, reached = make_fields(ROWS, COLUMNS, in_memory), set()
    for case in (*ARITHMETIC, *MOVEMENT):
        for backend_id in case.backends:
            profile = fast_profile(**{case.op: backend_id})
            graph = trace([claim.found for claim in case.build(fields)]).graph
            program = compile_graph(graph, Settings(profile, default_profile(), H200, True, ""))
            reached |= {launch.spec for step in program.steps for launch in step.launches}
    return reached


def updating_kernels() -> set[KernelSpec]:
    """Return the kernels that write variables in place; test_updates_written_in_place runs them."""
    buffer = planned(sc.Tensor, (1000,), (4,), REAL_DTYPES["f32"].numpy).data
    w = sc.Tensor.leaf(buffer, OPS["variable"])
    settings = Settings(fast_profile(copy="cuda_elementwise"), default_profile(), H200, True, "")
    program = compile_graph(trace([], {w: w}).graph, settings)
    return {launch.spec for step in program.steps for launch in step.launches}


@pytest.fixture(scope="module")
def near() -> dict[KernelSpec, int]:
    """Return how often each kernel of the tables is run on small arrays."""
    return {spec: len(cases) for spec, cases in kernel_cases(H200).items()}


def test_every_family_is_run_and_nearly_every_kernel(near: dict[KernelSpec, int]) -> None:
    """Kernels for 64-bit offsets, which small arrays do not need, are run on far or huge ones."""
    reached = {spec for spec, times in near.items() if times} | updating_kernels()
    reached |= far_kernels() | huge_kernels()
    families = {spec.family for spec in reached}
    assert not {spec.family for spec in near} - families
    missing = [spec.id for spec in near if spec not in reached]
    assert len(missing) <= len(near) // 12, missing


def test_every_backend_has_kernels_that_are_run(near: dict[KernelSpec, int]) -> None:
    for backend_id, specs in cuda_backends().items():
        assert any(near.get(spec) for spec in specs), backend_id
