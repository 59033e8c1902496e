"""Generators: where random nodes take their bits from."""

from __future__ import annotations

import os
import threading
from typing import Final, NamedTuple

import numpy as np

from softcuda.errors import ArgumentError
from softcuda.forks import renew_in_child
from softcuda.graph.op import OPS
from softcuda.tensor import Tensor
from softcuda.tensor.values import whole_number

__all__ = ["Generator", "GeneratorState", "default_generator", "seed"]

_LARGEST: Final = (1 << 63) - 1
_DEFAULT_SEED: Final = 0


class GeneratorState(NamedTuple):
    """Where a generator stands: its seed, and the Philox blocks that runs have taken."""

    seed: int
    counter: int


class Generator:
    """A seed and a counter, kept in a variable that every run with random nodes advances.

    Philox 4x32-10 makes the bits: the same state gives the same bits, on every backend.

    Source: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy
    as 1, 2, 3", SC 2011.

    Args:
        seed: 0 to 2^63 - 1; None takes one from the operating system.

    Attributes:
        variable: [2] i64, the seed and the counter.
    """

    __slots__ = ("variable",)

    variable: Tensor

    def __init__(self, seed: int | None = None) -> None:
        start = int.from_bytes(os.urandom(8), "little") >> 1 if seed is None else _checked(seed)
        self.variable = Tensor.leaf(np.array([start, 0], np.int64), OPS["variable"])

    @property
    def state(self) -> GeneratorState:
        """The seed, and the counter after all runs so far."""
        start, counter = self.variable.tolist()
        return GeneratorState(start, counter)

    def reseed(self, seed: int) -> None:
        """Start again with another seed and a counter of 0.

        Args:
            seed: 0 to 2^63 - 1.

        Raises:
            ArgumentError: the seed is outside that range.
        """
        self.variable.assign([_checked(seed), 0])

    def __repr__(self) -> str:
        state = self.state
        return f"Generator(seed={state.seed}, counter={state.counter})"


def _checked(seed: int) -> int:
    number = whole_number("Generator", "seed", seed)
    if not 0 <= number <= _LARGEST:
        raise ArgumentError(f"Generator: the seed is {number}; allowed are 0 to {_LARGEST}")
    return number


class _Default:
    """The process's own generator, made when it is first asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._generator: Generator | None = None
        renew_in_child(self)

    def after_fork(self) -> None:
        """Make the lock anew in a forked child."""
        self._lock = threading.Lock()

    def get(self) -> Generator:
        with self._lock:
            if self._generator is None:
                self._generator = Generator(_DEFAULT_SEED)
            return self._generator


_default: Final = _Default()


def default_generator() -> Generator:
    """Return the generator that random functions use where none is given; its seed is 0."""
    return _default.get()


def seed(number: int) -> None:
    """Start the default generator again with another seed.

    Args:
        number: 0 to 2^63 - 1.

    Raises:
        ArgumentError: the number is outside that range.
    """
    _default.get().reseed(number)
