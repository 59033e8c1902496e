"""Programs of one kernel over the fake driver: one launch a run, whoever else runs them."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from fake_driver import FakeDriver
from fake_kernels import fake_kernels, kernel_profile
from fake_sessions import on_device
from thread_team import in_threads

import softcuda as sc
from softcuda.errors import DeviceOutOfMemory, DriverError
from softcuda.pool.device import layout_of

Array = np.ndarray[Any, Any]

LAUNCH, ALLOCATE, CURRENT = "cuLaunchKernelEx", "cuMemAlloc_v2", "cuCtxGetCurrent"
PUSH_AND_POP = {"cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2"}
REFUSED, NO_MEMORY = 701, 2  # CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, CUDA_ERROR_OUT_OF_MEMORY
COUNT = 1 << 18


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    yield from fake_kernels(monkeypatch)


def floats(seed: int, count: int = COUNT) -> Array:
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


def added(count: int = COUNT) -> Any:
    """Return an executable that adds two inputs on the device, run twice."""
    x, y = (sc.input((count,), name=name, device="cuda") for name in "xy")
    executable = sc.compile(x + y, kernel_profile())
    for seed in range(2):
        value = on_device(floats(seed, count))
        executable.run(x=value, y=value)
    return executable


def counted(fake: FakeDriver, run: Callable[[], Any]) -> Counter[str]:
    """Return how often a run called each function of the driver, and let go of its result."""
    before = len(fake.calls)
    run()
    return Counter(call.name for call in fake.calls[before:])


def test_a_run_on_other_arrays_is_one_launch(fake: FakeDriver) -> None:
    executable = added()
    x, y = on_device(floats(3)), on_device(floats(4))
    for feed in ({"x": x, "y": y}, {"x": y, "y": x}, {"x": x, "y": x}):
        calls = counted(fake, lambda feed=feed: executable.run(feed))
        assert calls.pop(LAUNCH) == 1 and calls.pop(CURRENT) == 1
        assert set(calls) <= PUSH_AND_POP
    made = executable.run(x=x, y=y)
    np.testing.assert_array_equal(made.numpy(), floats(3) + floats(4))


def test_results_that_are_held_keep_their_values(fake: FakeDriver) -> None:
    executable = added(9)
    held = []
    for seed in range(12):
        x, y = floats(seed, 9), floats(seed + 100, 9)
        held.append((x + y, executable.run(x=on_device(x), y=on_device(y))))
    assert len({made.data.ptr for _, made in held}) == 12
    for right, made in held:
        np.testing.assert_array_equal(made.numpy(), right)


def test_parts_of_larger_arrays_are_read_where_they_begin(fake: FakeDriver) -> None:
    whole = on_device(floats(1, 40))
    x = sc.input((40,), name="x", device="cuda")
    executable = sc.compile(-x[8:24], kernel_profile())
    for _ in range(3):
        np.testing.assert_array_equal(executable.run(x=whole).numpy(), -floats(1, 40)[8:24])


@pytest.mark.parametrize("first", ["host", "device"])
def test_host_arrays_may_come_between(fake: FakeDriver, first: str) -> None:
    x, y = (sc.input((7,), name=name, device="cuda") for name in "xy")
    executable = sc.compile(x + y, kernel_profile())
    for seed in range(10):
        a, b = floats(seed, 7), floats(seed + 50, 7)
        is_host = seed % 3 == (0 if first == "host" else 1)
        made = executable.run(x=a if is_host else on_device(a), y=on_device(b))
        np.testing.assert_array_equal(made.numpy(), a + b)


def test_a_refused_launch_is_told_and_the_next_run_is_right(fake: FakeDriver) -> None:
    executable = added()
    x, y = on_device(floats(3)), on_device(floats(4))
    fake.fail(LAUNCH, REFUSED)
    with pytest.raises(DriverError, match="cuLaunchKernelEx"):
        executable.run(x=x, y=y)
    fake.fail(LAUNCH, NO_MEMORY)
    with pytest.raises(DeviceOutOfMemory, match=r"cuLaunchKernelEx .*the largest values .*add"):
        executable.run(x=x, y=y)
    np.testing.assert_array_equal(executable.run(x=x, y=y).numpy(), floats(3) + floats(4))


def test_no_room_for_the_output_names_the_largest_values(fake: FakeDriver) -> None:
    executable = added()
    x, y = on_device(floats(3)), on_device(floats(4))
    held = [executable.run(x=x, y=y) for _ in range(3)]
    gc.collect()
    fake.memory_bytes = fake.used_bytes() + 1000
    with pytest.raises(DeviceOutOfMemory, match=r"the largest values of the graph: .*add"):
        executable.run(x=x, y=y)
    fake.memory_bytes = 1 << 30
    held.append(executable.run(x=x, y=y))
    for made in held:
        np.testing.assert_array_equal(made.numpy(), floats(3) + floats(4))


def test_idle_outputs_are_given_back(fake: FakeDriver) -> None:
    executable = added()
    x = on_device(floats(3))
    executable.run(x=x, y=x)
    gc.collect()
    before = fake.used_bytes()
    executable.release()
    assert fake.used_bytes() <= before - 4 * COUNT
    np.testing.assert_array_equal(executable.run(x=x, y=x).numpy(), floats(3) + floats(3))


def test_a_run_amid_a_run_is_another(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a signal handler may begin it between the arguments and the launch."""
    executable = added(9)
    x, y = on_device(floats(3, 9)), on_device(floats(4, 9))
    inner: list[Any] = []
    real = fake.cuLaunchKernelEx

    def launched(*arguments: Any) -> Any:
        if not inner:
            inner.append(None)
            inner[0] = executable.run(x=y, y=y)
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(fake, LAUNCH, launched)
        outer = executable.run(x=x, y=y)
    np.testing.assert_array_equal(outer.numpy(), floats(3, 9) + floats(4, 9))
    np.testing.assert_array_equal(inner[0].numpy(), floats(4, 9) + floats(4, 9))


