"""Sweep of reductions, softmax, layer norm and running sums: tiles, teams, parts and grids.

    python -m benchmarks.sweeps.reduce --out FOLDER [--seconds 90] [--only PATTERN]

    python -m benchmarks.sweeps.reduce --out FOLDER --only '^(sum|max) f32'

What the rules of cuda_reduce choose is timed first, as a driver graph, then every other candidate.
All results are compared with NumPy in f64 before they are timed. Written are reduce_sweep.json with
every time, and reduce_sweep.txt with the best candidates of each case.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from benchmarks.sweeps.command import asked, parser_of, write_rows
from benchmarks.sweeps.lab import Lab
from benchmarks.sweeps.reduce_candidates import SCRATCH_BYTES, Made, candidates
from benchmarks.sweeps.reduce_cases import ELEMENTS, SAMPLE, Case, cases
from softcuda.backends.launches import KernelLaunch
from softcuda.driver.arguments import ArgBuffer
from softcuda.driver.graph import CudaGraph
from softcuda.driver.launch import LaunchConfig
from softcuda.driver.memory import DeviceMemory
from softcuda.errors import SoftCudaError
from softcuda.executor.segments import BoundKernel
from softcuda.graph.shapes import numel

Array = np.ndarray[Any, Any]

SHOWN: Final = 6
ALLOWED: Final = {"f32": 2e-6, "bf16": 6e-3, "i64": 0.0}


class ReduceLab(Lab):
    """A lab whose candidates are driver graphs of several launches with scratch."""

    def __init__(self, seconds: float) -> None:
        super().__init__(1, 4 * ELEMENTS, seconds)
        self._scratch = DeviceMemory(self._on.context, SCRATCH_BYTES)

    def graph(self, made: Made) -> CudaGraph:
        """Return the instantiated driver graph of a candidate."""
        graph = CudaGraph(self._on.context, made.name)
        before: Any = ()
        for launch in made.launches:
            config = LaunchConfig(launch.grid, launch.block, launch.shared_bytes)
            function = self._on.loader.function(launch.spec)
            before = (graph.add_kernel(function, config, self._arguments(launch), after=before),)
        graph.instantiate()
        return graph

    def _arguments(self, launch: KernelLaunch) -> ArgBuffer:
        bound = BoundKernel(launch, launch.spec.id, 0)
        operands = self.inputs * len(launch.arguments)  # one array is all that is read
        bound.point(operands, [self.out], self._scratch.ptr)
        return bound.args

    def result(self, case: Case, graph: CudaGraph) -> Array:
        """Return what a candidate writes to poisoned memory; of a large result both ends."""
        result = case.unit.result
        nbytes = numel(result.dims) * result.dtype.itemsize
        self._gpu.fill(self.out, 0xFF, nbytes)
        graph.launch(stream=self._on.stream)
        if not case.is_sampled:
            return self.fetch(nbytes).view(result.dtype.numpy).reshape(result.dims)
        each = nbytes // result.dims[0] * SAMPLE
        ends = np.empty((2, each), np.uint8)
        self._on.download(self.out, ends[0])
        self._on.download(self.out + nbytes - each, ends[1])
        return ends.reshape(-1).view(result.dtype.numpy).reshape(2 * SAMPLE, *result.dims[1:])

    def submitter(self, graph: CudaGraph) -> Callable[[], None]:
        """Return what launches a graph."""
        return lambda: graph.launch(stream=self._on.stream)


def error_of(found: Array, right: Array) -> float:
    """Return the largest error against the largest value; inf where a NaN is."""
    scale = float(np.max(np.abs(right))) or 1.0
    worst = float(np.max(np.abs(found.astype(np.float64) - right))) / scale
    return math.inf if math.isnan(worst) else worst


def measured(lab: ReduceLab, case: Case, source: Array) -> dict[str, Any]:
    """Return the row of a case."""
    right = case.right(source[: numel(case.dims)].reshape(case.dims))
    allowed = ALLOWED[case.unit.result.dtype.name]
    times: dict[str, float] = {}
    wrong: list[str] = []
    rule = ""
    for made in candidates(case, lab.target):
        rule = rule or made.name
        if lab.left_s < 0:
            break
        try:
            graph = lab.graph(made)
            error = error_of(lab.result(case, graph), right)
            if not error <= allowed:
                wrong.append(f"{made.name}: error {error:.2g}")
                continue
            best = min(times.values(), default=math.inf)
            times[made.name] = lab.microseconds(lab.submitter(graph), best)
            graph.close()
        except SoftCudaError as failure:
            wrong.append(f"{made.name}: {failure}")
    return {"case": case.name, "nbytes": case.nbytes, "rule": rule, "times": times, "wrong": wrong}


def lines(row: dict[str, Any]) -> list[str]:
    """Return the rule and the best candidates of a row."""
    times: dict[str, float] = row["times"]
    if not times:
        return [f"{row['case']}: nothing was right: {row['wrong'][:3]}"]
    best = sorted(times, key=lambda name: times[name])[:SHOWN]
    wrong = f"  WRONG {len(row['wrong'])}: {row['wrong'][:2]}" if row["wrong"] else ""
    rule = row["rule"]
    near = times[best[0]] / times[rule] if rule in times else math.nan
    said = [
        f"{row['case']}: {len(times)} candidates, the rule's is at {near:.3f} of the best{wrong}"
    ]
    for name in dict.fromkeys((rule, *best)):
        if name in times:
            rate = row["nbytes"] / times[name] * 1e-6
            said.append(f"    {times[name]:8.2f} us  {rate:5.2f} TB/s  {name}")
    return said


def main() -> None:
    """Run the sweep."""
    options = asked(parser_of(__doc__, 90.0, "names"))
    lab = ReduceLab(options.seconds)
    todo = [case for case in cases() if re.search(options.only, case.name)]
    found = [made for case in todo for made in candidates(case, lab.target)]
    specs = dict.fromkeys(launch.spec for made in found for launch in made.launches)
    lab.prepare(list(specs))
    print(
        f"{len(todo)} cases, {len(found)} candidates, {len(specs)} kernels, "
        f"{lab.left_s:.0f} s left",
        flush=True,
    )
    numbers = np.random.default_rng(1).random(ELEMENTS, np.float32)
    rows: list[dict[str, Any]] = []
    copy_us = lab.copy_microseconds(4 * ELEMENTS)
    print(f"copy of {4 * ELEMENTS >> 20} MiB: {8 * ELEMENTS / copy_us * 1e-6:.2f} TB/s", flush=True)
    held = ""
    for case in sorted(todo, key=lambda case: case.dtype.name == "bf16"):
        if lab.left_s < 0:
            break
        if case.dtype.name != held:
            held = case.dtype.name
            source = numbers.astype(case.dtype.numpy)
            lab.upload(source, lab.inputs[0])
        rows.append(measured(lab, case, source))
        print("\n".join(lines(rows[-1])), flush=True)
    text = "\n".join(line for row in rows for line in lines(row))
    write_rows(options.out, "reduce", rows, text)
    print(f"{lab.left_s:.0f} s left")


if __name__ == "__main__":
    main()
