"""Gradients of every op against central differences in f64, on any profile.

Gradients are asked in one random direction at a time: with weights w and a direction v, the slope
of sum(w * f(x + t v)) at t = 0 against sum(gradient * v). Cases at a kink, or without a finite
value, have no such slope.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from op_cases import variants
from tolerance import DIFFERENCE_STEP, SLOPE_TOLERANCE

import softcuda as sc
from softcuda.autograd import RULES
from softcuda.dtype import dtype_of_array, f64
from softcuda.graph.op import OPS, Kind
from softcuda.graph.params import Diagonal, Permute, Shape, Slice, Transfer, value_of
from softcuda.profile.model import Profile
from softcuda.tools.workloads import WORKLOADS, accepted_dtypes
from softcuda.tools.workloads_base import Workload
from softcuda.tools.workloads_inputs import Source

__all__ = [
    "DIFFERENTIABLE",
    "cases",
    "check_gradients",
    "check_second_gradients",
    "undifferentiable",
]

Array = np.ndarray[Any, Any]

DIFFERENTIABLE = tuple(RULES)

_ORDERED = ("min", "max", "std")  # of equal elements they have no slope
_FACTORS = {"asin": 0.9, "acos": 0.9, "tan": 0.2}  # away from infinite slopes
_GRID = 0.25
# Away from kinks: operands lie on a grid, this part of its step beside the integers and zero. A
# quotient of odd by even multiples of an eighth is no integer.
_BESIDE = {
    **{op: (0.5,) for op in ("abs", "relu", "sign", "floor", "ceil", "round")},
    **{op: (0.5, 0.0) for op in ("floor_divide", "remainder")},
    "clip": (0.5, 0.25, 0.75),
}


def _view_cases(op: str) -> dict[str, Workload]:
    """Return windows of every kind over arrays of every layout."""
    rng = np.random.default_rng(zlib.crc32(op.encode()))
    params: dict[str, Sequence[tuple[tuple[int, ...], Any]]] = {
        "reshape": [((4, 6), Shape((2, 2, 6))), ((5,), Shape((5, 1))), ((), Shape((1,)))],
        "permute": [((2, 3, 4), Permute((2, 0, 1))), ((3, 2), Permute((1, 0)))],
        "broadcast_to": [
            ((3, 1), Shape((2, 3, 5))),
            ((), Shape((4,))),
            ((1, 2), Shape((0, 2))),
            ((2, 3), Shape((2, 3))),
        ],
        "slice": [
            ((7, 5), Slice((1, 0), (1, 1), (3, 5))),
            ((7, 5), Slice((1, 4), (2, -1), (3, 5))),
            ((7, 5), Slice((6, 3), (-3, -3), (3, 2))),
            ((7, 5), Slice((6, 1), (-2, 3), (1, 2))),
            ((7, 5), Slice((0, 2), (1, 1), (0, 3))),
            ((1, 4), Slice((0, 3), (5, -2), (1, 2))),
        ],
        "diagonal": [
            ((4, 5), Diagonal(0, 1, 0)),
            ((4, 5), Diagonal(0, 1, 2)),
            ((4, 5), Diagonal(1, 0, -1)),
            ((2, 5, 3, 4), Diagonal(1, 3, -2)),
            ((2, 5, 3, 4), Diagonal(3, 1, 1)),
            ((3, 3), Diagonal(0, 1, 7)),
        ],
        "transfer": [((3, 2), Transfer("cpu"))],
    }
    made = {}
    for number, (dims, given) in enumerate(params[op]):
        dense = rng.normal(size=dims)
        made[f"dense{number}"] = Workload(OPS[op], (dense,), given)
        if dims:
            turned = rng.normal(size=dims[::-1]).T[::-1]
            stretched = np.broadcast_to(rng.normal(size=(1, *dims[1:])), dims)
            made[f"turned{number}"] = Workload(OPS[op], (turned,), given)
            made[f"stretched{number}"] = Workload(OPS[op], (stretched,), given)
    return made


def _is_smooth(op: str, name: str, work: Workload) -> bool:
    """Return whether a workload has slopes: no special values, no ties by its layout or length."""
    if "special" in name or (op == "cast" and work.params.dtype is not f64):
        return False
    infinite = op == "norm" and np.isinf(float(value_of(work.params.order)))
    is_tied = "stretched" in name or (infinite and name.startswith(("long", "tall")))
    return not (is_tied and (op in _ORDERED or infinite))


class Case(NamedTuple):
    """A function of tensors, and the arrays at which its gradient is asked; any strides."""

    arrays: tuple[Array, ...]
    function: Callable[..., sc.Tensor]


def cases(op: str) -> dict[str, Case]:
    """Return the cases of an op by name: every argument, broadcast and stride pattern."""
    made = variants(op, "f64") if op in WORKLOADS else _view_cases(op)
    return {
        name: Case(
            tuple(_moved(op, number, array) for number, array in enumerate(work.arrays)),
            partial(_applied, work),
        )
        for name, work in made.items()
        if _is_smooth(op, name, work)
    }


def _applied(work: Workload, *leaves: sc.Tensor) -> sc.Tensor:
    return work.build(sc.Tensor, leaves)


def _moved(op: str, number: int, array: Array) -> Array:
    """Return an operand in f64 where it is of floats, away from kinks, with its strides."""
    if not dtype_of_array(array.dtype).is_float:
        return array
    array = array.astype(np.float64, copy=False)
    if not array.flags.writeable:  # the first axis has stride 0
        return np.broadcast_to(_moved(op, number, array[:1].copy()), array.shape)
    array[...] = array * _FACTORS.get(op, 1.0)
    if op in _BESIDE:
        array[...] = (np.floor(array / _GRID) + _BESIDE[op][number]) * _GRID
    return array


class _Direction(NamedTuple):
    """An operand of a case that is moved, and where to."""

    case: str
    number: int
    step: Array


def _random(what: str, name: str) -> np.random.Generator:
    """Return a generator, for each purpose and case another, the same in every run."""
    return np.random.default_rng((zlib.crc32(what.encode()), zlib.crc32(name.encode())))


def _is_float(array: Array) -> bool:
    return dtype_of_array(array.dtype).is_float


def _directions(given: Mapping[str, Case]) -> list[_Direction]:
    made = []
    for name, case in given.items():
        rng = _random("directions", name)
        made += [
            _Direction(name, number, rng.normal(size=array.shape))
            for number, array in enumerate(case.arrays)
            if _is_float(array)
        ]
    return made


def _slopes(
    given: Mapping[str, Case], directions: Sequence[_Direction]
) -> tuple[dict[str, float], dict[tuple[str, int], float]]:
    """Return the value of each case, a number, and its slope along each direction."""
    inputs = {
        name: tuple(sc.input(x.shape, dtype_of_array(x.dtype)) for x in case.arrays)
        for name, case in given.items()
    }
    graph = {name: case.function(*inputs[name]) for name, case in given.items()}
    executable = sc.compile(graph, "default")
    resting = {
        leaf: array
        for name, case in given.items()
        for leaf, array in zip(inputs[name], case.arrays, strict=True)
    }

    def values(moved: Sequence[_Direction], steps: int) -> dict[str, float]:
        fed = dict(resting)
        for d in moved:
            array = given[d.case].arrays[d.number]
            fed[inputs[d.case][d.number]] = array + steps * DIFFERENCE_STEP * d.step
        return {name: float(value.item()) for name, value in executable.run(fed).items()}

    slopes = {}
    for number in {d.number for d in directions}:
        moved = [d for d in directions if d.number == number]
        far, near, back, far_back = (values(moved, steps) for steps in (2, 1, -1, -2))
        for d in moved:
            rise = 8 * (near[d.case] - back[d.case]) - (far[d.case] - far_back[d.case])
            slopes[d.case, number] = rise / (12 * DIFFERENCE_STEP)
    return values((), 0), slopes


def _compare(given: Mapping[str, Case], profile: Profile | str) -> int:
    """Compare gradients on a profile with differences; return how many directions had a slope.

    The cases are functions to a number.
    """
    directions = _directions(given)
    values, slopes = _slopes(given, directions)
    leaves = {n: tuple(sc.Tensor.leaf(x) for x in case.arrays) for n, case in given.items()}
    roots = {name: case.function(*leaves[name]) for name, case in given.items()}
    asked = [sc.grad(roots[d.case], leaves[d.case][d.number]) for d in directions]
    assert None not in asked
    compared = 0
    for d, tensor in zip(directions, sc.compile(asked, profile).run(), strict=True):
        gradient, operand = tensor.numpy(), given[d.case].arrays[d.number]
        assert gradient.shape == operand.shape
        assert gradient.dtype == operand.dtype
        slope = slopes[d.case, d.number]
        if not np.isfinite(slope):
            continue
        compared += 1
        along = float(np.sum(gradient * d.step))
        scale = float(np.sum(np.abs(gradient * d.step))) + abs(values[d.case])
        assert abs(along - slope) <= SLOPE_TOLERANCE * max(scale, 1.0), (
            f"{d.case}, operand {d.number}: gradient {along!r}, differences {slope!r}"
        )
    return compared


def _weighted(name: str, case: Case) -> Case:
    """Return the case whose value is the sum of the other's, each times a random number."""
    weights = _random("weights", name).normal(size=case.function(*_inputs(case)).dims)
    return Case(case.arrays, lambda *leaves: sc.sum(case.function(*leaves) * weights))


