"""Device programs over the fake driver: what replays read and keep, and how they fail."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from fake_driver import FakeDriver
from fake_kernels import fake_kernels, kernel_profile
from fake_sessions import Theirs, on_device

import softcuda as sc
from softcuda.driver.device import available
from softcuda.errors import DeviceLost, DriverError, NoDeviceError
from softcuda.executor import devices

Array = np.ndarray[Any, Any]

FOREIGN = 0xF0E


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    yield from fake_kernels(monkeypatch)


def floats(seed: int, count: int = 5) -> Array:
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


def test_programs_of_kernels_and_transfers(fake: FakeDriver) -> None:
    x = sc.input((5,), name="x")
    y = sc.exp(-x) + x
    executable = sc.compile(-(y + x), kernel_profile())
    assert str(executable).count("cuda_of_tests") >= 3
    for seed in range(4):
        value = floats(seed)
        right = -((np.exp(-value) + value) + value)
        np.testing.assert_array_equal(executable.run(x=value).numpy(), right)


def test_a_replay_keeps_what_it_reads(fake: FakeDriver) -> None:
    """cuda-python-2039: the nodes of a graph hold addresses, the executable the memory."""
    value = floats(1)
    x = on_device(value)
    address = x.data.ptr
    executable = sc.compile(-(x + x), kernel_profile())
    right = -(value + value)
    np.testing.assert_array_equal(executable.run().numpy(), right)
    del x
    gc.collect()
    assert fake.holds(address, value.nbytes)
    over = [on_device(floats(seed)) for seed in range(8)]
    assert address not in [each.data.ptr for each in over]
    np.testing.assert_array_equal(executable.run().numpy(), right)
    del executable
    gc.collect()
    assert not fake.holds(address, value.nbytes)


def test_replays_read_the_feed_of_their_run(fake: FakeDriver) -> None:
    """Addresses of an earlier run are never read, whatever lies there now."""
    x = sc.input((5,), name="x", device="cuda")
    executable = sc.compile([-x, x + x], kernel_profile())
    held = []
    for seed in range(12):
        value = floats(seed)
        feed: Any = (value, on_device(value), Theirs(fake, value), sc.tensor(value))[seed % 4]
        held.append((value, executable.run(x=feed)))
        del feed
        gc.collect()
    for value, (negative, double) in held:
        np.testing.assert_array_equal(negative.numpy(), -value)
        np.testing.assert_array_equal(double.numpy(), value + value)


def test_outputs_that_are_held_are_never_written(fake: FakeDriver) -> None:
    x = sc.input((5,), name="x")
    executable = sc.compile(-(x + x), kernel_profile())
    held = [executable.run(x=floats(seed)) for seed in range(9)]
    for seed, result in enumerate(held):
        np.testing.assert_array_equal(result.numpy(), -2 * floats(seed))


def test_the_context_current_before_a_call_is_current_after_it(fake: FakeDriver) -> None:
    """taichi-5502: whatever another library made current stays so, also after an error."""
    value = floats(3)
    x = sc.input((5,), name="x")
    fake._thread.stack.append(FOREIGN)
    try:
        executable = sc.compile(-x, kernel_profile())
        resident = on_device(value)
        state = sc.variable(value, device="cuda")

        def fail() -> None:
            fake.fail("cuGraphLaunch", 701)
            with pytest.raises(DriverError):
                executable.run(x=value)

        for call in (
            lambda: executable.run(x=value),
            lambda: executable.run(x=resident).numpy(),
            fail,
            lambda: executable.run(x=value).tolist(),
            lambda: state.assign(resident),
            (resident * 2).numpy,
            lambda: sc.tensor(value).to("cuda").to("cpu").numpy(),
            resident.__dlpack__,
            executable.release,
            gc.collect,
        ):
            call()
            assert fake._thread.stack == [FOREIGN]
    finally:
        fake._thread.stack.pop()


# Driver functions that give something back, or only ask: their failure is no error of a run.
QUIET = ("Destroy", "Free", "Release", "Unload", "CtxPop", "CtxGetCurrent", "Query")


def first_run(make: Callable[[], Any], value: Array) -> Array:
    """Compile, run and fetch."""
    return np.asarray(make().run(x=value).numpy())


def held(fake: FakeDriver) -> tuple[Counter[str], int]:
    """Return the handles that live and the device bytes; the ring of pinned slots may grow."""
    return Counter(kind for kind in fake.live.values() if kind != "pinned"), fake.used_bytes()


def test_each_refused_call_leaves_everything_usable(fake: FakeDriver) -> None:
    """Each driver call of a first run fails in turn; the next run is right, and nothing is left."""
    x = sc.input((5,), name="x")
    value = floats(4)

    def make() -> Any:
        return sc.compile(sc.exp(-(x + x)) - x, kernel_profile())

    right = first_run(make, value)
    kept = make()
    np.testing.assert_array_equal(kept.run(x=value).numpy(), right)
    fake.calls.clear()
    first_run(make, value)
    made = [call.name for call in fake.calls if not any(part in call.name for part in QUIET)]
    gc.collect()
    left = held(fake)
    refused = 0
    for name, times in Counter(made).items():
        for nth in range(1, times + 1):
            other = make()
            fake.fail(name, 2 if "Alloc" in name else 801, nth)
            try:
                np.testing.assert_array_equal(other.run(x=value).numpy(), right)
            except DriverError as error:
                assert name in str(error)
                refused += 1
            fake.forget_failures()
            for executable in (other, kept):
                np.testing.assert_array_equal(executable.run(x=value).numpy(), right, name)
            del other, executable
            gc.collect()
            assert held(fake) == left, (name, nth)
    assert refused >= len(set(made)) // 2


def test_a_fault_in_a_kernel_names_the_step_and_leaves_the_cpu(fake: FakeDriver) -> None:
    x = sc.input((5,), name="x")
    executable = sc.compile(-(x + x), kernel_profile())
    value = floats(5)
    np.testing.assert_array_equal(executable.run(x=value).numpy(), -2 * value)
    result = executable.run(x=value)
    fake.fault = 700
    with pytest.raises(DeviceLost, match=r"first step that may have caused it is step"):
        result.numpy()
    fake.fault = 0
    with pytest.raises(DeviceLost, match="device 0 is lost"):
        executable.run(x=value)
    with pytest.raises(DeviceLost, match="device 0 is lost"):
        on_device(value)
    assert (sc.tensor([1.0, 2.0]) + 1).tolist() == [2, 3]
    fake.live.clear()  # nothing is released on a lost device
    fake.blocks.clear()
    fake.retained.clear()


@pytest.mark.parametrize("value", ["", "-1", "99"])
def test_hidden_devices(value: str, monkeypatch: pytest.MonkeyPatch, fake: FakeDriver) -> None:
    """chainer-2245: no exception of a question, right results of the CPU, a request names it."""
    hidden = FakeDriver(init=100)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    driver = hidden.driver()
    monkeypatch.setattr(devices, "available", lambda: available(driver))
    target = devices.cuda_target()
    assert isinstance(target, str) and f"CUDA_VISIBLE_DEVICES is {value!r}" in target
    assert (sc.tensor([1.0, 2.0]) + 1).tolist() == [2, 3]
    with pytest.raises(NoDeviceError) as caught:
        sc.compile(-sc.tensor([1.0]), kernel_profile())
    assert f"CUDA_VISIBLE_DEVICES is {value!r}" in str(caught.value)
    assert "pass config='default', or target='sm_90a'" in str(caught.value)


@pytest.mark.parametrize("is_chain", [False, True])
def test_feeds_of_the_host_and_of_the_device_take_turns(fake: FakeDriver, is_chain: bool) -> None:
    """Each run computes with what it was given, whatever the runs before were given."""
    own = on_device(floats(0))
    x, y = sc.input((5,), name="x"), sc.input((5,), name="y", device="cuda")
    made = x + y + own if is_chain else x + y
    executable = sc.compile(-made if is_chain else made, kernel_profile())
    last = executable.run({"x": floats(1), "y": floats(2)})
    kept = last.numpy().copy()
    for seed, order in enumerate((0, 0, 1, 1, 2, 3, 0, 3, 2, 1, 0, 0)):
        given_x, given_y = floats(10 + seed), floats(30 + seed)
        feeds: dict[Any, Any] = {
            "x": on_device(given_x) if order & 1 else given_x,
            "y": given_y if order & 2 else on_device(given_y),
        }
        replaced = floats(50 + seed)
        if is_chain and seed % 3 == 1:
            feeds[own] = on_device(replaced) if order & 1 else replaced
        value = replaced if own in feeds else floats(0)
        right = -((given_x + given_y) + value) if is_chain else given_x + given_y
        np.testing.assert_array_equal(executable.run(feeds).numpy(), right)
    np.testing.assert_array_equal(last.numpy(), kept)
