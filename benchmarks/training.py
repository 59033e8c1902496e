"""The suite training: training steps on a GPU, beside PyTorch captured in a graph, and eager."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.cases import Bench, Case, Work, run_work
from benchmarks.gpu_timing import Gpu, device_turns, gpu_of, segment_graphs
from benchmarks.gpu_work import PROFILE
from benchmarks.mlp import Mlp, OurStep, our_step, reference, torch_step
from benchmarks.results import Check, Row, at_most
from benchmarks.timing import OURS, Contestant, Samples
from softcuda.errors import ArgumentError

__all__ = ["CASES", "SIZES", "measured_step"]

Array = np.ndarray[Any, Any]

GROUP = "Training steps of a perceptron, batch x width x depth, f32 (PyTorch: cuBLAS, TF32 off)"
CAPTURED, EAGER = "PyTorch, captured", "PyTorch, eager"
SMALL, LARGE = 0.65, 1.15  # of the captured PyTorch's time, at most
SIZES = (
    (Mlp(32, 64, 4), SMALL),
    (Mlp(128, 256, 8), SMALL),
    (Mlp(512, 1024, 8), LARGE),
    (Mlp(4096, 4096, 4), LARGE),
)
HOST_US = 12.0
_WARM_UPS = 3
_WIDE = 2048  # from here on a step takes the device long: fewer are compared, and timed by the host
_HOST_CALLS, _HOST_ROUNDS = 40, 7
_WIDE_HOST_CALLS, _WIDE_HOST_ROUNDS = 5, 3


def measured_step(mlp: Mlp, most: float, bench: Bench) -> Row:
    """Return the row of a size: device time of a step, and what a run takes the host beyond it."""
    gpu = gpu_of(bench)
    is_wide = mlp.width >= _WIDE
    steps = 2 if is_wide else 5
    ours = our_step(mlp, PROFILE, "cuda")
    contestants = [_our_contestant(gpu, ours, steps)]
    contestants += _torch_contestants(bench, gpu, mlp, steps)

    def checks(row: Row, taken: dict[str, Samples]) -> list[Check]:
        ratio = row.ratios.get(CAPTURED)
        what = f"{mlp.name}: time of the captured PyTorch's"
        return [at_most(what, 1 / ratio.median if ratio else None, most)]

    work = Work(
        contestants,
        reference(mlp, steps, bench.peers.torch, "cuda"),
        mlp.allowed(steps),
        mlp.nbytes,
        mlp.flops,
        checks=checks,
        turns=device_turns(gpu),
    )
    row = run_work(bench, GROUP, mlp.name, work)
    run, feeds = ours.executable.run, ours.feeds
    calls = (_WIDE_HOST_CALLS, _WIDE_HOST_ROUNDS) if is_wide else (_HOST_CALLS, _HOST_ROUNDS)
    host_us = _host_us(gpu, ours, run, *calls)
    row.facts["host, over the launch [us]"] = host_us
    row.facts["the same, batch fed [us]"] = _host_us(gpu, ours, lambda: run(feeds), *calls)
    row.facts["steps of the program"] = float(len(ours.executable.program.steps))
    if not is_wide:  # beyond, the host waits for the device
        row.checks.append(at_most(f"{mlp.name}: host time of run over its launch [us]", host_us,
                                  HOST_US))  # fmt: skip
    return row


def _our_contestant(gpu: Gpu, ours: OurStep, steps: int) -> Contestant:
    """Return the contestant whose step is the launch of the executable's one driver graph."""
    held = ours.executable.run()
    graphs = segment_graphs(ours.executable)
    if len(graphs) != 1:
        raise ArgumentError(f"a step is {len(graphs)} driver graphs; this case is about one")
    stream = gpu.on.stream

    def submit() -> None:
        graphs[0].launch(stream=stream)

    def losses() -> list[float]:
        found = []
        for _ in range(steps):
            submit()
            found.append(float(gpu.on.fetch(held.data)))
        return found

    names = {"submit": submit, "held": held, "executable": ours.executable}
    return Contestant(OURS, "submit()", names, partial(ours.result, losses))


def _torch_contestants(bench: Bench, gpu: Gpu, mlp: Mlp, steps: int) -> list[Contestant]:
    """Return PyTorch's step, in the stream of the session: captured once, and call by call."""
    torch = bench.peers.torch
    if torch is None:
        return [Contestant(name, absent=True) for name in (CAPTURED, EAGER)]
    scope = torch.cuda.stream(torch.cuda.ExternalStream(gpu.on.stream.handle))
    return [_torch_contestant(torch, scope, mlp, steps, name) for name in (CAPTURED, EAGER)]


def _torch_contestant(torch: Any, scope: Any, mlp: Mlp, steps: int, name: str) -> Contestant:
    """Return one of them; absent, with the reason said, where it fails."""
    try:
        theirs = torch_step(torch, mlp, "cuda")
        torch.cuda.synchronize()
        with scope:
            for _ in range(_WARM_UPS):
                theirs.step()
            torch.cuda.synchronize()
            step = _captured(torch, theirs.step) if name == CAPTURED else theirs.step
    except RuntimeError as error:
        print(f"{name} cannot do {mlp.name}: {error}", flush=True)
        return Contestant(name, absent=True)
    submit = partial(_within, scope, step)
    result = partial(_within, scope, partial(theirs.result, step, steps))
    return Contestant(name, "submit()", {"submit": submit}, result)


def _captured(torch: Any, step: Callable[[], Any]) -> Callable[[], Any]:
    """Return what replays a step, which is recorded here."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()

    def replay() -> Any:
        graph.replay()
        return loss

    return replay


def _within(scope: Any, call: Callable[[], Any]) -> Any:
    with scope:
        return call()


def _host_us(gpu: Gpu, ours: OurStep, run: Callable[[], Any], calls: int, rounds: int) -> float:
    """Return how much longer a run takes the host than launching its driver graph [us]."""
    run()
    (graph,) = segment_graphs(ours.executable)
    launch = graph.launcher(stream=gpu.on.stream)

    def bare() -> None:
        with gpu.on.context.current():
            launch()

    runs, launches = [], []
    for _ in range(rounds):
        runs.append(_alone_s(run, gpu, calls))
        launches.append(_alone_s(bare, gpu, calls))
    return 1e6 * (statistics.median(runs) - statistics.median(launches))


def _alone_s(call: Callable[[], Any], gpu: Gpu, calls: int) -> float:
    """Return the median time of a call [seconds]; the wait for the device behind it is left out."""
    found = []
    for _ in range(calls):
        begin = time.perf_counter()
        call()
        found.append(time.perf_counter() - begin)
        gpu.on.synchronize()
    return statistics.median(found)


CASES = tuple(Case(GROUP, mlp.name, partial(measured_step, mlp, most)) for mlp, most in SIZES)
