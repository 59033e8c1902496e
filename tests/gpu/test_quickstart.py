"""The quickstart runs on a device unchanged, where the profile says so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tolerance import tolerance

from softcuda.driver.device import Device, driver_version
from softcuda.dtype import f32
from softcuda.profile.machine import device_hash
from softcuda.profile.resolve import read
from softcuda.profile.writer import render

ROOT = Path(__file__).parents[2]
NUMBER = re.compile(r"\d+\.\d+(?:e[-+]\d+)?")


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """Return a profile of a GPU, as if it had been measured on the device at hand."""
    device, fixed = Device(0), read(ROOT / "benchmarks" / "cuda.soft")
    facts = fixed.device._replace(
        name=device.name,
        compute_capability="{}.{}".format(*device.capability),
        vram_mb=str(device.total_bytes >> 20),
        driver=driver_version(),
        multiprocessors=str(device.multiprocessors),
    )
    meta = {**fixed.meta, "device_hash": device_hash(facts)}
    path = tmp_path / "here.soft"
    path.write_text(render(replace(fixed, device=facts, meta=meta)), encoding="utf-8")
    return path


def quickstart(profile: str, cwd: Path) -> tuple[str, str]:
    """Return the decision table and the results that the example prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", ROOT / "examples" / "quickstart.py"],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "SOFTCUDA_CONFIG": profile},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    table, results = done.stdout.split("\n\n", 1)
    return table, results


def last_digit(number: str) -> float:
    """Return one unit of the last digit that is printed."""
    digits, _, exponent = number.partition("e")
    return float(10.0 ** (int(exponent or 0) - len(digits.partition(".")[2])))


def test_the_quickstart_prints_the_same_on_the_device(profile: Path, tmp_path: Path) -> None:
    table, found = quickstart(str(profile), tmp_path)
    assert "cuda_" in table and "here.soft:" in table and "DEFAULT.soft" not in table
    _, expected = quickstart("default", tmp_path)
    assert NUMBER.sub("#", found) == NUMBER.sub("#", expected)
    numbers, right = NUMBER.findall(found), NUMBER.findall(expected)
    assert len(numbers) >= 10
    # What is printed with an exponent is the difference of two shares after six squarings of a
    # matrix, each of which doubles the error so far.
    squared = 2**6 * tolerance(f32, 27, "matmul")
    for one, other in zip(numbers, right, strict=True):
        allowed = last_digit(other) + (squared if "e" in other else 0.0)
        assert abs(np.subtract(float(one), float(other))) <= allowed, f"{one}, on the CPU {other}"
