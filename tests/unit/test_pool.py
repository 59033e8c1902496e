"""Bump pools: addresses, blocks, limits, marks, errors, life and death."""

from __future__ import annotations

import gc
import itertools
import threading
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softcuda.errors import (
    ArgumentError,
    ArgumentTypeError,
    ClosedError,
    PoolExhausted,
    SoftCudaError,
    SoftCudaWarning,
)
from softcuda.pool import BumpPool, HostPool, RawBlock

KIB = 1024


class FakeBlocks:
    """A source of addresses without memory; fails at will, counts what is held."""

    name = "fake"

    def __init__(self, memory_bytes=1 << 40):
        self.left = memory_bytes
        self.held = {}
        self.next = 1 << 20
        self.broken = False

    def allocate(self, nbytes):
        if nbytes > self.left:
            raise MemoryError(f"asked {nbytes}, {self.left} free")
        self.left -= nbytes
        block = RawBlock(self.next, nbytes, "raw")
        self.next += nbytes + 4096
        self.held[block.ptr] = nbytes
        return block

    def free(self, block):
        if self.broken:
            raise SoftCudaError("free failed: device lost")
        self.left += self.held.pop(block.ptr)

    def window(self, block, offset, nbytes):
        return (block.ptr + offset, nbytes)


def test_allocations_are_aligned_disjoint_and_writable():
    with HostPool(block_size=4 * KIB) as pool:
        made = [pool.allocate(n) for n in (1, 255, 256, 257, 5000, 4096, 3)]
        for k, a in enumerate(made):
            assert a.ptr % 256 == 0
            assert a.memory.ctypes.data == a.ptr
            assert (a.memory.dtype, a.memory.shape) == (np.uint8, (a.nbytes,))
            a.memory[...] = k
        assert all((a.memory == k).all() for k, a in enumerate(made))


def test_statistics():
    pool = HostPool(block_size=4 * KIB, limit_bytes=64 * KIB)
    assert (pool.used_bytes, pool.capacity_bytes, pool.block_count) == (0, 0, 0)
    pool.allocate(1000)
    assert (pool.used_bytes, pool.capacity_bytes, pool.block_count) == (1024, 4 * KIB, 1)
    mark = pool.mark()
    pool.allocate(4000)  # the next block of the chain
    pool.allocate(10_000)  # a block of its own
    assert (pool.used_bytes, pool.block_count) == (1024 + 4096 + 10_240, 3)
    pool.allocate(5000)
    high = pool.used_bytes
    pool.reset(mark)
    assert (pool.used_bytes, pool.high_water_bytes, pool.block_count) == (1024, high, 4)
    assert pool.release() == 4096 + 10_240 + 5120
    assert (pool.capacity_bytes, pool.block_count, pool.high_water_bytes) == (4096, 1, high)


def test_a_large_request_leaves_the_current_block_current():
    pool = BumpPool(FakeBlocks(), 4 * KIB)
    first = pool.allocate(256)
    pool.allocate(100_000)
    assert pool.allocate(256).ptr == first.ptr + 256


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(0, 3000), max_size=30),
    st.lists(st.integers(0, 3000), max_size=30),
    st.lists(st.integers(0, 3000), max_size=30),
    st.sampled_from([None, 200_000]),
)
def test_a_repeated_sequence_gives_the_same_addresses(before, earlier, sequence, limit):
    pool = BumpPool(FakeBlocks(), KIB, limit)
    for n in before:
        pool.allocate(n)
    mark = pool.mark()
    for n in earlier:
        pool.allocate(n)
    pool.reset(mark)
    used = pool.used_bytes
    first = [pool.allocate(n) for n in sequence]
    taken = sorted((a.ptr, a.ptr + a.nbytes) for a in first)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(taken))
    peak, blocks = pool.used_bytes, pool.block_count
    for _ in range(2):
        pool.reset(mark)
        assert pool.used_bytes == used
        assert [pool.allocate(n) for n in sequence] == first
        assert (pool.used_bytes, pool.block_count) == (peak, blocks)


def test_zero_bytes_have_an_address_of_their_own():
    pool = HostPool(block_size=KIB)
    a, b = pool.allocate(0), pool.allocate(0)
    assert a.ptr != b.ptr and a.ptr % 256 == 0
    assert a.memory.shape == (0,)
    assert pool.used_bytes == 512


def test_wrong_sizes_are_refused():
    pool = HostPool()
    with pytest.raises(ArgumentError, match="-1 bytes; allowed is at least 0"):
        pool.allocate(-1)
    with pytest.raises(ArgumentTypeError, match=r"2\.5 of type float"):
        pool.allocate(2.5)
    assert pool.allocate(np.int64(300)).nbytes == 300
    with pytest.raises(ArgumentError, match="block_size 0"):
        HostPool(0)
    with pytest.raises(ArgumentError, match="limit_bytes -1"):
        HostPool(limit_bytes=-1)


