"""What backends declare of fusion: which lines may be neighbours in one unit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from softcuda.backends import Verdict, backends
from softcuda.compiler.program import Choice
from softcuda.graph.lines import Line
from softcuda.graph.op import Kind
from softcuda.target import Target

__all__ = ["Neighbours"]


class Neighbours:
    """The backends of the lines of a graph, asked about each other."""

    def __init__(self, lines: Sequence[Line], choices: Sequence[Choice], target: Target) -> None:
        known, used = backends(), {choice.backend_id for choice in choices}
        self._lines = lines
        self._choices = choices
        self._target = target
        self._known: dict[str, Any] = {name: known.get(name) for name in used}
        self._keeping = {k for k, each in self._known.items() if getattr(each, "KEEPS", False)}

    def runner(self, number: int) -> Any:
        """Return the backend of a line."""
        return self._known[self._choices[number].backend_id]

    def keeps(self, number: int) -> bool:
        """Return whether the backend of a line writes values inside chains."""
        return self._choices[number].backend_id in self._keeping

    def takes_behind(self, number: int) -> bool:
        """Return whether a line can be an anchor with elementwise lines behind it."""
        is_one = self._lines[number].op.kind in getattr(self.runner(number), "EPILOGUES", ())
        return is_one and self._is_surrounded(number)

    def absorbs(self, number: int, last: int) -> Verdict:
        """Return whether both backends declare fusion and the one of line `last` runs the op."""
        own_id, last_id = self._choices[number].backend_id, self._choices[last].backend_id
        own, runner = self._known[own_id], self._known[last_id]
        line = self._lines[number]
        if line.op.kind not in own.FUSES or self._lines[last].op.kind not in runner.FUSES:
            return Verdict(False)
        if own.DEVICE != runner.DEVICE or not self._is_surrounded(last):
            return Verdict(False)
        if own_id == last_id:
            return Verdict(True)
        asked: Callable[..., Verdict] = getattr(runner, "absorbs", runner.supports)
        return asked(line, self._read(line), self._target)

    def has_made_operands(self, number: int) -> bool:
        """Return whether the backend of a contraction computes lines in its loads at all."""
        return hasattr(self.runner(number), "makes")

    def makes(
        self, chain: Sequence[int], reads: Sequence[int], anchor: int, number: int
    ) -> Verdict:
        """Return whether the backend of a contraction computes lines in its loads, and why.

        Args:
            chain: the lines, which make an operand.
            reads: what they read: a value of their extents, then numbers.
            anchor: the contraction.
            number: which operand the lines make.
        """
        asked: Callable[..., Verdict] = self.runner(anchor).makes
        product = self._lines[anchor]
        lines = [[self._lines[k] for k in each] for each in (chain, reads)]
        return asked(*lines, product, self._read(product), number, self._target)

    def _is_surrounded(self, number: int) -> bool:
        """Return whether the backend of a line runs elementwise lines around it."""
        asked = getattr(self.runner(number), "surrounds", None)
        line = self._lines[number]
        if asked is None or line.op.kind is Kind.ELEMENTWISE:
            return True
        return bool(asked(line, self._read(line), self._target))

    def _read(self, line: Line) -> list[Line]:
        return [self._lines[source] for source in line.inputs]
