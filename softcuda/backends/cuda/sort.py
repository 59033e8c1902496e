"""Launches of sort.cu: entries (key, position) in the order of their keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from softcuda.backends.cuda.planned import Launches, aligned, launch_in_row
from softcuda.backends.launches import KernelLaunch, i32, i64, scratch
from softcuda.kernelspec import KernelSpec
from softcuda.target import Target

__all__ = ["INDEX_BYTES", "SORT_KERNELS", "Sorting", "entries_bytes", "plan_sort"]

INDEX_BYTES: Final = {"i32": 4, "i64": 8}  # of a number; an entry is two

_THREADS: Final = 256
_SMALL: Final = 4096  # entries that one block sorts
_SMALL_THREADS: Final = 512
_DIGIT_BITS: Final = 8
_DIGITS: Final = 1 << _DIGIT_BITS
_TILE_BYTES: Final = 16 << 10  # of entries that a block moves at a time
_BLOCKS_EACH: Final = 4  # blocks a multiprocessor
_MULTIPROCESSORS: Final = 128  # where the target does not say


def _row(family: str, index: str) -> KernelSpec:
    threads = _SMALL_THREADS if family == "sort_small" else _THREADS
    word = index.replace("i", "u")
    dtypes = (index,)
    return KernelSpec(family, index, "sort.cu", f"{family}<{word}>", dtypes, threads)


SORT_KERNELS: Final[tuple[KernelSpec, ...]] = tuple(
    _row(family, index)
    for family in ("sort_small", "sort_count", "sort_offsets", "sort_move")
    for index in INDEX_BYTES
)
_SPECS: Final = {(spec.family, spec.variant): spec for spec in SORT_KERNELS}


class Sorting(NamedTuple):
    """How entries are sorted.

    Attributes:
        launches: what sorts; none where the order is that of the positions.
        place: where the sorted entries are in the scratch [bytes].
        end: where what it takes of the scratch ends [bytes].
    """

    launches: Launches
    place: int
    end: int


class _Pass(NamedTuple):
    """Where a pass of 8 bits finds what it needs in the scratch [bytes]."""

    source: int
    sorted: int
    counts: int
    totals: int


def entries_bytes(count: int, index: str) -> int:
    """Return the bytes of entries in scratch, whose numbers are of INDEX "i32" or "i64"."""
    return aligned(count * 2 * INDEX_BYTES[index])


def plan_sort(count: int, limit: int, index: str, place: int, target: Target) -> Sorting:
    """Return the launches that sort entries by key; those of one key keep their order.

    Args:
        count: entries, at least 1, whose positions are 0, 1, 2, ...
        limit: above every key; at most 2^52.
        index: "i32" or "i64", the type that holds keys and positions.
        place: where the entries are in the scratch [bytes].
        target: its multiprocessors decide on the number of blocks, which changes no result.
    """
    end = place + entries_bytes(count, index)
    key_bits = (limit - 1).bit_length()
    if not key_bits or count == 1:
        return Sorting((), place, end)
    if count <= _SMALL:
        size = 1 << (count - 1).bit_length()
        arguments = (scratch(place), i32(count), i32(size))
        return Sorting((launch_in_row(_SPECS["sort_small", index], 1, arguments),), place, end)
    tile = _TILE_BYTES // (2 * INDEX_BYTES[index])
    tiles = -(-count // tile)
    stretch = tile * -(-tiles // ((target.multiprocessors or _MULTIPROCESSORS) * _BLOCKS_EACH))
    stretches = -(-count // stretch)
    counts = end + entries_bytes(count, index)
    totals = counts + aligned(_DIGITS * stretches * INDEX_BYTES[index])
    pair = (place, end)
    launches: list[KernelLaunch] = []
    shifts = range(0, key_bits, _DIGIT_BITS)
    for number, shift in enumerate(shifts):
        places = _Pass(pair[number % 2], pair[1 - number % 2], counts, totals)
        launches += _pass(places, count, stretch, shift, index)
    return Sorting(
        tuple(launches), pair[len(shifts) % 2], totals + aligned(_DIGITS * INDEX_BYTES[index])
    )


def _pass(
    places: _Pass, count: int, stretch: int, shift: int, index: str
) -> Iterator[KernelLaunch]:
    """Yield the launches that sort by the 8 bits from `shift` on."""
    stretches = -(-count // stretch)
    source, counts, totals = map(scratch, (places.source, places.counts, places.totals))
    numbers = (i64(count), i64(stretch), i32(shift))
    spread = (counts, totals, i32(stretches))
    moved = (scratch(places.sorted), source, counts, totals, *numbers)
    yield launch_in_row(_SPECS["sort_count", index], stretches, (counts, source, *numbers))
    yield launch_in_row(_SPECS["sort_offsets", index], _DIGITS, spread)
    yield launch_in_row(_SPECS["sort_move", index], stretches, moved)
