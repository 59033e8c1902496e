"""The machine of a run: what it is, which versions run on it, and its measured floors."""

from __future__ import annotations

import datetime
import importlib
import os
import platform
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import softcuda
from benchmarks.results import Floor
from softcuda.knobs import thread_count
from softcuda.profile.machine import this_machine

__all__ = [
    "Machine",
    "Peers",
    "Rates",
    "busy_cores",
    "find_peers",
    "floor_of",
    "measure_rates",
    "slug_of",
    "this_run",
]

Array = np.ndarray[Any, Any]

_COPY_ELEMS = 1 << 24  # f32: 64 MiB, the size of the large cases
_BLAS_EXTENT = 2048
_CPU_TIMES = Path("/proc/stat")


@dataclass(frozen=True, slots=True)
class Machine:
    """Where and with what a suite ran.

    Attributes:
        device: the CPU or GPU, as it names itself.
        slug: its name as a folder.
        cores: CPUs that this process may run on.
        threads: threads that softcuda and its peers use.
        versions: of Python, the packages and NumPy's BLAS.
        date: when the run began, UTC.
        system: operating system and architecture.
        busy: cores that other programs kept busy in the second before the run; more than a
            few tenths make every figure doubtful. None where the system does not say.
    """

    device: str
    slug: str
    cores: int
    threads: int
    versions: dict[str, str]
    date: str
    system: str
    busy: float | None = None


@dataclass(frozen=True, slots=True)
class Rates:
    """What the machine can do at most, measured in the run.

    Attributes:
        copy_bytes_s: bytes read plus written a second by a copy of 64 MiB on all threads.
        flops_s: dtype -> flops a second of the BLAS that NumPy calls, on all threads; on a GPU
            those of its FMA units, by its data sheet.
        unit: what the flops are of.
    """

    copy_bytes_s: float
    flops_s: dict[str, float]
    unit: str = "BLAS"


@dataclass(frozen=True, slots=True)
class Peers:
    """The peers beside NumPy; None for one that is not installed."""

    torch: Any
    cupy: Any = None


def find_peers(threads: int) -> Peers:
    """Return the peers that can be imported, set to as many threads as softcuda uses."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return Peers(None)
    torch.set_num_threads(threads)
    return Peers(torch)


def this_run(peers: Peers) -> Machine:
    """Return the facts of this machine and the versions in use."""
    facts = this_machine()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = {
        "python": platform.python_version(),
        "softcuda": softcuda.__version__,
        "numpy": np.__version__,
        "torch": "absent" if peers.torch is None else peers.torch.__version__,
        "blas": _blas_name(),
    }
    return Machine(
        device=facts.cpu,
        slug=f"{slug_of(facts.cpu)}-{cores}-cores",
        cores=cores or 1,
        threads=thread_count(),
        versions=versions,
        date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        system=f"{platform.system()} {platform.machine()}",
        busy=busy_cores(cores or 1),
    )


def busy_cores(cores: int) -> float | None:
    """Return how many of the cores are busy while this process sleeps for a second."""
    if not _CPU_TIMES.exists():
        return None
    before = _cpu_times()
    time.sleep(1.0)
    spent = [after - then for then, after in zip(before, _cpu_times(), strict=True)]
    idle = spent[3] + spent[4]  # idle, waiting for a disk
    return cores * (1.0 - idle / max(sum(spent), 1))


def _cpu_times() -> list[int]:
    """Return the ticks of all CPUs together: user, nice, system, idle, iowait, ..., steal."""
    first = _CPU_TIMES.read_text(encoding="ascii").splitlines()[0]
    return [int(ticks) for ticks in first.split()[1:9]]


def slug_of(name: str) -> str:
    """Return a name as a folder: lower case, digits and single hyphens.

    Example:
        >>> slug_of("Intel(R) Xeon(R) Processor @ 2.10GHz")
        'intel-xeon-processor-2-10ghz'
    """
    plain = re.sub(r"\((?:R|TM|tm)\)", " ", name)
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")


def _blas_name() -> str:
    found: Any = np.show_config(mode="dicts")
    blas = (found or {}).get("Build Dependencies", {}).get("blas", {})
    return f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()


def measure_rates(threads: int) -> Rates:
    """Return the copy rate and the BLAS rates: the best of several tries, since they are bounds."""
    rng = np.random.default_rng(1)
    source = rng.standard_normal(_COPY_ELEMS, np.float32)
    target = np.zeros_like(source)
    parts = [
        slice(k * _COPY_ELEMS // threads, (k + 1) * _COPY_ELEMS // threads) for k in range(threads)
    ]
    with ThreadPoolExecutor(threads) as pool:
        seconds = _best(lambda: list(pool.map(lambda p: np.copyto(target[p], source[p]), parts)), 9)
    copy = 2 * source.nbytes / seconds
    flops = {}
    for name, dtype in (("f32", np.float32), ("f64", np.float64)):
        a = rng.standard_normal((_BLAS_EXTENT, _BLAS_EXTENT)).astype(dtype)
        b = rng.standard_normal((_BLAS_EXTENT, _BLAS_EXTENT)).astype(dtype)
        out = np.empty_like(a)
        seconds = _best(lambda a=a, b=b, out=out: np.matmul(a, b, out=out), 5)  # type: ignore[misc]
        flops[name] = 2 * _BLAS_EXTENT**3 / seconds
    return Rates(copy, flops)


def _best(work: Callable[[], object], tries: int) -> float:
    work()
    found = []
    for _ in range(tries):
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return min(found)


def floor_of(rates: Rates, nbytes: int, flops: int = 0, dtype: str = "f32") -> Floor:
    """Return the least time of work that moves `nbytes` and contracts with `flops`."""
    by_bytes = nbytes / rates.copy_bytes_s * 1e6
    by_flops = flops / rates.flops_s[dtype] * 1e6
    bound_by = "bytes" if by_bytes >= by_flops else "flops"
    return Floor(max(by_bytes, by_flops), bound_by, nbytes, flops)
