"""Templates: the calls of a step as views of its operands, so that other arrays need no planning.

A backend chooses once how a step reads its operands. Where all that it makes of them are calls of
NumPy functions on views, the same views of other arrays of the same layout are made in a tenth of
the time that the choice takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np

from softcuda.graph.params import Dims

__all__ = ["CallTemplate", "calls_of", "replay_of", "template_of"]

Array = np.ndarray[Any, Any]
Call = tuple[Any, tuple[Any, ...]]

_MOST_CALLS: Final = 16  # beyond, calls that are bound once cost less than what is copied for them


class _View(NamedTuple):
    """An argument: which operand it is a view of, and of what layout; None where it is that."""

    operand: int
    layout: tuple[Dims, Any, int, Dims] | None


class CallTemplate(NamedTuple):
    """The calls of a step, their arguments as views."""

    calls: tuple[tuple[Any, tuple[_View, ...]], ...]


class Replay:
    """The calls of a program that is nothing but NumPy's own functions, on arrays of each run.

    Nothing is bound or copied: what a call takes is one of the arrays, a view of one, or memory
    that the program owns.
    """

    __slots__ = ("_calls", "_own", "_views")

    def __init__(
        self,
        calls: Sequence[tuple[Any, tuple[int, ...]]],
        views: Sequence[_View],
        own: Sequence[Array],
    ) -> None:
        self._calls = [(function, itemgetter(*places)) for function, places in calls]
        self._views = [(view.operand, *view.layout) for view in views if view.layout]
        self._own = own

    def __call__(self, *arrays: Array) -> None:
        """Make the calls on the arrays of the leaves, in order, and of the result."""
        known = [*arrays, *self._own]
        for operand, shape, dtype, offset, strides in self._views:
            known.append(np.ndarray(shape, dtype, known[operand], offset, strides))
        for function, taken in self._calls:
            function(*taken(known))


def replay_of(calls: Sequence[Call], arrays: Sequence[Array]) -> Callable[..., Any] | None:
    """Return a function that makes calls on other arrays; None where there is none.

    Args:
        calls: those of a whole program; what they name beside `arrays` is its own for good.
        arrays: those that the calls were bound to: of the leaves, in order, and of the result.

    Returns:
        f(*arrays), for arrays of the same extents that are as dense as these: NumPy's function
        itself where the program is one call with all of them as they are.
    """
    if not 0 < len(calls) <= _MOST_CALLS or not _are_apart(arrays):
        return None
    if not all(isinstance(function, np.ufunc) for function, _ in calls):
        return None
    own: list[Array] = []
    made: list[tuple[Any, list[_View]]] = []
    for function, arguments in calls:
        taken = [_view(argument, arrays) or _owned(argument, arrays, own) for argument in arguments]
        if None in taken:
            return None
        made.append((function, taken))  # type: ignore[arg-type]
    views = list(dict.fromkeys(view for _, taken in made for view in taken if view.layout))
    first = len(arrays) + len(own)

    def place(view: _View) -> int:
        return first + views.index(view) if view.layout else view.operand

    placed = [(function, tuple(map(place, taken))) for function, taken in made]
    if len(placed) == 1 and placed[0][1] == tuple(range(len(arrays))):
        only: Callable[..., Any] = placed[0][0]
        return only
    return Replay(placed, views, own)


def _owned(argument: Any, arrays: Sequence[Array], own: list[Array]) -> _View | None:
    """Return an argument that is memory of the program's own, which is noted; None if it is not."""
    if not isinstance(argument, np.ndarray):
        return None
    if any(map(partial(np.may_share_memory, argument), arrays)):
        return None
    known = [id(x) for x in own]
    if id(argument) not in known:
        own.append(argument)
        known.append(id(argument))
    return _View(len(arrays) + known.index(id(argument)), None)


def _are_apart(arrays: Sequence[Array]) -> bool:
    """Return whether it is plain whose view an argument is: dense, of NumPy's own dtypes, apart."""
    return all(
        x.flags.c_contiguous and x.size and x.dtype.isbuiltin == 1 for x in arrays
    ) and not any(np.may_share_memory(one, other) for one, other in combinations(arrays, 2))


def template_of(calls: Sequence[Call], operands: Sequence[Array]) -> CallTemplate | None:
    """Return the template of calls that were bound to operands; None where they have none.

    Args:
        calls: what a backend made.
        operands: the arrays it was given, inputs and outputs.
    """
    if not all(isinstance(function, np.ufunc) for function, _ in calls):
        return None
    if not _are_apart(operands):
        return None
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
