"""How far a right result may lie from the NumPy reference, carried through a graph.

Each value comes with a bound on its error; an op's own rounding (tests/tolerance.py) is added to
what its inputs' errors grow to. Where an error decides (a comparison, a floor, an index of the
largest) the bound is the size of the jump; where nothing can be said it is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy_composite_bounds import Bound, composite_bound
from numpy_indexing import SCATTERED, one_hot
from numpy_philox import random_values
from numpy_reference import (
    CREATED,
    ELEMENTWISE,
    MOVED,
    REDUCTIONS,
    contraction,
    converted,
    rounded,
)
from tolerance import SMALLEST, tolerance

from softcuda.dtype import DType, compute_dtype
from softcuda.graph.lines import operand_dtypes
from softcuda.graph.op import Kind, Op
from softcuda.graph.params import value_of

Array = np.ndarray[Any, Any]

HOPELESS = 0.05  # an error of this share of a value makes finite differences worthless


@dataclass(frozen=True)
class Known:
    """A value by the reference, and how far a right result may be from it."""

    value: Array
    error: Array
    dtype: DType

    @property
    def dims(self) -> tuple[int, ...]:
        """Extents, as the op table's rules read them."""
        return self.value.shape


def known_leaf(array: Array, dtype: DType) -> Known:
    """Return an array as the reference holds it, without error."""
    kind = {0: bool, 1: np.int64, 2: np.float64}[dtype.kind]
    return Known(array.astype(kind), np.zeros(array.shape), dtype)


def apply(op: Op, params: Any, inputs: Sequence[Known]) -> Known:
    """Return the value of a node, with its bound."""
    dims = op.shape_rule(inputs, params)
    dtype = op.dtype_rule(inputs, params)
    types = operand_dtypes(op, inputs, params)
    if op.name == "matmul" and not dtype.is_float:
        types = (dtype, dtype)
    values = [converted(x.value, t) for x, t in zip(inputs, types, strict=True)]
    errors = [np.where(np.isnan(x.error), np.inf, x.error) for x in inputs]
    with np.errstate(all="ignore"):
        value, grown, terms, scale = _by_kind(op, params, values, errors, dtype)
        value = np.broadcast_to(value, dims)
        result = rounded(value, dtype)
        error = np.broadcast_to(np.nan_to_num(grown, nan=np.inf, posinf=np.inf), dims)
        if dtype.is_float:
            wide = np.asarray(value, np.float64)
            size = np.maximum(np.abs(wide), scale)
            own = tolerance(dtype, terms, op.name) * size + np.abs(result - wide)
            own = np.where(np.isfinite(wide) & np.isfinite(own), own, 0.0) + SMALLEST[dtype]
            error = error * 1.01 + own
            edge = float(ml_dtypes.finfo(dtype.numpy).max)
            near_edge = np.isfinite(wide) & (np.abs(wide) + 2 * error >= edge)
            error = np.where(near_edge, np.inf, error)
    return Known(result, error, dtype)


def _by_kind(op: Op, params: Any, values: list[Array], errors: list[Array], dtype: DType) -> Bound:
    name = op.name
    if name == "cast":
        source = values[0]
        return _differences(lambda x: converted(x, dtype), [source], errors, 1, 0.0)
    if name in ELEMENTWISE:
        scale: Any = 0.0
        if name == "multiply_add":
            scale = np.abs(values[0] * values[1]) + np.abs(values[2])
        if name in ("gelu", "silu", "mish"):  # x times a factor that may be subnormal
            value, grown, _, _ = _differences(ELEMENTWISE[name], values, errors, 1, scale)
            return value, grown + SMALLEST[compute_dtype(dtype)] * np.abs(values[0]), 1, scale
        return _differences(ELEMENTWISE[name], values, errors, 1, scale)
    if name in REDUCTIONS:
        return _reduced(name, params, values[0], errors[0])
    if name == "cumsum":
        wide = values[0].astype(np.float64 if dtype.is_float else np.int64)
        total = np.cumsum(wide, params.axis)
        scale = np.cumsum(np.abs(wide), params.axis)
        terms = wide.shape[params.axis]
        return total, np.cumsum(errors[0], params.axis), terms * terms, scale
    if name in MOVED:
        return _moved(name, params, values, errors)
    if name in SCATTERED:
        return _scattered(name, params, values, errors)
    if name == "one_hot":
        return one_hot(values[0], params), 0.0, 1, 0.0
    if op.kind is Kind.CREATION:
        value = np.asarray(CREATED[name](params))
        scale = np.max(np.abs(value.astype(np.float64)), initial=0.0)
        return value, 0.0, 1, scale if name in ("arange", "linspace") else 0.0
    if op.kind is Kind.RANDOM:
        value = random_values(name, values[0], params)
        return value, 0.0, 1, abs(value_of(params.low)) + abs(value_of(params.high))
    if name == "matmul":
        return _contracted(params, values, errors, dtype)
    return composite_bound(name, params, values, errors)


