"""Ctrl-C amid what must be done whole: updates of several variables, and finalizers."""

from __future__ import annotations

import _thread
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import softcuda as sc
from softcuda.interop.blocks import Held
from softcuda.interrupts import Uninterrupted
from softcuda.pool.blocks import RawBlock
from softcuda.pool.bump import BumpPool
from softcuda.pool.host import HostBlocks

SIGNALS = [
    pytest.param(
        name, marks=pytest.mark.skipif(not hasattr(signal, name), reason="Windows has it not")
    )
    for name in ("SIGINT", "SIGALRM")
]


@pytest.fixture(params=SIGNALS)
def number(request: pytest.FixtureRequest) -> Iterator[int]:
    """Give a signal whose handler raises."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    chosen = getattr(signal, request.param)
    before = signal.signal(chosen, stop)
    yield chosen
    signal.signal(chosen, before)


def swap(a: sc.Tensor, b: sc.Tensor) -> dict[sc.Tensor, sc.Tensor]:
    return {a: b, b: a}


def change(a: sc.Tensor, b: sc.Tensor) -> dict[sc.Tensor, sc.Tensor]:
    return {a: sc.exp(a) + b, b: b * 2.0}


@pytest.mark.parametrize("updates", [swap, change])
@pytest.mark.parametrize("size", [8, 1 << 16])
def test_all_variables_change_or_none(number: int, updates: Callable[..., Any], size: int) -> None:
    """A signal after any of the writes is heeded when all are made."""
    old = [np.full(size, value, np.float32) for value in (1.0, 2.0)]
    a, b = (sc.variable(value) for value in old)
    step = sc.compile([], "default", updates=updates(a, b))
    step.run()
    new = [a.numpy(), b.numpy()]
    calls = step._ready()._calls
    first = calls._starts[step.program.ending]
    count = len(calls.flat) - first
    assert count > 1
    for at in range(1, count):
        a.assign(old[0])
        b.assign(old[1])
        step.run()  # binds again what the run before forgot
        a.assign(old[0])
        b.assign(old[1])
        calls.flat.insert(first + at, (_thread.interrupt_main, (number,)))
        with pytest.raises(KeyboardInterrupt):
            step.run()
        np.testing.assert_array_equal(a.numpy(), new[0])
        np.testing.assert_array_equal(b.numpy(), new[1])


def test_handlers_are_set_again_whatever_they_do(number: int) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), Uninterrupted():
        _thread.interrupt_main(number)
        held = signal.getsignal(number)
    assert held is not before
    assert signal.getsignal(number) is before


class Blocks(HostBlocks):
    """Host memory whose first block is given back amid a signal."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.freed = 0

    def free(self, block: RawBlock[Any]) -> None:
        if not self.freed:
            _thread.interrupt_main(self.number)
        self.freed += 1


def wait_for_signals() -> None:
    for _ in range(200):
        time.sleep(0.005)


def test_a_signal_amid_a_finalizer_is_given_after_it(number: int) -> None:
    """All blocks are freed, and Ctrl-C is not lost as an exception that Python ignores."""
    source = Blocks(number)
    pool: BumpPool[Any] = BumpPool(source, block_size=256)
    for _ in range(4):
        pool.allocate(256)
    with pytest.raises(KeyboardInterrupt):
        del pool
        wait_for_signals()
    assert source.freed == 4


def test_what_was_lent_is_given_back_whole(number: int) -> None:
    given: list[object] = []
    held = Held(lambda: _thread.interrupt_main(number), given.append, "theirs")
    with pytest.raises(KeyboardInterrupt):
        del held
        wait_for_signals()
    assert given == ["theirs"]
