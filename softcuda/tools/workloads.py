"""Typical work of every op: one table, for soft_init and for the tests.

`typical` gives the workload that stands for an op at a row's size and dtype; `shape_variants`
gives small ones of every kind of shape. Inputs come from a seeded generator and lie in the op's
domain.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from softcuda.dtype import REAL_DTYPES, DType
from softcuda.errors import ArgumentError, DTypeError
from softcuda.graph.node import Node
from softcuda.graph.op import OPS
from softcuda.tools.workloads_base import Recipe, Workload
from softcuda.tools.workloads_elementwise import ELEMENTWISE_RECIPES
from softcuda.tools.workloads_indexing import INDEXED_RECIPES
from softcuda.tools.workloads_inputs import Source
from softcuda.tools.workloads_making import MADE_RECIPES
from softcuda.tools.workloads_movement import MOVED_RECIPES
from softcuda.tools.workloads_reductions import ROW_RECIPES

__all__ = ["WORKLOADS", "accepted_dtypes", "shape_variants", "typical"]

WORKLOADS: Final[Mapping[str, Recipe]] = MappingProxyType(
    {
        **ELEMENTWISE_RECIPES,
        **ROW_RECIPES,
        **MOVED_RECIPES,
        **INDEXED_RECIPES,
        **MADE_RECIPES,
    }
)

# Ops whose rule takes every dtype, though their functions make tensors of these alone.
_MADE_OF: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "uniform": ("f16", "bf16", "f32", "f64"),
        "normal": ("f16", "bf16", "f32", "f64"),
        "linspace": ("f16", "bf16", "f32", "f64"),
        "arange": ("i32", "i64", "f16", "bf16", "f32", "f64"),
    }
)


def typical(op: str, size: int, dtype: DType, source: Source) -> Workload:
    """Return the workload that stands for an op.

    Args:
        op: token of an op that does work.
        size: the row's size (softcuda.graph.lines.row_size), from 1.
        dtype: the row's dtype (softcuda.graph.lines.row_dtype).
        source: where the inputs come from.

    Raises:
        ArgumentError: the op has no workload, or the size is below 1.
    """
    if size < 1:
        raise ArgumentError(f"typical: the size is {size}; allowed are sizes from 1")
    return _recipe(op).typical(OPS[op], size, dtype, source)


def shape_variants(op: str, dtype: DType, source: Source) -> dict[str, Workload]:
    """Return small workloads of an op by name: primes, nothing, strides, broadcast, rank 0.

    Raises:
        ArgumentError: the op has no workload.
    """
    return _recipe(op).shapes(OPS[op], dtype, source)


def accepted_dtypes(op: str, source: Source) -> tuple[DType, ...]:
    """Return the row dtypes that an op takes, in the order of softcuda.dtype.REAL_DTYPES.

    Raises:
        ArgumentError: the op has no workload.
    """
    made_of = _MADE_OF.get(op, tuple(REAL_DTYPES))
    found = []
    for name in made_of:
        try:
            typical(op, 1, REAL_DTYPES[name], source).node(Node)
        except DTypeError:
            continue
        found.append(REAL_DTYPES[name])
    return tuple(found)


def _recipe(op: str) -> Recipe:
    recipe = WORKLOADS.get(op)
    if recipe is None:
        known = ", ".join(sorted(WORKLOADS))
        raise ArgumentError(f"there is no workload for {op!r}; allowed are {known}")
    return recipe


_missing = {op.name for op in OPS.values() if op.does_work} ^ set(WORKLOADS)
if _missing:
    raise KeyError(f"the tables of ops and of workloads differ in {sorted(_missing)}")
