"""Suite placement: graphs placed by `policy = min_cut`, beside all of them on one device.

Inputs come from the host and results go back there; what is timed is a whole run. The profile is
configs/<device>.soft, such as configs/nvidia-h200.soft: one that soft_init measured has the costs.
"""

from __future__ import annotations

import gc
import time
import timeit
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

import softcuda as sc
from benchmarks.accuracy import tolerance
from benchmarks.cases import Bench, Case, Work, run_work
from benchmarks.host_work import random_array
from benchmarks.results import Check, Row, at_least
from benchmarks.timing import OURS, Contestant, Samples, Schedule, calls_of
from softcuda.backends import backends
from softcuda.compiler.program import Choice
from softcuda.errors import ConfigError
from softcuda.profile.model import PoolSettings, Profile
from softcuda.profile.model import Row as ProfileRow
from softcuda.profile.resolve import default_profile, read
from softcuda.profile.vocabulary import work_ops
from softcuda.tools.preferences import made_for

__all__ = ["CASES", "every_order", "measured_profile", "only_on"]

Array = np.ndarray[Any, Any]
Define = Callable[..., Any]

CONFIGS = Path(__file__).resolve().parents[1] / "configs"
GROUP = "Placement of whole graphs, data on the host before and after"
ALL = {"all-CPU": "cpu", "all-CUDA": "cuda"}
SLOWEST = 1.05  # times the better of the two


def only_on(profile: Profile, device: str) -> Profile:
    """Return a profile whose rows of one device cover every size; it obeys its rows."""
    known = backends()
    rows: list[ProfileRow] = []
    for op in work_ops():
        tokens = {row.dtype for row in profile.rows if row.op == op} | {None}
        for dtype in sorted(tokens, key=str):
            named = sorted(
                (r for r in profile.rows if (r.op, r.dtype) == (op, dtype)), key=lambda r: r.low
            )
            here = [r for r in named if device == known[r.backend_id].DEVICE]
            if not here and dtype is not None:
                continue
            if not here and device == "cpu":
                rows += [r for r in default_profile().rows if (r.op, r.dtype) == (op, dtype)]
            elif not here:
                rows.append(ProfileRow(op, None, 0, None, made_for(op)))
            lows = [0, *(row.low for row in here[1:])]
            for row, low, high in zip(here, lows, (*lows[1:], None), strict=False):
                rows.append(row._replace(low=low, high=high))
    return replace(profile, rows=tuple(rows), policy="table", pool=PoolSettings("cpu"))


def measured_profile(bench: Bench) -> Profile:
    """Return the profile that soft_init measured on the device of a run.

    Raises:
        ConfigError: there is none, or it says nothing of costs.
    """
    path = CONFIGS / f"{bench.machine.slug}.soft"
    profile = read(path)
    if not profile.costs or not profile.transfer:
        raise ConfigError(
            str(path),
            None,
            "it has no [costs] or no [transfer], by which graphs are placed; write it with "
            f"soft_init --force --output {path}",
        )
    return profile


def _layers(x: Any, *weights: Any) -> Any:
    for weight in weights:
        x = sc.relu(x @ weight + 0.01)
    return x


def _chain_with_product(x: Any, weight: Any) -> Any:
    for _ in range(30):
        x = sc.tanh(x) * 1.5 + 0.25
    x = x @ weight
    for _ in range(30):
        x = sc.exp(-abs(x)) + x * 0.5
    return x


def _network(*tensors: Any) -> Any:
    small, large = tensors[:6], tensors[6:]
    found = small[0]
    for tensor in small[1:]:
        found = found @ tensor
    wide = large[0]
    for tensor in large[1:]:
        wide = wide @ tensor
    return [found, sc.sum(wide, axis=1)]


def _many_small(*tensors: Any) -> Any:
    return [sc.exp(-x) + x for x in tensors]


def _small_beside_large(*tensors: Any) -> Any:
    small, large = tensors[:67], tensors[67:]
    return [*_many_small(*small), sc.sum(_layers(*large), axis=1)]


def _wide_and_narrow(narrow: Any, wide: Any, weight: Any) -> Any:
    for _ in range(40):
        narrow = sc.sin(narrow) + narrow * 0.5
    return sc.sum(sc.relu(wide @ weight) @ weight) + sc.sum(narrow)


def _arrays(*shapes: tuple[int, ...], scale: float = 1.0) -> list[Array]:
    return [
        random_array(seed, *shape) * np.float32(scale) for seed, shape in enumerate(shapes, start=1)
    ]


def _joined(found: Any) -> Array:
    results = found if isinstance(found, list) else [found]
    return np.concatenate([np.atleast_1d(np.asarray(result)).reshape(-1) for result in results])


