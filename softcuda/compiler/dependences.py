"""Dependences: which steps of a program must be done before which, found from the memory they use.

Two steps are ordered where one writes bytes that the other reads or writes. The arena is reused, so
writes behind reads and writes behind writes count as much as reads behind writes.

What may lie over what, now and in every later run, whatever is fed and wherever outputs are:

- arena: bytes, values and scratch alike;
- an output: its own buffer, which no caller holds, and the values that it lends itself to;
- a variable that a step writes in place: lies apart from every leaf but its own, because the
  executor copies what a caller feeds from such a buffer (executor/overlaps.py);
- a variable that a copy at the end changes: may be fed to any leaf, so the copies come behind every
  step that reads a leaf;
- leaves are only read, and may share memory;
- the status words: the first step that meets a bad value is the one that is named, so steps that
  may report keep their order.

Source of the reduction: Aho, Garey and Ullman, "The transitive reduction of a directed graph",
1972; of a graph in topological order, with the ancestors of each step as bits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from softcuda.backends.steps import Operand, Step
from softcuda.compiler.program import Place
from softcuda.graph.shapes import numel

__all__ = ["dependences", "reduced"]

_HORIZON: Final = 8192  # steps back, within which the reduction knows ancestors
_MANY: Final = 16  # readers; what else is written over them waits for the first that was
_WHOLE: Final = (0, 1)  # of a leaf, a variable or the status words, whose bytes are not told apart

Region = tuple[str, int]


class _Access(NamedTuple):
    """The bytes [start, stop) of a region that a step reads or writes."""

    region: Region
    start: int
    stop: int
    writes: bool


def dependences(
    steps: Sequence[tuple[int, Step]], places: Mapping[int, Place]
) -> dict[int, tuple[int, ...]]:
    """Return for each step those of the others that must be done right before it.

    The order is that of the module's rules, transitively reduced: a step that is reached by others
    is not named, so a chain of steps stays a chain. Takes a time near linear in the steps.

    Args:
        steps: number and step, in an order that is right; they run on the device.
        places: where each value lives; scratch of step i is numbered ~i.

    Returns:
        For each number the numbers before it, rising. A step that launches and copies nothing is
        left out.
    """
    working = [(number, step) for number, step in steps if _works(step)]
    memory: dict[Region, _Memory] = {}
    before: list[set[int]] = []
    outside = _Outside()
    for position, (number, step) in enumerate(working):
        found: set[int] = set()
        accesses = [*_accesses(number, step, places), *outside.accesses(step, places)]
        for region, start, stop, writes in sorted(accesses, key=lambda access: access.writes):
            held = memory.get(region)
            if held is None:
                held = memory[region] = _Memory()
            held.use(position, start, stop, found, writes=writes)
        found.discard(position)  # it may write what it reads
        before.append(found)
    return {
        number: tuple([working[position][0] for position in found])
        for (number, _), found in zip(working, reduced(before), strict=True)
    }


def reduced(before: Sequence[set[int]]) -> list[list[int]]:
    """Return the transitive reduction of an order, each step's predecessors rising.

    Args:
        before: for each step earlier ones that it must come after.

    Example:
        >>> reduced([set(), {0}, {0, 1}])
        [[], [0], [1]]
    """
    ancestors: list[int] = []  # bit k: the step k + 1 places before
    mask = (1 << _HORIZON) - 1
    kept: list[list[int]] = []
    for position, found in enumerate(before):
        known, own = 0, []
        for earlier in sorted(found, reverse=True):
            distance = position - earlier
            if known >> (distance - 1) & 1:
                continue
            own.append(earlier)
            if distance <= _HORIZON:
                known |= (ancestors[earlier] << distance | 1 << (distance - 1)) & mask
        ancestors.append(known)
        if position >= _HORIZON:
            ancestors[position - _HORIZON] = 0  # nobody looks there again
        kept.append(own[::-1])
    return kept


def _works(step: Step) -> bool:
    return bool(step.launches) or step.backend_id == "transfer"


def _accesses(number: int, step: Step, places: Mapping[int, Place]) -> Iterator[_Access]:
    """Yield what a step does to memory on the device."""
    for operands, writes in ((step.inputs, False), (step.outputs, True)):
        for operand in operands:
            place = places[operand.value]
            if place.device == "cpu" or not numel(operand.dims):
                continue  # numbers are never written; what lies on the host is read at the launch
            if place.space in ("leaf", "variable"):
                yield _Access(("leaf", place.at), *_WHOLE, writes)
            elif place.space == "arena":
                start, stop = _span(operand)
                yield _Access(("arena", 0), place.at + start, place.at + stop, writes)
            else:
                yield _Access(("output", place.at), *_span(operand), writes)
    if step.scratch_bytes:
        at = places[~number].at
        yield _Access(("arena", 0), at, at + step.scratch_bytes, True)
    if any(kind == "status" for launch in step.launches for kind, _ in launch.arguments):
        yield _Access(("status", 0), *_WHOLE, True)


def _span(operand: Operand) -> tuple[int, int]:
    """Return the first byte of a window, from its value's, and the one behind its last."""
    reach = [(d - 1) * s for d, s in zip(operand.dims, operand.strides, strict=True)]
    first = operand.offset + sum([r for r in reach if r < 0])
    last = operand.offset + sum([r for r in reach if r > 0])
    return first * operand.dtype.itemsize, (last + 1) * operand.dtype.itemsize