def _inputs(case: Case) -> tuple[sc.Tensor, ...]:
    return tuple(sc.input(x.shape, dtype_of_array(x.dtype)) for x in case.arrays)


def _with_gradients(name: str, case: Case) -> Case:
    """Return the case whose value is the other's, plus a weighted sum of its gradients."""
    floats = [number for number, array in enumerate(case.arrays) if _is_float(array)]
    rng = _random("second", name)
    weights = [rng.normal(size=case.arrays[number].shape) for number in floats]

    def function(*leaves: sc.Tensor) -> sc.Tensor:
        value = case.function(*leaves)
        first = sc.grad(value, [leaves[number] for number in floats])
        for gradient, weight in zip(first, weights, strict=True):
            value = value + sc.sum(gradient * weight)
        return value

    return Case(case.arrays, function)


def check_gradients(given: Mapping[str, Case], profile: Profile | str) -> int:
    """Check gradients on a profile; return how many directions were compared."""
    return _compare({name: _weighted(name, case) for name, case in given.items()}, profile)


def check_second_gradients(given: Mapping[str, Case], profile: Profile | str) -> int:
    """Check the gradients of gradients of small cases; return how many were compared."""
    small = {n: case for n, case in given.items() if all(x.size < 100 for x in case.arrays)}
    second = {n: _with_gradients(n, _weighted(n, case)) for n, case in small.items()}
    return _compare(second, profile)


def undifferentiable() -> list[str]:
    """Return the ops that make floats of floats and have no rule."""
    found = []
    for op in OPS.values():
        if op.kind in (Kind.LEAF, Kind.CREATION, Kind.RANDOM) or op.name in RULES:
            continue
        dtypes = accepted_dtypes(op.name, Source(np.random.default_rng(0)))
        work = next(iter(variants(op.name, dtypes[-1].name).values()))
        reads = any(dtype_of_array(x.dtype).is_float for x in work.arrays)
        if reads and work.node(sc.Tensor).dtype.is_float:
            found.append(op.name)
    return found
