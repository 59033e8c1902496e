"""The steps that the training suites time: right in float64, and on a device one graph each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from fake_driver import FakeDriver
from fake_driver_graphs import FakeKernel
from fake_kernels import Cubins
from fake_sessions import fake_sessions

from benchmarks.accuracy import compare, tolerance
from benchmarks.gpu_timing import Gpu, GpuBench
from benchmarks.gpu_work import PROFILE
from benchmarks.machine import Machine, Peers, Rates
from benchmarks.mlp import RATE, Mlp, our_step, reference
from benchmarks.training import CAPTURED, SIZES, measured_step
from softcuda.executor import devices

SMALL = Mlp(5, 7, 3)
STEPS = 4


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    yield from fake_sessions(monkeypatch)


class Idle(dict[str, FakeKernel]):
    """Kernels of every name, which do nothing."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> FakeKernel:
        return FakeKernel((), lambda *arguments: None)


def test_a_step_is_that_of_float64() -> None:
    ours = our_step(SMALL, "default")

    def losses() -> list[float]:
        return [ours.executable.run(ours.feeds).item() for _ in range(STEPS)]

    first, second = ours.result(losses), ours.result(losses)
    np.testing.assert_array_equal(first, second)
    assert compare(first, reference(SMALL, STEPS)).within(SMALL.allowed(STEPS))
    assert first[STEPS - 1] < first[0]


def test_the_reference_goes_down_the_slope() -> None:
    """Its first step changes the last bias by what differences of the loss say."""
    parameters, x, t = SMALL.arrays()

    def loss(shift: float) -> float:
        h = x.astype(np.float64)
        for w, b in zip(parameters[:-2:2], parameters[1:-2:2], strict=True):
            h = np.maximum(h @ w + b, 0)
        bias = parameters[-1].astype(np.float64)
        bias[2] += shift
        return float(np.mean((h @ parameters[-2] + bias - t) ** 2))

    step = 2.0**-10
    slope = (loss(step) - loss(-step)) / (2 * step)  # exact but for rounding: the loss is square
    moved = reference(SMALL, 1)[1:] - parameters[-1]
    assert moved[2] == pytest.approx(-RATE * slope)
    assert reference(SMALL, 1)[0] == pytest.approx(loss(0.0))


def test_pytorch_makes_the_same_reference() -> None:
    torch = pytest.importorskip("torch")
    found = compare(reference(SMALL, STEPS, torch), reference(SMALL, STEPS))
    assert found.within(tolerance("f64", summed=SMALL.width, steps=STEPS * SMALL.depth))


def test_floors_count_products_and_parameters() -> None:
    assert SMALL.name == "5x7x3"
    assert SMALL.flops == 8 * 2 * 5 * 7 * 7
    assert SMALL.nbytes == 4 * (2 * 3 * 8 * 7 + 2 * 5 * 7)


@pytest.mark.parametrize("mlp", [mlp for mlp, _ in SIZES[:2]], ids=lambda mlp: mlp.name)
def test_a_step_on_a_device_stays_there(mlp: Mlp, fake: FakeDriver) -> None:
    program = our_step(mlp, PROFILE, "cuda").executable.program
    assert all(program.on_device(step) for step in program.steps)
    assert not {"h2d", "d2h"} & {step.kernel for step in program.steps}
    launches = [launch for step in program.steps for launch in step.launches]
    # A product forward, its two gradients with what is around them, and the sum for the bias.
    assert len(launches) <= 4 * mlp.depth + 4


def test_kernels_that_do_nothing_have_no_time(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("softcuda.loader.KernelCache", Cubins)
    monkeypatch.setattr("benchmarks.gpu_timing.WIPE_BYTES", 4096)
    monkeypatch.setattr(fake, "kernels", Idle(kernel=FakeKernel()))
    machine = Machine("Fake", "fake", 1, 1, {}, "2026-03-18", "Linux")
    rates = Rates(1e12, {"f32": 1e12}, "FMA units")
    bench = GpuBench(machine, rates, Peers(None), gpu=Gpu(devices.session()))
    row = measured_step(SMALL, 0.65, bench)
    assert [timing.status for timing in row.timings] == ["wrong", "absent", "absent"]
    assert [timing.name for timing in row.timings][1] == CAPTURED
    assert row.checks[0].met is None and row.checks[1].value is not None
    assert row.facts["steps of the program"] >= 4 * SMALL.depth
