"""Sweep of f32 matrix products: every tile, way to read and cut along k of each case.

    python -m benchmarks.sweeps.gemm --out FOLDER [--seconds 60] [--only TEXT,TEXT]

What cuda_tiled plans is timed first and compared, on rows that are drawn at random, with the sum in
f64. Tiles that are not cut add in the same order and must give the same bits; others are compared
as the first one was. Written are gemm_sweep.json with every time, and gemm_sweep.txt with the best
candidates of each case, the best of each tile, and its rate by how many blocks a multiprocessor
has, which calibrates the rule of gemm_tiles.py.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from benchmarks.accuracy import tolerance
from benchmarks.host_work import random_array
from benchmarks.sweeps.command import asked, parser_of, write_rows
from benchmarks.sweeps.gemm_candidates import Candidate, planned, ways
from benchmarks.sweeps.gemm_cases import BYTES, Case, cases, narrow_tiles, tiles
from benchmarks.sweeps.lab import Lab
from softcuda.backends.cuda.gemm import chosen, gemm_launches
from softcuda.backends.cuda.gemm_narrow import NarrowTile
from softcuda.backends.cuda.gemm_tiles import (
    cut_variant,
    gemm_cycles,
    part_bytes,
    tile_count,
    variants,
)
from softcuda.backends.launches import KernelLaunch, read

Array = np.ndarray[Any, Any]

SHOWN: Final = 4
NARROW_SPLITS: Final = (1, 2, 4, 8, 16, 32)
CUTS: Final = 3  # of a tile, beside the whole one
ROWS: Final = 12  # that are compared with the sum in f64
PARTS: Final = 2  # the buffer that holds the parts of cut tiles


class Search:
    """The candidates of one case and their times [microseconds]."""

    def __init__(self, lab: Lab, case: Case) -> None:
        self.lab, self.case, self.plan = lab, case, planned(case, lab.target)
        self.wide, variant = chosen(self.plan, lab.target)
        self.nbytes = 4 * case.batches * case.m * case.n
        self.times: dict[Candidate, float] = {}
        self.wrong: list[str] = []
        self.is_kept = False
        rng = np.random.default_rng(5)
        self.batch = int(rng.integers(case.batches))
        self.rows = np.unique([0, case.m - 1, *rng.integers(case.m, size=ROWS)])
        self.right: Array | None = None
        self.rule = Candidate(variant, self.wide.readings)

    def launches(self, candidate: Candidate) -> list[KernelLaunch]:
        """Return the launches of a candidate, with the parts in a buffer of their own."""
        is_narrow = isinstance(candidate.variant.tile, NarrowTile)
        plan = self.wide if is_narrow else self.plan
        made = gemm_launches(plan, candidate.variant, candidate.readings, 0)
        return [
            replace(
                launch,
                arguments=tuple(
                    read(PARTS) if a.kind == "scratch" else a for a in launch.arguments
                ),
            )
            for launch in made
        ]

    def whole(self) -> list[Candidate]:
        """Return every tile without cuts, read as planned; some also in other ways."""
        return [
            candidate
            for number, tile in enumerate(tiles(self.case))
            for candidate in ways(self.plan, tile, number == 0)
        ]

    def narrow(self) -> list[Candidate]:
        """Return every tile of a few rows, whole and cut, where the rule takes one."""
        tile, size = self.rule.variant.tile, self.wide.size
        if not isinstance(tile, NarrowTile):
            return []
        made = []
        for one in narrow_tiles(tile):
            count = tile_count(size, one)
            found = [cut_variant(size, one, 0 if s > 1 else count, s) for s in NARROW_SPLITS]
            made += [Candidate(variant, self.wide.readings) for variant in dict.fromkeys(found)]
        return made

    def cut(self, candidate: Candidate) -> Iterator[Candidate]:
        """Yield the cuts of a tile from which the rule expects most."""
        units, size = self.lab.target.multiprocessors, self.plan.size
        (launch, *_) = self.launches(candidate)
        resident = self.lab.resident(launch.spec) // units
        given = candidate.variant.tile
        if isinstance(given, NarrowTile):
            return
        tile = replace(given, resident=resident)
        made = [
            variant
            for variant in variants(size, tile, units, 4)
            if variant.splits > 1 and part_bytes(size, variant, 4) <= BYTES
        ]
        made.sort(key=lambda variant: gemm_cycles(size, variant, units, 4))
        for variant in made[: 1 if self.case.is_large else CUTS]:
            yield candidate._replace(variant=variant)

    def run(self, numbers: Array) -> None:
        """Time the rule's choice, all tiles, then cuts of those that are not hopeless."""
        self.time(self.rule, numbers)
        whole = self.whole()
        for candidate in (*whole, *self.narrow()):
            self.time(candidate, numbers)
        for candidate in whole:
            if candidate.way != "any":
                for cut in self.cut(candidate):
                    self.time(cut, numbers)

    def time(self, candidate: Candidate, numbers: Array) -> None:
        """Compare what a candidate writes, then time it."""
        if candidate in self.times or self.lab.left_s < 0:
            return
        submits = [self.lab.bound(launch) for launch in self.launches(candidate)]

        def submit() -> None:
            for one in submits:
                one()

        tile = candidate.variant.tile
        is_cut = candidate.variant.splits > 1 or isinstance(tile, NarrowTile)
        is_same = self.lab.is_right(submit, self.nbytes)
        if is_cut or not self.is_kept:
            is_same = self.is_near(numbers)
        if not is_same:
            self.wrong.append(candidate.shown)
            self.times[candidate] = math.inf
            return
        if not is_cut and not self.is_kept:
            self.lab.keep(self.nbytes)
            self.is_kept = True
        best = min(self.times.values(), default=math.inf)
        self.times[candidate] = self.lab.microseconds(submit, best)

    def is_near(self, numbers: Array) -> bool:
        """Return whether rows of the result are those of the sum in f64."""
        if self.right is None:
            self.right = self.sums(numbers)
        n = self.case.n
        found = [
            self.lab.fetch(4 * n, 4 * n * (self.batch * self.case.m + int(row))).view(np.float32)
            for row in self.rows
        ]
        error = np.linalg.norm(np.array(found) - self.right) / np.linalg.norm(self.right)
        return bool(error <= tolerance("f32", summed=self.case.k))

    def sums(self, numbers: Array) -> Array:
        """Return the sum in f64 of the rows that are compared."""
        b, m, n, k = self.case[:4]
        first, second = numbers[: b * m * k], numbers[::-1][: b * k * n]
        x = first.reshape((b, k, m) if self.case.is_a_turned else (b, m, k))[self.batch]
        y = second.reshape((b, n, k) if self.case.is_b_turned else (b, k, n))[self.batch]
        rows = x[:, self.rows].T if self.case.is_a_turned else x[self.rows]
        columns = y.T if self.case.is_b_turned else y
        return np.asarray(rows.astype(np.float64) @ columns.astype(np.float64))


