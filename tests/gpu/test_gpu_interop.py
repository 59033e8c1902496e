"""CUDA memory shared with PyTorch and CuPy in one process, both ways, on a device."""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Any

import numpy as np
import pytest

import softcuda as sc
from softcuda.driver.library import DRIVER
from softcuda.driver.memory import DeviceMemory
from softcuda.pool.device import DeviceArray

DTYPES = ("bool", "int32", "int64", "float16", "float32", "float64")
SLOW = 1 << 28  # elements of a copy that takes a while


def current() -> int | None:
    """Return the context current in this thread."""
    place = ctypes.c_void_p()
    DRIVER.cuCtxGetCurrent(ctypes.addressof(place))
    return place.value


def resident(values: Any) -> Any:
    """Return a tensor whose data the device holds."""
    return sc.from_dlpack(np.ascontiguousarray(values), device="cuda")


@pytest.fixture
def torch() -> Any:
    found = pytest.importorskip("torch")
    if not found.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    return found


@pytest.fixture
def cupy() -> Any:
    return pytest.importorskip("cupy")


# PyTorch


@pytest.mark.parametrize("name", [*DTYPES, "bfloat16"])
def test_pytorch_both_ways(torch: Any, name: str) -> None:
    theirs = torch.arange(6, device="cuda").reshape(2, 3).to(getattr(torch, name)).T
    for take in (sc.from_dlpack, sc.asarray):
        tensor = take(theirs)
        assert isinstance(tensor.data, DeviceArray)
        assert (tensor.data.ptr, tensor.stride) == (theirs.data_ptr(), (1, 3))
        np.testing.assert_array_equal(
            tensor.numpy().astype(np.float64), theirs.double().cpu().numpy()
        )
        back = torch.from_dlpack(tensor)
        assert (back.data_ptr(), back.dtype) == (theirs.data_ptr(), theirs.dtype)
        assert torch.equal(back, theirs)
    copied = sc.tensor(theirs)
    assert copied.data.ptr != theirs.data_ptr()
    theirs.zero_()
    torch.cuda.synchronize()
    assert np.count_nonzero(copied.numpy().astype(np.float64)) == 5


def test_pytorch_by_the_cuda_array_interface(torch: Any) -> None:
    tensor = resident(np.arange(6, dtype=np.float32).reshape(2, 3))
    seen = torch.as_tensor(tensor, device="cuda")
    assert seen.data_ptr() == tensor.data.ptr
    assert seen.tolist() == [[0, 1, 2], [3, 4, 5]]

    class Described:
        def __init__(self, value: Any) -> None:
            self.__cuda_array_interface__ = value.__cuda_array_interface__
            self.value = value

    theirs = torch.arange(5.0, device="cuda")
    assert sc.asarray(Described(theirs)).data.ptr == theirs.data_ptr()
    assert sc.tensor(Described(theirs)).tolist() == [0, 1, 2, 3, 4]


def test_shapes_and_views(torch: Any) -> None:
    base = torch.arange(60.0, device="cuda")
    for theirs in (
        base[3],
        base[:0],
        base[::7],
        base.reshape(3, 4, 5)[:, 1],
        base.reshape(3, 4, 5)[:, ::2, 1:3],
        base.reshape(6, 10)[:, 0],
        base[:1].expand(4, 1),
        base.reshape(1, 60, 1).permute(2, 1, 0),
    ):
        expected = theirs.cpu().numpy()
        for take in (sc.tensor, sc.asarray):
            np.testing.assert_array_equal(take(theirs).numpy(), expected, strict=True)