def _differences(
    function: Callable[..., Array],
    values: Sequence[Array],
    errors: Sequence[Array],
    terms: int,
    scale: Any,
) -> Bound:
    """Bound by how far the function moves when each operand moves by its error."""
    value = np.asarray(function(*values))
    grown: Any = 0.0
    for place, (operand, error) in enumerate(zip(values, errors, strict=True)):
        if not error.any():
            continue
        moved = np.zeros(value.shape)
        for sign in (-1, 1):
            shifted = [*values]
            shifted[place] = _shifted(operand, error, sign)
            moved = np.maximum(moved, _distance(np.asarray(function(*shifted)), value))
        hopeless = error > HOPELESS * np.maximum(np.abs(operand.astype(np.float64)), 1.0)
        if operand.dtype.kind == "b":
            hopeless = ~np.isfinite(error)
        grown = grown + moved + np.where(hopeless, np.inf, 0.0)
    return value, grown, terms, scale


def _shifted(operand: Array, error: Array, sign: int) -> Array:
    if operand.dtype.kind == "b":
        return operand ^ (error >= 0.5)
    finite = np.where(np.isfinite(error), error, 0.0)
    if operand.dtype.kind == "i":
        return operand + sign * np.ceil(finite).astype(np.int64)
    return operand + sign * finite


def _distance(one: Array, other: Array) -> Array:
    wide, right = one.astype(np.float64), other.astype(np.float64)
    same = (wide == right) | (np.isnan(wide) & np.isnan(right))
    return np.where(same, 0.0, np.nan_to_num(np.abs(wide - right), nan=np.inf, posinf=np.inf))


def _reduced(name: str, params: Any, x: Array, e: Array) -> Bound:
    axes, keepdims = params.axes, params.keepdims
    count = math.prod(x.shape[axis] for axis in axes)
    value = np.asarray(REDUCTIONS[name](x, params))
    size = np.abs(x.astype(np.float64))

    def total(array: Array) -> Array:
        return np.asarray(np.sum(array, axis=axes, keepdims=keepdims))

    def largest(array: Array) -> Array:
        return np.asarray(np.max(array, axis=axes, keepdims=keepdims, initial=0.0))

    if name in ("any", "all"):
        return value, total((e > 0) & (size <= e)), 1, 0.0
    if name in ("argmin", "argmax"):
        return value, _contested(name, params, x, e), 1, 0.0
    if name == "prod":
        share = np.where(e > 0, e / size, 0.0)
        return value, np.abs(value.astype(np.float64)) * np.expm1(total(share)), count * count, 0.0
    if name in ("min", "max"):
        return value, largest(e), 1, 0.0
    if name == "logsumexp":
        return value, largest(e), count, np.maximum(largest(np.where(np.isfinite(x), size, 0)), 1)
    scales = {"sum": total(size), "mean": total(size) / max(count, 1)}
    if name in scales:
        return value, total(e) / (max(count, 1) if name == "mean" else 1), count, scales[name]
    if name == "norm":
        order = value_of(params.order)
        if order == 0:
            return value, total((e > 0) & (size <= e)), 1, 0.0
        return value, largest(e) if math.isinf(order) else total(e), count, 0.0
    return _spread(name, params, x.astype(np.float64), e, value)


