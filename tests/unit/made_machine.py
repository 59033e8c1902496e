"""A made-up machine for sweeps: its times follow a formula, and they move its clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from softcuda.tools.cells import Cell, Outcome, State

__all__ = ["MadeMachine"]


class MadeMachine:
    """A bench; what it was asked for is in `asked`, the cell under way last."""

    def __init__(self, backend_ids: Iterable[str], calls: int = 5) -> None:
        """Make a machine that calls a backend so many times for each cell."""
        self.backend_ids = tuple(backend_ids)
        self.calls = calls
        self.now = 0.0
        self.asked: list[tuple[Cell, tuple[str, ...]]] = []

    def took_s(self, cell: Cell, name: str) -> float:
        """Return how long a call takes [seconds]."""
        raise NotImplementedError

    def clock(self) -> float:
        return self.now

    def prepare(self, cells: Sequence[Cell]) -> None:
        """Have nothing to do ahead."""

    def measure(
        self, cell: Cell, backend_ids: Iterable[str], allowance_s: float
    ) -> dict[str, Outcome]:
        names = tuple(backend_ids)
        self.asked.append((cell, names))
        found = {}
        for name in names:
            took = self.took_s(cell, name)
            self.now += self.calls * took + 0.001
            found[name] = Outcome(State.MEASURED, took * 1e6)
        return found
