"""Templates: calls as views of arrays, so that other arrays of the same layouts need no planning.

A backend chooses once how a step reads its operands. Where all that it makes of them are calls of
functions that know nothing but their arguments, the same views of other arrays are made in a tenth
of the time that the choice takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np

from softcuda.backends.host.stateless import is_stateless
from softcuda.graph.params import Dims

__all__ = ["CallTemplate", "template_of"]

Array = np.ndarray[Any, Any]
Call = tuple[Any, tuple[Any, ...]]

_CONSTANT: Final = (bool, int, float, complex, str, slice, type, type(None), np.dtype, np.generic)
_MOST_OWN_BYTES: Final = 1 << 19


class _View(NamedTuple):
    """An argument: which array it is a view of, and of what layout; None where it is that."""

    operand: int
    layout: tuple[Dims, Any, int, Dims] | None


class CallTemplate:
    """Calls on arrays that are told each time.

    What a call takes is one of the arrays, a view of one, or the template's own: memory that is
    nobody else's, a number, an axis.

    Attributes:
        only: the function, where it is one call of it with the arrays as they are; else None.
    """

    __slots__ = ("_calls", "_own", "_views", "only")

    def __init__(
        self, calls: Sequence[tuple[Any, tuple[_View, ...]]], arrays: int, own: Sequence[Any]
    ) -> None:
        views = list(dict.fromkeys(view for _, taken in calls for view in taken if view.layout))
        place = {view: arrays + len(own) + at for at, view in enumerate(views)}
        places = [
            (function, tuple([place.get(view, view.operand) for view in taken]))
            for function, taken in calls
        ]
        self._calls = [(function, itemgetter(*taken)) for function, taken in places]
        self._views = [(view.operand, *view.layout) for view in views if view.layout]
        self._own = own
        is_only = len(places) == 1 and places[0][1] == tuple(range(arrays))
        self.only: Callable[..., Any] | None = places[0][0] if is_only else None

    def __call__(self, *arrays: Array) -> None:
        """Make the calls on arrays of the same extents that are as dense as the first ones."""
        known = self._known(arrays)
        for function, taken in self._calls:
            function(*taken(known))

    def calls_on(self, arrays: Sequence[Array]) -> list[Call]:
        """Return the calls on such arrays."""
        known = self._known(arrays)
        return [(function, taken(known)) for function, taken in self._calls]

    def _known(self, arrays: Sequence[Array]) -> list[Any]:
        known = [*arrays, *self._own]
        for operand, shape, dtype, offset, strides in self._views:
            known.append(np.ndarray(shape, dtype, known[operand], offset, strides))
        return known


def template_of(calls: Sequence[Call], arrays: Sequence[Array]) -> CallTemplate | None:
    """Return the template of calls that were bound to arrays; None where they have none.

    Args:
        calls: what backends made; memory that they name beside `arrays` is theirs for good.
        arrays: all that will be others: operands, results, scratch.
    """
    if not all(x.flags.c_contiguous and x.size and x.dtype.isbuiltin == 1 for x in arrays):
        return None
    if any(np.may_share_memory(one, other) for one, other in combinations(arrays, 2)):
        return None  # whose view an argument is would be a guess
    own: list[Any] = []
    made: list[tuple[Any, tuple[_View, ...]]] = []
    for function, arguments in calls:
        if not is_stateless(function) or len(arguments) < 2:
            return None
        taken = tuple([_taken(argument, arrays, own) for argument in arguments])
        if None in taken:
            return None
        made.append((function, taken))  # type: ignore[arg-type]
    if sum(x.nbytes for x in own if isinstance(x, np.ndarray)) > _MOST_OWN_BYTES:
        return None
    return CallTemplate(made, len(arrays), own)


def _taken(argument: Any, arrays: Sequence[Array], own: list[Any]) -> _View | None:
    """Return how an argument is found: in one of the arrays, or as what is noted as own."""
    if isinstance(argument, np.ndarray):
        start = argument.__array_interface__["data"][0]
        for number, array in enumerate(arrays):
            offset = start - array.__array_interface__["data"][0]
            if 0 <= offset < array.nbytes:
                layout = (argument.shape, argument.dtype, offset, argument.strides)
                is_whole = layout == (array.shape, array.dtype, 0, array.strides)
                return _View(number, None if is_whole else layout)
        if any(map(partial(np.may_share_memory, argument), arrays)):
            return None
    elif not _is_constant(argument):
        return None
    if not any(other is argument for other in own):
        own.append(argument)
    number = next(at for at, other in enumerate(own) if other is argument)
    return _View(len(arrays) + number, None)


def _is_constant(argument: Any) -> bool:
    if isinstance(argument, tuple):
        return all(map(_is_constant, argument))
    return isinstance(argument, _CONSTANT) or is_stateless(argument)