class _Outside:
    """Keeps copies to variables behind every step that reads a leaf, whichever it is.

    The first copy waits for all readers, the others for it: so they need few edges, and run side
    by side.
    """

    def __init__(self) -> None:
        self._has_copied = False

    def accesses(self, step: Step, places: Mapping[int, Place]) -> Iterator[_Access]:
        """Yield what a step does to the memory of all leaves together."""
        read = [places[operand.value] for operand in step.inputs]
        reads = any(place.space == "leaf" and place.device != "cpu" for place in read)
        if step.kernel == "d2d" and step.backend_id == "transfer":
            yield _Access(("leaves", 0), *_WHOLE, reads or not self._has_copied)
            self._has_copied = True
        elif reads:
            yield _Access(("leaves", 0), *_WHOLE, self._has_copied)


Readers = tuple[int, "Readers", int] | None  # the last one, those before it, how many


class _Memory:
    """Who wrote each byte of a region last, and who has read it since.

    Pieces are kept by their first byte; a write makes one piece of what it covers.
    """

    __slots__ = ("_readers", "_starts", "_writers")

    def __init__(self) -> None:
        self._starts = [-(1 << 62)]
        self._writers = [-1]
        self._readers: list[Readers] = [None]

    def use(self, step: int, start: int, stop: int, found: set[int], *, writes: bool) -> None:
        """Note that a step reads or writes bytes; add those that it must come after to `found`."""
        first, last = self._cut(start), self._cut(stop)
        writers, readers = self._writers, self._readers
        if not writes:
            for piece in range(first, last):
                if writers[piece] >= 0:
                    found.add(writers[piece])
                since = readers[piece]
                readers[piece] = (step, since, 1 if since is None else since[2] + 1)
            return
        many: list[Readers] = []
        for piece in range(first, last):
            since = readers[piece]
            if since is None:
                if writers[piece] >= 0:
                    found.add(writers[piece])
                continue
            if since[2] >= _MANY:
                many.append(since)
            while since is not None:
                found.add(since[0])
                since = since[1]
        self._starts[first:last] = [start]
        writers[first:last] = [step]
        readers[first:last] = [None]
        for crowd in many:  # what is left of the piece that they read
            for beside in (first - 1, first + 1):
                if beside < len(readers) and readers[beside] is crowd:
                    readers[beside] = (step, None, 1)

    def _cut(self, at: int) -> int:
        """Return the piece that begins at a byte; there is one afterwards."""
        starts = self._starts
        piece = bisect_left(starts, at)
        if piece == len(starts) or starts[piece] != at:
            starts.insert(piece, at)
            self._writers.insert(piece, self._writers[piece - 1])
            self._readers.insert(piece, self._readers[piece - 1])
        return piece
