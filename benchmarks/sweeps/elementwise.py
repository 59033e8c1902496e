"""Sweep of elementwise chains: tiles, blocks and grids of each workload.

    python -m benchmarks.sweeps.elementwise --out FOLDER [--seconds 40]

The launch that cuda_elementwise plans is timed first; what it writes is what every other candidate
must write, bit by bit. Written are elementwise_sweep.json with every time, and
elementwise_sweep.txt with the best candidates of each workload.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

import softcuda as sc
from benchmarks.gpu_work import PROFILE
from benchmarks.sweeps.command import asked, parser_of, write_rows
from benchmarks.sweeps.lab import Lab
from softcuda.backends.cuda.elementwise import PlannedChain, planned_chain
from softcuda.backends.cuda.layouts import Tile
from softcuda.backends.launches import KernelLaunch
from softcuda.backends.steps import Unit
from softcuda.compiler.compile import compile_graph
from softcuda.compiler.settings import Settings
from softcuda.graph.trace import trace
from softcuda.kernelspec import KernelSpec
from softcuda.profile.resolve import default_profile, read
from softcuda.target import Target

Array = np.ndarray[Any, Any]

BYTES: Final = 256 << 20
SIDE: Final = 8192
SHOWN: Final = 6
OPERANDS: Final = 8  # of the longest chain, numbers included

UNROLLS: Final = (1, 2, 4, 8)
THREADS: Final = (128, 256, 512)


class Workload(NamedTuple):
    """A chain: its operands' extents and dtypes, and what it computes."""

    name: str
    operands: tuple[tuple[tuple[int, ...], sc.DType], ...]
    define: Callable[..., Any]


def _wide(*x: Any) -> Any:
    return sc.relu(x[0] * x[1] + x[2]) * x[3] - x[4] * x[5] + x[6] * x[7]


