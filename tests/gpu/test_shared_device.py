"""A device shared: by threads, with other libraries and their contexts, and when memory ends."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from device_leaves import device_array
from op_cases import fast_profile, profile_of
from thread_team import in_threads

import softcuda as sc
from softcuda.driver.library import DRIVER
from softcuda.driver.loading import load_library
from softcuda.executor.on_demand import session
from softcuda.profile.model import Profile

ROUNDS = 300
PROFILES = [fast_profile(), profile_of("cuda_naive")]


def current() -> int | None:
    """Return the context current in this thread."""
    place = ctypes.c_void_p()
    DRIVER.cuCtxGetCurrent(ctypes.addressof(place))
    return place.value


# Threads


@pytest.mark.parametrize(
    "profile", [fast_profile(), profile_of("cuda_naive")], ids=lambda p: p.path
)
def test_threads_run_executables_that_share_nodes(profile: Profile) -> None:
    """burn-5573: six threads, two executables over one leaf and common nodes."""
    x = sc.input((4099,), name="x")
    weight = sc.Tensor.leaf(device_array(np.arange(4099, dtype=np.float32)))
    common = sc.relu(x * 2.0) + weight
    one = sc.compile([common - 1.0, sc.max(common)], profile)
    two = sc.compile([sc.copy(common[::-1]), common * x], profile)

    def work(number: int) -> None:
        for count in range(ROUNDS):
            value = np.full(4099, number - 2 + count / 8, np.float32)
            right = np.maximum(value * 2, 0) + np.arange(4099, dtype=np.float32)
            below, most = one.run(x=value)
            turned, scaled = two.run(x=value)
            assert most.item() == right[-1]
            for found, expected in (
                (below, right - 1),
                (turned, right[::-1]),
                (scaled, right * value),
            ):
                np.testing.assert_array_equal(found.numpy(), expected)

    in_threads(work)


def test_threads_build_graphs_that_share_a_leaf() -> None:
    leaf = sc.Tensor.leaf(device_array(np.arange(64, dtype=np.float32)))
    profile = fast_profile()

    def work(number: int) -> None:
        for count in range(60):
            factor = sc.tensor(float(number + count % 5))
            made = sc.compile(sc.sum(leaf * factor + 1.0), profile)
            assert made.run().item() == 2016 * (number + count % 5) + 64

    in_threads(work)


# Other users of the device


@pytest.fixture
def foreign() -> Iterator[int]:
    """Yield a context that is not the primary one, current in this thread."""
    library = load_library()
    session()
    context = ctypes.c_void_p()
    assert library["cuCtxCreate_v2"](ctypes.byref(context), 0, 0) == 0
    assert current() == context.value
    yield context.value or 0
    assert library["cuCtxDestroy_v2"](context) == 0


def test_the_context_current_before_a_call_is_current_after_it(foreign: int) -> None:
    """taichi-5502, pycuda-285: a context of other code stays current, and is never computed in."""
    value = np.arange(5000, dtype=np.float32)
    x = sc.input((5000,), name="x")
    executable = sc.compile([x * 2.0, sc.sum(x)], fast_profile())
    resident = sc.Tensor.leaf(device_array(value))
    state = sc.variable(value, device="cuda")

    def results() -> None:
        double, total = executable.run(x=resident)
        np.testing.assert_array_equal(double.numpy(), value * 2)
        assert total.item() == value.sum()

    def refused() -> None:
        with pytest.raises(MemoryError):
            sc.compile(sc.ones((1 << 44,)), fast_profile()).run()

    calls: tuple[Callable[[], Any], ...] = (
        lambda: executable.run(x=value),
        results,
        refused,
        lambda: state.assign(resident),
        lambda: sc.tensor(value).to("cuda").to("cpu").numpy(),
        resident.__dlpack__,
        executable.release,
        results,
    )
    for call in calls:
        call()
        assert current() == foreign
    for _ in range(2):  # popped between two calls
        assert load_library()["cuCtxPopCurrent_v2"](ctypes.byref(ctypes.c_void_p())) == 0
        assert current() != foreign
        results()
        assert load_library()["cuCtxPushCurrent_v2"](ctypes.c_void_p(foreign)) == 0


def test_beside_the_runtime_api() -> None:
    """taichi-5502: the CUDA runtime takes the primary context too, and both work in turn."""
    pathfinder = pytest.importorskip("cuda.pathfinder")
    runtime = ctypes.CDLL(pathfinder.load_nvidia_dynamic_lib("cudart").abs_path)
    value = np.arange(1000, dtype=np.float32)
    x = sc.input((1000,), name="x", device="cuda")
    executable = sc.compile(x + 1.0, fast_profile())
    place, nbytes = ctypes.c_void_p(), ctypes.c_size_t(value.nbytes)
    assert runtime.cudaMalloc(ctypes.byref(place), nbytes) == 0
    to_device, to_host = 1, 2
    for count in range(5):
        sent = value + np.float32(count)
        pointer = ctypes.c_void_p(sent.ctypes.data)
        assert runtime.cudaMemcpy(place, pointer, nbytes, to_device) == 0
        described = Described(place.value or 0, sent)
        np.testing.assert_array_equal(executable.run(x=described).numpy(), sent + 1)
        back = np.empty_like(sent)
        pointer = ctypes.c_void_p(back.ctypes.data)
        assert runtime.cudaMemcpy(pointer, place, nbytes, to_host) == 0
        np.testing.assert_array_equal(back, sent)
    assert runtime.cudaFree(place) == 0
    np.testing.assert_array_equal(executable.run(x=value).numpy(), value + 1)


class Described:
    """Memory of other code, by the CUDA array interface."""

    def __init__(self, address: int, array: Any) -> None:
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (address, False),
            "version": 3,
        }


# The end of memory


def test_out_of_memory_says_what_and_leaves_everything_usable() -> None:
    x = sc.input((1 << 10, 1 << 15), name="x")
    wide = sc.broadcast_to(sc.expand_dims(x, 0), (1 << 14, 1 << 10, 1 << 15))
    executable = sc.compile(sc.cumsum(sc.exp(wide), axis=1), fast_profile())
    feed = np.zeros((1 << 10, 1 << 15), np.float32)
    for _ in range(2):
        with pytest.raises(MemoryError, match=r"asked \d+\.\d (TiB|GiB)") as caught:
            executable.run(x=feed)
        text = str(caught.value)
        assert "free" in text and "arenas" in text and "outputs" in text
        assert "cumsum" in text and "exp" in text
    small = sc.compile(sc.sum(x), fast_profile())
    assert small.run(x=feed).item() == 0
