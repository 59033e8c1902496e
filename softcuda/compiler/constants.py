"""Values known at compile time: numbers, what is filled with one, and exact ops on these alone.

An elementwise op reads a known value as a number of the graph: no buffer is filled, and nothing is
computed of which the result is known. Values that other ops read, or that are asked for, stay.

Known are only results that every backend gives bit for bit: those of + - * / and sqrt, of changes
of sign and of dtype, by the reference of the CPU. A NaN stays what its backend makes it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from softcuda.backends import REFERENCE, backends, bind
from softcuda.backends.steps import Micro, Operand, Unit
from softcuda.graph.lines import GraphBuilder, Line
from softcuda.graph.op import OPS, Kind
from softcuda.graph.params import Constant, Shape, literal, value_of
from softcuda.target import CPU

__all__ = ["Constants"]

_CONSTANT: Final = OPS["constant"]
_BROADCAST: Final = OPS["broadcast_to"]
_EXACT: Final = frozenset(("abs", "add", "cast", "copy", "div", "mul", "neg", "sqrt", "sub"))

Array = np.ndarray[Any, Any]


class Constants:
    """The lines of a builder whose elements are all one known number."""

    def __init__(self, builder: GraphBuilder) -> None:
        self._builder = builder
        self._known: dict[int, int] = {}  # line -> the constant that each of its elements is
        self._read_as: dict[int, int] = {}  # line -> the constant, or its broadcast, to read for it

    def equal_lines(self) -> list[tuple[int, int]]:
        """Return pairs (line, one that holds its number); one of the same extents comes first."""
        return [*self._read_as.items(), *self._known.items()]

    def reading(self, line: Line) -> Line:
        """Return a line that reads numbers where its operands are known, if it is elementwise."""
        if line.op.kind is not Kind.ELEMENTWISE or self._known.keys().isdisjoint(line.inputs):
            return line
        return line.over(tuple([self._number(source) for source in line.inputs]))

    def _number(self, source: int) -> int:
        """Return the line that an elementwise line reads for another one."""
        constant = self._known.get(source)
        if constant is None:
            return source
        found = self._read_as.get(source)
        if found is None:
            dims, dtype = self._builder.lines[source].dims, self._builder.lines[source].dtype
            found = constant
            if dims:
                wide = Line(_BROADCAST, (constant,), dims, dtype, Shape(dims))
                found = self._builder.append(wide)
                self._known[found] = constant
            self._read_as[source] = found
        return found

    def learn(self, number: int) -> None:
        """Note what is known of a line that was appended."""
        line = self._builder.lines[number]
        if number in self._known or line.dtype.is_complex:
            return
        if line.op is _CONSTANT:
            self._known[number] = number
        elif line.op.kind is Kind.VIEW:
            if line.inputs[0] in self._known:
                self._known[number] = self._known[line.inputs[0]]
        elif line.op.name == "full" or self._is_exact(line):
            value = self._computed(line)
            if not np.isnan(value):
                params = Constant(literal(_plain(value)), line.dtype)
                constant = self._builder.append(Line(_CONSTANT, (), (), line.dtype, params))
                self._known[number] = self._known[constant] = constant

    def _is_exact(self, line: Line) -> bool:
        if line.op.name not in _EXACT or not self._known.keys() >= set(line.inputs):
            return False
        return not any(self._builder.lines[source].dtype.is_complex for source in line.inputs)

    def _computed(self, line: Line) -> Array:
        """Return an element of a line, computed by the reference of the CPU."""
        lines = self._builder.lines
        constants = [lines[self._known[source]] for source in line.inputs]
        operands = tuple([Operand(k, 0, (), (), x.dtype) for k, x in enumerate(constants)])
        count = len(operands)
        result = Operand(count, 0, (), (), line.dtype)
        params = line.params._replace(dims=()) if line.op.name == "full" else line.params
        micro = Micro(line.op, tuple(range(count)), (), line.dtype, params)
        unit = Unit((micro,), operands, result, (count,))
        out = np.empty((), line.dtype.numpy)
        with np.errstate(all="ignore"):
            values = [np.array(value_of(x.params.value), x.dtype.numpy) for x in constants]
            (step,) = backends()[REFERENCE["cpu"]].prepare(unit, CPU)
            for function, arguments in bind(step, values, [out], None):
                function(*arguments)
        return out


def _plain(value: Array) -> bool | int | float:
    """Return a number as Python's own; exact for every real dtype."""
    if value.dtype.kind == "b":
        return bool(value)
    return int(value) if value.dtype.kind == "i" else float(value)