def test_the_producers_stream_is_waited_for(torch: Any) -> None:
    side = torch.cuda.Stream()
    source = torch.zeros(SLOW, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        for _ in range(20):
            source.add_(1)
        tensor = sc.from_dlpack(source[-1000:])
    assert tensor.numpy().tolist() == [20] * 1000


def test_the_consumers_stream_waits(torch: Any) -> None:
    tensor = resident(np.zeros(SLOW, np.float32))
    assert torch.from_dlpack(tensor)[-1].item() == 0
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        sent = resident(np.full(SLOW // 8, 3, np.float32))
        assert bool((torch.from_dlpack(sent) == 3).all())


def test_memory_is_kept_and_given_back(torch: Any) -> None:
    torch.cuda.synchronize()
    gc.collect()
    before = torch.cuda.memory_allocated()
    tensor = sc.from_dlpack(torch.full((1 << 20,), 5.0, device="cuda"))
    gc.collect()
    assert torch.cuda.memory_allocated() > before
    torch.full((1 << 20,), 6.0, device="cuda")
    assert tensor.numpy()[:3].tolist() == [5, 5, 5]
    del tensor
    gc.collect()
    assert torch.cuda.memory_allocated() == before
    ours = resident(np.full(1 << 20, 7, np.float32))
    theirs = torch.from_dlpack(ours)
    del ours
    gc.collect()
    resident(np.zeros(1 << 20, np.float32))
    assert bool((theirs == 7).all())


def test_dropped_and_taken_exports(torch: Any) -> None:
    tensor = resident(np.arange(4, dtype=np.float32))

    def held() -> tuple[int, int]:
        """Return how many owners of the driver's memory live, and who refers to the array."""
        gc.collect()
        owners = sum(type(each) is DeviceMemory for each in gc.get_objects())
        return owners, sys.getrefcount(tensor.data)

    before = held()
    for number in range(10_000):
        tensor.__dlpack__(max_version=(1, 0) if number % 2 else None)
        torch.from_dlpack(tensor)
    assert held() == before
    assert tensor.tolist() == [0, 1, 2, 3]


def test_feeds_and_variables(torch: Any) -> None:
    x = sc.input((2, 3), name="x", device="cuda")
    host = sc.input((2, 3), name="y")
    executable = sc.compile(x + host, "default")
    theirs = torch.ones(2, 3, device="cuda")
    for feed in (theirs, theirs.cpu().numpy(), sc.asarray(theirs), torch.ones(3, 2).cuda().T):
        found = executable.run(x=feed, y=torch.full((2, 3), 2.0, device="cuda"))
        assert found.tolist() == [[3, 3, 3], [3, 3, 3]]
    state = sc.variable(theirs, "state", device="cuda")
    step = sc.compile(state * 2, "default", updates={state: state + 1})
    assert step.run().tolist() == [[2] * 3] * 2
    assert step.run().tolist() == [[4] * 3] * 2
    seen = torch.from_dlpack(state)
    assert seen.tolist() == [[3] * 3] * 2
    state.assign(torch.zeros(2, 3, device="cuda"))
    assert step.run().tolist() == [[0] * 3] * 2
    assert (sc.ones((2, 3)) + theirs).tolist() == [[2] * 3] * 2


def test_exported_outputs_are_never_written_again(torch: Any) -> None:
    x, beside = sc.input((1 << 16,), name="x"), resident(np.zeros(1, np.float32))
    executable = sc.compile([x.to("cuda"), beside + 0], "default")
    kept = []
    for value in range(8):
        sent, _ = executable.run(x=np.full(1 << 16, value, np.float32))
        kept.append(torch.from_dlpack(sent))
    del sent
    for value, array in enumerate(kept):
        assert bool((array == value).all())


def test_contexts_stay_as_they_are(torch: Any) -> None:
    torch.zeros(1, device="cuda")
    before = current()
    tensor = sc.from_dlpack(torch.arange(3.0, device="cuda"))
    torch.from_dlpack(tensor)
    assert tensor.tolist() == [0, 1, 2]
    assert current() == before


# CuPy


@pytest.mark.parametrize("name", DTYPES)
def test_cupy_both_ways(cupy: Any, name: str) -> None:
    theirs = cupy.arange(6).reshape(2, 3).astype(name)
    tensor = sc.from_dlpack(theirs)
    assert tensor.data.ptr == theirs.data.ptr
    np.testing.assert_array_equal(tensor.numpy(), theirs.get(), strict=True)
    for back in (cupy.from_dlpack(tensor), cupy.asarray(tensor)):
        assert back.data.ptr == theirs.data.ptr
        assert bool((back == theirs).all())


def test_cupy_negative_strides(cupy: Any) -> None:
    theirs = cupy.arange(12, dtype=cupy.float32).reshape(3, 4)
    flipped = cupy.flip(theirs, 1).T

    class Described:
        __cuda_array_interface__ = flipped.__cuda_array_interface__

    # By the interface: CuPy's own DLPack export may take the negative strides for unsigned ones
    # (github.com/cupy/cupy/issues/10172), which is then refused.
    tensor = sc.asarray(Described())
    assert tensor.stride == (-1, 4)
    np.testing.assert_array_equal(tensor.numpy(), flipped.get(), strict=True)
    for back in (cupy.asarray(tensor), cupy.from_dlpack(tensor)):
        assert back.strides == (-4, 16)
        np.testing.assert_array_equal(back.get(), flipped.get(), strict=True)


def test_cupy_streams(cupy: Any) -> None:
    with cupy.cuda.Stream(non_blocking=True):
        source = cupy.zeros(SLOW, cupy.float32)
        for _ in range(20):
            source += 1
        tensor = sc.from_dlpack(source)
    assert tensor.numpy()[-1000:].tolist() == [20] * 1000
