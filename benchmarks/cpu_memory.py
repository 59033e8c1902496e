"""Suite cpu: peak memory of a long chain and the time of an import, each in a fresh process."""

from __future__ import annotations

import json
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
    """Return what a fresh interpreter prints.

    Raises:
        CalledProcessError: it failed.
    """
    done = subprocess.run(
        [sys.executable, *arguments], cwd=_ROOT, stdout=subprocess.PIPE, check=True, text=True
    )
    return done.stdout


def _memory(way: str, meter: str, name: str, bench: Bench) -> Row:
    """Measure the peak above the inputs, as a multiple of the most bytes alive at once."""
    row = Row(MEMORY, name)
    found: dict[str, Any] = json.loads(_python("-m", "benchmarks.memory_probe", way, meter))
    mib = 2.0**20
    right = found["error"] <= found["allowed"]
    row.facts["inputs [MiB]"] = found["input_bytes"] / mib
    row.facts["most alive [MiB]"] = found["alive_bytes"] / mib
    row.facts["error"] = found["error"]
    peak = found["peak_bytes"] if right else None
    if peak is not None:
        row.facts["peak above inputs [MiB]"] = peak / mib
    multiple = None if peak is None else peak / found["alive_bytes"]
    row.checks.append(at_most(f"{name}: peak above inputs, of most alive", multiple, 1.1))
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
        Case(MEMORY, name, partial(_memory, way, meter, name))
        for name, way, meter in (
            ("compile and run, NumPy's allocations", "compile", "tracemalloc"),
            ("compile and run, resident memory", "compile", "resident"),
            ("evaluate, NumPy's allocations", "evaluate", "tracemalloc"),
            ("evaluate, resident memory", "evaluate", "resident"),
        )
    ),
    Case(IMPORT, "import softcuda, above numpy", _import),
)
