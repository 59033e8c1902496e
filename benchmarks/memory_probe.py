"""A process of its own that measures the peak memory of one chain and prints it as JSON."""

from __future__ import annotations

import contextlib
import gc
import json
import sys
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import softcuda as sc
from benchmarks.accuracy import compare, tolerance

__all__ = ["main"]

Array = np.ndarray[Any, Any]

STEPS = 30
EXTENT = 2048
_STATUS = Path("/proc/self/status")


def _chain(skips: bool, x: Any, w: Any, bias: Any, tanh: Callable[[Any], Any]) -> tuple[Any, int]:
    """Return 30 steps over x, and the most values alive at once.

    By turns: a product with w, a bias, tanh, a number (or, with skips, the sum with the value
    three steps before), a number. A step's operands and its result are alive together; x, w and
    bias are inputs and not counted.
    """
    values: list[Any] = [x]
    reads: list[tuple[int, ...]] = [()]
    for step in range(STEPS):
        last = len(values) - 1
        kind = step % 5
        other = last - 3 if skips and kind == 3 else last
        values.append(_step(kind, values[last], values[other] if skips else 0.25, w, bias, tanh))
        reads.append((last, other))
    last_read = {}
    for number, sources in enumerate(reads):
        for source in sources:
            last_read[source] = number
    most = max(
        sum(1 for value in range(1, number + 1) if last_read.get(value, number) >= number)
        for number in range(1, len(reads))
    )
    return values[-1], most


def _step(kind: int, t: Any, other: Any, w: Any, bias: Any, tanh: Callable[[Any], Any]) -> Any:
    if kind == 0:
        return t @ w
    if kind == 1:
        return t + bias
    if kind == 2:
        return tanh(t)
    return t + other if kind == 3 else t * 0.5


class _Tracemalloc:
    """The peak of what Python and NumPy allocate."""

    def __enter__(self) -> _Tracemalloc:
        gc.collect()
        tracemalloc.start()
        self._before = tracemalloc.get_traced_memory()[0]
        return self

    def __exit__(self, *caught: object) -> None:
        self.peak = tracemalloc.get_traced_memory()[1] - self._before
        tracemalloc.stop()


class _Resident:
    """The peak of the resident set, looked at every 0.5 ms and by the kernel's own mark."""

    def __enter__(self) -> _Resident:
        gc.collect()
        self._stop = threading.Event()
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        self._marked = _status_bytes("VmHWM") - _status_bytes("VmRSS") < 1 << 20
        self._before = self._seen = _status_bytes("VmRSS")
        self._watch = threading.Thread(target=self._look)
        self._watch.start()
        return self

    def _look(self) -> None:
        while not self._stop.wait(0.0005):
            self._seen = max(self._seen, _status_bytes("VmRSS"))

    def __exit__(self, *caught: object) -> None:
        self._stop.set()
        self._watch.join()
        mark = _status_bytes("VmHWM") if self._marked else 0
        self.peak = max(mark, self._seen) - self._before


def _status_bytes(key: str) -> int:
    if not _STATUS.exists():
        return 0
    for line in _STATUS.read_text(encoding="ascii").splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    return 0


def main(chain: str, way: str) -> int:
    """Measure a chain ("plain" or "skips") in one way ("compile" or "evaluate"); print JSON."""
    skips = chain == "skips"
    rng = np.random.default_rng(5)
    x = rng.standard_normal((EXTENT, EXTENT), np.float32)
    w = rng.standard_normal((EXTENT, EXTENT), np.float32) / np.float32(EXTENT**0.5)
    bias = rng.standard_normal(EXTENT, np.float32)
    reference, most = _chain(skips, x.astype(np.float64), w.astype(np.float64), bias, np.tanh)
    _warm_up(w)
    leaves = [sc.asarray(value) for value in (x, w, bias)]
    with _Tracemalloc() as allocated, _Resident() as resident:
        graph, _ = _chain(skips, leaves[0], leaves[1], leaves[2], sc.tanh)
        result = sc.compile(graph, "default").run() if way == "compile" else graph.evaluate()
    out = np.asarray(graph.data if result is None else result.data)
    print(
        json.dumps(
            {
                "input_bytes": x.nbytes + w.nbytes + bias.nbytes,
                "alive_bytes": most * x.nbytes,
                "allocated": allocated.peak,
                "resident": resident.peak if _STATUS.exists() else None,
                "error": compare(out, reference).error,
                "allowed": tolerance("f32", EXTENT, STEPS),
            }
        )
    )
    return 0


def _warm_up(w: Array) -> None:
    """Let BLAS and the worker threads take the buffers that they keep."""
    np.matmul(w, w)
    small = sc.tensor(np.ones((256, 256), np.float32))
    sc.compile(sc.tanh(small @ small + 1.0), "default").run()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
