"""The suite cpu_training: training steps and gradients on a CPU, beside PyTorch in eager mode."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import softcuda as sc
from benchmarks.accuracy import tolerance
from benchmarks.cases import Bench, Case, Work, run_work
from benchmarks.mlp import Mlp, our_step, reference, torch_step
from benchmarks.results import Check, Row, at_least, at_most
from benchmarks.timing import OURS, Contestant, Samples, Schedule
from softcuda.graph.trace import trace

__all__ = ["CASES"]

Array = np.ndarray[Any, Any]

STEPS = "Training steps of a perceptron, batch x width x depth, f32, DEFAULT.soft"
GRADIENTS = "Defining and differentiating a chain of 1000 nodes"
SIZES = (Mlp(32, 64, 4), Mlp(128, 256, 8), Mlp(512, 1024, 8))
PEER = "PyTorch"
_CHECKED_STEPS = 5
_NODES = 1000
_MOST_MS = 40.0  # of defining and differentiating
_SCALE = 1.0 + 2.0**-12


def _step(mlp: Mlp, judged: bool, bench: Bench) -> Row:
    ours = our_step(mlp, "default")
    run = ours.executable.run

    def losses() -> list[float]:
        return [run(ours.feeds).item() for _ in range(_CHECKED_STEPS)]

    contestants = [
        Contestant(OURS, "run(feeds)", {"run": run, "feeds": ours.feeds},
                   partial(ours.result, losses)),
        Contestant(PEER, absent=True),
    ]  # fmt: skip
    if bench.peers.torch is not None:
        theirs = torch_step(bench.peers.torch, mlp)
        result = partial(theirs.result, theirs.step, _CHECKED_STEPS)
        contestants[1] = Contestant(PEER, "step()", {"step": theirs.step}, result)

    def checks(row: Row, taken: dict[str, Samples]) -> list[Check]:
        ratio = row.ratios.get(PEER)
        what = f"{mlp.name}: PyTorch's time over softcuda's"
        return [at_least(what, ratio.median if ratio else None, 1.0)] if judged else []

    work = Work(
        contestants,
        reference(mlp, _CHECKED_STEPS),
        mlp.allowed(_CHECKED_STEPS),
        mlp.nbytes,
        mlp.flops,
        schedule=Schedule(budget_s=4.0, sample_s=0.02, settle_s=0.01, rounds=(9, 41)),
        checks=checks,
    )
    row = run_work(bench, STEPS, mlp.name, work)
    row.facts["steps of the program"] = float(len(ours.executable.program.steps))
    return row


def _chain(x: Any, functions: tuple[Callable[[Any], Any], ...], scale: Any) -> Any:
    for number in range(_NODES // 2):
        x = functions[number % len(functions)](x) * scale
    return x


def _gradient(name: str, bench: Bench) -> Row:
    """Time the definition of a chain and of its gradient; PyTorch computes both meanwhile."""
    values = np.linspace(0.5, 1.0, 8, dtype=np.float32)
    x, scale = sc.tensor(values), sc.tensor(np.float32(_SCALE))

    def define() -> Any:
        return sc.grad(sc.sum(_chain(x, (sc.tanh, sc.negative), scale)), x)

    wide = sc.tensor(values.astype(np.float64))
    exact = sc.grad(sc.sum(_chain(wide, (sc.tanh, sc.negative), sc.tensor(_SCALE))), wide)
    contestants = [
        Contestant(OURS, "define()", {"define": define}, lambda: define().numpy()),
        Contestant(PEER, absent=True),
    ]
    torch = bench.peers.torch
    if torch is not None:
        leaf = torch.from_numpy(values).requires_grad_()
        factor = torch.tensor(_SCALE, dtype=torch.float32)

        def differentiate() -> Any:
            y = _chain(leaf, (torch.tanh, torch.neg), factor).sum()
            return torch.autograd.grad(y, leaf)[0]

        contestants[1] = Contestant(PEER, "run()", {"run": differentiate}, differentiate)

    def checks(row: Row, taken: dict[str, Samples]) -> list[Check]:
        us = row.timings[0].us
        what = f"{name}: define and differentiate [ms]"
        return [at_most(what, None if us is None else us * 1e-3, _MOST_MS)]

    work = Work(
        contestants,
        exact.numpy(),
        tolerance("f32", steps=3 * _NODES),
        schedule=Schedule(budget_s=2.0, sample_s=0.02, rounds=(9, 41)),
        checks=checks,
    )
    row = run_work(bench, GRADIENTS, name, work)
    row.facts["nodes of the gradient"] = float(len(trace([define()]).graph.lines))
    row.facts["of a processor, least [ms]"] = 1e3 * min(_processor_s(define) for _ in range(15))
    return row


def _processor_s(call: Callable[[], Any]) -> float:
    """Return the time of a call that this thread had a processor [seconds]."""
    begin = time.thread_time()
    call()
    return time.thread_time() - begin


CASES = (
    *(
        Case(STEPS, mlp.name, partial(_step, mlp, judged))
        for mlp, judged in zip(SIZES, (True, False, False), strict=True)
    ),
    Case(GRADIENTS, "tanh and negative, scaled", partial(_gradient, "tanh and negative, scaled")),
)
