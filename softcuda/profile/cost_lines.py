"""The points of [costs]: most of a measured profile, so they are checked at once and made late."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, overload

from softcuda.dtype import DTYPES
from softcuda.profile.records import CostPoint
from softcuda.profile.vocabulary import DEVICE_TYPES

__all__ = ["CostLines", "PlainCosts", "plain_costs"]

_OPENED: Final = "\n[costs]\n"
_COMMENTS: Final = re.compile(r"(?:#[^\n]*\n)*")
_TIME: Final = r"(?=[0-9.]*[1-9])[0-9]{1,15}\.[0-9]{1,15}"  # a number above 0
# What soft_init writes.
_PLAIN: Final = re.compile(
    r"^(\w+)(?:\[(\w+)\])? *\| size = ([1-9][0-9]{0,17}) = "
    rf"(?:cpu ({_TIME})(?:, cuda ({_TIME}))?|cuda ({_TIME}))$",
    re.ASCII | re.MULTILINE,
)

Key = tuple[str, str | None]
Written = tuple[int, str, str]  # line, microseconds of the CPU and of CUDA as they stand, or ""


class CostLines(Sequence[CostPoint]):
    """Points of [costs], by op and dtype; those of a file are made when they are asked for.

    Args:
        points: in their order.
        written: (op, dtype) -> size -> what stands in a file; instead of points.
    """

    __slots__ = ("_all", "_made", "_written")

    def __init__(
        self,
        points: Iterable[CostPoint] = (),
        written: dict[Key, dict[str, Written]] | None = None,
    ) -> None:
        self._written = written or {}
        self._made: dict[Key, list[CostPoint]] = {}
        self._all = None if written else tuple(points)
        for point in self._all or ():
            self._made.setdefault((point.op, point.dtype), []).append(point)

    def of(self, op: str, dtype: str | None) -> Sequence[CostPoint]:
        """Return the points of `op` (dtype None) or of `op[dtype]`, in their order."""
        made = self._made.get((op, dtype))
        if made is None:
            found = self._written.get((op, dtype), {}).items()
            made = [CostPoint(op, dtype, int(n), _times(w), w[0]) for n, w in found]
            self._made[op, dtype] = made
        return made

    def written(self) -> object:
        """Return what tells these points apart from others, in whatever way they were given."""
        return self._written or self._all

    def _points(self) -> tuple[CostPoint, ...]:
        if self._all is None:
            every = [point for key in self._written for point in self.of(*key)]
            self._all = tuple(sorted(every, key=lambda point: point.line))
        return self._all

    @overload
    def __getitem__(self, place: int) -> CostPoint: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[CostPoint]: ...

    def __getitem__(self, place: int | slice) -> CostPoint | Sequence[CostPoint]:
        return self._points()[place]

    def __iter__(self) -> Iterator[CostPoint]:
        return iter(self._points())

    def __len__(self) -> int:
        return sum(map(len, self._written.values())) if self._all is None else len(self._all)

    def __eq__(self, other: object) -> bool:
        return self._points() == tuple(other) if isinstance(other, Sequence) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._points())

    def __repr__(self) -> str:
        return repr(self._points())


def _times(written: Written) -> tuple[tuple[str, float], ...]:
    pairs = zip(DEVICE_TYPES, written[1:], strict=True)
    return tuple((device, float(time)) for device, time in pairs if time)


class PlainCosts(NamedTuple):
    """The lines of [costs] that were taken from a text, and the text with them left blank."""

    costs: CostLines
    rest: str


def plain_costs(text: str, ops: Collection[str]) -> PlainCosts | None:
    """Return the lines of [costs] where all of them stand as soft_init writes them.

    Every line is checked. None where one of them is not as it should be, or written in another
    way: then reading them one by one tells.

    Args:
        text: of a whole profile.
        ops: tokens that may have costs.
    """
    opened = text.find(_OPENED)
    head = _COMMENTS.match(text, opened + len(_OPENED))
    if opened < 0 or head is None:
        return None
    first, following = head.end(), text.find("\n[", head.end())
    last = len(text) if following < 0 else following
    while text[last - 1] == "\n" and last > first:
        last -= 1
    found = _PLAIN.findall(text, first, last)
    if not found or len(found) != text.count("\n", first, last) + 1:
        return None
    written: dict[Key, dict[str, Written]] = {}
    line = text.count("\n", 0, first) + 1
    for number, (op, dtype, size, cpu, beside, alone) in enumerate(found, start=line):
        group = written.get((op, dtype or None))
        if group is None:
            if op not in ops or (dtype and dtype not in DTYPES):
                return None
            group = written[op, dtype or None] = {}
        if size in group:
            return None
        group[size] = (number, cpu, beside or alone)
    blank = "\n" * (len(found) - 1)
    return PlainCosts(CostLines(written=written), f"{text[:first]}{blank}{text[last:]}")
