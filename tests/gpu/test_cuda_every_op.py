"""Every op, dtype and shape on every CUDA backend that takes it, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest
from numpy_bounds import apply, check, known_leaf
from op_cases import is_taken, makers_of, profile_of, variants

from softcuda.backends import backends
from softcuda.dtype import dtype_of_array
from softcuda.executor.on_demand import cuda_target, session
from softcuda.graph.node import Node, on_host
from softcuda.profile.vocabulary import work_ops
from softcuda.running import compile as compile_nodes
from softcuda.target import Target
from softcuda.tools.workloads import accepted_dtypes
from softcuda.tools.workloads_inputs import Source

BACKENDS = (
    *("cuda_naive", "cuda_elementwise", "cuda_reduce", "cuda_tiled", "cuda_contract"),
    "cuda_permute",
)


def target() -> Target:
    found = cuda_target()
    assert isinstance(found, Target), found
    return found


@pytest.mark.sanitize
@pytest.mark.parametrize("backend_id", BACKENDS)
@pytest.mark.parametrize("op", work_ops())
def test_every_backend_that_takes_an_op_computes_it(op: str, backend_id: str) -> None:
    here, taken = target(), 0
    profile = profile_of(backend_id)
    for dtype in accepted_dtypes(op, Source(np.random.default_rng(0))):
        made = variants(op, dtype.name)
        nodes = {n: w.node(Node) for n, w in made.items() if is_taken(backend_id, w, here)}
        if not nodes:
            continue
        taken += 1
        executable = compile_nodes(nodes, profile)
        makers = makers_of(executable)
        for place, (name, result) in enumerate(executable.run().items()):
            work = made[name]
            what = f"{op} of {dtype}, {name}, on {backend_id}"
            assert makers[place] == backend_id, f"{what}: {makers[place]} stood in"
            leaves = [known_leaf(x, dtype_of_array(x.dtype)) for x in work.arrays]
            check(on_host(result.data), apply(work.op, work.params, leaves), what)
    session().synchronize()
    assert taken or backend_id != "cuda_naive", f"the reference refuses {op}"


def test_the_backends_are_all() -> None:
    assert set(BACKENDS) == {k for k, m in backends().items() if m.DEVICE == "cuda"}
