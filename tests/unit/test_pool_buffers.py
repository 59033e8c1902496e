"""Aligned arrays and windows on memory."""

from __future__ import annotations

import gc
import mmap
import sys
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softcuda.dtype import REAL_DTYPES
from softcuda.errors import ArgumentError, PoolExhausted
from softcuda.pool import aligned_empty, separate, strided

F32 = np.dtype(np.float32)
NUMPY_DTYPES = [pytest.param(d.numpy, id=name) for name, d in REAL_DTYPES.items()]


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
@pytest.mark.parametrize("dims", [(), (1,), (0,), (3, 0, 2), (7, 5), (2,) * 16, (1,) * 64])
def test_aligned_empty(dims, dtype):
    array = aligned_empty(dims, dtype)
    assert (array.shape, array.dtype) == (dims, dtype)
    assert array.flags.c_contiguous and array.flags.writeable and array.flags.aligned
    assert array.ctypes.data % 256 == 0
    array[...] = 1
    assert (array == 1).all()


def test_large_buffers_begin_at_a_huge_page():
    assert aligned_empty((8 << 20,), F32).ctypes.data % (2 << 20) == 0


def test_aligned_empty_refuses_wrong_dims():
    with pytest.raises(ArgumentError, match=r"dims \(2, -1\)"):
        aligned_empty((2, -1), F32)
    with pytest.raises(ArgumentError, match="up to 64 extents"):
        aligned_empty((1,) * 65, F32)
    with pytest.raises(PoolExhausted, match="asked 4611686018427387904 bytes"):
        aligned_empty((1 << 60,), F32)


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_windows_of_every_dtype(dtype):
    base = (np.arange(24) % 2).astype(dtype).reshape(4, 6)
    window = strided(base, 7, (2, 3), (6, 2))
    assert window.dtype == dtype and np.shares_memory(window, base)
    assert (window == base[1:3, 1:6:2]).all()
    window[0, 0] = 0
    assert base[1, 1] == 0


def expected(base, offset, dims, strides):
    """Return the window element by element, from the flat memory below `base`."""
    first = base.__array_interface__["data"][0]
    flat = np.ndarray((4096,), base.dtype, ROOT)
    at = (first - ROOT.ctypes.data) // base.itemsize + offset
    index = np.zeros(dims, np.int64) + at
    for axis, (extent, stride) in enumerate(zip(dims, strides, strict=True)):
        shape = [1] * len(dims)
        shape[axis] = extent
        index = index + (np.arange(extent) * stride).reshape(shape)
    inside = not index.size or (index.min() >= 0 and index.max() < 4096)
    return flat[index] if inside else None


ROOT = np.arange(4096, dtype=np.float32)
BASES = {
    "whole": ROOT,
    "matrix": ROOT.reshape(64, 64),
    "columns": ROOT.reshape(64, 64).T,
    "middle": ROOT[1000:2000],
    "backwards": ROOT[::-1],
    "grid": ROOT.reshape(64, 64)[60:4:-3, 10:50:2],
    "broadcast": np.broadcast_to(ROOT[100:101], (5, 1)),
    "scalar": ROOT[17:18].reshape(()),
}


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(sorted(BASES)),
    st.integers(-4200, 4200),
    st.lists(st.tuples(st.integers(0, 6), st.integers(-900, 900)), max_size=4),
)
def test_windows_are_exact_about_bounds(name, offset, axes):
    base = BASES[name]
    dims, strides = tuple(a[0] for a in axes), tuple(a[1] for a in axes)
    right = expected(base, offset, dims, strides)
    if right is None:
        with pytest.raises(ArgumentError, match="leaves the memory of the array"):
            strided(base, offset, dims, strides)
        return
    window = strided(base, offset, dims, strides)
    assert window.shape == dims and (window == right).all()
    assert window.flags.writeable == base.flags.writeable


