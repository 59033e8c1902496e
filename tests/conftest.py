"""The test run: a folder is a marker, the profile is the shipped one, no device is no failure."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

TESTS = Path(__file__).parent
FOLDERS = ("unit", "compile", "gpu", "fuzz", "packaging")
NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE

os.environ.setdefault("SOFTCUDA_CONFIG", "default")

# A run in the background inherits an ignored SIGINT, and Python then raises no KeyboardInterrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run, and no failure because the machine was busy.
settings.register_profile("softcuda", deadline=None, derandomize=True)
settings.load_profile("softcuda")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --require-gpu."""
    parser.addoption(
        "--require-gpu",
        action="store_true",
        help="gpu tests fail, instead of being skipped, on a machine without a device",
    )


@pytest.fixture(scope="module", autouse=True)
def _collector_starts_anew() -> None:
    """Tell the collector to look no more at what is alive before a module's tests.

    Some ten thousand tests are most of the heap; many tests collect garbage, and would walk through
    them each time.
    """
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark every test with the name of its folder; those that install take longest, come first."""
    for item in items:
        path = Path(item.path)
        if path.is_relative_to(TESTS):
            folder = path.relative_to(TESTS).parts[0]
            if folder in FOLDERS:
                item.add_marker(folder)
    items.sort(key=lambda item: item.get_closest_marker("packaging") is None)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a gpu test where the driver says that there is no device."""
    if item.get_closest_marker("gpu") is None:
        return
    reason = missing_device()
    if reason is None:
        return
    if item.config.getoption("--require-gpu"):
        pytest.fail(f"--require-gpu: {reason}")
    pytest.skip(reason)


@cache
def missing_device() -> str | None:
    """Return why there is no device, in the driver's words; None where there is one.

    Only an absent driver and CUDA_ERROR_NO_DEVICE count: any other failure is for the tests to
    show.
    """
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        driver = ctypes.CDLL(name)
    except OSError as error:
        return f"no CUDA driver: {error}"
    if driver.cuInit(0) == NO_DEVICE:
        return "cuInit: CUDA_ERROR_NO_DEVICE (100)"
    return None