def _measure(
    define: Define, arrays: Sequence[Array], k: int, least: float, name: str, bench: Bench
) -> Row:
    measured = measured_profile(bench)
    profiles = {OURS: replace(measured, policy="min_cut", pool=PoolSettings("cpu"))}
    profiles |= {word: only_on(measured, device) for word, device in ALL.items()}
    wide = [sc.tensor(array.astype(np.float64)) for array in arrays]
    reference = _joined(sc.compile(define(*wide), "default").run())
    contestants, facts = [], {}
    for word, profile in profiles.items():
        executable = sc.compile(define(*map(sc.tensor, arrays)), profile)
        if word == OURS:
            print(f"{name}: {executable.program.footer[0]}", flush=True)
            facts = _facts(executable.program.choices)
        run = executable.run
        contestants.append(Contestant(word, "run()", {"run": run}, partial(_result, run)))

    def checks(row: Row, taken: dict[str, Samples]) -> list[Check]:
        speedups = [row.ratios[word].median for word in ALL if word in row.ratios]
        found = min(speedups, default=None)
        return [at_least(f"{name}: the better device's time over min_cut's", found, least)]

    work = Work(
        contestants,
        reference,
        tolerance("f32", summed=k),
        schedule=Schedule(budget_s=4.0, sample_s=0.001, rounds=(12, 180)),
        checks=checks,
        turns=every_order,
    )
    row = run_work(bench, GROUP, name, work)
    row.facts.update(facts)
    return row


def every_order(contestants: Sequence[Contestant], schedule: Schedule) -> dict[str, Samples]:
    """Return samples of contestants who take turns, each as often behind one as behind another.

    In rotating order one of them would always run behind a wait for the device, with cold caches,
    and seem slower than another that takes the same steps. A sample begins with calls that are not
    timed, for the same reason.
    """
    timers = {
        c.name: timeit.Timer(c.statement, "gc.enable()", globals={**c.names, "gc": gc})
        for c in contestants
    }
    taken = {name: Samples(calls_of(timer, schedule)) for name, timer in timers.items()}
    orders = list(permutations(timers))
    least, most = schedule.rounds
    gc.collect()
    begin = time.perf_counter()
    for done in range(most):
        if done >= least and time.perf_counter() - begin > schedule.budget_s:
            break
        for name in orders[done % len(orders)]:
            calls = taken[name].calls
            timers[name].timeit(1 + calls // 4)
            taken[name].seconds.append(timers[name].timeit(calls) / calls)
    return taken


def _result(run: Callable[[], Any]) -> Array:
    return _joined(run())


def _facts(choices: Sequence[Choice]) -> dict[str, float]:
    """Return how many nodes are placed, and how many of them on the device."""
    known = backends()
    devices = [known[c.backend_id].DEVICE for c in choices if c.backend_id in known]
    return {"nodes": len(devices), "on the device": devices.count("cuda")}


def _case(
    name: str,
    define: Define,
    arrays: Callable[[], list[Array]],
    k: int,
    least: float = 1 / SLOWEST,
) -> Case:
    def measure(bench: Bench) -> Row:
        return _measure(define, arrays(), k, least, name, bench)

    return Case(GROUP, name, measure)


CASES = (
    _case(
        "deep MLP, 1024 wide",
        _layers,
        partial(_arrays, (1024, 1024), *[(1024, 1024)] * 8, scale=0.05),
        8192,
    ),
    _case(
        "deep MLP, 16 wide",
        _layers,
        partial(_arrays, (8, 16), *[(16, 16)] * 8, scale=0.3),
        128,
    ),
    _case(
        "long chain, 2^20, a product of 64 inside",
        _chain_with_product,
        partial(_arrays, (1 << 14, 64), (64, 64), scale=0.1),
        4096,
    ),
    _case(
        "network of small and large pairs",
        _network,
        partial(_arrays, *[(16, 16)] * 6, *[(1024, 1024)] * 4, scale=0.05),
        8192,
    ),
    _case("200 small independent nodes", _many_small, partial(_arrays, *[(64,)] * 67), 16),
    _case(
        "200 small nodes beside large products",
        _small_beside_large,
        partial(_arrays, *[(64,)] * 67, *[(1024, 1024)] * 5, scale=0.05),
        8192,
        SLOWEST,  # neither device alone is as fast as both
    ),
    _case(
        "wide and narrow",
        _wide_and_narrow,
        partial(_arrays, (64,), (2048, 2048), (2048, 2048), scale=0.02),
        1 << 22,
    ),
)
