"""One op on one backend: profiles that name it for every op, workloads, who made what."""

from __future__ import annotations

import zlib

import numpy as np

from softcuda.backends import backends
from softcuda.dtype import REAL_DTYPES
from softcuda.executor.executable import Executable
from softcuda.graph.node import Node
from softcuda.graph.op import OPS, Kind
from softcuda.graph.trace import trace
from softcuda.profile.model import DeviceFacts, PoolSettings, Profile, Row
from softcuda.profile.vocabulary import work_ops
from softcuda.target import Target
from softcuda.tools.workloads import accepted_dtypes, shape_variants
from softcuda.tools.workloads_base import Workload
from softcuda.tools.workloads_inputs import Source


def profile_of(backend_id: str) -> Profile:
    """Return a profile whose every row names one backend."""
    return Profile(
        f"all/{backend_id}",
        {"soft_version": "0.1.0"},
        DeviceFacts(),
        tuple(Row(op, None, 0, None, backend_id) for op in work_ops()),
    )


# What is made for a kind of op on a device; cuda_naive for the others.
_MADE_FOR = {
    Kind.ELEMENTWISE: "cuda_elementwise",
    Kind.REDUCTION: "cuda_reduce",
    Kind.SCAN: "cuda_reduce",
    Kind.COMPOSITE: "cuda_reduce",
    Kind.CONTRACTION: "cuda_contract",
}


def fast_profile(**chosen: str) -> Profile:
    """Return a profile of the CUDA backend that is made for each op, or the chosen one.

    Outputs stay on the device.
    """
    made_for = {op: _MADE_FOR.get(OPS[op].kind, "cuda_naive") for op in work_ops()}
    backend_ids = {**made_for, "copy": "cuda_permute", **chosen}
    return Profile(
        "fast",
        {"soft_version": "0.1.0"},
        DeviceFacts(),
        tuple(Row(op, None, 0, None, backend_id) for op, backend_id in backend_ids.items()),
        pool=PoolSettings("cuda"),
    )


def is_taken(backend_id: str, work: Workload, target: Target) -> bool:
    """Return whether a backend supports the node of a workload."""
    graph = trace([work.node(Node)]).graph
    line = graph.lines[graph.outputs[0]]
    operands = [graph.lines[number] for number in line.inputs]
    return bool(backends()[backend_id].supports(line, operands, target))


def makers_of(executable: Executable) -> list[str]:
    """Return the backend whose step writes each output; behind a transfer, the one before it."""
    program = executable.program
    made = {operand.value: step for step in program.steps for operand in step.outputs}
    found = []
    for place in program.outputs:
        step = made[program.output_lines[place]]
        if step.backend_id == "transfer":
            step = made[step.inputs[0].value]
        found.append(step.backend_id)
    return found


def variants(op: str, dtype: str) -> dict[str, Workload]:
    """Return the workloads of an op by name, the same in every run."""
    seed = (zlib.crc32(op.encode()), zlib.crc32(dtype.encode()))
    return shape_variants(op, REAL_DTYPES[dtype], Source(np.random.default_rng(seed)))


def every_op(dtype: str) -> dict[str, Node]:
    """Return two workloads of every op, of a dtype where the op takes it, else of the first."""
    nodes: dict[str, Node] = {}
    for op in work_ops():
        taken = accepted_dtypes(op, Source(np.random.default_rng(0)))
        named = [one for one in taken if one.name == dtype]
        made = variants(op, (named or taken)[0].name)
        for name in dict.fromkeys((next(iter(made)), next(reversed(made)))):
            nodes[f"{op} {name}"] = made[name].node(Node)
    return nodes
