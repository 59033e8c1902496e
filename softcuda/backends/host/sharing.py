"""Boxes of a contraction that threads share: what each of them calls, made once for all runs."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from softcuda.backends.host.blas import BLAS
from softcuda.backends.host.packing import PackedOperand
from softcuda.backends.host.tiling import Sizes
from softcuda.backends.host.workers import SHARED
from softcuda.knobs import thread_count

__all__ = ["SharedBoxes", "parted"]

Array = np.ndarray[Any, Any]
Call = tuple[Callable[..., Any], tuple[Any, ...]]

_NOTHING: Final = np.empty(0, np.uint8)


def parted(memory: Array, sizes: Sizes) -> list[Array]:
    """Return memory as four parts of these sizes."""
    ends = itertools.accumulate(sizes)
    return [memory[end - size : end] for size, end in zip(sizes, ends, strict=True)]


class _Bench(NamedTuple):
    """What one thread has for its items: memory, operands with tiles in it, calls made before."""

    memory: Array
    operands: list[PackedOperand]
    spare: Array
    calls: dict[tuple[bool, int], list[Call]]


class SharedBoxes:
    """Boxes that threads share, each with tiles of its own; calling it computes the result.

    The calls of a box are made once for each thread that meets it, while they are few.

    Args:
        item_calls: f(number, operands, spare, is_alone=) -> the calls of one item.
        operands: a, b and out, as all threads see them.
        items: how many there are.
        own: elements of scratch of each thread.
        dtype: NumPy dtype of tiles.
        keeps: whether calls are few enough to be kept.
    """

    def __init__(
        self,
        item_calls: Callable[..., list[Call]],
        operands: list[PackedOperand],
        items: int,
        own: Sizes,
        dtype: Any,
        *,
        keeps: bool,
    ) -> None:
        self._item_calls, self._operands, self._items = item_calls, operands, items
        self._own, self._dtype, self._keeps = own, dtype, keeps
        self._benches: dict[int, _Bench] = {}

    def __call__(self) -> None:
        """Compute the result on all threads."""
        with BLAS.alone() as is_alone:
            SHARED.run(partial(self._work, is_alone), self._items)

    def _work(self, is_alone: bool, worker: int, number: int) -> None:
        bench = self._bench()
        calls = bench.calls.get((is_alone, number))
        if calls is None:
            calls = self._item_calls(number, bench.operands, bench.spare, is_alone=is_alone)
            if self._keeps:
                bench.calls[is_alone, number] = calls
        for function, arguments in calls:
            function(*arguments)

    def _bench(self) -> _Bench:
        """Return what this thread has; made again where it has got other memory since."""
        nbytes = sum(self._own) * self._dtype.itemsize
        memory = SHARED.scratch(nbytes) if nbytes else _NOTHING
        me = threading.get_ident()
        bench = self._benches.get(me)
        if bench is None or bench.memory is not memory:
            parts = parted(memory[:nbytes].view(self._dtype), self._own)
            mine = [x.on(part) for x, part in zip(self._operands, parts, strict=False)]
            bench = _Bench(memory, mine, parts[3], {})
            if len(self._benches) > 2 * thread_count():  # of threads that have ended, maybe
                self._benches.clear()
            self._benches[me] = bench
        return bench
