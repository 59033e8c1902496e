"""The same executable and inputs give the same bits, run after run, also amid other work."""

from __future__ import annotations

import threading

import numpy as np
from reported_cases import repeated

import softcuda as sc

TIMES = 60  # a GPU test does it a thousand times


def test_the_same_bits_in_every_run() -> None:
    """cupy-8350: results that changed from run to run."""
    executable = sc.compile(repeated(), "default")
    stop = threading.Event()

    def other_work() -> None:
        x = sc.tensor(np.ones((100, 100), np.float32))
        beside = sc.compile([x @ x, sc.sum(x, axis=0)], "default")
        while not stop.is_set():
            beside.run()

    busy = threading.Thread(target=other_work)
    busy.start()
    try:
        found = {
            tuple(result.numpy().tobytes() for result in executable.run()) for _ in range(TIMES)
        }
    finally:
        stop.set()
        busy.join()
    assert len(found) == 1
