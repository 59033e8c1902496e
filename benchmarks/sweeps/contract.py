"""Sweep of f32 contractions: every box and cut along the depth of each case, beside cuda_tiled.

    python -m benchmarks.sweeps.contract --out FOLDER [--seconds 80] [--only TEXT]

What cuda_contract plans is timed first and compared, on elements that are drawn at random, with the
sum in f64; then every box of the rule, boxes beside it, and what cuda_tiled plans. Choices that are
not cut add in the same order and must give the same bits; others are compared as the first one was.
The floor is max(flops / 51e12, bytes / 4.25e12). Written are contract_sweep.json with every time,
and contract_sweep.txt: a line a case, the best choices of each, and what the rule of
contract_rule.py expected of them, which calibrates it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

import softcuda as sc
from benchmarks.accuracy import tolerance
from benchmarks.host_work import random_array
from benchmarks.sweeps.command import asked, parser_of, write_rows
from benchmarks.sweeps.contract_cases import (
    Contracted,
    boxes_of,
    contractions,
    cuts_of,
    shown,
    starts,
    unit_of,
)
from benchmarks.sweeps.lab import Lab
from softcuda.backends import cuda_contract, cuda_tiled
from softcuda.backends.cuda.contract import contract_launches, planned_contraction
from softcuda.backends.cuda.contract_choice import BoxChoice, cut_bytes
from softcuda.backends.cuda.contract_plan import plan_contraction
from softcuda.backends.cuda.contract_rule import choose, contract_us, shapes
from softcuda.backends.cuda.contract_soonest import soonest
from softcuda.backends.cuda.contract_tiles import CONTRACT_TILES
from softcuda.backends.cuda.gemm_packed import packed_pair, packed_us, packings
from softcuda.backends.cuda.products import prepared_product
from softcuda.backends.launches import KernelLaunch
from softcuda.dtype import f32
from softcuda.errors import SoftCudaError

Array = np.ndarray[Any, Any]

BYTES: Final = 480 << 20  # of a buffer: the largest operand of the published set
PARTS: Final = 2  # the buffer that holds the parts of cut tiles
SAMPLES: Final = 40  # elements that are compared with the sum in f64
SHOWN: Final = 9
SMALL: Final = 4 << 20  # bytes of an operand that is copied in front of boxes
HOPELESS: Final = 1.6  # times what the rule expects of its choice: not tried


class Candidate(NamedTuple):
    """A way to compute a case: what tables call it, its launches, what the rule expects [us]."""

    name: str
    launches: tuple[KernelLaunch, ...]
    expected_us: float
    is_cut: bool


class Search:
    """The candidates of one case and their times [microseconds]."""

    def __init__(self, lab: Lab, case: Contracted, boxes: str) -> None:
        self.lab, self.case = lab, case
        self.units = lab.target.multiprocessors
        _, self.problem = planned_contraction(unit_of(case))
        self.nbytes = 4 * math.prod(case.dims(2))
        self.times: dict[str, float] = {}
        self.wrong: list[str] = []
        self.is_kept = False
        rule = choose(self.problem, self.units)
        made = [rule, *starts(self.problem, rule, self.units)]
        for tile in CONTRACT_TILES[f32]:
            made += boxes_of(self.problem, tile, self.units)
            made += [
                one
                for one in cuts_of(self.problem, tile, self.units)
                if cut_bytes(self.problem, one) <= BYTES
            ][:1]
        limit_us = HOPELESS * contract_us(self.problem, rule, self.units)
        tried = filter(lambda one: one.expected_us < limit_us, map(self.candidate, made))
        behind = [one for one in self.behind_copies() if one.expected_us < limit_us]
        found = [self.planned(), *tried, *behind, self.tiled()]
        found[1:] = [one for one in found[1:] if re.search(boxes, f"{case.name} {one.name}")]
        self.candidates = list({one.name: one for one in found}.values())
        self.rule = found[0].name

    def candidate(self, choice: BoxChoice) -> Candidate:
        """Return a choice as a candidate."""
        launches = contract_launches(self.problem, choice, self.units, 0)
        expected = contract_us(self.problem, choice, self.units)
        return Candidate(shown(choice), launches, expected, choice.splits > 1)

    def behind_copies(self) -> Iterator[Candidate]:
        """Yield boxes of copied operands, and products of matrices behind copies."""
        unit, target = unit_of(self.case), self.lab.target
        nbytes = [4 * math.prod(self.case.dims(operand)) for operand in (0, 1)]
        made = prepared_product("cuda_contract", unit)
        for one in packings(unit, made, target):
            launches, used = one.planned()
            if used <= BYTES:
                name = "+".join(launch.spec.id for launch in launches)
                expected = packed_us(one.cycles) + one.copies_us
                yield Candidate(f"packed {name}", launches, expected, True)
        for copied in ((0,), (1,), (0, 1)):
            if max(nbytes[operand] for operand in copied) > SMALL:
                continue
            pair, _ = packed_pair(unit, made.pair, copied, target)
            problem = plan_contraction(made._replace(pair=pair))
            for tile in CONTRACT_TILES[f32]:
                for choice in shapes(problem, tile, self.units)[:1]:
                    launches = contract_launches(problem, choice, self.units, 0)
                    expected = contract_us(problem, choice, self.units) + 3 * len(copied)
                    name = f"packed {''.join(map(str, copied))} {shown(choice)}"
                    yield Candidate(name, (*pair.launches, *launches), expected, True)

    def planned(self) -> Candidate:
        """Return what cuda_contract makes of the case."""
        unit, target = unit_of(self.case), self.lab.target
        (step,) = cuda_contract.prepare(unit, target)
        found = soonest(unit, target)
        name = "+".join(launch.spec.id for launch in step.launches)
        expected = math.nan if found is None else found.expected_us
        return Candidate(f"planned {name}", step.launches, expected, True)

    def tiled(self) -> Candidate:
        """Return what cuda_tiled makes of the case."""
        (step,) = cuda_tiled.prepare(unit_of(self.case), self.lab.target)
        return Candidate(f"cuda_tiled {step.kernel}", step.launches, math.nan, True)

    def run(self, numbers: Array) -> None:
        """Time the rule's choice first, then the others."""
        expected = self.samples(numbers)
        for candidate in self.candidates:
            if self.lab.left_s < 0:
                return
            try:
                self.time(candidate, expected)
            except SoftCudaError as error:
                self.wrong.append(f"{candidate.name}: {error}")

    def time(self, candidate: Candidate, expected: tuple[Array, Array]) -> None:
        """Compare what a candidate writes, then time it."""
        submit = self.lab.in_row(candidate.launches, self.lab.inputs[PARTS])
        is_same = self.lab.is_right(submit, self.nbytes)
        if candidate.is_cut or not self.is_kept:
            is_same = self.is_near(expected)
        if not is_same:
            self.wrong.append(candidate.name)
            return
        if not candidate.is_cut and not self.is_kept:
            self.lab.keep(self.nbytes)
            self.is_kept = True
        best = min(self.times.values(), default=math.inf)
        self.times[candidate.name] = self.lab.microseconds(submit, best)

    def samples(self, numbers: Array) -> tuple[Array, Array]:
        """Return places of the result, flat, and the sums in f64 there."""
        case = self.case
        a, b, out = case.labels
        x = numbers[: math.prod(case.dims(0))].reshape(case.dims(0))
        y = numbers[::-1][: math.prod(case.dims(1))].reshape(case.dims(1))
        count = math.prod(case.dims(2))
        drawn = np.random.default_rng(5).integers(count, size=SAMPLES)
        places = np.unique([0, count - 1, *drawn])
        summed = "".join(label for label in a if label not in out)
        sums = []
        for place in places:
            at = dict(zip(out, np.unravel_index(place, case.dims(2)), strict=True))
            left = x[tuple(at.get(label, slice(None)) for label in a)].astype(np.float64)
            right = y[tuple(at.get(label, slice(None)) for label in b)].astype(np.float64)
            own = ["".join(label for label in labels if label in summed) for labels in (a, b)]
            sums.append(np.einsum(f"{own[0]},{own[1]}->", left, right))
        return places, np.array(sums)

    def is_near(self, expected: tuple[Array, Array]) -> bool:
        """Return whether the drawn elements of the result are those of the sum in f64."""
        places, sums = expected
        found = [self.lab.fetch(4, 4 * int(place)).view(np.float32)[0] for place in places]
        terms = self.problem.depth.count
        error = np.linalg.norm(np.array(found) - sums) / np.linalg.norm(sums)
        return bool(error <= tolerance("f32", summed=terms))


