"""One command runs any suite: `python -m benchmarks SUITE`, or `python benchmarks/run.py SUITE`.

Writes benchmarks/results/<device>/<suite>.json and the suite's tables in benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
if __name__ == "__main__":  # run as a file: the folder above must be importable
    sys.path[0] = str(FOLDER.parent)

from benchmarks.cases import Bench, Case  # noqa: E402
from benchmarks.gpu_machine import find_gpu_peers, gpu_rates, gpu_run, why_no_gpu  # noqa: E402
from benchmarks.gpu_timing import Gpu, GpuBench  # noqa: E402
from benchmarks.gpu_work import PROFILE  # noqa: E402
from benchmarks.machine import find_peers, measure_rates, this_run  # noqa: E402
from benchmarks.report import (  # noqa: E402
    replace_between_markers,
    suite_json,
    suite_tables,
    time_text,
    write_text,
)
from benchmarks.results import Row, Timing  # noqa: E402
from benchmarks.timing import OURS  # noqa: E402
from softcuda.errors import SoftCudaError  # noqa: E402
from softcuda.executor.on_demand import session  # noqa: E402
from softcuda.knobs import thread_count  # noqa: E402

__all__ = ["GPU_SUITES", "SUITES", "main", "suite_cases"]

GPU_SUITES = (
    *("launch", "elementwise", "reduce", "permute", "gemm", "contraction"),
    *("training", "placement"),
)
SUITES = ("cpu", "cpu_contraction", "cpu_training", *GPU_SUITES)
NO_GPU = 2  # exit status of a GPU suite on a machine without one

# What may go wrong in a case, here or in a peer; the others go on.
_FAILURES = (
    SoftCudaError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    subprocess.SubprocessError,
    TypeError,
    ValueError,
)
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def suite_cases(suite: str) -> tuple[Case, ...]:
    """Return the cases of a suite: CASES of the module benchmarks/<suite>.py."""
    cases: tuple[Case, ...] = importlib.import_module(f"benchmarks.{suite}").CASES
    return cases


def main(arguments: Sequence[str]) -> int:
    """Run a suite in a process whose libraries all use softcuda's number of threads."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--only", metavar="REGEX", help="cases to run; then nothing is written")
    parser.add_argument("--list", action="store_true", help="list the cases and stop")
    asked = parser.parse_args(arguments)
    if asked.list:
        for case in suite_cases(asked.suite):
            print(f"{case.group}: {case.name}")
        return 0
    reason = why_no_gpu() if asked.suite in GPU_SUITES else ""
    if reason:
        print(f"The suite {asked.suite} needs a CUDA device: {reason}", file=sys.stderr)
        return NO_GPU
    threads = str(thread_count())
    profile = PROFILE if asked.suite in GPU_SUITES else "default"
    wanted = dict.fromkeys(_THREAD_VARIABLES, threads) | {"SOFTCUDA_CONFIG": profile}
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        again = [sys.executable, "-m", "benchmarks", *arguments]
        env = {**os.environ, **wanted}
        return subprocess.run(again, cwd=FOLDER.parent, env=env, check=False).returncode
    bench = _gpu_bench() if asked.suite in GPU_SUITES else _cpu_bench()
    return _run(asked.suite, asked.only, bench)


def _cpu_bench() -> Bench:
    peers = find_peers(thread_count())
    machine = this_run(peers)
    return Bench(machine, measure_rates(machine.threads), peers)


def _gpu_bench() -> GpuBench:
    gpu = Gpu(session())
    peers = find_gpu_peers()
    return GpuBench(gpu_run(gpu, peers), gpu_rates(gpu), peers, gpu=gpu)


def _run(suite: str, only: str | None, bench: Bench) -> int:
    begin = time.perf_counter()
    rows: list[Row] = []
    failed = 0
    for case in suite_cases(suite):
        if only and not re.search(only, f"{case.group}: {case.name}"):
            continue
        started = time.perf_counter()
        try:
            row = case.measure(bench)
        except _FAILURES as error:
            if not isinstance(error, SoftCudaError):
                traceback.print_exc()
            print(f"{case.group}: {case.name}: failed: {error}", flush=True)
            failed += 1
            rows.append(Row(case.group, case.name, [Timing(OURS, status="failed")]))
            continue
        rows.append(row)
        print(f"{_line(row)}  [{time.perf_counter() - started:.1f} s]", flush=True)
    module = importlib.import_module(f"benchmarks.{suite}")
    rows.extend(getattr(module, "summary", _no_summary)(rows))
    section = suite_tables(suite, bench.machine, bench.rates, rows)
    print(f"\n{section}\n{time.perf_counter() - begin:.0f} s, {failed} cases failed")
    if not only:
        write_text(
            FOLDER / "results" / bench.machine.slug / f"{suite}.json",
            suite_json(suite, bench.machine, bench.rates, rows),
        )
        readme = FOLDER / "README.md"
        text = readme.read_text(encoding="utf-8")
        write_text(readme, replace_between_markers(text, suite, section))
    return 1 if failed else 0


def _no_summary(rows: Sequence[Row]) -> list[Row]:
    """Return no rows: what a suite without a `summary` of its own adds."""
    return []


def _line(row: Row) -> str:
    times = [
        f"{t.name} {t.status if t.us is None else time_text(t.us)}"
        + (f" ({row.ratios[t.name].median:.2f}x)" if t.name in row.ratios else "")
        for t in row.timings
    ]
    facts = [f"{key} {value:.4g}" for key, value in row.facts.items()]
    missed = [f"MISSED {c.what} {c.value} ({c.bound})" for c in row.checks if not c.met]
    return f"{row.group}: {row.case}: " + ", ".join(times + facts + missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
