"""soft_init on the device: a small sweep, its profile obeyed, checked again and reported."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from tolerance import assert_close

import softcuda as sc
from softcuda.dtype import f32
from softcuda.profile.resolve import read
from softcuda.profile.vocabulary import work_ops
from softcuda.tools.samples import measured_path, read_samples
from softcuda.tools.soft_init import main

FEW = ["--ops", "add,sum,matmul,scatter_add", "--dtypes", "f32", "--max-size", "4096"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_small_sweep_makes_a_profile_that_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FEW, "--device", "cuda", "--budget", "60", "--output", "gpu.soft"]) == 0
    printed = capsys.readouterr().out
    assert "disqualified" not in printed
    profile = read("gpu.soft")
    assert {row.op for row in profile.rows} == set(work_ops())
    assert {line.op for line in profile.thresholds} == {"add", "sum", "matmul", "scatter_add"}
    assert {line.direction for line in profile.transfer} == {"h2d", "d2h"}
    for op in ("add", "scatter_add"):
        for device in ("cpu", "cuda"):
            assert (profile.cost_us(op, "f32", 1000, device) or 0) > 0
    ledger, owner = read_samples(measured_path("gpu.soft"))
    assert owner[0] == profile.meta["device_hash"] and ledger.copies
    a = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    found = sc.compile(sc.sum(sc.tensor(a) @ sc.tensor(a), axis=0), "gpu.soft").run().numpy()
    wide = a.astype(np.float64)
    scale = np.abs(wide) @ np.abs(wide)
    assert_close(
        found, (wide @ wide).sum(axis=0), f32, "matmul", k_extent=64 * 64, scale=scale.sum(axis=0)
    )
    assert main(["report", "gpu.soft", "--markdown", "threshold"]) == 0
    assert {"gpu.html", "gpu.svg", "threshold.md"} <= set(os.listdir())
    assert "## Agreement with the model" in Path("threshold.md").read_text(encoding="utf-8")
