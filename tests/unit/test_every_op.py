"""Every op, dtype and shape on every backend that takes it, against NumPy in float64."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from numpy_bounds import apply, check, known_leaf

from softcuda.backends import backends
from softcuda.dtype import DTYPES, dtype_of_array
from softcuda.executor.executable import Executable
from softcuda.graph.node import Node
from softcuda.graph.trace import trace
from softcuda.profile.model import DeviceFacts, Profile, Row
from softcuda.profile.vocabulary import work_ops
from softcuda.running import compile as compile_nodes
from softcuda.target import CPU
from softcuda.tools.workloads import accepted_dtypes, shape_variants
from softcuda.tools.workloads_base import Workload
from softcuda.tools.workloads_inputs import Source

CPU_BACKENDS = tuple(name for name, module in backends().items() if module.DEVICE == "cpu")
PROFILES = {
    name: Profile(
        f"all/{name}",
        {"soft_version": "0.1.0"},
        DeviceFacts(),
        tuple(Row(op, None, 0, None, name) for op in work_ops()),
    )
    for name in CPU_BACKENDS
}


def is_taken(backend_id: str, work: Workload) -> bool:
    graph = trace([work.node(Node)]).graph
    line = graph.lines[graph.outputs[0]]
    operands = [graph.lines[number] for number in line.inputs]
    return bool(backends()[backend_id].supports(line, operands, CPU))


def makers_of(executable: Executable) -> list[str]:
    """Return the backend whose step writes each output."""
    program = executable.program
    makers = {operand.value: step.backend_id for step in program.steps for operand in step.outputs}
    return [makers[program.output_lines[place]] for place in program.outputs]


def variants(op: str, dtype: str) -> dict[str, Workload]:
    seed = (zlib.crc32(op.encode()), zlib.crc32(dtype.encode()))
    return shape_variants(op, DTYPES[dtype], Source(np.random.default_rng(seed)))


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
            nodes = {n: w.node(Node) for n, w in made.items() if is_taken(backend_id, w)}
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
        assert not any(is_taken("cpu_blas", work) for work in made.values())
        executable = compile_nodes(nodes, PROFILES["cpu_blas"])
        for name, result in executable.run().items():
            work = made[name]
            leaves = [known_leaf(x, dtype_of_array(x.dtype)) for x in work.arrays]
            check(result.data, apply(work.op, work.params, leaves), f"{op} of {dtype}, {name}")


@pytest.mark.parametrize("op", ["uniform", "normal", "matmul", "sum", "tanh"])
def test_a_second_run_gives_the_same_bits(op: str) -> None:
    for backend_id, profile in PROFILES.items():
        made = {n: w for n, w in variants(op, "f32").items() if is_taken(backend_id, w)}
        if made:
            runs = []
            for _ in range(2):
                nodes = {name: work.node(Node) for name, work in made.items()}
                runs.append(compile_nodes(nodes, profile).run())
            for name in made:
                one, two = (run[name].data for run in runs)
                np.testing.assert_array_equal(one, two, err_msg=f"{op} {name} on {backend_id}")
