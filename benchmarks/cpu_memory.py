"""Suite cpu: peak memory of a long chain and the time of an import, each in a fresh process."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.cases import Bench, Case
from benchmarks.results import Row, Timing, at_most

__all__ = ["CASES"]

MEMORY = "Peak memory of 30 steps of 2048 x 2048 f32, DEFAULT.soft"
IMPORT = "Import"
_ROOT = Path(__file__).parents[1]
_IMPORT_TIMES = (
    "import time, numpy; t = time.perf_counter(); import softcuda; print(time.perf_counter() - t)"
)


def _python(*arguments: str) -> str:
    """Return what a fresh interpreter prints; it may keep byte code, as it does for a user.

    Raises:
        CalledProcessError: it failed.
    """
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=_ROOT,
        env=kept,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return done.stdout


def _memory(chain: str, way: str, name: str, bench: Bench) -> Row:
    """Measure the peak above the inputs, as a multiple of the most bytes alive at once."""
    row = Row(MEMORY, name)
    found: dict[str, Any] = json.loads(_python("-m", "benchmarks.memory_probe", chain, way))
    mib = 2.0**20
    alive = found["alive_bytes"]
    right = found["error"] <= found["allowed"]
    row.facts["inputs [MiB]"] = found["input_bytes"] / mib
    row.facts["most alive [MiB]"] = alive / mib
    row.facts["error"] = found["error"]
    for meter, what in (("allocated", "NumPy's allocations"), ("resident", "resident memory")):
        peak = found[meter]
        if right and peak is not None:
            row.facts[f"{meter} [MiB]"] = peak / mib
        multiple = peak / alive if right and peak is not None else None
        row.checks.append(at_most(f"{name}: peak of {what}, of most alive", multiple, 1.1))
    return row


def _import(bench: Bench) -> Row:
    """Time `import softcuda` after `import numpy`, in fresh interpreters."""
    row = Row(IMPORT, "import softcuda, above numpy")
    _python("-c", _IMPORT_TIMES)
    seconds = [float(_python("-c", _IMPORT_TIMES)) for _ in range(9)]
    low, median, high = statistics.quantiles(seconds, n=4, method="inclusive")
    row.timings.append(Timing("softcuda", median * 1e6, low * 1e6, high * 1e6, len(seconds), 1))
    row.checks.append(at_most("import softcuda, above numpy [s]", median, 0.1))
    return row


CASES = (
    *(
        Case(MEMORY, name, partial(_memory, chain, way, name))
        for name, chain, way in (
            ("chain, compile and run", "plain", "compile"),
            ("chain, evaluate", "plain", "evaluate"),
            ("chain with skips, compile and run", "skips", "compile"),
        )
    ),
    Case(IMPORT, "import softcuda, above numpy", _import),
)
