"""Saved executables of CUDA devices: over the fake driver, and for a target without any."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_driver import FakeDriver
from fake_kernels import Cubins, fake_kernels, kernel_profile
from fake_nvrtc import name_cache, new_cache
from fake_sessions import on_device
from op_cases import every_op, fast_profile

import softcuda as sc
from softcuda.errors import NoDeviceError, SavedFileError, SoftCudaWarning
from softcuda.executor.saved import kernels
from softcuda.executor.saved.files import read_executable
from softcuda.executor.structure import flatten
from softcuda.graph.node import Node
from softcuda.graph.trace import trace
from softcuda.nvrtc.source import Source
from softcuda.profile.resolve import read
from softcuda.running import compile_traced, settings_of
from softcuda.target import Target
from softcuda.tools.inspect_kernels import main

Array = np.ndarray[Any, Any]

ON_CUDA = Path(__file__).parents[2] / "benchmarks" / "cuda.soft"


def floats(seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(5).astype(np.float32)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    monkeypatch.setattr(kernels, "read_source", lambda unit: Source("kernel", (), ()))
    yield from fake_kernels(monkeypatch)


def made() -> sc.Executable:
    """Return an executable with kernels, copies, a step on the CPU, leaves on the device."""
    x = sc.input((5,), name="x")
    w = sc.variable(floats(9), "w", device="cuda")
    return sc.compile(sc.exp(-x) + (w + on_device(floats(8))), kernel_profile(), updates={w: -w})


def test_on_the_same_device_it_runs_without_compiling(
    fake: FakeDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable = made()
    executable.save(tmp_path / "file")

    def refused(self: Cubins, unit: Any, arch: str) -> None:
        raise AssertionError(f"{unit} is asked for")

    executable.run(x=floats(0))
    monkeypatch.setattr(Cubins, "get", refused)
    loaded = sc.load(tmp_path / "file")
    assert str(loaded) == str(executable)
    fresh = sc.load(tmp_path / "file")
    loaded.run(x=floats(0))
    for seed in range(4):
        here, there = executable.run(x=floats(seed)), loaded.run(x=floats(seed))
        np.testing.assert_array_equal(here.numpy(), there.numpy())
        assert there.device == here.device
    assert {leaf.device for leaf in fresh.leaves if leaf.data is not None} == {("cpu", 0)}
    loaded.save(tmp_path / "later")
    third = sc.load(tmp_path / "later")
    np.testing.assert_array_equal(
        third.run(x=floats(1)).numpy(), executable.run(x=floats(1)).numpy()
    )


def test_another_device_is_an_error_that_compares(fake: FakeDriver, tmp_path: Path) -> None:
    made().save(tmp_path / "file")
    fake.version = 12080
    fake.memory_bytes = 8 << 30
    told = (
        r"vram_mb is '\d+' in the file and '8192' here; driver is '13\.0' in the file and '12\.8' "
        r"here; load it with recompile=True"
    )
    with pytest.raises(SavedFileError, match=told):
        sc.load(tmp_path / "file")
    again = sc.load(tmp_path / "file", recompile=True, config=kernel_profile())
    np.testing.assert_array_equal(again.run(x=floats(3)).numpy(), made().run(x=floats(3)).numpy())


def test_a_chain_for_a_target_without_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is saved and inspected, and not run; its graph can be compiled for the CPU."""
    name_cache(monkeypatch, tmp_path / "cache")
    cache, library = new_cache()
    monkeypatch.setattr("softcuda.nvrtc.cache.KernelCache", lambda: cache)
    executable = compiled_for_h200()
    path = tmp_path / "file"
    executable.save(path)
    assert library.compiled == len(listed(path))
    inspected = read_executable(str(path), sc.Tensor, is_run=False)
    assert str(inspected) == str(executable)
    with pytest.raises(SavedFileError, match=r"needs a CUDA device \(arch sm_90a, multipro"):
        sc.load(path)
    with pytest.raises(NoDeviceError):
        inspected.run(x=np.ones((64, 3), np.float32))
    on_cpu = sc.load(path, recompile=True, config="default")
    assert on_cpu.run(x=np.ones((64, 3), np.float32)).tolist() == [[2.0] * 3] * 64

    assert main(["--saved", str(path)]) == 0
    assert "1 as they were saved, 0 compiled now" in capsys.readouterr().out
    assert main(["--saved", str(path), "--source", "elementwise", "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)["kernels"]
    (chain,) = (header for header in record["headers"] if header["is_generated"])
    assert chain["name"] == "chain.cuh" and "struct Chain" in chain["text"]
    assert main(["--saved", str(path), "--arch", "sm_80"]) == 2
    assert "kernels for sm_90a, and sm_80 was asked" in capsys.readouterr().err


@pytest.mark.parametrize("dtype", ["f32", "i64"])
def test_every_op_of_a_device_is_written_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    """What the planners make has a rule in the codec, and is in the bounds that are checked."""
    name_cache(monkeypatch, tmp_path / "cache")
    cache, _ = new_cache()
    cache.folder = None
    monkeypatch.setattr("softcuda.nvrtc.cache.KernelCache", lambda: cache)
    nodes, skeleton = flatten(every_op(dtype))
    traced = trace(nodes)
    target = Target("cuda", "sm_90a", 132, 227, 60)
    settings = settings_of(fast_profile(), target, False, traced)
    executable = compile_traced(traced, skeleton, settings, Node)
    with pytest.warns(SoftCudaWarning, match="no folder for compiled kernels"):
        executable.save(tmp_path / "file")
    found = read_executable(str(tmp_path / "file"), Node, is_run=False)
    assert str(found) == str(executable)
    for one, other in zip(found.program.steps, executable.program.steps, strict=True):
        assert one._replace(launches=()) == other._replace(launches=())
        for launch, own in zip(one.launches, other.launches, strict=True):
            assert replace(launch.spec, built=None) == own.spec
            assert replace(launch, spec=own.spec) == own
    assert found.program.places == executable.program.places


def listed(path: Path) -> list[Any]:
    with zipfile.ZipFile(path) as file:
        kernels_listed: list[Any] = json.loads(file.read("kernels.json"))["kernels"]
    return kernels_listed


def compiled_for_h200() -> sc.Executable:
    """Return a chain for an H200; no kernel is compiled."""
    x = sc.input((64, 3), name="x")
    nodes, skeleton = flatten(sc.relu(x * x + 1.0))
    traced = trace(nodes)
    target = Target("cuda", "sm_90a", 132, 227, 60)
    return compile_traced(
        traced, skeleton, settings_of(read(ON_CUDA), target, False, traced), sc.Tensor
    )


def test_a_cpu_file_has_no_kernels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sc.compile(-sc.input((2,), name="x")).save(tmp_path / "file")
    assert main(["--saved", str(tmp_path / "file")]) == 2
    assert "kernel; allowed is one with CUDA steps" in capsys.readouterr().err
