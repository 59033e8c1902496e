"""The team of threads: every item once, errors after the last write, forks, interrupts."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from functools import partial

import numpy as np
import pytest

from softcuda.backends.host.workers import Workers, aligned_bytes


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 500])
def test_every_item_once(threads, count):
    team = Workers()
    done = []
    team.run(lambda worker, item: done.append((worker, item)), count, threads)
    assert sorted(item for _, item in done) == list(range(count))
    assert all(0 <= worker < max(threads, 1) for worker, _ in done)


def test_threads_take_part_and_persist():
    team = Workers()
    seen = set()
    barrier = threading.Barrier(2, timeout=10)

    def task(worker, item):
        seen.add(threading.get_ident())
        barrier.wait()

    for _ in range(20):
        team.run(task, 2, 2)
    assert len(seen) == 2


def test_one_thread_runs_inline(monkeypatch):
    monkeypatch.setenv("SOFTCUDA_THREADS", "1")
    team = Workers()
    before = threading.active_count()
    seen = set()
    team.run(lambda worker, item: seen.add(threading.get_ident()), 5)
    assert seen == {threading.get_ident()}
    assert threading.active_count() == before


@pytest.mark.parametrize("culprit", ["caller", "thread"])
def test_an_error_is_raised_after_all_have_stopped(culprit):
    team = Workers()
    main = threading.get_ident()
    barrier = threading.Barrier(2, timeout=10)
    active = []

    def task(worker, item):
        if item > 1:
            return
        barrier.wait()
        if (threading.get_ident() == main) == (culprit == "caller"):
            raise KeyError("item")
        active.append(item)
        time.sleep(0.05)
        active.pop()

    with pytest.raises(KeyError, match="item"):
        team.run(task, 1000, 2)
    assert not active
    done = []
    team.run(lambda worker, item: done.append(item), 10, 2)
    assert sorted(done) == list(range(10))


def test_an_interrupt_waits_for_the_threads():
    team = Workers()
    main = threading.get_ident()
    barrier = threading.Barrier(2, timeout=10)
    active = []

    def task(worker, item):
        barrier.wait()
        if threading.get_ident() == main:
            raise KeyboardInterrupt
        active.append(item)
        time.sleep(0.05)
        active.pop()

    with pytest.raises(KeyboardInterrupt):
        team.run(task, 2, 2)
    assert not active


def test_no_warning_escapes_a_thread(recwarn):
    team = Workers()
    barrier = threading.Barrier(2, timeout=10)
    zero, out = np.zeros(4, np.float32), np.empty(4, np.float32)

    def task(worker, item):
        barrier.wait()
        np.divide(zero, zero, out if item else np.empty(4, np.float32))

    for _ in range(5):
        with np.errstate(all="ignore"):  # the executor's, which covers the calling thread
            team.run(task, 2, 2)
    assert not list(recwarn)


def test_two_callers_at_once():
    team = Workers()
    totals = [0, 0]

    def keep(done, worker, item):
        done.append(item)

    def caller(which):
        for _ in range(200):
            done: list[int] = []
            team.run(partial(keep, done), 20, 2)
            totals[which] += sum(done)

    callers = [threading.Thread(target=caller, args=(n,)) for n in range(2)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join(30)
    assert totals == [200 * 190, 200 * 190]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_its_own_threads():
    team = Workers()
    team.run(lambda worker, item: None, 4, 2)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        barrier = threading.Barrier(2, timeout=10)
        try:
            team.run(lambda worker, item: barrier.wait(), 2, 2)
            os.write(writing, b"done")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    assert os.read(reading, 10) == b"done"
    os.close(reading)


def test_threads_do_not_keep_the_interpreter():
    code = (
        "from softcuda.backends.host.workers import SHARED\n"
        "SHARED.run(lambda worker, item: None, 8, 3)\n"
        "print('end')"
    )
    made = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert made.stdout == "end\n"
    assert made.stderr == ""


def test_idle_threads_keep_nothing_alive():
    team = Workers()
    gone = threading.Event()

    class Held:
        def __call__(self, worker, item):
            pass

        def __del__(self):
            gone.set()

    team.run(Held(), 8, 2)
    assert gone.wait(5)


def test_scratch_is_aligned_and_grows():
    team = Workers()
    small = team.scratch(100)
    assert small.ctypes.data % 64 == 0
    assert np.shares_memory(team.scratch(50), small)
    assert team.scratch(5000).nbytes >= 5000
    others = []
    thread = threading.Thread(target=lambda: others.append(team.scratch(10)))
    thread.start()
    thread.join()
    assert not np.shares_memory(others[0], team.scratch(10))
    assert aligned_bytes(0).nbytes == 0
