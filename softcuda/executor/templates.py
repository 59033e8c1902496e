"""Templates: the calls of a step as views of its operands, so that other arrays need no planning.

A backend chooses once how a step reads its operands. Where all that it makes of them are calls of
NumPy functions on views, the same views of other arrays of the same layout are made in a tenth of
the time that the choice takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from softcuda.graph.params import Dims

__all__ = ["CallTemplate", "calls_of", "template_of"]

Array = np.ndarray[Any, Any]
Call = tuple[Any, tuple[Any, ...]]


class _View(NamedTuple):
    """An argument: which operand it is a view of, and of what layout; None where it is that."""

    operand: int
    layout: tuple[Dims, Any, int, Dims] | None


class CallTemplate(NamedTuple):
    """The calls of a step, their arguments as views."""

    calls: tuple[tuple[Any, tuple[_View, ...]], ...]

    def only(self, operands: int) -> np.ufunc | None:
        """Return the function of the only call, where it takes all operands as they are."""
        whole = tuple(_View(number, None) for number in range(operands))
        if len(self.calls) != 1 or self.calls[0][1] != whole:
            return None
        function: np.ufunc = self.calls[0][0]
        return function


def template_of(calls: Sequence[Call], operands: Sequence[Array]) -> CallTemplate | None:
    """Return the template of calls that were bound to operands; None where they have none.

    Args:
        calls: what a backend made.
        operands: the arrays it was given, inputs and outputs.
    """
    if not all(isinstance(function, np.ufunc) for function, _ in calls):
        return None
    if not all(x.flags.c_contiguous and x.size and x.dtype.isbuiltin == 1 for x in operands):
        return None
    if any(np.may_share_memory(one, other) for one, other in combinations(operands, 2)):
        return None  # whose view an argument is would be a guess
    made = []
    for function, arguments in calls:
        views = tuple(_view(argument, operands) for argument in arguments)
        if None in views:
            return None
        made.append((function, views))
    return CallTemplate(tuple(made))  # type: ignore[arg-type]


def _view(argument: Any, operands: Sequence[Array]) -> _View | None:
    """Return an argument as a view of one of the operands; None where it is none."""
    if not isinstance(argument, np.ndarray):
        return None
    start = argument.ctypes.data
    for number, array in enumerate(operands):
        offset = start - array.ctypes.data
        if 0 <= offset < array.nbytes and argument.dtype == array.dtype:
            if (argument.shape, argument.strides) == (array.shape, array.strides):
                return _View(number, None)
            return _View(number, (argument.shape, array.dtype, offset, argument.strides))
    return None


def calls_of(template: CallTemplate, operands: Sequence[Array]) -> list[Call]:
    """Return the calls of a template on other operands of the same layouts."""
    return [
        (function, tuple([_seen(view, operands[view.operand]) for view in views]))
        for function, views in template.calls
    ]


def _seen(view: _View, array: Array) -> Array:
    if view.layout is None:
        return array
    shape, dtype, offset, strides = view.layout
    return np.ndarray(shape, dtype, array, offset, strides)
