"""The host cost of named axes is measured as it says, on the fake driver; nothing is timed."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from ctypes import c_uint64
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from fake_driver import FakeDriver
from fake_driver_graphs import FakeKernel
from fake_kernels import Cubins
from fake_sessions import fake_sessions

from benchmarks import contraction_host, host_time
from benchmarks.gpu_timing import Gpu, GpuBench
from benchmarks.machine import Machine, Peers, Rates
from benchmarks.report import suite_json, suite_tables
from softcuda.backends import register, unregister
from softcuda.backends.launches import KernelLaunch, read, write
from softcuda.backends.steps import Step, Unit, Verdict
from softcuda.errors import ArgumentError
from softcuda.executor import devices
from softcuda.graph.lines import Line
from softcuda.kernelspec import KernelSpec
from softcuda.named.engine import forget_plans
from softcuda.profile.model import DeviceFacts, PoolSettings, Profile, Row
from softcuda.profile.writer import render
from softcuda.target import Target

EXTENT = contraction_host.EXTENT
SPEC = KernelSpec("matmul", "f32", "none.cu", "matmul", ("f32",), 256)
MACHINE = Machine("Abacus", "abacus", 4, 2, {}, "2026-03-18", "Linux")


class Products:
    """A backend of products of matrices whose kernel is a Python function."""

    BACKEND_ID = "cuda_of_products"
    DEVICE = "cuda"
    FUSES: frozenset[Any] = frozenset()
    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    KERNELS = (SPEC,)

    def supports(self, line: Line, operands: Sequence[Line], target: Target) -> Verdict:
        return Verdict(line.op.name == "matmul", "it takes products")

    def prepare(self, unit: Unit, target: Target) -> tuple[Step, ...]:
        launch = KernelLaunch(SPEC, (1, 1, 1), (write(), read(0), read(1)), (256, 1, 1))
        return (
            Step(
                self.BACKEND_ID,
                SPEC.id,
                unit.operands,
                (unit.result,),
                chain=unit.chain,
                lines=unit.lines,
                launches=(launch,),
            ),
        )


def _matrix(ptr: c_uint64) -> Any:
    count = EXTENT * EXTENT
    flat = np.frombuffer((ctypes.c_float * count).from_address(ptr.value), np.float32)
    return flat.reshape(EXTENT, EXTENT)


def _product(out: c_uint64, a: c_uint64, b: c_uint64) -> None:
    _matrix(out)[...] = _matrix(a) @ _matrix(b)


def _wrong(out: c_uint64, a: c_uint64, b: c_uint64) -> None:
    _matrix(out)[...] = _matrix(a) @ _matrix(a)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeDriver]:
    monkeypatch.setattr("softcuda.loader.KernelCache", Cubins)
    monkeypatch.setattr("benchmarks.gpu_timing.WIPE_BYTES", 4096)
    monkeypatch.setattr(host_time, "ROUNDS", 3)
    monkeypatch.setattr(host_time, "CALLS", 4)
    register(Products())
    rows = (Row("matmul", None, 0, None, Products.BACKEND_ID),)
    about = {"soft_version": "0.1.0"}
    profile = Profile("products", about, DeviceFacts(), rows, pool=PoolSettings("cuda"))
    path = tmp_path / "products.soft"
    path.write_text(render(profile))
    monkeypatch.setenv("SOFTCUDA_CONFIG", str(path))
    monkeypatch.setattr(contraction_host, "PROFILE", str(path))
    try:
        for made in fake_sessions(monkeypatch):
            made.kernels["matmul"] = FakeKernel((c_uint64,) * 3, _product)
            yield made
            forget_plans()
    finally:
        unregister(Products.BACKEND_ID)


def _bench(torch: Any = None, cupy: Any = None) -> GpuBench:
    return GpuBench(MACHINE, Rates(1e12, {"f32": 1e12}), Peers(torch, cupy), gpu=_gpu())


def _gpu() -> Gpu:
    return Gpu(devices.session())


def _standing_in() -> tuple[Any, Any]:
    """Return what stands in for PyTorch and CuPy: NumPy behind the names that are asked for."""
    streams = {"stream": lambda stream: nullcontext(), "ExternalStream": lambda h: nullcontext()}

    class Tensor(np.ndarray[Any, Any]):
        def to(self, device: str) -> Any:
            return self

        def cpu(self) -> Any:
            return self

        def numpy(self) -> Any:
            return np.asarray(self)

    cuda = SimpleNamespace(**streams)
    torch = SimpleNamespace(
        einsum=lambda *given: np.einsum(*given).view(Tensor),
        from_numpy=lambda x: x.view(Tensor),
        cuda=cuda,
    )
    cupy = SimpleNamespace(einsum=np.einsum, asarray=np.asarray, asnumpy=np.asarray, cuda=cuda)
    return torch, cupy


def test_rows_stand_in_the_tables_without_peers(fake: FakeDriver) -> None:
    bench = _bench()
    rows = [case.measure(bench) for case in contraction_host.CASES]
    assert [row.case for row in rows] == [case.name for case in contraction_host.CASES]
    assert [len(row.checks) for row in rows] == [1, 1, 2]
    assert all(check.value is not None for row in rows for check in row.checks)
    assert rows[2].checks[0].met
    for row in rows[:2]:
        assert [t.name for t in row.timings if t.us is None] == ["PyTorch", "CuPy"]
        assert not row.ratios
    told = suite_tables("contraction", MACHINE, bench.rates, rows)
    assert "| EinsumPlan.execute |" in told and "absent" in told
    assert contraction_host.BARE in suite_json("contraction", MACHINE, bench.rates, rows)


def test_peers_are_timed_in_the_same_rounds(fake: FakeDriver) -> None:
    row = contraction_host.CASES[0].measure(_bench(*_standing_in()))
    rounds = {timing.name: timing.rounds for timing in row.timings}
    assert rounds == dict.fromkeys(
        ("softcuda", contraction_host.BARE, contraction_host.SAME, "PyTorch", "CuPy"), 3
    )
    assert list(row.ratios) == ["PyTorch", "CuPy"]


def test_the_node_of_the_bare_graph_is_set_before_each_launch(fake: FakeDriver) -> None:
    before = len(fake.calls)
    contraction_host.CASES[0].measure(_bench())
    names = [call.name for call in fake.calls[before:]]
    calls = (1 + host_time.ROUNDS) * host_time.CALLS  # a loop more warms up
    assert names.count("cuGraphExecKernelNodeSetParams_v2") == calls
    assert names.count("cuGraphLaunch") >= calls
    assert names.count("cuLaunchKernelEx") >= 2 * calls  # on operands by turns, and on the same


def test_a_peer_that_is_wrong_is_absent(
    fake: FakeDriver, capsys: pytest.CaptureFixture[str]
) -> None:
    torch, cupy = _standing_in()
    cupy.einsum = lambda expression, a, b: a @ a
    row = contraction_host.CASES[0].measure(_bench(torch, cupy))
    assert [t.name for t in row.timings if t.us is None] == ["CuPy"]
    assert "CuPy of pair 0 is wrong" in capsys.readouterr().out


def test_wrong_products_have_no_time(fake: FakeDriver) -> None:
    fake.kernels["matmul"] = FakeKernel((c_uint64,) * 3, _wrong)
    with pytest.raises(ArgumentError, match=r"EinsumPlan\.execute of pair 0 is wrong"):
        contraction_host.CASES[0].measure(_bench())
