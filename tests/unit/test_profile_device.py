"""A profile of a CUDA device is compared with the device that is there."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fake_driver import FakeDriver
from fake_kernels import fake_kernels, kernel_profile

import softcuda as sc
from softcuda.backends import added_devices
from softcuda.errors import NoDeviceError, SoftCudaWarning
from softcuda.executor.on_demand import cuda_facts
from softcuda.profile.machine import device_hash
from softcuda.profile.model import DeviceFacts, Profile, Row
from softcuda.profile.resolve import default_profile, read
from softcuda.profile.writer import render
from softcuda.target import Target


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    yield from fake_kernels(monkeypatch)


def written(folder: Path, **other: str) -> Path:
    """Return a profile of the device at hand, in which some facts are others."""
    facts = cuda_facts()._replace(**other)
    made = kernel_profile()
    meta = {**made.meta, "device_hash": device_hash(facts)}
    path = folder / "here.soft"
    text = render(replace(made, device=facts, meta=meta))
    path.write_text(text, encoding="utf-8")
    return path


def test_a_profile_of_the_device_says_nothing(fake: FakeDriver, tmp_path: Path) -> None:
    path = written(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sc.compile(-sc.input((3,), name="x"), path)


def test_a_profile_of_another_device_says_so_once(fake: FakeDriver, tmp_path: Path) -> None:
    path = written(tmp_path, vram_mb="8192", driver="12.4")
    with pytest.warns(SoftCudaWarning, match=r"vram_mb is '8192'.*driver is '12\.4'.*soft_init"):
        sc.compile(-sc.input((3,), name="x"), path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sc.compile(-sc.input((3,), name="x"), path)


def test_a_profile_that_was_read_warns_where_it_may_run(fake: FakeDriver, tmp_path: Path) -> None:
    foreign = read(written(tmp_path, vram_mb="8192"), added_devices())
    x = sc.input((3,), name="x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert foreign.device.number("vram_mb") == 8192  # for inspection, and for compiling alone
        sc.compile(-x, foreign, target=Target("cuda", "sm_90a", 132, 227, 60))
    with pytest.warns(SoftCudaWarning, match=r"vram_mb is '8192'.*soft_init"):
        sc.compile(-x, foreign)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sc.compile(-x, foreign)


def test_the_device_is_asked_once_for_what_a_profile_is_compared_with(
    fake: FakeDriver, tmp_path: Path
) -> None:
    path = written(tmp_path)
    sc.compile(-sc.input((3,), name="x"), path)
    before = len(fake.calls)
    sc.compile(-sc.input((4,), name="x"), path)
    assert "cuDeviceGetName" not in {call.name for call in fake.calls[before:]}


@pytest.fixture
def no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("softcuda.running.cuda_target", lambda *_, **__: "no CUDA driver: a; b")


def of_a_gpu(folder: Path) -> Path:
    """Return a profile of a CUDA device, which adds few elements on the CPU."""
    facts = DeviceFacts("cuda", "RTX", "8.6", "8192", "13.0")
    meta = {"soft_version": "0.1.0", "device_hash": device_hash(facts)}
    path = folder / "gpu.soft"
    made = Profile("x", meta, facts, (*default_profile().rows, *ROWS))
    path.write_text(render(made), encoding="utf-8")
    return path


ROWS = (
    Row("add", "f32", 0, 100, "cpu_fused"),
    Row("add", "f32", 100, None, "cuda_elementwise"),
)


@pytest.mark.usefixtures("no_device")
@pytest.mark.parametrize("how", ["environment", "argument", "folder", "read"])
def test_a_profile_of_a_gpu_that_is_not_here_says_so_once_where_it_runs(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = of_a_gpu(tmp_path)
    config: Path | Profile | None = path
    if how == "environment":
        monkeypatch.setenv("SOFTCUDA_CONFIG", str(path))
    elif how == "folder":
        monkeypatch.delenv("SOFTCUDA_CONFIG", raising=False)
        monkeypatch.chdir(tmp_path)
        path.rename("CONFIG.soft")
    elif how == "read":
        config = read(path)

    def run(number: int) -> None:
        if how in ("environment", "folder"):
            (sc.tensor([1.0] * number) + 1).numpy()
        else:
            sc.compile(sc.tensor([1.0] * number) + 1, config).run()

    told = (
        r"another machine: it is of RTX, and here is no CUDA driver: a\. .*SOFTCUDA_CONFIG=default"
    )
    with pytest.warns(SoftCudaWarning, match=told) as caught:
        run(3)
    assert len(caught) == 1
    run(4)  # warnings are errors


@pytest.mark.usefixtures("no_device")
def test_what_only_compiles_or_fails_is_not_told_that_its_device_is_away(tmp_path: Path) -> None:
    path = of_a_gpu(tmp_path)
    x = sc.tensor([1.0] * 3)
    assert sc.compile(x + 1, path, target="cpu")
    assert str(read(path).device.name) == "RTX"
    with pytest.raises(NoDeviceError, match="no CUDA driver"):
        sc.compile(sc.tensor([1.0] * 200) + 1, path)
