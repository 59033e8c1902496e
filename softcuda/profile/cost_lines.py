"""The points of [costs]: most of a measured profile, so they are checked at once and made late."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, overload

from softcuda.dtype import DTYPES
from softcuda.profile.records import CostPoint

__all__ = ["CostLines", "plain_costs"]

_TIME: Final = r"[0-9]{1,15}+\.[0-9]{1,15}+"
_ZEROS: Final = (" 0.0", " 00")  # one of them stands where a time is 0
_TIMES: Final = rf"[1-9][0-9]{{0,17}}+ = (?:cpu {_TIME}(?:, cuda {_TIME})?|cuda {_TIME})"
# What soft_init writes: the lines of an op one below the other.
_BLOCK: Final = re.compile(
    rf"((\w+)(?:\[(\w+)\])? *\| size = ){_TIMES}(?:\n\1{_TIMES})*+(?:\n|\Z)", re.ASCII
)
_SIZE: Final = re.compile(r"size = ([0-9]+)")
_LINE: Final = re.compile(r"size = ([0-9]+) = (.*)")

Key = tuple[str, str | None]
Written = tuple[int, str]  # the number of the first line, and the lines as they stand


class CostLines(Sequence[CostPoint]):
    """Points of [costs], by op and dtype; those of a file are made when they are asked for.

    Args:
        points: in their order.
        written: (op, dtype) -> what stands in a file; instead of points.
    """

    __slots__ = ("_all", "_made", "_written")

    def __init__(
        self,
        points: Iterable[CostPoint] = (),
        written: dict[Key, Written] | None = None,
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
            number, lines = self._written.get((op, dtype), (0, ""))
            made = [
                CostPoint(op, dtype, int(size), _times(times), line)
                for line, (size, times) in enumerate(_LINE.findall(lines), start=number)
            ]
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
        if self._all is None:
            return sum(lines.count("\n") + 1 for _, lines in self._written.values())
        return len(self._all)

    def __eq__(self, other: object) -> bool:
        return self._points() == tuple(other) if isinstance(other, Sequence) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._points())

    def __repr__(self) -> str:
        return repr(self._points())


def _times(text: str) -> tuple[tuple[str, float], ...]:
    pairs = (part.split(" ") for part in text.split(", "))
    return tuple((device, float(time)) for device, time in pairs)


def plain_costs(text: str, number: int, count: int, ops: Collection[str]) -> CostLines | None:
    """Return the points of [costs] where all of them stand as soft_init writes them.

    Every line is checked, but points are made when they are asked for. None where one of them is
    not as it should be, or written in another way: then reading them one by one tells.

    Args:
        text: the lines of [costs].
        number: that of the first line.
        count: how many lines there are.
        ops: tokens that may have costs.
    """
    if any(zero in text for zero in _ZEROS):
        return None
    written: dict[Key, Written] = {}
    place, line = 0, number
    while place < len(text):
        block = _BLOCK.match(text, place)
        if block is None:
            return None
        _, op, dtype = block.groups()
        key = (op, dtype)
        if key in written or op not in ops or (dtype and dtype not in DTYPES):
            return None
        lines = block[0].rstrip("\n")
        sizes = _SIZE.findall(lines)
        if len(set(sizes)) != len(sizes):
            return None
        written[key] = (line, lines)
        line += len(sizes)
        place = block.end()
    return CostLines(written=written) if line == number + count else None
