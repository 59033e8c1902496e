"""Launches of uniform and normal: one thread a Philox block, the CPU's numbers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from softcuda.backends.cuda.planned import Maker, Planned, launch_in_row, step_by_table
from softcuda.backends.cuda.walks import WALK_THREADS, blocks_for
from softcuda.backends.host.random import below
from softcuda.backends.launches import Argument, f32, f64, i64, read, write
from softcuda.backends.steps import Micro, Step, Unit
from softcuda.dtype import DType
from softcuda.dtype import f64 as double
from softcuda.graph.params import Random, value_of
from softcuda.graph.philox import philox_blocks
from softcuda.graph.shapes import numel
from softcuda.kernelspec import KernelSpec
from softcuda.target import Target

__all__ = ["RANDOM_KERNELS", "prepare_random"]

_FLOATS: Final = ("f16", "bf16", "f32", "f64")

RANDOM_KERNELS: Final[tuple[KernelSpec, ...]] = tuple(
    KernelSpec(family, name, "random.cu", f"{family}<{name}>", (name,), WALK_THREADS)
    for family in ("uniform", "normal")
    for name in _FLOATS
)
_SPECS: Final = {(spec.family, spec.variant): spec for spec in RANDOM_KERNELS}


def prepare_random(unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step of a uniform or normal; none is launched for no elements.

    Raises:
        BackendError: the unit is another op.
    """
    return step_by_table("cuda_naive", unit, target, _MAKERS, "random op")


def _planned(unit: Unit, micro: Micro, target: Target) -> Planned:
    out, params, source = unit.result, micro.params, micro.sources[0]
    count = numel(out.dims)
    arguments = (
        write(),
        read(source),
        i64(unit.operands[source].strides[0]),
        i64(params.offset),
        i64(count),
        *(_uniform(params, out.dtype) if micro.op.name == "uniform" else _normal(params)),
    )
    blocks = blocks_for(philox_blocks(count, out.dtype), WALK_THREADS, target)
    return (launch_in_row(_SPECS[micro.op.name, out.dtype.name], blocks, arguments),), 0


def _uniform(params: Random, dtype: DType) -> tuple[Argument, ...]:
    """Return low, high, high - low, the greatest result, each in the dtype of the arithmetic."""
    low, high = float(value_of(params.low)), float(value_of(params.high))
    kind: Any = np.float64 if dtype is double else np.float32
    number = f64 if dtype is double else f32
    with np.errstate(all="ignore"):
        bottom, top = kind(low), kind(high)
        span = top - bottom
        limit = float(below(high, dtype.numpy)) if low < high else float("inf")
    return tuple(number(x) for x in (float(bottom), float(top), float(span), limit))


def _normal(params: Random) -> tuple[Argument, ...]:
    """Return mean and deviation."""
    return f64(float(value_of(params.low))), f64(float(value_of(params.high)))


_MAKERS: Final[dict[str, Maker]] = {"uniform": _planned, "normal": _planned}
