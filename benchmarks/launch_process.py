"""Suite launch: the first result of a process that finds its kernels compiled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.cases import Bench, Case
from benchmarks.gpu_timing import gpu_of
from benchmarks.results import Row, at_most
from benchmarks.timing import OURS, Samples, ratios, timing_of
from softcuda.errors import ArgumentError

__all__ = ["CASES"]

GROUP = "A process on a warm cache: from its start to its first result"
BARE = "ctypes script"
TURNS = 7
STAGE_TURNS = 5
LIMIT_S = 60.0
FOLDER = Path(__file__).resolve().parent


def _environment(cache: str) -> dict[str, str]:
    """Return the variables of a process: a cache, and modules compiled as an installation's are."""
    places = [str(FOLDER.parent), os.environ.get("PYTHONPATH", "")]
    env = {
        **os.environ,
        "SOFTCUDA_CACHE_DIR": cache,
        "PYTHONPATH": os.pathsep.join(filter(None, places)),
    }
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return env


def _started(command: list[str], cache: str) -> tuple[float, dict[str, Any]]:
    """Return the seconds from a process's start to its result, and what it said.

    Raises:
        ArgumentError: it failed.
    """
    env = _environment(cache)
    begin = time.time()
    done = subprocess.run(
        [sys.executable, *command],
        cwd=FOLDER.parent,
        env=env,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if done.returncode:
        raise ArgumentError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said["at"] - begin, {**said, "begin": begin}


def _stages(processes: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the least time of each stage over some processes [ms], in their order."""
    least: dict[str, float] = {}
    for said in processes:
        before = said["begin"]
        for stage, end in said["ends"].items():
            taken = 1e3 * (end - before)
            least[stage] = min(taken, least.get(stage, taken))
            before = end
    return {f"{stage} [ms]": taken for stage, taken in least.items()}


def _first_result(name: str, bench: Bench) -> Row:
    gpu_of(bench)
    ours = [str(FOLDER / "gpu_first_result.py")]
    with tempfile.TemporaryDirectory(prefix="softcuda-cache-") as cache:
        cold_s, cold = _started(ours, cache)
        cubins = sorted(Path(cache).rglob("kernel.cubin"))
        if not cubins or not cold["compiled"]:
            raise ArgumentError(f"the first process compiled nothing into {cache}: {cold}")
        bare = [str(FOLDER / "gpu_bare_result.py"), str(cubins[0])]
        taken = {OURS: Samples(1), BARE: Samples(1)}
        compiled, mapped = 0, 0
        for turn in range(TURNS):
            for key in (OURS, BARE) if turn % 2 else (BARE, OURS):
                seconds, said = _started(ours if key == OURS else bare, cache)
                taken[key].seconds.append(seconds)
                compiled += said.get("compiled", 0)
                mapped += said.get("nvrtc_mapped", False)
        apart = [_started([*ours, "--stages"], cache)[1] for _ in range(STAGE_TURNS)]
    row = Row(GROUP, name, [timing_of(key, samples) for key, samples in taken.items()])
    row.ratios = ratios(taken)
    later = min(taken[OURS].seconds) - min(taken[BARE].seconds)
    row.facts = {
        "least [s]": min(taken[OURS].seconds),
        "least, ctypes [s]": min(taken[BARE].seconds),
        "later [s]": later,
        "cold [s]": cold_s,
        **_stages(apart),
    }
    row.checks = [
        at_most("second process: kernels compiled", compiled, 0),
        at_most("second process: processes that map libnvrtc", mapped, 0),
        at_most("second process: first result later than a bare ctypes script's [s]", later, 0.4),
    ]
    return row


NAME = "a fused chain and a sum"
CASES = (Case(GROUP, NAME, partial(_first_result, NAME)),)
