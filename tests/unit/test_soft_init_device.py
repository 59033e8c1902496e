"""soft_init with a GPU: a fake driver whose one right backend takes neg and add of f32."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_driver import FakeDriver
from fake_kernels import BACKEND_ID, fake_kernels

from softcuda.backends import added_devices
from softcuda.profile.machine import device_hash
from softcuda.profile.model import Profile
from softcuda.profile.resolve import read
from softcuda.tools.cells import Cell, State
from softcuda.tools.copying import COPIED
from softcuda.tools.device_bench import DeviceBench, device_here, machine_facts
from softcuda.tools.measure import Meter
from softcuda.tools.samples import measured_path, read_samples
from softcuda.tools.soft_init import main

FEW = ["--ops", "neg,add", "--max-size", "64", "--dtypes", "f32"]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("softcuda.tools.copying.COPIED", COPIED[:4])
    yield from fake_kernels(monkeypatch)


def written() -> Profile:
    return read("CONFIG.soft", added_devices())


def test_a_gpu_is_found_and_described(fake: FakeDriver) -> None:
    assert device_here("auto") == ("cuda", "")
    assert device_here("cpu") == ("cpu", "")
    facts = machine_facts("cuda")
    assert facts.type == "cuda"
    assert all(text for _, text in facts.written())
    assert len(facts.written()) == 10


def test_a_cell_is_measured_resident_and_from_the_host(fake: FakeDriver) -> None:
    meter = Meter(DeviceBench())
    assert {"cpu_fused", "cuda_naive", BACKEND_ID} <= set(meter.backend_ids)
    found = meter.measure(Cell("add", "f32", 64), ("cpu_fused", "cuda_reduce", BACKEND_ID), 0.01)
    own = found[BACKEND_ID]
    assert (own.state, own.device) == (State.MEASURED, "cuda")
    assert own.samples and own.host and own.host_us is not None
    cpu = found["cpu_fused"]
    assert (cpu.device, cpu.host, cpu.host_us) == ("cpu", (), cpu.microseconds)
    assert found["cuda_reduce"].state is State.REFUSED


def test_a_wrong_kernel_is_disqualified(fake: FakeDriver) -> None:
    fake.kernels["add"] = fake.kernels["add"]._replace(run=lambda *arguments: None)
    found = Meter(DeviceBench()).measure(Cell("add", "f32", 64), (BACKEND_ID,), 0.01)
    assert found[BACKEND_ID].state is State.WRONG
    assert "elements are wrong" in found[BACKEND_ID].reason


def test_a_profile_of_a_gpu(fake: FakeDriver, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(FEW) == 0
    printed = capsys.readouterr().out
    profile = written()
    assert profile.device == machine_facts("cuda")
    assert profile.meta["device_hash"] == device_hash(profile.device)
    assert profile.pool.device == "cuda" and profile.policy == "table"
    assert {(line.op, line.dtype) for line in profile.thresholds} == {
        ("add", "f32"),
        ("neg", "f32"),
    }
    for device in ("cpu", "cuda"):
        assert (profile.cost_us("add", "f32", 16, device) or 0) > 0
    for direction in ("h2d", "d2h"):
        assert (profile.transfer_us(direction, 1 << 20) or 0) > 0
    text = Path("CONFIG.soft").read_text(encoding="utf-8")
    assert "# Pinned memory: h2d " in text and "# Outliers: " in text
    assert "sizes from which the GPU is faster" in printed
    ledger, owner = read_samples(measured_path("CONFIG.soft"))
    assert owner[0] == profile.meta["device_hash"]
    assert set(ledger.copies) == {
        (direction, memory) for direction in ("h2d", "d2h") for memory in ("pageable", "pinned")
    }
    assert main(FEW) == 0
    assert "fits this machine" in capsys.readouterr().out


def test_the_cpu_alone_can_be_asked_for(fake: FakeDriver) -> None:
    assert main([*FEW, "--device", "cpu", "--quiet"]) == 0
    profile = written()
    assert profile.device.type == "cpu" and not profile.transfer
    assert main([*FEW, "--quiet"]) == 1


def test_without_a_device_the_gpu_cannot_be_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("softcuda.tools.device_bench.cuda_target", lambda: "no driver, for a test")
    assert main([*FEW, "--device", "cuda"]) == 1
    assert "no CUDA device can be used here: no driver, for a test" in capsys.readouterr().err
    assert main([*FEW, "--budget", "0.1"]) == 0
    assert "the CPU alone is measured: no driver, for a test" in capsys.readouterr().out
    assert sorted(os.listdir()) == ["CONFIG.csv", "CONFIG.soft"]


def test_the_finding_of_a_gpu(fake: FakeDriver, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(FEW) == 0
    assert main(["report", "--markdown", "threshold"]) == 0
    text = Path("threshold.md").read_text(encoding="utf-8")
    for op in ("add", "neg"):
        assert f"\n| {op} | " in text
    assert "f32, data on the host" in text and "| h2d, pinned | " in text
    assert "(CONFIG.svg)" in text and Path("CONFIG.svg").is_file()