def test_an_exhausted_pool_says_what_is_left_and_stays_usable():
    pool = HostPool(block_size=4 * KIB, limit_bytes=10 * KIB)
    pool.allocate(4 * KIB)
    pool.allocate(3 * KIB)
    before = (pool.used_bytes, pool.capacity_bytes, pool.block_count)
    with pytest.raises(PoolExhausted) as caught:
        pool.allocate(3 * KIB)
    text = str(caught.value)
    assert "asked 3.0 KiB (3072 bytes)" in text
    assert "2.0 KiB (2048 bytes) left below the limit of 10.0 KiB (10240 bytes)" in text
    assert "1.0 KiB (1024 bytes) left in the current block" in text
    assert "7.0 KiB (7168 bytes) used" in text
    assert "reset(mark)" in text and "limit_bytes" in text
    assert isinstance(caught.value, MemoryError)
    assert (pool.used_bytes, pool.capacity_bytes, pool.block_count) == before
    assert pool.allocate(1024).nbytes == 1024  # in the current block
    assert pool.allocate(2048).nbytes == 2048  # the rest of the limit, though no whole block
    with pytest.raises(PoolExhausted, match="0 bytes left below the limit"):
        pool.allocate(1)
    pool.reset()
    assert pool.allocate(4096).nbytes == 4096


def test_a_limit_below_the_block_size_is_served():
    pool = HostPool(limit_bytes=KIB)
    assert pool.allocate(KIB).nbytes == KIB
    with pytest.raises(PoolExhausted):
        pool.allocate(1)


def test_kept_blocks_are_released_before_a_request_fails():
    pool = BumpPool(FakeBlocks(), KIB, 20 * KIB)
    mark = pool.mark()
    pool.allocate(12 * KIB)
    pool.reset(mark)
    assert pool.allocate(15 * KIB).nbytes == 15 * KIB
    assert pool.capacity_bytes == 15 * KIB


def test_a_source_without_memory_is_named():
    source = FakeBlocks(memory_bytes=10 * KIB)
    pool = BumpPool(source, 4 * KIB)
    mark = pool.mark()
    pool.allocate(4 * KIB)
    with pytest.raises(PoolExhausted, match="fake refused a block: asked 8192, 6144 free"):
        pool.allocate(8 * KIB)
    assert (pool.used_bytes, pool.block_count) == (4 * KIB, 1)
    pool.reset(mark)
    assert pool.allocate(8 * KIB).nbytes == 8 * KIB  # the kept block went back first


def test_the_host_refuses_more_than_it_can_address():
    pool = HostPool()
    with pytest.raises(PoolExhausted, match="host memory exhausted"):
        pool.allocate(1 << 62)
    assert pool.allocate(1).nbytes == 1


def test_marks_nest_and_wrong_ones_are_refused():
    pool, other = HostPool(block_size=KIB), HostPool(block_size=KIB)
    low = pool.mark()
    pool.allocate(600)
    middle = pool.mark()
    pool.allocate(3000)
    high = pool.mark()
    with pytest.raises(ArgumentError, match="mark of another pool"):
        pool.reset(other.mark())
    pool.reset(high)
    pool.reset(middle)
    assert pool.used_bytes == 768
    with pytest.raises(ArgumentError, match="above the top"):
        pool.reset(high)
    pool.reset(low)
    with pytest.raises(ArgumentError, match="above the top"):
        pool.reset(middle)
    assert pool.used_bytes == 0


def test_close_is_idempotent_and_final():
    source = FakeBlocks()
    with BumpPool(source, KIB) as pool:
        pool.allocate(10)
        pool.allocate(5000)
        mark = pool.mark()
        assert len(source.held) == 2
    assert not source.held
    pool.close()
    assert pool.is_closed and "closed" in repr(pool)
    assert (pool.used_bytes, pool.capacity_bytes, pool.block_count) == (0, 0, 0)
    assert pool.high_water_bytes == 256 + 5120
    calls = [
        lambda: pool.allocate(1),
        lambda: pool.allocate(0),
        pool.mark,
        lambda: pool.reset(mark),
        pool.release,
        pool.__enter__,
    ]
    for call in calls:
        with pytest.raises(ClosedError, match=r"after close\(\); make a new pool"):
            call()


def test_arrays_outlive_a_closed_host_pool():
    pool = HostPool(block_size=KIB)
    memory = pool.allocate(100).memory
    memory[...] = 7
    pool.close()
    del pool
    gc.collect()
    assert (memory == 7).all()


def test_a_dropped_pool_gives_its_blocks_back():
    source = FakeBlocks()
    pool = BumpPool(source, KIB)
    pool.allocate(10)
    pool.allocate(5000)
    pool.reset()
    pool.allocate(10)
    del pool
    gc.collect()
    assert not source.held


def test_a_failing_free_is_a_warning_in_the_finalizer():
    source = FakeBlocks()
    pool = BumpPool(source, KIB)
    pool.allocate(10)
    source.broken = True
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        del pool
        gc.collect()
    assert [w.category for w in seen] == [SoftCudaWarning]
    assert "device lost" in str(seen[0].message)


def test_repr_shows_sizes():
    pool = HostPool(block_size=2 << 20, limit_bytes=1 << 30)
    pool.allocate(1500 * KIB)
    assert repr(pool) == (
        "BumpPool(host, 1.5 MiB used of 2.0 MiB in 1 blocks, limit 1.0 GiB, high water 1.5 MiB)"
    )


def test_threads_never_get_the_same_memory():
    pool = HostPool(block_size=64 * KIB)
    found = [[] for _ in range(4)]

    def work(k):
        for _ in range(500):
            found[k].append(pool.allocate(200).ptr)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({ptr for ptrs in found for ptr in ptrs}) == 2000
