"""What the sweep of permuted copies tries: its cases and its kernels."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from benchmarks.permutations import HPTT, ODD, PLAIN, Permutation, name_of
from softcuda.backends.cuda.permute_kinds import KINDS, TileKind

__all__ = ["BYTES", "Case", "cases", "variants"]

BYTES: Final = 512 << 20

TURNS: Final = (1, 2, 0)  # tiles a block, and as many blocks as fit at once

# (bytes of a lane, rows, columns) -> (items, blocks of a multiprocessor) through shared memory
TILED: Final[dict[tuple[int, int, int], tuple[tuple[int, int], ...]]] = {
    (16, 1, 1): ((2, 4), (4, 3)),
    (8, 2, 2): ((1, 5), (2, 4), (4, 2)),
    (8, 1, 1): ((4, 4), (8, 3)),
    (4, 4, 4): ((1, 4), (2, 3)),
    (4, 1, 4): ((2, 4), (4, 3)),
    (4, 4, 1): ((2, 4), (4, 3)),
    (4, 1, 1): ((8, 3), (16, 2)),
    (2, 8, 8): ((1, 2),),
    (2, 4, 4): ((1, 5), (2, 3), (4, 2)),
    (2, 2, 2): ((4, 4), (8, 3)),
    (2, 1, 8): ((2, 4), (4, 3)),
    (2, 8, 1): ((2, 4), (4, 3)),
    (2, 1, 1): ((8, 3), (16, 2)),
    (1, 8, 8): ((1, 3), (2, 3)),
    (1, 4, 4): ((2, 4), (4, 3)),
    (1, 1, 8): ((2, 4), (4, 3)),
    (1, 8, 1): ((2, 4), (4, 3)),
    (1, 1, 1): ((8, 3), (16, 2)),
}
# Bytes of a lane -> the same straight through registers.
DIRECT: Final = {16: ((2, 5), (4, 4)), 8: ((4, 4),), 4: ((8, 3),)}


def variants() -> tuple[TileKind, ...]:
    """Return the kernels that are tried, those of the kernel table among them."""
    made = [
        TileKind(*block, *shape, turns)
        for block, shapes in TILED.items()
        for shape in shapes
        for turns in TURNS
    ]
    made += [
        TileKind(lane_bytes, 1, 1, *shape, turns, is_direct=True)
        for lane_bytes, shapes in DIRECT.items()
        for shape in shapes
        for turns in TURNS
    ]
    tables = [kind._replace(tile_us=made[0].tile_us) for kind in KINDS if not kind.is_wide]
    return tuple(dict.fromkeys((*made, *tables)))


class Case(NamedTuple):
    """A permutation of an array of elements of some bytes."""

    group: str
    permutation: Permutation
    itemsize: int

    @property
    def name(self) -> str:
        """Its name in tables."""
        return f"{self.group} {8 * self.itemsize}-bit {name_of(self.permutation)}"

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return math.prod(self.permutation[0]) * self.itemsize


def cases() -> list[Case]:
    """Return all cases, those that matter most first."""
    hptt = [Case(f"hptt {key}", permutation, 4) for key, permutation in HPTT.items()]
    plain = [Case("plain", permutation, 4) for permutation in PLAIN]
    odd = [Case("odd", permutation, 4) for permutation in ODD]
    small = [
        Case(group, permutation, itemsize)
        for itemsize in (2, 8, 1)
        for group, permutations in (("plain", PLAIN[:1] + PLAIN[5:]), ("odd", ODD[:6] + ODD[7:8]))
        for permutation in permutations
    ]
    ranked = [
        Case(f"hptt {key}", HPTT[key], itemsize)
        for itemsize in (2, 8)
        for key in ("13", "25", "31", "43", "57")
    ]
    found = [*hptt, *plain, *odd, *small, *ranked]
    return [case for case in found if case.nbytes <= BYTES]
