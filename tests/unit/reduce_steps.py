"""Steps of cuda_reduce for tests without a device, and what every one of them owes the loader."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

from softcuda.backends import cuda_reduce
from softcuda.backends.steps import Micro, Operand, Step, Unit
from softcuda.graph.shapes import contiguous_strides
from softcuda.target import Target

H200 = Target("cuda", "sm_90a", 132, 227, 60)
PARAMETER_BYTES = 4096


def step_for(chain: Sequence[Micro], operands: Sequence[Operand], target: Target = H200) -> Step:
    last = chain[-1]
    result = Operand(0, 0, last.dims, contiguous_strides(last.dims), last.dtype)
    unit = Unit(tuple(chain), tuple(operands), result, (0,) * len(chain))
    (step,) = cuda_reduce.prepare(unit, target)
    check_step(step)
    return step


def check_step(step: Step) -> None:
    """Check what every step owes the loader, and that it pickles."""
    assert pickle.loads(pickle.dumps(step)).launches == step.launches
    for launch in step.launches:
        x, y, z = launch.grid
        assert 1 <= x <= 2**31 - 1
        assert 1 <= y <= 65535
        assert z == 1
        assert launch.block == (launch.spec.threads, 1, 1)
        nbytes = 0
        for argument in launch.arguments:
            size = {"i32": 4}.get(argument.kind, 8)
            if isinstance(argument.value, bytes):
                assert len(argument.value) % 8 == 0
                size = len(argument.value)
            nbytes = -(-nbytes // min(size, 8)) * min(size, 8) + size
            if argument.kind == "scratch":
                assert 0 <= int(argument.value) < step.scratch_bytes
            if argument.kind == "read":
                assert 0 <= int(argument.value) < len(step.inputs)
        assert nbytes <= PARAMETER_BYTES, launch.spec.id


def families(step: Step) -> list[str]:
    return [launch.spec.family for launch in step.launches]