def test_an_interrupt_leaves_nothing_amiss(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable = added(9)
    x, y = on_device(floats(3, 9)), on_device(floats(4, 9))

    def interrupted() -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(executable._ready()._alone._kernels[0], "_launch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            executable.run(x=y, y=x)
    calls = counted(fake, lambda: executable.run(x=x, y=y))
    assert calls[LAUNCH] == 1 and not calls[ALLOCATE]
    np.testing.assert_array_equal(executable.run(x=x, y=y).numpy(), floats(3, 9) + floats(4, 9))


def test_a_kernel_that_an_interrupt_lost_is_made_again(fake: FakeDriver) -> None:
    executable = added(9)
    x, y = on_device(floats(3, 9)), on_device(floats(4, 9))
    for _ in range(6):
        executable._ready()._alone._kernels.clear()
        for _ in range(2):
            made = executable.run(x=x, y=y)
            np.testing.assert_array_equal(made.numpy(), floats(3, 9) + floats(4, 9))


def test_buffers_of_a_kernel_that_runs_are_not_given_back(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable = added(9)
    x, y = on_device(floats(3, 9)), on_device(floats(4, 9))
    alone = executable._ready()._alone
    kernel = alone._kernels[0]
    kept = list(kernel.ring._slots)
    real = fake.cuLaunchKernelEx

    def launched(*arguments: Any) -> Any:
        executable.release()
        assert kernel.ring._slots == kept
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(fake, LAUNCH, launched)
        made = executable.run(x=x, y=y)
    np.testing.assert_array_equal(made.numpy(), floats(3, 9) + floats(4, 9))
    executable.release()
    assert not kernel.ring._slots and alone._kernels == [kernel]


def test_threads_run_it_at_once(fake: FakeDriver) -> None:
    executable = added(65)

    def work(number: int) -> None:
        x, y = floats(number, 65), floats(number + 100, 65)
        a, b = on_device(x), on_device(y)
        held = [executable.run(x=a, y=b) for _ in range(5)]
        for _ in range(40):
            np.testing.assert_array_equal(executable.run(x=a, y=b).numpy(), x + y)
        for made in held:
            np.testing.assert_array_equal(made.numpy(), x + y)

    in_threads(work)


def test_a_variable_is_read_under_its_lock(fake: FakeDriver) -> None:
    """A kernel that reads one is not run without locks."""
    held = sc.variable(on_device(floats(1, 9)), "held")
    executable = sc.compile(held + held, kernel_profile())
    for seed in range(4):
        held.assign(on_device(floats(seed, 9)))
        np.testing.assert_array_equal(executable.run().numpy(), floats(seed, 9) * 2)
    assert executable._ready()._alone is None


def test_equal_layouts_are_one_object_whatever_threads_do() -> None:
    single = np.dtype(np.float32)
    found: list[list[Any]] = [[] for _ in range(200)]

    def work(number: int) -> None:
        for extent, layouts in enumerate(found):
            layouts.append(layout_of((extent, 7), (28, 4), single))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        in_threads(work)
    finally:
        sys.setswitchinterval(before)
    for layouts in found:
        assert len(layouts) > 1 and len({id(layout) for layout in layouts}) == 1
    assert layout_of((3, 7), (28, 4), np.dtype(np.int32)) is not found[3][0]