def workloads() -> list[Workload]:
    """Return the chains that are measured."""
    n, square = SIDE * SIDE, (SIDE, SIDE)
    f32 = ((n,), sc.f32)
    bf16 = ((2 * n,), sc.bf16)
    matrix = (square, sc.f32)
    return [
        Workload("relu f32", (f32,), sc.relu),
        Workload("add f32", (f32, f32), lambda a, b: a + b),
        Workload(
            "chain f32",
            (f32,) * 4,
            lambda a, b, c, d: sc.relu(a * b + c) * sc.tanh(d) - a * 0.5,
        ),
        Workload("eight operands f32", (((n // 2,), sc.f32),) * 8, _wide),
        Workload("relu bf16", (bf16,), sc.relu),
        Workload("add bf16", (bf16, bf16), lambda a, b: a + b),
        Workload("tanh bf16", (bf16,), sc.tanh),
        Workload("f32 to bf16", (f32,), lambda a: sc.cast(a * 2.0, sc.bf16)),
        Workload("bf16 to f32", (((n,), sc.bf16),), lambda a: sc.cast(a, sc.f32) * 2.0),
        Workload("add f64", (((n // 2,), sc.f64),) * 2, lambda a, b: a + b),
        Workload("bias f32", (matrix, ((SIDE,), sc.f32)), lambda a, b: sc.relu(a + b)),
        Workload("row scale f32", (matrix, ((SIDE, 1), sc.f32)), lambda a, b: a * b),
        Workload("outer sum f32", (((SIDE, 1), sc.f32), ((SIDE,), sc.f32)), lambda a, b: a + b),
        Workload("where f32", (matrix, matrix, matrix), lambda a, b, c: sc.where(a > 0.0, b, c)),
    ]


def planned(workload: Workload, target: Target) -> PlannedChain:
    """Return the one launch that the compiler makes of a workload."""
    inputs = [sc.input(dims, dtype) for dims, dtype in workload.operands]
    settings = Settings(read(Path(PROFILE)), default_profile(), target)
    program = compile_graph(trace([workload.define(*inputs)]).graph, settings)
    steps = [step for step in program.steps if step.chain and step.launches]
    (step,) = steps
    found = planned_chain(Unit(step.chain, step.inputs, step.outputs[0], step.lines))
    if found is None:
        raise AssertionError(f"{workload.name} takes several launches")
    return found


class Candidate(NamedTuple):
    """A kernel of a workload, and its grid."""

    chain: PlannedChain
    grid: str

    @property
    def shown(self) -> str:
        """Its tile, block and grid."""
        made = self.chain.variant
        tile = f"{made.tile.width}x{made.tile.unroll}"
        return f"{tile} t{made.threads} {self.grid}"


def candidates(chain: PlannedChain) -> list[Candidate]:
    """Return what is tried for a chain."""
    width = chain.variant.tile.width
    kernels = [
        replace(chain, variant=replace(chain.variant, tile=Tile(width, u), threads=t))
        for u in UNROLLS
        for t in THREADS
    ]
    return [Candidate(kernel, grid) for kernel in kernels for grid in ("all", "resident", "x4")]


def launch_of(lab: Lab, candidate: Candidate) -> KernelLaunch:
    """Return the launch of a candidate."""
    launch = candidate.chain.launch()
    if candidate.grid == "all":
        return launch
    times = 4 if candidate.grid == "x4" else 1
    blocks = min(lab.resident(launch.spec) * times, launch.grid[0])
    return replace(launch, grid=(blocks, 1, 1))


def fill(lab: Lab, chain: PlannedChain, numbers: Array) -> None:
    """Write random numbers to what a chain reads, as many as a buffer holds."""
    for number, dtype in enumerate(chain.dtypes):
        few = numbers[: BYTES // dtype.itemsize]
        lab.upload(few.astype(dtype.numpy, copy=False), lab.inputs[number])


def measured(lab: Lab, workload: Workload, chain: PlannedChain) -> dict[str, Any]:
    """Return the row of a workload, whose inputs are filled."""
    read_bytes = sum(math.prod(dims) * dtype.itemsize for dims, dtype in workload.operands)
    made_bytes = chain.count * chain.chain[-1].dtype.itemsize
    submit = lab.bound(chain.launch())
    submit()
    lab.keep(made_bytes)
    times = {f"rule: {Candidate(chain, 'all').shown}": lab.microseconds(submit)}
    wrong = []
    for candidate in candidates(chain):
        if lab.left_s < 0:
            break
        us, said = lab.timed(launch_of(lab, candidate), made_bytes, min(times.values()))
        times[candidate.shown] = us
        if said:
            wrong.append(f"{candidate.shown}: {said}")
    return {
        "workload": workload.name,
        "nbytes": read_bytes + made_bytes,
        "copy_us": lab.copy_microseconds(made_bytes),
        "copy_bytes": 2 * made_bytes,
        "times": times,
        "wrong": wrong,
    }


def lines(row: dict[str, Any]) -> list[str]:
    """Return the rule and the best candidates of a row."""
    times: dict[str, float] = row["times"]
    rule = next(iter(times))
    best = sorted(times, key=lambda name: times[name])[:SHOWN]
    copy = row["copy_bytes"] / row["copy_us"] * 1e-6
    wrong = f", WRONG {row['wrong'][:2]}" if row["wrong"] else ""
    return [f"{row['workload']} (copy {copy:.2f} TB/s{wrong})"] + [
        f"    {times[name]:8.2f} us  {row['nbytes'] / times[name] * 1e-6:5.2f} TB/s  {name}"
        for name in dict.fromkeys((rule, *best))
    ]


def prepare(lab: Lab, chains: Sequence[PlannedChain]) -> None:
    """Compile every kernel of the sweep."""
    specs: dict[KernelSpec, None] = {}
    for chain in chains:
        for candidate in (Candidate(chain, "all"), *candidates(chain)):
            specs[candidate.chain.launch().spec] = None
    lab.prepare(list(specs))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweep.

    Args:
        arguments: of the command line; those of the process if not given.
    """
    options = asked(parser_of(__doc__, 40.0), arguments)
    todo = workloads()
    lab = Lab(OPERANDS, BYTES, options.seconds)
    chains = [planned(workload, lab.target) for workload in todo]
    prepare(lab, chains)
    print(f"{len(todo)} workloads, {lab.left_s:.0f} s left", flush=True)
    numbers = np.random.default_rng(1).random(BYTES // 2, np.float32) - np.float32(0.5)
    rows: list[dict[str, Any]] = []
    for workload, chain in zip(todo, chains, strict=True):
        if lab.left_s > 0:
            fill(lab, chain, numbers)
            rows.append(measured(lab, workload, chain))
    text = "\n".join([line for row in rows for line in lines(row)] + [f"{lab.left_s:.0f} s left"])
    write_rows(options.out, "elementwise", rows, text)
    print(text)


if __name__ == "__main__":
    main()
