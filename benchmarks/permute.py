"""The suite permute: copies that reorder axes, beside PyTorch and the copy rate of the device."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import partial

import softcuda as sc
from benchmarks.accuracy import tolerance
from benchmarks.cases import Bench, Case
from benchmarks.gpu_work import DeviceCase, run_device_case
from benchmarks.host_work import by_rows, dense, random_array
from benchmarks.permutations import HPTT, ODD, PLAIN, Permutation, name_of
from benchmarks.published import mean_check
from benchmarks.results import Row, at_least

__all__ = ["CASES", "summary"]

PUBLISHED = "Permutations of HPTT, f32"
OTHERS = "Other permutations, f32"
RATE = "bytes/s"
MEAN = 3.6e12  # bytes/s, geometric mean over the published ones on an H200
LEAST = 0.68  # of the copy rate, for each of the published ones: 2.9e12 bytes/s on an H200


def _permute(group: str, permutation: Permutation, published: str, bench: Bench) -> Row:
    shape, axes = permutation
    array = random_array(1, *shape)
    case = DeviceCase(
        [array],
        lambda x: sc.permute_dims(x, axes).copy(),
        dense(array.transpose(axes)),
        0.0,
        2 * array.nbytes,
        torch=lambda torch, x: lambda: x.permute(*axes).contiguous(),
        least=LEAST if published else 0.0,
        published=published,
    )
    row = run_device_case(bench, group, name_of(permutation), case)
    if row.timings[0].us:
        row.facts[RATE] = case.nbytes / row.timings[0].us * 1e6
    return row


def _scaled_cast(permutation: Permutation, bench: Bench) -> Row:
    shape, axes = permutation
    array = random_array(1, *shape)
    right = by_rows(lambda x: 0.5 * x, dense(array.transpose(axes)))
    case = DeviceCase(
        [array],
        lambda x: sc.cast(sc.permute_dims(x, axes) * 0.5, sc.bf16),
        right,
        tolerance("bf16", steps=2),
        array.nbytes + array.nbytes // 2,
        torch=lambda torch, x: lambda: (x.permute(*axes) * 0.5).bfloat16().contiguous(),
    )
    return run_device_case(bench, OTHERS, f"{name_of(permutation)}, halved, to bf16", case)


def _cases() -> list[Case]:
    made = []
    for number, permutation in HPTT.items():
        run = partial(_permute, PUBLISHED, permutation, f"hptt_{number}")
        made.append(Case(PUBLISHED, name_of(permutation), run))
    for permutation in (*PLAIN, *ODD):
        run = partial(_permute, OTHERS, permutation, "")
        made.append(Case(OTHERS, name_of(permutation), run))
    for permutation in (PLAIN[0], HPTT["19"]):
        name = f"{name_of(permutation)}, halved, to bf16"
        made.append(Case(OTHERS, name, partial(_scaled_cast, permutation)))
    return made


def summary(rows: Sequence[Row]) -> list[Row]:
    """Return the row of the geometric means over the published permutations."""
    measured = [row for row in rows if row.group == PUBLISHED and RATE in row.facts]
    if not measured:
        return []
    made = Row(PUBLISHED, "geometric mean")
    made.facts[RATE] = statistics.geometric_mean(row.facts[RATE] for row in measured)
    made.checks.append(at_least("permutations: bytes/s, geometric mean", made.facts[RATE], MEAN))
    made.checks += mean_check(measured, "permutations", 1.0)
    return [made]


CASES = tuple(_cases())
