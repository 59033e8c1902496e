"""Work of a GPU suite: a compiled graph beside its peers, on data that is on the device."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import softcuda as sc
from benchmarks.cases import Bench, Work, run_work
from benchmarks.gpu_timing import (
    Gpu,
    cupy_peer,
    device_turns,
    gpu_of,
    graph_contestant,
    torch_peer,
)
from benchmarks.published import note_published
from benchmarks.results import Check, Row, at_least
from benchmarks.timing import OURS
from softcuda import evaluating
from softcuda.dtype import bf16
from softcuda.executor.executable import Executable
from softcuda.profile.model import Profile

__all__ = ["PROFILE", "DeviceCase", "on_device", "run_device_case"]

Array = np.ndarray[Any, Any]
Submit = Callable[[], Any]

PROFILE = str(Path(__file__).resolve().with_name("cuda.soft"))

_WALL_RUNS = 7


@dataclass(frozen=True, slots=True)
class DeviceCase:
    """A graph, its inputs, and what is right.

    Attributes:
        arrays: inputs on the host.
        define: tensors on the device -> the graph's one output.
        reference: the right result, f64; of its own dtype where that is exact.
        allowed: the relative error up to which a result is right.
        nbytes: bytes that must be read and written at least once.
        flops: floating point operations of the contraction.
        torch: torch, inputs there -> what submits the work and returns its result; None: no peer.
        cupy: the same for CuPy.
        least: the fraction of the floor to reach; 0 for none.
        label: what the check is called.
        published: the name of its published figure.
        extra: makes further checks of the row.
    """

    arrays: Sequence[Array]
    define: Callable[..., Any]
    reference: Array
    allowed: float
    nbytes: int
    flops: int = 0
    torch: Callable[..., Submit] | None = None
    cupy: Callable[..., Submit] | None = None
    least: float = 0.0
    label: str = ""
    published: str = ""
    config: str | Profile = PROFILE
    extra: Sequence[Callable[[Row], Check]] = field(default=())


def on_device(array: Array) -> Any:
    """Return a tensor that is a leaf on the device."""
    return sc.asarray(array).to("cuda").evaluate()


def run_device_case(bench: Bench, group: str, name: str, case: DeviceCase) -> Row:
    """Return the measured row: device time beside the floor and the peers, and wall time."""
    gpu = gpu_of(bench)
    evaluating.clear_cache()  # what brought the inputs of the case before to the device
    gc.collect()
    executable = sc.compile(case.define(*map(on_device, case.arrays)), case.config)
    kernels = [launch.spec.id for step in executable.program.steps for launch in step.launches]
    print(f"{group}: {name}: {', '.join(kernels)}", flush=True)
    contestants = [graph_contestant(gpu, executable)]
    to_torch, to_cupy = case.torch, case.cupy
    if to_torch is not None:
        contestants.append(
            torch_peer(
                bench,
                lambda torch: to_torch(torch, *(_of_torch(torch, a) for a in case.arrays)),
            )
        )
    if to_cupy is not None:
        contestants.append(
            cupy_peer(bench, lambda cupy: to_cupy(cupy, *map(cupy.asarray, case.arrays)))
        )

    def checks(row: Row, taken: Any) -> list[Check]:
        note_published(row, bench.machine.device, case.published)
        made = []
        if case.least:
            what = f"{case.label or name}: fraction of the floor"
            made.append(at_least(what, row.fraction_of_floor, case.least))
        return made + [make(row) for make in case.extra]

    work = Work(
        contestants,
        case.reference,
        case.allowed,
        case.nbytes,
        case.flops,
        checks=checks,
        turns=device_turns(gpu),
    )
    row = run_work(bench, group, name, work)
    if row.timings[0].name == OURS and row.timings[0].us is not None:
        row.facts["run and wait [us]"] = _wall_us(gpu, executable)
    return row


def _of_torch(torch: Any, array: Array) -> Any:
    """Return an array as PyTorch's tensor on the device; its NumPy side knows no bf16."""
    if array.dtype == bf16.numpy:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).to("cuda")
    return torch.from_numpy(array).to("cuda")


def _wall_us(gpu: Gpu, executable: Executable) -> float:
    """Return the median time of a whole run with the wait for it [microseconds]."""
    found = []
    for _ in range(_WALL_RUNS):
        begin = time.perf_counter()
        executable.run()
        gpu.on.synchronize()
        found.append(time.perf_counter() - begin)
    return statistics.median(found) * 1e6
