"""The GPU suites hold together, on the fake driver: turns, peers, refusal; nothing is timed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np
import pytest
from fake_driver import FakeDriver
from fake_sessions import fake_sessions

from benchmarks import launch_process, placement, run
from benchmarks.cases import Bench
from benchmarks.gpu_machine import gpu_rates, gpu_run
from benchmarks.gpu_timing import (
    LEAST_RUNS,
    RUNS,
    WARM_UPS,
    Gpu,
    GpuBench,
    cupy_peer,
    device_turns,
    gpu_of,
    torch_peer,
)
from benchmarks.gpu_work import PROFILE
from benchmarks.host_work import random_array
from benchmarks.large_profile import large_profile
from benchmarks.machine import Machine, Peers, Rates
from benchmarks.reduce import copy_us
from benchmarks.timing import Contestant, Schedule, timings
from softcuda.errors import ArgumentError, ConfigError
from softcuda.executor import devices
from softcuda.profile.resolve import read
from softcuda.profile.writer import render


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    monkeypatch.setattr("benchmarks.gpu_timing.WIPE_BYTES", 4096)
    monkeypatch.setattr("benchmarks.gpu_machine._COPY_BYTES", 4096)
    yield from fake_sessions(monkeypatch)


@pytest.mark.parametrize("suite", run.GPU_SUITES)
def test_without_a_device_a_gpu_suite_says_so(
    suite: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "why_no_gpu", lambda: "no CUDA driver")
    assert run.main([suite]) == run.NO_GPU
    said = capsys.readouterr().err
    assert said == f"The suite {suite} needs a CUDA device: no CUDA driver\n"


def test_every_run_has_events_and_a_wipe(fake: FakeDriver) -> None:
    gpu = Gpu(devices.session())
    order: list[str] = []
    contestants = [
        Contestant(name, "submit()", {"submit": lambda name=name: order.append(name)})
        for name in "ab"
    ] + [Contestant("c", absent=True)]
    before = fake.names().count("cuMemsetD8Async")
    taken = device_turns(gpu)(contestants, Schedule())
    assert list(taken) == ["a", "b"]
    assert all(len(samples.seconds) == RUNS for samples in taken.values())
    assert "".join(order[2 * WARM_UPS :][:4]) == "abba"
    assert fake.names().count("cuMemsetD8Async") - before == 2 * (RUNS + WARM_UPS)


def test_long_runs_are_fewer(fake: FakeDriver) -> None:
    taken = device_turns(Gpu(devices.session()))(
        [Contestant("a", "submit()", {"submit": int})], Schedule(budget_s=0.0)
    )
    assert len(taken["a"].seconds) == LEAST_RUNS


def test_a_wrong_result_on_the_device_has_no_time(fake: FakeDriver) -> None:
    gpu = Gpu(devices.session())
    wrong = Contestant("w", "submit()", {"submit": int}, result=lambda: np.zeros(3))
    made, taken = timings((wrong,), Schedule(), np.ones(3), 1e-6, device_turns(gpu))
    assert made[0].status == "wrong"
    assert not taken


def test_few_bytes_stand_beside_the_copy_of_the_driver(fake: FakeDriver) -> None:
    gpu = Gpu(devices.session())
    bench = GpuBench(gpu_run(gpu, Peers(None)), gpu_rates(gpu), Peers(None), gpu=gpu)
    before, held = Counter(fake.names()), fake.names().count("cuMemFree_v2")
    assert copy_us(bench, 4096) > 0
    made = Counter(fake.names()) - before
    assert sum(n for name, n in made.items() if "DtoD" in name) == RUNS + WARM_UPS
    assert made["cuMemsetD8Async"] == RUNS + WARM_UPS
    assert fake.names().count("cuMemFree_v2") == held + 2


def test_the_machine_is_the_gpu(fake: FakeDriver) -> None:
    gpu = Gpu(devices.session())
    bench = GpuBench(gpu_run(gpu, Peers(None)), gpu_rates(gpu), Peers(None), gpu=gpu)
    assert bench.machine.device == gpu.on.context.device.name
    assert bench.machine.slug.count(" ") == 0
    assert bench.rates.copy_bytes_s > 0
    assert bench.rates.unit == "FMA units"
    assert torch_peer(bench, lambda torch: int).absent
    assert cupy_peer(bench, lambda cupy: int).absent
    assert gpu_of(bench) is gpu


def test_the_stages_of_a_process_are_the_least_of_several() -> None:
    said = [
        {"begin": 10.0, "ends": {"python": 10.5, "numpy": 10.75}},
        {"begin": 20.0, "ends": {"python": 20.25, "numpy": 21.0}},
    ]
    assert launch_process._stages(said) == {"python [ms]": 250.0, "numpy [ms]": 250.0}


def test_a_measured_process_keeps_its_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an installed package's is kept; the cache of kernels is the benchmark's own."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    found = launch_process._environment("/cache")
    assert "PYTHONDONTWRITEBYTECODE" not in found
    assert found["SOFTCUDA_CACHE_DIR"] == "/cache"
    places = found["PYTHONPATH"].split(os.pathsep)
    assert places == [str(launch_process.FOLDER.parent), "/elsewhere"]


def test_a_cpu_bench_has_no_device() -> None:
    with pytest.raises(ArgumentError, match="GPU suite"):
        gpu_of(Bench(None, Rates(1.0, {}), Peers(None)))  # type: ignore[arg-type]


def test_graphs_are_placed_by_a_measured_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "CONFIGS", tmp_path)
    machine = Machine("Example GPU", "example-gpu", 4, 4, {}, "2026-03-18", "Linux")
    bench = Bench(machine, Rates(1.0, {}), Peers(None))
    with pytest.raises(ConfigError, match=r"example-gpu\.soft: the file cannot be read"):
        placement.measured_profile(bench)
    path = tmp_path / "example-gpu.soft"
    path.write_bytes(Path(PROFILE).read_bytes())
    with pytest.raises(ConfigError, match=r"write it with soft_init --force --output"):
        placement.measured_profile(bench)
    path.write_text(render(large_profile("cuda")) + "[transfer]\nh2d = 8.1 us + 9.5 GB/s\n")
    assert placement.measured_profile(bench).costs


def test_random_arrays_are_in_their_range() -> None:
    found = random_array(1, 50, 40, low=0.5)
    assert found.shape == (50, 40)
    assert found.dtype == np.float32
    assert found.min() >= 0.5
    assert found.max() <= 1.0


def test_contestants_take_turns_in_every_order() -> None:
    """Each follows each other one equally often, and what runs first in a turn is not timed."""
    calls: list[str] = []
    made = [Contestant(name, "run()", {"run": partial(calls.append, name)}) for name in "abc"]
    rounds = 12
    taken = placement.every_order(made, Schedule(0.0, 1e-9, rounds=(rounds, rounds)))
    assert {name: len(samples.seconds) for name, samples in taken.items()} == dict.fromkeys(
        "abc", rounds
    )
    turns = "".join(name for name, _ in groupby(calls[-2 * 3 * rounds :]))
    follows = Counter(pairwise(turns))
    assert set(follows) >= {("a", "b"), ("b", "a"), ("a", "c"), ("c", "a"), ("b", "c"), ("c", "b")}


def test_contractions_are_measured_on_the_backend_made_for_them() -> None:
    rows = {row.op: row.backend_id for row in read(PROFILE).rows if row.dtype is None}
    assert rows["matmul"] == "cuda_contract" and rows["add"] == "cuda_elementwise"