def _spread(name: str, params: Any, x: Array, e: Array, value: Array) -> Bound:
    """Bound var and std."""
    axes, keepdims = params.axes, params.keepdims
    count = math.prod(x.shape[axis] for axis in axes)
    each = e + np.sum(e, axis=axes, keepdims=True) / max(count, 1)
    centred = np.abs(x - np.sum(x, axis=axes, keepdims=True) / max(count, 1))
    divisor = max(count - value_of(params.correction), 0)
    grown = np.divide(
        np.sum(2 * centred * each + each * each, axis=axes, keepdims=keepdims), divisor
    )
    scale = np.divide(np.sum(x * x, axis=axes, keepdims=keepdims), divisor)
    if name == "var":
        return value, grown, count, scale
    return value, np.minimum(grown / (2 * value), np.sqrt(grown)), count, np.sqrt(scale)


def _contested(name: str, params: Any, x: Array, e: Array) -> Array:
    """Return inf where errors may decide which element is the extreme one."""
    axes, keepdims = params.axes, params.keepdims
    if not e.any():
        return np.asarray(np.sum(e, axis=axes, keepdims=keepdims))
    wide = x.astype(np.float64) * (1 if name == "argmax" else -1)
    least = np.max(wide - e, axis=axes, keepdims=True)
    rivals = np.sum(~(wide + e < least), axis=axes, keepdims=keepdims)
    return np.asarray(np.where(rivals > 1, np.inf, 0.0))


def _moved(name: str, params: Any, values: list[Array], errors: list[Array]) -> Bound:
    function = MOVED[name]
    value = function(values, params)
    if name in ("take", "gather"):
        errors = [errors[0], values[1]]
    if name == "pad":
        params = params._replace(value="0.0")
    return value, function(errors, params), 1, 0.0


def _scattered(name: str, params: Any, values: list[Array], errors: list[Array]) -> Bound:
    x, indices, added = values
    function = SCATTERED[name]
    sizes = [np.abs(x.astype(np.float64)), indices, np.abs(added.astype(np.float64))]
    counts = function([np.zeros(x.shape), indices, np.ones(added.shape)], params)
    terms = 1 + int(np.max(counts, initial=0.0))
    grown = function([errors[0], indices, errors[2]], params)
    return function(values, params), grown, terms, function(sizes, params)


def _contracted(params: Any, values: list[Array], errors: list[Array], dtype: DType) -> Bound:
    value = contraction(values, params)
    if not dtype.is_float:
        wrong = contraction([errors[0], np.ones(values[1].shape)], params)
        wrong = wrong + contraction([np.ones(values[0].shape), errors[1]], params)
        return value, np.where(wrong > 0, np.inf, 0.0), 1, 0.0
    a, b = (np.abs(v) for v in values)
    grown = contraction([errors[0], b + errors[1]], params) + contraction([a, errors[1]], params)
    summed = {*params.a, *params.b} - {*params.out}
    extents = dict(zip(params.a + params.b, a.shape + b.shape, strict=True))
    terms = math.prod(extents[label] for label in summed)
    return value, grown, max(terms, 1), contraction([a, b], params)


def check(found: Array, known: Known, what: str) -> float:
    """Compare a result with a bound; return the share of elements that could be compared.

    Raises:
        AssertionError: an element is farther from the reference than its bound.
    """
    assert found.dtype == known.dtype.numpy, f"{what}: {found.dtype} for {known.dtype}"
    assert found.shape == known.value.shape, f"{what}: {found.shape} for {known.value.shape}"
    if not found.size:
        return 1.0
    have, want = found.astype(np.float64), known.value.astype(np.float64)
    sure = np.isfinite(known.error)
    if not known.dtype.is_float:
        sure &= known.error < 0.5
    with np.errstate(all="ignore"):
        same = (have == want) | (np.isnan(have) & np.isnan(want))
        same |= np.abs(have - want) <= known.error
    wrong = sure & ~same
    if wrong.any():
        place = tuple(int(k[0]) for k in np.nonzero(wrong))
        raise AssertionError(
            f"{what}: {int(wrong.sum())} of {wrong.size} elements are wrong; at {place} it is "
            f"{found[place]!r}, right is {known.value[place]!r} within {known.error[place]:.3g}"
        )
    return float(np.mean(sure))
