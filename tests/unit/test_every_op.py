"""Every op, dtype and shape on every backend that takes it, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest
from numpy_bounds import apply, check, known_leaf
from op_cases import is_taken, makers_of, profile_of, variants

from softcuda.backends import backends
from softcuda.dtype import dtype_of_array
from softcuda.graph.node import Node
from softcuda.profile.vocabulary import work_ops
from softcuda.running import compile as compile_nodes
from softcuda.target import CPU
from softcuda.tools.workloads import accepted_dtypes
from softcuda.tools.workloads_inputs import Source

CPU_BACKENDS = tuple(name for name, module in backends().items() if module.DEVICE == "cpu")
PROFILES = {name: profile_of(name) for name in CPU_BACKENDS}


@pytest.mark.parametrize("op", work_ops())
def test_every_backend_that_takes_an_op_computes_it(op: str) -> None:
    takers = set()
    for dtype in accepted_dtypes(op, Source(np.random.default_rng(0))):
        made = variants(op, dtype.name)
        expected = {}
        for name, work in made.items():
            leaves = [known_leaf(x, dtype_of_array(x.dtype)) for x in work.arrays]
            expected[name] = apply(work.op, work.params, leaves)
        for backend_id, profile in PROFILES.items():
            nodes = {n: w.node(Node) for n, w in made.items() if is_taken(backend_id, w, CPU)}
            if not nodes:
                continue
            takers.add(backend_id)
            executable = compile_nodes(nodes, profile)
            makers = makers_of(executable)
            for place, (name, result) in enumerate(executable.run().items()):
                what = f"{op} of {dtype}, {name}, on {backend_id}"
                assert makers[place] == backend_id, f"{what}: {makers[place]} stood in"
                check(result.data, expected[name], what)
        assert "cpu_fallback" in takers, f"the reference refuses {op} of {dtype}"


@pytest.mark.parametrize("op", ["softmax", "log_softmax", "layer_norm"])
def test_composites_that_a_backend_refuses_are_computed_from_parts(op: str) -> None:
    for dtype in accepted_dtypes(op, Source(np.random.default_rng(0))):
        made = variants(op, dtype.name)
        nodes = {name: work.node(Node) for name, work in made.items()}
        assert not any(is_taken("cpu_blas", work, CPU) for work in made.values())
        executable = compile_nodes(nodes, PROFILES["cpu_blas"])
        for name, result in executable.run().items():
            work = made[name]
            leaves = [known_leaf(x, dtype_of_array(x.dtype)) for x in work.arrays]
            check(result.data, apply(work.op, work.params, leaves), f"{op} of {dtype}, {name}")


@pytest.mark.parametrize("op", ["uniform", "normal", "matmul", "sum", "tanh"])
def test_a_second_run_gives_the_same_bits(op: str) -> None:
    for backend_id, profile in PROFILES.items():
        made = {n: w for n, w in variants(op, "f32").items() if is_taken(backend_id, w, CPU)}
        if made:
            runs = []
            for _ in range(2):
                nodes = {name: work.node(Node) for name, work in made.items()}
                runs.append(compile_nodes(nodes, profile).run())
            for name in made:
                one, two = (run[name].data for run in runs)
                np.testing.assert_array_equal(one, two, err_msg=f"{op} {name} on {backend_id}")
