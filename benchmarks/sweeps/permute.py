"""Sweep of permuted copies: every kernel, tile, walk and grid that fits each case.

    python -m benchmarks.sweeps.permute --out FOLDER [--seconds 90] [--only TEXT] [--rule]

Each case is searched in three rounds: kernels and grids on the tile of the rule, tiles and walks on
the best kernel, then the best of both against each other. What the rule of cuda_permute chooses is
timed beside them; with --rule it is timed alone. Every candidate is compared bit by bit with
NumPy's result before it is timed. Written are permute_sweep.json with every time, which
permute_replay.py reads, and permute_sweep.txt with a line a case.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from benchmarks.sweeps.command import asked, parser_of, write_rows
from benchmarks.sweeps.lab import Lab
from benchmarks.sweeps.permute_cases import BYTES, Case, cases, variants
from softcuda.backends.cuda.permute import Choice, Copy, Side, cheapest, choice_of, launch_of
from softcuda.backends.cuda.permute_costs import walked
from softcuda.backends.cuda.permute_kinds import TileKind
from softcuda.backends.launches import read
from softcuda.graph.shapes import contiguous_strides

Array = np.ndarray[Any, Any]

PENDING: Final = 12  # results of NumPy that wait for their turn
UNSIGNED: Final = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass
class Search:
    """The candidates of one case and their times [microseconds]."""

    lab: Lab
    case: Case
    copy: Copy
    times: dict[Choice, float] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def time(self, candidates: Sequence[Choice]) -> None:
        """Time candidates that were not timed yet."""
        for candidate in candidates:
            if candidate not in self.times and self.lab.left_s >= 0:
                best = min(self.times.values(), default=math.inf)
                launch = launch_of(*candidate, read(0), 0, self.lab.target)
                us, said = self.lab.timed(launch, self.case.nbytes, best)
                self.times[candidate] = us
                if said:
                    self.wrong.append(f"{shown(candidate)}: {said}")

    def best(self, count: int) -> list[Choice]:
        """Return the fastest candidates."""
        return sorted(self.times, key=lambda candidate: self.times[candidate])[:count]

    def run(self, kinds: Sequence[TileKind]) -> None:
        """Search: kernels, then tiles, then both."""
        fits = {kind: tiles for kind in kinds if (tiles := self.copy.tiled(kind))}
        widest = max(kind.lane_bytes for kind in fits)
        fits = {kind: tiles for kind, tiles in fits.items() if kind.lane_bytes == widest}
        self.time(
            [
                cheapest([Choice(kind, tiled) for tiled in tiles], self.lab.target)
                for kind, tiles in fits.items()
            ]
        )
        for first in self.best(2):
            every = (Choice(first.kind, made) for t in fits[first.kind] for made in walked(t))
            self.time(list(every))
        shapes = dict.fromkeys((top.tiled.parts, top.tiled.walk) for top in self.best(6))
        self.time(
            [
                Choice(kind, tiled.in_walk(walk))
                for kind in sorted(fits, key=self.fastest)[:12]
                for parts, walk in list(shapes)[:3]
                for tiled in fits[kind]
                if tiled.parts == parts
            ]
        )

    def fastest(self, kind: TileKind) -> float:
        """Return the least time of a kernel."""
        return min((us for c, us in self.times.items() if c.kind == kind), default=math.inf)


def shown(choice: Choice) -> str:
    """Return a candidate in one line: kernel, blocks and turns, tile, order of the tiles."""
    kind, tiled = choice
    parts = "x".join(map(str, tiled.parts))
    return f"{kind.spec.id} b{kind.blocks} t{kind.turns} {parts} {tiled.walk.value}"


def transposed(case: Case, source: Array) -> Array:
    """Return what is right: NumPy's result."""
    shape, axes = case.permutation
    view = source[: case.nbytes].view(UNSIGNED[case.itemsize]).reshape(shape)
    return np.ascontiguousarray(view.transpose(axes))