def test_windows_of_rank_64():
    dims, strides = (1,) * 62 + (2, 2), (99,) * 62 + (2, 1)
    window = strided(np.arange(4.0), 0, dims, strides)
    assert window.ndim == 64 and window.ravel().tolist() == [0, 1, 2, 3]
    back = strided(np.arange(4.0)[::-1], 0, dims, (0,) * 62 + (-2, -1))
    assert back.ravel().tolist() == [3, 2, 1, 0]


def test_a_window_keeps_the_memory_alive():
    base = np.arange(8.0)
    gone = weakref.ref(base)
    window = strided(base[::2], 1, (2,), (2,))
    del base
    gc.collect()
    assert window.tolist() == [1, 3]
    is_alive = gone() is not None
    del window
    assert is_alive and gone() is None


def test_a_window_inherits_read_only():
    base = np.arange(8.0)
    view = base[::2]
    view.flags.writeable = False
    assert not strided(view, 0, (3,), (1,)).flags.writeable
    assert not strided(view, 0, (0,), (1,)).flags.writeable
    writable = np.arange(8.0)
    early = writable[1:5:2]
    writable.flags.writeable = False
    assert strided(early, 0, (2,), (2,)).flags.writeable
    frozen = np.frombuffer(bytes(64), np.float64)
    assert not strided(frozen, 1, (2,), (-1,)).flags.writeable


def test_windows_on_owners_that_are_not_row_major():
    owner = np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1).copy(order="K")
    assert owner.base is None and not owner.flags.forc
    assert strided(owner, 0, (24,), (1,)).tolist() == list(np.arange(24.0))
    with pytest.raises(ArgumentError):
        strided(owner, 1, (24,), (1,))
    columns = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    assert strided(columns, 0, (2, 3), (1, 2)).tolist() == columns.tolist()


def test_windows_see_the_whole_buffer_below_an_array():
    below = mmap.mmap(-1, 4096)
    array = np.ndarray((4,), np.float32, below, 64)
    array[...] = [1, 2, 3, 4]
    assert strided(array, -16, (20,), (1,))[16:].tolist() == [1, 2, 3, 4]
    with pytest.raises(ArgumentError):
        strided(array, -17, (20,), (1,))
    with pytest.raises(ArgumentError):
        strided(array, 0, (1009,), (1,))


def test_windows_on_memory_of_unknown_extent_stay_in_what_is_seen():
    seen = np.lib.stride_tricks.as_strided(np.arange(16.0), (4,), (16,))
    assert strided(seen[::-1], 0, (4,), (-2,)).tolist() == [6, 4, 2, 0]
    with pytest.raises(ArgumentError):
        strided(seen, 0, (9,), (1,))


@pytest.mark.parametrize(
    ("offset", "dims", "strides"),
    [
        (0, (3, 3), (-(1 << 60), 1 << 60)),
        (0, (2,), (1 << 80,)),
        (1 << 80, (1,), (1,)),
        (0, (2, 2), (1,)),
        (0, (-1,), (1,)),
        (0, (1,) * 65, (1,) * 65),
        (0, (1 << 62, 0), (1, 1)),
        (0, (5,), (1,)),
    ],
)
@pytest.mark.parametrize("base", [np.arange(4.0), np.arange(8.0)[::2], np.empty(0)])
def test_impossible_windows_are_refused(base, offset, dims, strides):
    if dims == (5,) and base.base is not None:
        offset = 4
    with pytest.raises(ArgumentError, match="no window at offset"):
        strided(base, offset, dims, strides)


def test_views_of_a_separate_array_refer_to_it():
    memory = aligned_empty((4, 4), F32)
    for array in (memory, memory[1:3], aligned_empty((), F32), aligned_empty((0, 2), F32)):
        apart = separate(array)
        assert (apart.shape, apart.dtype) == (array.shape, array.dtype)
        assert apart.ctypes.data == array.ctypes.data or not array.size
        idle = sys.getrefcount(apart)
        view = apart.reshape(-1)[::2]
        again = view[:1]
        del view
        refers = again.base is apart
        count = sys.getrefcount(apart)
        assert refers and count == idle + 1
    with pytest.raises(ArgumentError, match="not C-contiguous"):
        separate(memory.T)
