"""Suite cpu: elementwise chains and single operations over 16M f32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import softcuda as sc
from benchmarks.accuracy import tolerance
from benchmarks.cases import Bench, Case, Work, executable_contestant, peer, run_work
from benchmarks.results import Check, Row, at_least
from benchmarks.timing import Contestant, Samples, Schedule

__all__ = ["CASES", "FUSED_PROFILE"]

Array = np.ndarray[Any, Any]

FUSED_PROFILE = Path(__file__).with_name("cpu_fused.soft")

EXTENT = 4096  # 4096 x 4096 = 16M elements
BYTES = 4 * EXTENT * EXTENT
_SETTLED = Schedule(budget_s=1.5, settle_s=0.02, rounds=(7, 15))


@cache
def _normal(seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal((EXTENT, EXTENT), np.float32)


def _fused(bench: Bench, profile: str, group: str, name: str) -> Row:
    """Time relu(a*b+c)*tanh(d) - a*0.5: four inputs read, one output written."""
    a, b, c, d = (_normal(seed) for seed in (1, 2, 3, 4))
    ta, tb, tc, td = (sc.asarray(x) for x in (a, b, c, d))
    graph = sc.relu(ta * tb + tc) * sc.tanh(td) - ta * 0.5
    reference = _fused_reference(a, b, c, d)
    torch = bench.peers.torch
    names: dict[str, Any] = {"a": a, "b": b, "c": c, "d": d, "np": np}
    tensors: dict[str, Any] = {}
    if torch is not None:
        tensors = {k: torch.from_numpy(names[k]) for k in "abcd"} | {"torch": torch}

    def checks(row: Row, taken: dict[str, Samples]) -> list[Check]:
        numpy, eager = row.ratios.get("NumPy"), row.ratios.get("PyTorch")
        return [
            at_least(
                f"{name}: times NumPy's expression", None if numpy is None else numpy.median, 2.0
            ),
            at_least(f"{name}: times PyTorch eager", None if eager is None else eager.median, 0.9),
        ]

    work = Work(
        (
            executable_contestant(sc.compile(graph, profile)),
            peer("NumPy", "np.maximum(a * b + c, 0) * np.tanh(d) - a * 0.5", names),
            peer(
                "PyTorch",
                "torch.relu(a * b + c) * torch.tanh(d) - a * 0.5",
                tensors,
                absent=torch is None,
            ),
        ),
        reference,
        tolerance("f32", steps=6),
        5 * BYTES,
        schedule=Schedule(budget_s=5.0, settle_s=0.03, rounds=(9, 21)),
        checks=checks,
    )
    return run_work(bench, group, name, work)


def _fused_reference(a: Array, b: Array, c: Array, d: Array) -> Array:
    out = np.multiply(a, b, dtype=np.float64)
    out += c
    np.maximum(out, 0, out=out)
    out *= np.tanh(d, dtype=np.float64)
    out -= np.multiply(a, 0.5, dtype=np.float64)
    return out


@dataclass(frozen=True, slots=True)
class _Single:
    """One operation over x (and y), f32 [4096, 4096].

    Attributes:
        name: as the table prints it.
        ours: tensors -> tensor.
        numpy: NumPy's expression in x, y.
        torch: PyTorch's expression in x, y.
        passes: how many arrays of 64 MiB are read and written at least.
        out: NumPy's expression with out=o, where there is one.
        summed: addends of a sum.
    """

    name: str
    ours: Callable[[Any, Any], Any]
    numpy: str
    torch: str
    passes: int
    out: str = ""
    summed: int = 1


_WHOLE = EXTENT * EXTENT
_SINGLES = (
    _Single("add", lambda x, y: x + y, "x + y", "x + y", 3, "np.add(x, y, out=o)"),
    _Single("add a number", lambda x, y: x + 0.5, "x + 0.5", "x + 0.5", 2, "np.add(x, 0.5, out=o)"),
    _Single(
        "relu",
        lambda x, y: sc.relu(x),
        "np.maximum(x, 0)",
        "torch.relu(x)",
        2,
        "np.maximum(x, 0, out=o)",
    ),
    _Single("exp", lambda x, y: sc.exp(x), "np.exp(x)", "torch.exp(x)", 2, "np.exp(x, out=o)"),
    _Single("sum of all", lambda x, y: sc.sum(x), "x.sum()", "x.sum()", 1, summed=_WHOLE),
    _Single(
        "sum, last axis", lambda x, y: sc.sum(x, axis=1), "x.sum(1)", "x.sum(1)", 1, summed=EXTENT
    ),
    _Single(
        "sum, first axis", lambda x, y: sc.sum(x, axis=0), "x.sum(0)", "x.sum(0)", 1, summed=EXTENT
    ),
    _Single("mean of all", lambda x, y: sc.mean(x), "x.mean()", "x.mean()", 1, summed=_WHOLE),
    _Single("max of all", lambda x, y: sc.max(x), "x.max()", "x.max()", 1),
    _Single("max, first axis", lambda x, y: sc.max(x, axis=0), "x.max(0)", "x.amax(0)", 1),
    _Single(
        "softmax, last axis",
        lambda x, y: sc.softmax(x, axis=-1),
        "(lambda e: e / e.sum(-1, keepdims=True))(np.exp(x - x.max(-1, keepdims=True)))",
        "torch.softmax(x, -1)",
        2,
        summed=EXTENT,
    ),
)


def _single(op: _Single, bench: Bench) -> Row:
    """Time one operation under DEFAULT.soft."""
    x, y = _normal(1), _normal(2)
    o = np.zeros_like(x)
    executable = sc.compile(op.ours(sc.asarray(x), sc.asarray(y)), "default")
    names: dict[str, Any] = {"x": x, "y": y, "o": o, "np": np}
    wide = {"x": x.astype(np.float64), "y": y.astype(np.float64), "np": np}
    reference = np.asarray(eval(op.numpy, wide))
    del wide
    torch = bench.peers.torch
    tensors: dict[str, Any] = {}
    if torch is not None:
        tensors = {"x": torch.from_numpy(x), "y": torch.from_numpy(y), "torch": torch}
    contestants: list[Contestant] = [
        executable_contestant(executable),
        peer("NumPy", op.numpy, names),
    ]
    if op.out:
        contestants.append(peer("NumPy out=", op.out, names, poison=lambda: o.fill(np.nan)))
    contestants.append(peer("PyTorch", op.torch, tensors, absent=torch is None))
    # The mean of many standard normals is near zero: the error counts against the addends' norm.
    scale = np.sqrt(op.summed) if op.summed > 1 and "softmax" not in op.name else 1.0
    work = Work(
        contestants,
        reference,
        tolerance("f32") * float(scale),
        op.passes * BYTES,
        schedule=_SETTLED,
    )
    return run_work(bench, "Single operations, 4096 x 4096 f32, DEFAULT.soft", op.name, work)


_CHAIN = "Elementwise chain, 16M f32, warm output"
CASES = (
    Case(
        _CHAIN,
        "relu(a*b+c)*tanh(d) - a*0.5, cpu_fused",
        partial(
            _fused,
            profile=str(FUSED_PROFILE),
            group=_CHAIN,
            name="relu(a*b+c)*tanh(d) - a*0.5, cpu_fused",
        ),
    ),
    *(
        Case("Single operations, 4096 x 4096 f32, DEFAULT.soft", op.name, partial(_single, op))
        for op in _SINGLES
    ),
)