def row_of(search: Search) -> dict[str, Any]:
    """Return what is written of a case."""
    case, times = search.case, search.times
    return {
        "case": case.name,
        "flops": case.flops,
        "rule": search.rule.shown,
        "wrong": search.wrong,
        "times": [
            {
                "tile": one.tile,
                "shown": one.shown,
                "readings": [way.value for way in one.readings],
                "whole": one.variant.whole,
                "splits": one.variant.splits,
                "tiles": tile_count(search.plan.size, one.variant.tile),
                "us": us,
                "tflops": case.flops / us * 1e-6,
            }
            for one, us in sorted(times.items(), key=lambda item: item[1])
        ],
    }


def lines(row: dict[str, Any]) -> list[str]:
    """Return the rule and the best candidates of a case."""
    times = row["times"]
    shown = [one for one in times if one["shown"] == row["rule"]][:1] + times[:SHOWN]
    wrong = f"  WRONG {len(row['wrong'])}: {row['wrong'][:2]}" if row["wrong"] else ""
    return [f"{row['case']}{wrong}"] + [
        f"    {one['us']:10.2f} us  {one['tflops']:6.2f} TFLOP/s  {one['shown']}" for one in shown
    ]


def by_tile(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the rate of every tile without cuts in every case that tried it [TFLOP/s]."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for row in rows:
        for one in row["times"]:
            if one["splits"] == 1:
                found[one["tile"]].setdefault(row["case"].partition("x")[2], one["tflops"])
    return [
        f"{tile:32} "
        + "  ".join(f"{name.split('x', 1)[1]}: {rate:.1f}" for name, rate in of.items())
        for tile, of in sorted(found.items())
    ]


def main() -> None:
    """Run the sweep."""
    options = asked(parser_of(__doc__, 60.0, "names"))
    lab = Lab(PARTS + 1, BYTES, options.seconds)
    numbers = random_array(1, BYTES // 4)
    lab.upload(numbers, lab.inputs[0])
    lab.upload(numbers[::-1], lab.inputs[1])
    wanted = options.only.split(",")
    given = [case for case in cases() if any(text in case.name for text in wanted)]
    searches = [Search(lab, case) for case in given]
    specs = [
        launch.spec
        for search in searches
        for candidate in (search.rule, *search.whole(), *search.narrow())
        for launch in search.launches(candidate)
    ]
    lab.prepare(list(dict.fromkeys(specs)))
    print(f"{len(searches)} cases, {len(set(specs))} kernels, {lab.left_s:.0f} s left", flush=True)
    rows = []
    for search in searches:
        if lab.left_s < 0:
            break
        search.run(numbers)
        rows.append(row_of(search))
    told = [line for row in rows for line in lines(row)]
    text = "\n".join([*told, "", *by_tile(rows), f"{lab.left_s:.0f} s left"])
    write_rows(options.out, "gemm", rows, text)
    print(text)


if __name__ == "__main__":
    main()
