"""The suite cpu_contraction: TCCG scaled down, and tiny plans, beside their CPU peers."""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

import softcuda as sc
from benchmarks.accuracy import tolerance
from benchmarks.cases import Bench, Case, Work, executable_contestant, peer, run_work
from benchmarks.contraction import mean_of_ratios
from benchmarks.contractions import TCCG, Contraction, scaled
from benchmarks.results import Check, Row, at_least, at_most
from benchmarks.timing import OURS, Contestant, Samples, Schedule

__all__ = ["CASES", "summary"]

GROUP = "Tensor contractions of TCCG, scaled to 1e9 operations, f32"
TINY = "Tiny expressions through a plan, f32"
EVALUATED = "softcuda.einsum, evaluated"
FLOPS = 1_000_000_000
SPIN_S = 0.12  # threads of OpenBLAS spin for 0.1 s after a product, on a core that others need

TINY_EXPRESSIONS = (
    ("ij,jk->ik", ((8, 8), (8, 8)), "matmul(a0, a1)"),
    ("ij,j->i", ((8, 8), (8,)), "matmul(a0, a1)"),
    ("i,i->", ((16,), (16,)), "matmul(a0, a1)"),
    ("bij,bjk->bik", ((4, 8, 8), (4, 8, 8)), "matmul(a0, a1)"),
    ("ij,jk,kl->il", ((8, 8), (8, 8), (8, 8)), "matmul(matmul(a0, a1), a2)"),
)


def _arrays(shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    rng = np.random.default_rng(7)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def _peers(bench: Bench, expression: str, arrays: Sequence[Any]) -> list[Contestant]:
    """Return NumPy with optimize=True, opt_einsum on NumPy, and PyTorch on the CPU."""
    names = {f"a{k}": array for k, array in enumerate(arrays)}
    operands = ", ".join(names)
    here: dict[str, Any] = {"einsum": np.einsum, **names}
    made = [peer("NumPy", f"einsum({expression!r}, {operands}, optimize=True)", here)]
    try:
        other = importlib.import_module("opt_einsum")
    except ImportError:
        made.append(peer("opt_einsum", "", {}, absent=True))
    else:
        there = {"contract": other.contract, **names}
        made.append(peer("opt_einsum", f"contract({expression!r}, {operands})", there))
    torch = bench.peers.torch
    tensors: dict[str, Any] = {}
    if torch is not None:
        tensors = {name: torch.from_numpy(array) for name, array in names.items()}
        tensors["einsum"] = torch.einsum
    made.append(
        peer("PyTorch", f"einsum({expression!r}, {operands})", tensors, absent=torch is None)
    )
    return made


def _tccg(name: str, bench: Bench) -> Row:
    contraction = scaled(TCCG[name], FLOPS)
    arrays = _arrays(contraction.shapes)
    made = sc.einsum(contraction.expression, *map(sc.asarray, arrays))
    wide = [array.astype(np.float64) for array in arrays]
    work = Work(
        (
            executable_contestant(sc.compile(made, "default")),
            *_peers(bench, contraction.expression, arrays),
        ),
        np.einsum(contraction.expression, *wide, optimize=True),
        tolerance("f32", summed=max(contraction.extents.values()) ** 2),
        contraction.nbytes,
        contraction.flops,
        "f32",
        Schedule(budget_s=2.0, sample_s=0.02, settle_s=SPIN_S, rounds=(5, 15)),
    )
    return run_work(bench, GROUP, _title(name, contraction), work)


def _tiny(expression: str, shapes: Any, bare: str, bench: Bench) -> Row:
    arrays = _arrays(shapes)
    described = [sc.TensorDescriptor.from_tensor(array) for array in arrays]
    plan = sc.EinsumPlan(expression, described, config="default")
    names: dict[str, Any] = {f"a{k}": array for k, array in enumerate(arrays)}

    def value() -> Any:
        return plan.execute(arrays).numpy()

    ours = Contestant(OURS, "run(inputs)", {"run": plan.execute, "inputs": arrays}, result=value)
    call = peer("NumPy's calls", bare, {"matmul": np.matmul, **names})
    tensors = {name: sc.asarray(array) for name, array in names.items()}
    lazy = peer(
        EVALUATED,
        f"einsum({expression!r}, {', '.join(tensors)}).evaluate()",
        {"einsum": sc.einsum, **tensors},
    )

    def checks(row: Row, taken: dict[str, Samples]) -> list[Check]:
        if OURS not in taken or EVALUATED not in taken:
            return [at_least(expression, None, 3.0)]
        mine = taken[OURS].seconds
        ratio = statistics.median(
            theirs / own for theirs, own in zip(taken["NumPy"].seconds, mine, strict=True)
        )
        return [
            at_least(f"{expression}: of einsum(optimize=True)", ratio, 3.0),
            at_most(f"{expression}: us above the bare calls", above(taken, OURS), 4.0),
            at_most(f"{expression}: the same, evaluated", above(taken, EVALUATED), 10.0),
        ]

    def above(taken: dict[str, Samples], name: str) -> float:
        pairs = zip(taken[call.name].seconds, taken[name].seconds, strict=True)
        return 1e6 * statistics.median(own - theirs for theirs, own in pairs)

    work = Work(
        (ours, lazy, call, *_peers(bench, expression, arrays)),
        np.einsum(expression, *(array.astype(np.float64) for array in arrays)),
        tolerance("f32", summed=16, steps=2),
        dtype="f32",
        schedule=Schedule(budget_s=1.5, sample_s=0.004, rounds=(7, 25)),
        checks=checks,
    )
    return run_work(bench, TINY, expression, work)


def _title(name: str, contraction: Contraction) -> str:
    return f"{name} {contraction.expression} {'x'.join(map(str, contraction.extents.values()))}"


def summary(rows: Sequence[Row]) -> list[Row]:
    """Return the row of the geometric means over TCCG."""
    measured = [row for row in rows if row.group == GROUP]
    if not measured:
        return []
    made = Row(GROUP, "geometric mean")
    made.facts["cases"] = float(len(measured))
    for name, least in (("NumPy", 1.5), ("opt_einsum", 1.5), ("PyTorch", 0.95)):
        mean = mean_of_ratios(measured, name)
        made.checks.append(at_least(f"{OURS} beside {name}, geometric mean", mean, least))
    return [made]


CASES = (
    *(Case(TINY, row[0], partial(_tiny, *row)) for row in TINY_EXPRESSIONS),
    *(Case(GROUP, _title(name, scaled(TCCG[name], FLOPS)), partial(_tccg, name)) for name in TCCG),
)