def row_of(search: Search) -> dict[str, Any]:
    """Return what is written of a case."""
    case, names = search.case, {one.name: one for one in search.candidates}
    return {
        "case": case.name,
        "equation": case.equation,
        "flops": case.flops,
        "nbytes": case.nbytes,
        "floor_us": case.floor_us,
        "rule": search.rule,
        "wrong": search.wrong,
        "times": [
            {
                "name": name,
                "us": us,
                "expected_us": names[name].expected_us,
                "tflops": case.flops / us * 1e-6,
                "of_floor": case.floor_us / us,
            }
            for name, us in sorted(search.times.items(), key=lambda item: item[1])
        ],
    }


def summary(row: dict[str, Any]) -> str:
    """Return the line of a case: rate of the rule's choice and of the best, share of the floor."""
    times = row["times"]
    rule = next((one for one in times if one["name"] == row["rule"]), None)
    tiled = next((one for one in times if one["name"].startswith("cuda_tiled")), None)
    if rule is None or not times:
        return f"{row['case']:14} nothing is right: {row['wrong'][:2]}"
    other = tiled["tflops"] if tiled else math.nan
    return (
        f"{row['case']:14} {row['equation']:20} rule {rule['tflops']:6.2f} TFLOP/s "
        f"({rule['of_floor']:.2f} of the floor), best {times[0]['tflops']:6.2f}, tiled {other:6.2f}"
        + (f"  WRONG {len(row['wrong'])}" if row["wrong"] else "")
    )


