"""What a graph is modelled to take: [costs] and [transfer] of a profile, fusion counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from softcuda.backends import backends
from softcuda.compiler.fuse import fused_lines
from softcuda.compiler.program import Chosen
from softcuda.graph.lines import Line, row_dtype, row_size
from softcuda.graph.op import Kind
from softcuda.profile.model import Profile
from softcuda.target import Target

__all__ = ["Prices"]

_LIKE: Final = "f32"  # an op whose dtype has no points costs what this one does
_PASS: Final = "neg"  # as cheap as one pass over memory and one launch are


class Prices:
    """Modelled times by a profile; each question is answered once.

    Attributes:
        missing: (op, device type) of what [costs] says nothing about.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._known: dict[tuple[str, str, int, str], float | None] = {}
        self.missing: set[tuple[str, str]] = set()

    def line_us(self, line: Line, operands: Sequence[Line], device: str) -> float | None:
        """Return the time of a line by itself [microseconds], None where nothing is known."""
        dtype, size = row_dtype(line, operands).name, row_size(line, operands)
        found = self._op_us(line.op.name, dtype, size, device)
        if found is None:
            self.missing.add((line.op.name, device))
        return found

    def _op_us(self, op: str, dtype: str, size: int, device: str) -> float | None:
        key = (op, dtype, size, device)
        if key not in self._known:
            found = self._profile.cost_us(op, dtype, size, device)
            if found is None:
                found = self._profile.cost_us(op, _LIKE, size, device)
            self._known[key] = found
        return self._known[key]

    def copy_us(self, direction: str, nbytes: int) -> float:
        """Return the time of a copy [microseconds]; 0 where [transfer] says nothing."""
        return self._profile.transfer_us(direction, nbytes) or 0.0

    def total_us(self, chosen: Chosen, target: Target) -> float:
        """Return the time of a graph whose copies are lines, unit by unit [microseconds].

        A fused unit takes what its lines take one by one, less a pass over memory for each but
        the dearest, and no less than that one.

        Args:
            chosen: the graph and its decisions, copies included.
            target: what it is compiled for; fusion depends on it.
        """
        lines, known = chosen.graph.lines, backends()
        total = 0.0
        for numbers, backend_id in fused_lines(chosen.graph, chosen.choices, target):
            last = lines[numbers[-1]]
            if last.op.kind is Kind.TRANSFER:
                direction = "h2d" if last.params.device == "cuda" else "d2h"
                total += self.copy_us(direction, last.nbytes)
                continue
            device = known[backend_id].DEVICE
            units = [lines[number] for number in numbers]
            total += self._unit_us(units, lines, device)
        return total

    def _unit_us(self, unit: Sequence[Line], lines: Sequence[Line], device: str) -> float:
        costs, passes = [], []
        for line in unit:
            operands = [lines[source] for source in line.inputs]
            dtype, size = row_dtype(line, operands).name, row_size(line, operands)
            cost = self._op_us(line.op.name, dtype, size, device) or 0.0
            costs.append(cost)
            if len(unit) > 1:
                passes.append(min(self._op_us(_PASS, dtype, size, device) or 0.0, cost))
        if not passes:
            return costs[0]
        dearest = max(costs)
        spared = sum(passes) - passes[costs.index(dearest)]
        return max(dearest, sum(costs) - spared)