def results(todo: Sequence[Case], source: Array) -> Iterator[tuple[Case, Array]]:
    """Yield the cases with what is right, computed in threads ahead of their turn."""
    with ThreadPoolExecutor() as pool:
        waiting: list[Future[Array]] = []
        for number, case in enumerate(todo):
            while len(waiting) < min(number + PENDING, len(todo)):
                waiting.append(pool.submit(transposed, todo[len(waiting)], source))
            yield case, waiting[number].result()
            waiting[number] = Future()  # frees the array


def copy_of(case: Case) -> Copy:
    """Return the copy of a case."""
    shape, axes = case.permutation
    strides = contiguous_strides(shape)
    dims = tuple(shape[axis] for axis in axes)
    given = Side(0, tuple(strides[axis] for axis in axes))
    return Copy.of(dims, given, Side(0, contiguous_strides(dims)), case.itemsize)


def measured(lab: Lab, case: Case, kinds: Sequence[TileKind]) -> dict[str, Any]:
    """Return the row of a case: the rule's time, the best one, all others."""
    search = Search(lab, case, copy_of(case))
    rule = choice_of(search.copy, lab.target)
    search.time([rule])
    rule_us = search.times[rule]
    if kinds:
        search.run(kinds)
    best = search.best(1)[0]
    return {
        "case": case.name,
        "group": case.group.partition(" ")[0] + f" {8 * case.itemsize}",
        "nbytes": 2 * case.nbytes,
        "copy_us": lab.copy_microseconds(case.nbytes),
        "rule": shown(rule),
        "rule_us": rule_us,
        "best": shown(best),
        "best_us": search.times[best],
        "wrong": search.wrong,
        "all": {shown(c): round(us, 2) for c, us in search.times.items()},
    }


def line(row: dict[str, Any]) -> str:
    """Return a row of the table."""
    rates = [row["nbytes"] / row[key] * 1e-6 for key in ("rule_us", "best_us", "copy_us")]
    wrong = f"  WRONG {len(row['wrong'])}: {row['wrong'][:3]}" if row["wrong"] else ""
    shares = "  ".join(f"{rate:5.2f}" for rate in rates)
    return f"{row['case']:58} {shares}  {row['rule']:56} | {row['best']}{wrong}"


def summary(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the geometric means of each group [TB/s]."""
    said = []
    for group in dict.fromkeys(row["group"] for row in rows):
        every = [row for row in rows if row["group"] == group]
        mine = [row for row in every if math.isfinite(row["rule_us"] + row["best_us"])]
        if not mine:
            said.append(f"{group:12} {len(every):3} cases, none right")
            continue
        means = [
            math.exp(sum(math.log(row["nbytes"] / row[key] * 1e-6) for row in mine) / len(mine))
            for key in ("rule_us", "best_us", "copy_us")
        ]
        shares = "  ".join(f"{mean:5.3f}" for mean in means)
        said.append(f"{group:12} {len(mine):3} of {len(every)} cases: {shares}")
    return said


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweep.

    Args:
        arguments: of the command line; those of the process if not given.
    """
    parser = parser_of(__doc__, 90.0, "names")
    parser.add_argument("--rule", action="store_true", help="the choices of the rule alone")
    options = asked(parser, arguments)
    todo = [case for case in cases() if options.only in case.name]
    lab, kinds = Lab(1, BYTES, options.seconds), () if options.rule else variants()
    source = np.random.default_rng(7).integers(0, 256, BYTES, np.uint8)
    lab.upload(source, lab.inputs[0])
    rules = [choice_of(copy_of(case), lab.target).kind for case in todo]
    lab.prepare(list(dict.fromkeys(kind.spec for kind in (*kinds, *rules))))
    print(f"{len(todo)} cases, {len(kinds)} kernels, {lab.left_s:.0f} s left", flush=True)
    head = f"{'case':58} rule   best   copy [TB/s]"
    rows, lines = [], [head]
    for case, right in results(todo, source):
        if lab.left_s < 0:
            break
        lab.upload(right, lab.right)
        rows.append(measured(lab, case, kinds))
        lines.append(line(rows[-1]))
    text = "\n".join([*lines, *summary(rows), f"{lab.left_s:.0f} s left"])
    write_rows(options.out, "permute", rows, text)
    print(text)


if __name__ == "__main__":
    main()