def details(row: dict[str, Any]) -> list[str]:
    """Return the rule's choice and the best ones of a case."""
    times = row["times"]
    chosen = [one for one in times if one["name"] == row["rule"]] + times[:SHOWN]
    tiled = [one for one in times[SHOWN:] if one["name"].startswith("cuda_tiled")]
    return (
        [f"{row['case']} {row['equation']}  floor {row['floor_us']:.1f} us"]
        + [
            f"    {one['us']:9.2f} us  (expected {one['expected_us']:9.2f})  {one['name']}"
            for one in (*chosen, *tiled)
        ]
        + [f"    WRONG {name}" for name in row["wrong"]]
    )


def mean_rate(rows: Sequence[dict[str, Any]], of_rule: bool) -> float:
    """Return the geometric mean of the rates of the published cases [TFLOP/s]."""
    rates = [
        next(one["tflops"] for one in row["times"] if not of_rule or one["name"] == row["rule"])
        for row in rows
        if row["case"].isdigit() and any(one["name"] == row["rule"] for one in row["times"])
    ]
    return math.exp(sum(map(math.log, rates)) / len(rates)) if rates else math.nan


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweep."""
    parser = parser_of(__doc__, 80.0, "names or equations")
    parser.add_argument("--boxes", default="", help="candidates: what CASE NAME holds")
    parser.add_argument("--cases", default="", help="cases whose whole names are this expression")
    options = asked(parser, arguments)
    lab = Lab(PARTS + 1, BYTES, options.seconds)
    numbers = random_array(1, BYTES // 4)
    lab.upload(numbers, lab.inputs[0])
    lab.upload(numbers[::-1], lab.inputs[1])
    cases = [
        one
        for one in contractions()
        if options.only in f"{one.name} {one.equation}"
        and (not options.cases or re.fullmatch(options.cases, one.name))
    ]
    searches = [Search(lab, case, options.boxes) for case in cases]
    launches = [one for search in searches for c in search.candidates for one in c.launches]
    specs = list(dict.fromkeys(launch.spec for launch in launches))
    lab.prepare(specs)
    print(f"{len(searches)} cases, {len(specs)} kernels, {lab.left_s:.0f} s left", flush=True)
    rows = []
    for search in sorted(searches, key=lambda one: one.case.floor_us):
        search.run(numbers)
        rows.append(row_of(search))
        print(summary(rows[-1]), flush=True)
        if lab.left_s < 0:
            break
    means = [f"{name} {mean_rate(rows, of):.2f}" for name, of in (("rule", True), ("best", False))]
    text = [summary(row) for row in rows]
    text += [f"geometric mean of the published cases [TFLOP/s]: {', '.join(means)}", ""]
    text += [line for row in rows for line in details(row)]
    text.append(f"softcuda {sc.__version__}, {lab.left_s:.0f} s left")
    write_rows(options.out, "contract", rows, "\n".join(text))
    print("\n".join(text))


if __name__ == "__main__":
    main()
