"""DLPack and the CUDA array interface on a device, with producers made by hand."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import numpy as np
import pytest
from device_leaves import device_array
from dlpack_capsules import Producer, counting
from op_cases import fast_profile

import softcuda as sc
from softcuda.executor.on_demand import session
from softcuda.interop.capsules import taken

CUDA = (2, 0)


def produced(array: Any, **options: Any) -> Producer:
    """Return a producer of a copy of an array in device memory."""
    data = device_array(np.ascontiguousarray(array))
    made = Producer(array, device=CUDA, ptr=data.ptr, **options)
    made.holder = data
    return made


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("dims", [(), (3,), (2, 3), (0, 3), (1, 1)])
def test_strides_may_be_null(versioned: bool, dims: tuple[int, ...]) -> None:
    """cupy-2095: compact data may come without strides."""
    made = produced(counting(6), versioned=versioned, dims=dims)
    tensor = sc.from_dlpack(made)
    expected = counting(int(np.prod(dims, dtype=int))).reshape(dims)
    np.testing.assert_array_equal(tensor.numpy(), expected, strict=True)
    doubled = sc.compile(tensor * 2.0, fast_profile()).run()
    np.testing.assert_array_equal(doubled.numpy(), expected * 2, strict=True)
    assert made.streams == [session().stream.handle]
    del tensor, doubled
    gc.collect()
    assert made.deleted == 1


@pytest.mark.parametrize("dims", [(1, 77), (1, 3, 1, 4, 1), (0, 3)])
def test_strides_of_small_extents_do_not_count(dims: tuple[int, ...]) -> None:
    """pytorch-99803: they are neither checked nor used."""
    size = int(np.prod(dims))
    source = counting(max(size, 1))
    row_major = np.empty(dims, np.float32).strides
    odd = tuple(
        99999 if extent <= 1 or not size else stride // 4
        for extent, stride in zip(dims, row_major, strict=True)
    )
    tensor = sc.from_dlpack(produced(source, dims=dims, strides=odd))
    again = sc.from_dlpack(tensor)
    right = source[:size].reshape(dims)
    for each in (tensor, again):
        assert each.shape == dims
        np.testing.assert_array_equal(each.numpy(), right, strict=True)
        total = sc.compile([sc.sum(each), sc.copy(each)], fast_profile()).run()
        assert total[0].item() == right.sum()
        np.testing.assert_array_equal(total[1].numpy(), right, strict=True)


def test_negative_strides_are_exported_as_they_are() -> None:
    """cupy-10172: (-1, 4) from the logical first element, never a number near 2^62."""
    x = counting(12).reshape(3, 4)
    source = produced(x, dims=(4, 3), strides=(-1, 4), byte_offset=12)
    tensor = sc.from_dlpack(source)
    block = taken("test", tensor.__dlpack__(max_version=(1, 0)))
    assert (block.strides, block.ptr) == ((-1, 4), source.holder.ptr + 12)
    assert tensor.__cuda_array_interface__["strides"] == (-4, 16)
    for found in (tensor, sc.compile(tensor + 0.0, fast_profile()).run()):
        np.testing.assert_array_equal(found.numpy(), np.flip(x, 1).T)


def test_capsules_dropped_and_taken_leave_nothing() -> None:
    """pytorch-9297: each deleter runs once; a capsule is taken once."""
    tensor = sc.from_dlpack(counting(64), device="cuda")

    def exchange(rounds: int) -> None:
        for number in range(rounds):
            tensor.__dlpack__(max_version=(1, 0) if number % 2 else None)
            sc.from_dlpack(tensor)

    exchange(100)
    gc.collect()
    tracemalloc.start()
    exchange(2_000)
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 64 << 10
    made = produced(counting(3))
    kept = sc.from_dlpack(made)
    with pytest.raises(BufferError, match="was taken before"):
        sc.from_dlpack(made)
    assert kept.tolist() == [0, 1, 2]
    del kept
    gc.collect()
    assert made.deleted == 1
