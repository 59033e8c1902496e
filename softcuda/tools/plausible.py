"""What something else disturbed: a call that takes far longer than one of a larger size."""

from __future__ import annotations

from typing import Final, NamedTuple

from softcuda.tools.cells import Cell, Ledger, Outcome, State
from softcuda.tools.spread import median_of

__all__ = ["DISTURBED", "Disturbance", "disturbances", "disturbances_of", "plausible"]

DISTURBED: Final = 2.0


class Disturbance(NamedTuple):
    """A backend that took far longer at a size than at a larger one.

    Attributes:
        cell: op, dtype and size.
        backend_id: the backend.
        larger: the size whose times count instead.
    """

    cell: Cell
    backend_id: str
    larger: int


def disturbances(ledger: Ledger) -> list[Disturbance]:
    """Return where the median is more than twice that of a larger size, with the data resident.

    More work takes no less time: something else ran, or what is measured was not warm.
    """
    return [each for key in sorted(ledger.outcomes) for each in disturbances_of(ledger, *key)]


def disturbances_of(ledger: Ledger, op: str, dtype: str) -> list[Disturbance]:
    """Return those of an op and a dtype, sizes ascending."""
    found = []
    least: dict[str, tuple[float, int]] = {}
    for size, times in reversed(ledger.times(op, dtype)):
        for name, time_us in times.items():
            known_us, larger = least.get(name, (time_us, size))
            if time_us > DISTURBED * known_us:
                found.append(Disturbance(Cell(op, dtype, size), name, larger))
            if time_us <= known_us:
                least[name] = (time_us, size)
    return sorted(found, key=lambda each: (each.cell.size, each.backend_id))


def plausible(ledger: Ledger) -> Ledger:
    """Return a ledger in which the times of a larger size stand for those that were disturbed.

    So a disturbed time is no more than what is sure: the smaller call takes at most as long. With
    the data on the host a time is looked at by itself, in the same way.
    """
    changed = Ledger(
        {key: dict(cells) for key, cells in ledger.outcomes.items()}, ledger.copies, ledger.load
    )
    for cell, name, larger in disturbances(ledger):
        cells = changed.outcomes[cell.op, cell.dtype]
        sure = ledger.outcomes[cell.op, cell.dtype][larger][name]
        resident = cells[cell.size][name]._replace(
            microseconds=sure.microseconds, samples=sure.samples
        )
        cells[cell.size] = {**cells[cell.size], name: resident}
    for cells in changed.outcomes.values():
        _settle_host(cells)
    return changed


def _settle_host(cells: dict[int, dict[str, Outcome]]) -> None:
    """Do the same for times with the data on the host, of whichever backend of a device."""
    least: tuple[float, ...] = ()
    for size in sorted(cells, reverse=True):
        for name, outcome in cells[size].items():
            if outcome.state is not State.MEASURED or not outcome.host:
                continue
            if least and median_of(outcome.host) > DISTURBED * median_of(least):
                cells[size] = {**cells[size], name: outcome._replace(host=least)}
            elif not least or median_of(outcome.host) <= median_of(least):
                least = outcome.host
