"""Yardsticks: bounds of time hold for a machine of a known speed, and grow on a slower one."""

from __future__ import annotations

import argparse
import inspect
import time

__all__ = ["slowness"]

SECONDS = 0.008  # on the two-core machine that the bounds are meant for
_TEXT = inspect.getsource(argparse)


def slowness() -> float:
    """Return how many times longer than usual this machine takes at the moment; at least 1.

    Processor time of compiling a module of the standard library to bytecode, the least of several:
    code and data that no cache of a processor holds, as in the tests that are timed.
    """
    seconds = []
    for _ in range(5):
        begin = time.process_time()
        compile(_TEXT, "argparse.py", "exec")
        seconds.append(time.process_time() - begin)
    return max(1.0, min(seconds) / SECONDS)
