"""What a run tells the driver: one launch, and only the addresses that are others than before."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from ctypes import c_uint64, string_at
from typing import Any

import numpy as np
import pytest
from fake_driver import FakeDriver
from fake_driver_graphs import FakeKernel
from fake_sessions import fake_sessions

import softcuda as sc
from softcuda.driver.module import Function, Module
from softcuda.executor.devices import session
from softcuda.executor.inlets import INLET_BYTES
from softcuda.profile.model import DeviceFacts, PoolSettings, Profile, Row
from softcuda.profile.vocabulary import work_ops

NAIVE = Profile(
    "cuda_naive",
    {"soft_version": sc.__version__},
    DeviceFacts(),
    tuple(Row(op, None, 0, None, "cuda_naive") for op in work_ops()),
    pool=PoolSettings("cuda"),
)
PATCH, COPY_PATCH = "cuGraphExecKernelNodeSetParams_v2", "cuGraphExecMemcpyNodeSetParams"
PARAMETERS, WRITES, READS = 6, 0, (4, 5)  # of an elementwise kernel of two operands
LAUNCH, ALLOCATE = "cuGraphLaunch", "cuMemAlloc_v2"


class _Loader:
    """Gives every kernel the one function of the fake."""

    arch = "sm_90a"

    def __init__(self, fake: FakeDriver) -> None:
        self._fake = fake
        self._module: Module | None = None

    def prepare(self, specs: Sequence[Any]) -> None:
        if self._module is None:
            self._module = Module(session().context, b"cubin")

    def function(self, spec: Any) -> Function:
        assert self._module is not None
        return self._module.function("kernel")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    for made in fake_sessions(monkeypatch):
        made.kernels = {"kernel": FakeKernel((c_uint64,) * PARAMETERS)}
        on = session()
        on.loader = _Loader(made)  # type: ignore[assignment]
        yield made
        del on


def tensor(count: int, value: float = 1.0) -> Any:
    return sc.tensor(np.full(count, value, np.float32)).to("cuda").evaluate()


def counted(fake: FakeDriver, run: Any) -> Counter[str]:
    """Return how often a run called each function of the driver."""
    before = len(fake.calls)
    run()
    return Counter(call.name for call in fake.calls[before:])


def read(fake: FakeDriver, kernel: int = -1) -> int:
    """Return the address of the first operand of a launched kernel."""
    return int(fake.launched[kernel][1][READS[0]])


def summed(leaf: Any, other: Any, reads: int) -> Any:
    """Return a chain of kernels of which `reads` read the leaf and one more does not."""
    made = other + other
    for _ in range(reads):
        made = made * leaf
    return made


def test_an_unchanged_run_is_one_launch(fake: FakeDriver) -> None:
    executable = sc.compile(summed(tensor(8), tensor(8), 3), NAIVE)
    executable.run()
    calls = counted(fake, executable.run)
    assert calls[LAUNCH] == 1
    assert calls[PATCH] == calls[COPY_PATCH] == calls[ALLOCATE] == 0
    assert set(calls) <= {LAUNCH, "cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2"}


def test_only_the_readers_of_another_feed_are_told(fake: FakeDriver) -> None:
    leaf, other, new = tensor(8), tensor(8), tensor(8)
    executable = sc.compile(summed(leaf, other, 4), NAIVE)
    executable.run()
    assert counted(fake, lambda: executable.run({leaf: new}))[PATCH] == 4
    assert counted(fake, lambda: executable.run({leaf: new}))[PATCH] == 0
    assert counted(fake, lambda: executable.run({leaf: leaf}))[PATCH] == 4
    assert counted(fake, executable.run)[PATCH] == 0


def test_kernels_get_the_address_of_the_feed(fake: FakeDriver) -> None:
    leaf, other, new = tensor(8), tensor(8), tensor(8)
    executable = sc.compile(other * leaf, NAIVE)
    out = executable.run({leaf: new})
    pointers = fake.launched[-1][1]
    assert [pointers[at] for at in READS] == [other.data.ptr, new.data.ptr]
    assert pointers[WRITES] == out.data.ptr
    executable.run()
    assert fake.launched[-1][1][READS[1]] == leaf.data.ptr


def test_a_held_result_moves_one_kernel(fake: FakeDriver) -> None:
    executable = sc.compile(summed(tensor(8), tensor(8), 3), NAIVE)
    held = executable.run()
    calls = counted(fake, executable.run)
    assert calls[PATCH] == 1 and calls[ALLOCATE] == 1
    assert counted(fake, executable.run)[PATCH] == 0  # the second buffer is idle again
    address = held.data.ptr
    del held
    found = executable.run()
    assert found.data.ptr == address


def test_a_small_input_of_many_kernels_is_copied_by_one_node(fake: FakeDriver) -> None:
    x = sc.input((8,), "f32", name="x", device="cuda")
    executable = sc.compile(summed(x, tensor(8), 5), NAIVE)
    first, other = tensor(8), tensor(8)
    executable.run(x=first)
    calls = counted(fake, lambda: executable.run(x=other))
    assert calls[COPY_PATCH] == 1 and calls[PATCH] == 0
    assert counted(fake, lambda: executable.run(x=other))[COPY_PATCH] == 0


def test_a_large_input_is_used_in_place(fake: FakeDriver) -> None:
    count = INLET_BYTES // 4 + 1
    x = sc.input((count,), "f32", name="x", device="cuda")
    executable = sc.compile(summed(x, tensor(count), 5), NAIVE)
    first, other = tensor(count), tensor(count)
    executable.run(x=first)
    calls = counted(fake, lambda: executable.run(x=other))
    assert calls[PATCH] == 5 and calls[COPY_PATCH] == 0


def test_small_host_arrays_come_by_a_node_of_the_graph(fake: FakeDriver) -> None:
    x = sc.input((2, 3), "f32", name="x")
    executable = sc.compile(x + tensor(3), NAIVE)
    for start in range(200):  # more runs than there are pinned slots
        values = np.arange(start, start + 6, dtype=np.float32).reshape(2, 3)
        executable.run(x=values)
        source = read(fake)
        assert string_at(source, 24) == values.tobytes()
        executable.run(x=values.T.copy().T)  # strided on the host
        assert string_at(source, 24) == values.tobytes()
    calls = counted(fake, lambda: executable.run(x=values))
    assert calls[LAUNCH] == 1 and calls[COPY_PATCH] == 1
    assert not {name for name in calls if name.startswith("cuMemcpy")}


def test_the_host_arrays_of_a_run_are_not_kept(fake: FakeDriver) -> None:
    x = sc.input((200, 200), "f32", name="x")
    executable = sc.compile(x + tensor(200), NAIVE)
    large = np.ones((200, 200), np.float32)
    shares = _references(large)
    executable.run(x=large)
    assert _references(large) == shares


def _references(array: Any) -> int:
    return sys.getrefcount(array)


def test_a_host_array_for_a_leaf_of_the_device_lands_in_one_buffer(fake: FakeDriver) -> None:
    x = sc.input((4, 100, 50), "f32", name="x", device="cuda")
    executable = sc.compile(x + tensor(50), NAIVE)
    values = np.arange(20000, dtype=np.float32).reshape(4, 100, 50)
    executable.run(x=values)
    calls = counted(fake, lambda: executable.run(x=values + 1))
    assert calls[ALLOCATE] == calls["cuMemAllocAsync"] == calls[PATCH] == 0
    assert string_at(read(fake), values.nbytes) == (values + 1).tobytes()
    executable.release()
    executable.run(x=values)
    assert string_at(read(fake), values.nbytes) == values.tobytes()


def test_programs_of_one_launch_share_an_arena(fake: FakeDriver) -> None:
    small, large = (sc.compile(summed(tensor(n), tensor(n), 3), NAIVE) for n in (64, 1 << 20))
    small.run()
    first = small._ready()._memory.arenas["cuda"]
    large.run()
    grown = large._ready()._memory.arenas["cuda"]
    assert grown.nbytes > first.nbytes and not first.is_shared
    patched = counted(fake, small.run)[PATCH]
    assert small._ready()._memory.arenas["cuda"] is grown
    assert patched == 4  # every kernel moves to the shared arena, once
    assert counted(fake, small.run)[PATCH] == 0
    assert counted(fake, large.run)[PATCH] == 0


def test_a_failed_patch_leaves_the_executable_usable(fake: FakeDriver) -> None:
    leaf, other, new = tensor(8), tensor(8), tensor(8)
    executable = sc.compile(summed(leaf, other, 4), NAIVE)
    executable.run()
    fake.fail(PATCH, 1, 2)
    with pytest.raises(sc.errors.DriverError, match=PATCH):
        executable.run({leaf: new})
    executable.run({leaf: new})
    assert [pointers[READS[1]] for _, pointers in fake.launched[-4:]] == 4 * [new.data.ptr]
    executable.run()
    assert [pointers[READS[1]] for _, pointers in fake.launched[-4:]] == 4 * [leaf.data.ptr]


@pytest.mark.parametrize("reads", [1, 4])
def test_a_leaf_that_is_fed_no_longer_has_its_own_value(fake: FakeDriver, reads: int) -> None:
    """Without an arena and with one: kernels are told its own address again."""
    leaf, other, new = tensor(8), tensor(8), tensor(8)
    made = other * leaf if reads == 1 else summed(leaf, other, reads)
    executable = sc.compile(made, NAIVE)
    for feeds in ({}, {leaf: new}, {}, {leaf: new}, {leaf: new}, {other: new}, {}):
        executable.run(feeds or None)
        launched = [pointers for _, pointers in fake.launched[-len(executable.program.steps) :]]
        address = feeds.get(leaf, leaf).data.ptr
        assert [pointers[READS[1]] for pointers in launched[-reads:]] == reads * [address]
        assert launched[0][READS[0]] == feeds.get(other, other).data.ptr


def test_fed_programs_go_to_an_arena_that_grew(fake: FakeDriver) -> None:
    leaf, other, new, third = (tensor(64) for _ in range(4))
    small = sc.compile(summed(leaf, other, 3), NAIVE)
    large = sc.compile(summed(tensor(1 << 20), tensor(1 << 20), 3), NAIVE)
    small.run({leaf: new})
    small.run({leaf: third})
    large.run()
    small.run({leaf: new})
    arena = small._ready()._memory.arenas["cuda"]
    assert arena is large._ready()._memory.arenas["cuda"]
    launched = [pointers for _, pointers in fake.launched[-3:]]
    assert [pointers[READS[1]] for pointers in launched] == 3 * [new.data.ptr]
    assert all(
        arena.ptr <= pointers[WRITES] < arena.ptr + arena.nbytes for pointers in launched[:-1]
    )


def test_a_kernel_alone_reads_its_arguments_at_each_launch(fake: FakeDriver) -> None:
    leaf, other, new = tensor(8), tensor(8), tensor(8)
    executable = sc.compile(leaf + other, NAIVE)
    first = executable.run()
    calls = counted(fake, lambda: executable.run({leaf: new}))
    assert calls["cuLaunchKernelEx"] == 1
    assert calls[LAUNCH] == calls[PATCH] == 0
    _, pointers = fake.launched[-1]
    assert [pointers[place] for place in READS] == [new.data.ptr, other.data.ptr]
    assert pointers[WRITES] != first.data.ptr
    fake.fail("cuLaunchKernelEx", 701)
    with pytest.raises(sc.errors.DriverError, match="cuLaunchKernelEx"):
        executable.run()
    executable.run()
    assert fake.launched[-1][1][READS[0]] == leaf.data.ptr
