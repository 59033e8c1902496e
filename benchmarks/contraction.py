"""The suite contraction: tensor contractions in f32 on a device, beside PyTorch and CuPy."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

import softcuda as sc
from benchmarks import contraction_host
from benchmarks.accuracy import tolerance
from benchmarks.cases import Bench, Case
from benchmarks.contractions import EINSUMS, TCCG, Contraction
from benchmarks.gpu_work import DeviceCase, run_device_case
from benchmarks.host_work import by_rows, dense, random_array
from benchmarks.published import mean_check
from benchmarks.results import Check, Row, at_least, at_most
from benchmarks.timing import OURS

__all__ = ["CASES", "mean_of_ratios", "summary"]

GROUP = "Tensor contractions of TCCG, f32 without TF32"
OTHERS = "Other expressions, f32 without TF32"
DIAGONAL = "ii->i"


def _reference(contraction: Contraction, arrays: Sequence[Any]) -> Any:
    """Return the value in f64, by NumPy's products of matrices."""
    wide = [by_rows(np.positive, array) for array in arrays]
    return dense(np.einsum(contraction.expression, *wide, optimize=True))


def _torch(expression: str, torch: Any, *tensors: Any) -> Any:
    torch.backends.cuda.matmul.allow_tf32 = False
    return lambda: torch.einsum(expression, *tensors)


def _case(contraction: Contraction, **more: Any) -> DeviceCase:
    arrays = [random_array(k, *shape) for k, shape in enumerate(contraction.shapes)]
    summed = (
        set(contraction.expression.partition("->")[0])
        - set(",")
        - set(contraction.expression.partition("->")[2])
    )
    terms = math.prod(contraction.extents[label] for label in summed)
    return DeviceCase(
        arrays,
        lambda *tensors: sc.einsum(contraction.expression, *tensors),
        _reference(contraction, arrays),
        tolerance("f32", summed=terms),
        contraction.nbytes,
        torch=partial(_torch, contraction.expression),
        cupy=lambda cupy, *tensors: lambda: cupy.einsum(contraction.expression, *tensors),
        **more,
    )


def _tccg(name: str, bench: Bench) -> Row:
    contraction = TCCG[name]
    case = _case(
        contraction,
        flops=contraction.flops,
        extra=(partial(_peers, name, 0.9),),
        published=f"tccg_{name}",
    )
    row = run_device_case(bench, GROUP, _title(name), case)
    if row.timings[0].us:
        row.facts["TFLOP/s"] = contraction.flops / row.timings[0].us * 1e-6
    return row


def _other(number: int, bench: Bench) -> Row:
    contraction, least = EINSUMS[number]
    case = _case(contraction, extra=(partial(_peers, contraction.expression, least),))
    return run_device_case(bench, OTHERS, contraction.expression, case)


def _diagonal(bench: Bench) -> Row:
    case = _case(Contraction(DIAGONAL, {"i": 8192}), extra=(_in_microseconds,))
    return run_device_case(bench, OTHERS, DIAGONAL, case)


def _in_microseconds(row: Row) -> Check:
    return at_most(f"{DIAGONAL} materialised: us", row.timings[0].us, 8.0)


def _peers(name: str, least: float, row: Row) -> Check:
    """Return the check against the better of the peers."""
    worst = min((ratio.median for ratio in row.ratios.values()), default=None)
    return at_least(f"{name}: of the best peer", worst, least)


def _title(name: str) -> str:
    contraction = TCCG[name]
    return f"{name} {contraction.expression} {'x'.join(map(str, contraction.extents.values()))}"


def mean_of_ratios(rows: Sequence[Row], peer: str) -> float | None:
    """Return the geometric mean of a peer's times over ours; None without the peer."""
    ratios = [row.ratios[peer].median for row in rows if peer in row.ratios]
    return statistics.geometric_mean(ratios) if ratios else None


def summary(rows: Sequence[Row]) -> list[Row]:
    """Return the row of the geometric means over TCCG."""
    measured = [row for row in rows if row.group == GROUP]
    if not measured:
        return []
    made = Row(GROUP, "geometric mean")
    rates = [row.facts["TFLOP/s"] for row in measured if "TFLOP/s" in row.facts]
    if rates:
        made.facts["TFLOP/s"] = statistics.geometric_mean(rates)
    peers = dict.fromkeys(name for row in measured for name in row.ratios)
    for peer in peers:
        mean = mean_of_ratios(measured, peer)
        made.checks.append(at_least(f"{OURS} beside {peer}, geometric mean", mean, 1.8))
    made.checks += mean_check(measured, "TCCG", 1.8)
    return [made]


CASES = (
    *(Case(GROUP, _title(name), partial(_tccg, name)) for name in TCCG),
    *(
        Case(OTHERS, contraction.expression, partial(_other, number))
        for number, (contraction, _) in enumerate(EINSUMS)
    ),
    Case(OTHERS, DIAGONAL, _diagonal),
    *contraction_host.CASES,
)
