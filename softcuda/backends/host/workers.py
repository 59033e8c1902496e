"""Persistent threads that share the items of one job with the thread that asks for it.

A job is `count` items and a function(worker_index, item). The caller works too, as worker 0, so a
job always makes progress, however many other jobs the threads are busy with; any number of
application threads may call at once. Items are taken one by one from a shared iterator.
"""

from __future__ import annotations

import itertools
import os
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from softcuda.knobs import thread_count

__all__ = ["SHARED", "Workers"]

Task = Callable[[int, int], object]

ALIGNMENT = 64  # bytes; NumPy's vector loops take half the time on outputs aligned like this


class _Job:
    """The items of one call, and who works on them.

    A worker enters before it takes its first item and leaves after its last one. Once the items
    are used up or thrown away, every worker that ever took one has entered; so the memory of a
    job is quiet when as many workers have left as have entered.
    """

    __slots__ = ("done", "entered", "errors", "items", "left", "numbers", "task")

    def __init__(self, task: Task, count: int) -> None:
        self.task = task
        self.items: Iterator[int] = iter(range(count))
        self.numbers = itertools.count(1)
        self.entered: list[int] = []
        self.left: list[int] = []
        self.errors: list[BaseException] = []
        self.done: queue.SimpleQueue[int] = queue.SimpleQueue()

    def stop(self) -> None:
        """Throw away the items that nobody has taken yet."""
        for _ in self.items:
            pass

    def assist(self) -> None:
        """Work as one of the threads; never raises."""
        number = next(self.numbers)
        self.entered.append(number)
        task = self.task
        try:
            for item in self.items:
                task(number, item)
        except BaseException as error:  # the caller raises it, whatever it is
            self.errors.append(error)
            self.stop()
        finally:
            self.left.append(number)
            self.done.put(number)

    def lead(self) -> None:
        """Work as the caller, wait for all others, raise the first error."""
        task = self.task
        try:
            for item in self.items:
                task(0, item)
        except BaseException as error:  # raised below, when the threads have stopped
            self.errors.insert(0, error)
        while True:
            try:
                self.stop()
                while len(self.left) < len(self.entered):
                    self.done.get()
                break
            except KeyboardInterrupt as error:
                self.errors.insert(0, error)
        if self.errors:
            errors, self.errors = self.errors, []
            raise errors[0]


def _serve(jobs: queue.SimpleQueue[_Job]) -> None:
    np.seterr(all="ignore")
    while True:
        job = jobs.get()
        job.assist()
        del job  # an idle thread keeps nothing alive


class _Local(threading.local):
    """What a thread owns: a buffer for each job it leads inside another (a signal handler's)."""

    def __init__(self) -> None:
        self.depth = 0
        self.buffers: list[np.ndarray[Any, Any]] = []


class Workers:
    """A team of daemon threads, started on first use and remade in a forked child."""

    def __init__(self) -> None:
        self._local = _Local()
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._started = 0
        self._pid = os.getpid()

    def run(self, task: Task, count: int, threads: int | None = None) -> None:
        """Call task(worker_index, item) for every item below `count`, on several threads.

        Args:
            task: worker_index is below `threads` and belongs to one thread during the call.
            count: number of items.
            threads: how many threads may take part, the caller among them; None: all that
                SOFTCUDA_THREADS, or the affinity of the process, allow.

        Raises:
            BaseException: the first error of any item, once no thread works on the job any more.
                Items that nobody had begun are then left out.
        """
        local = self._local
        local.depth += 1
        try:
            self._run(task, count, min(thread_count() if threads is None else threads, count))
        finally:
            local.depth -= 1

    def _run(self, task: Task, count: int, team: int) -> None:
        if team <= 1:
            for item in range(count):
                task(0, item)
            return
        if self._pid != os.getpid():
            self._begin()
        if self._started < team - 1:
            self._start(team - 1)
        job = _Job(task, count)
        try:
            for _ in range(team - 1):
                self._jobs.put(job)
        except KeyboardInterrupt as error:
            job.errors.append(error)
            job.stop()
        job.lead()

    def _start(self, wanted: int) -> None:
        with self._lock:
            while self._started < wanted:
                name = f"softcuda-worker-{self._started + 1}"
                threading.Thread(target=_serve, args=(self._jobs,), name=name, daemon=True).start()
                self._started += 1

    def scratch(self, nbytes: int) -> np.ndarray[Any, Any]:
        """Return this thread's own buffer of at least `nbytes`, aligned to 64 bytes.

        The next call in the same job and thread returns the same memory.
        """
        local = self._local
        while len(local.buffers) <= local.depth:
            local.buffers.append(aligned_bytes(0))
        if local.buffers[local.depth].nbytes < nbytes:
            local.buffers[local.depth] = aligned_bytes(nbytes)
        return local.buffers[local.depth]


def aligned_bytes(nbytes: int) -> np.ndarray[Any, Any]:
    """Return a fresh byte array whose address is a multiple of 64."""
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + nbytes]


SHARED = Workers()
