"""Contractions on the host, shared by cpu_blas and cpu_fallback: planned once, bound to arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from softcuda.backends.host.blocks import (
    MANY_TERMS,
    has_many_terms,
    multiply_any,
    multiply_by_parts,
)
from softcuda.backends.host.contraction import Pair, pair_of, with_axes
from softcuda.backends.host.mapped import Mapped
from softcuda.backends.host.packed import PackedProduct
from softcuda.backends.host.packing import oriented, stack_of, vectors_of
from softcuda.backends.host.prices import cheapest
from softcuda.backends.host.reductions import bind_sum
from softcuda.backends.host.routes import Asked, Route
from softcuda.backends.host.tiling import TileLimits, Tiling
from softcuda.backends.steps import Operand
from softcuda.contraction.axes import Axes
from softcuda.dtype import DType
from softcuda.graph.params import Contraction

__all__ = ["Method", "Product"]

Array = np.ndarray[Any, Any]
Call = tuple[Callable[..., Any], tuple[Any, ...]]

# From this k on the inner loop of a product runs along k, below along n.
_LONG_K = 16

_LEAST_RUN = 16  # neighbours of a part


@dataclass(frozen=True, slots=True)
class Method:
    """How a backend multiplies matrices.

    Attributes:
        multiply: f(a [..., m, k], b [..., k, n], out [..., m, n]) in the compute dtype.
        limits: bounds of packed tiles.
        direct: the dtypes whose arrays `multiply` may read where they lie.
        by_columns: whether long rows of a meet rows of b transposed.
    """

    multiply: Callable[[Array, Array, Array], Any]
    limits: TileLimits
    direct: tuple[DType, ...]
    by_columns: bool


class Product:
    """A contraction of two operands, planned for a method.

    Args:
        inputs: the two operands.
        out: the result.
        params: labels.
        compute: the dtype that products are formed and summed in.
        method: how matrices are multiplied.
    """

    def __init__(
        self,
        inputs: Sequence[Operand],
        out: Operand,
        params: Contraction,
        compute: DType,
        method: Method,
    ) -> None:
        self._first = pair_of(inputs[0], inputs[1], out, params)
        self._summed = self._first.summed()
        fused = self._summed.fused()
        self._out = fused.out
        self._parts = _parts_of(fused)
        self._pair = fused if self._parts is None else fused.with_result(self._parts)
        self._method = method
        self._compute = compute
        self._common = out.dtype
        self._route: Route | None = None
        self._tiling: Tiling | None = None
        self._stacks: list[Axes] = []
        if self._pair.classes.k and 0 not in self._pair.extents.values():
            self._plan([*inputs, out])

    def _plan(self, operands: Sequence[Operand]) -> None:
        method, compute = self._method, self._compute
        is_summed = (*map(bool, self._private), False)
        a, b, out = (
            compute in method.direct and (operand.dtype is compute or summed)
            for operand, summed in zip(operands, is_summed, strict=True)
        )
        out = out or self._parts is not None
        by_columns = method.by_columns and self._depth >= _LONG_K
        asked = Asked((a, b, out), by_columns, method.limits.tile, method.limits.whole)
        choice = cheapest(self._pair, asked, method.limits)
        self._route = choice.route
        if any(choice.route.packed) or choice.tiling.is_shared:
            self._tiling = choice.tiling
        else:
            self._stacks = [
                stack_of(axes, choice.route, number)
                for number, axes in enumerate(choice.route.operands)
            ]

    @property
    def _depth(self) -> int:
        return self._pair.count(self._pair.classes.k)

    @property
    def _private(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return self._first.classes.private_a, self._first.classes.private_b

    @property
    def kernel(self) -> str:
        """The name of what is done.

        `outer` without a sum, else `matmul`, `_shared` where threads take a box each, `_packed`
        and what is packed, `_parts` where dots of parts are added.
        """
        if not self._pair.classes.k:
            return "outer"
        if self._parts is not None:
            return "matmul_parts"
        if self._route is None or self._tiling is None:
            return "matmul"
        packed = zip(("a", "b", "out"), self._route.packed, strict=True)
        names = [name for name, is_packed in packed if is_packed]
        shared = ["shared"] if self._tiling.is_shared else []
        return "_".join(("matmul", *shared, *(("packed", *names) if names else ())))

    @property
    def scratch_bytes(self) -> int:
        """Scratch of the sums over private labels, of dots of parts, of packed tiles [bytes]."""
        size = self._compute.itemsize
        parts = 0 if self._parts is None else self._parts.numel * size
        sums = sum(
            axes.numel * size
            for axes, private in zip((self._pair.a, self._pair.b), self._private, strict=True)
            if private
        )
        return sums + parts + (sum(self._tiling.whole) * size if self._tiling else 0)

    def bind(self, inputs: Sequence[Array], out: Array, scratch: Array | None) -> list[Call]:
        """Return the calls of the contraction on these arrays.

        Args:
            inputs: the two operands.
            out: the result.
            scratch: `scratch_bytes` bytes, or None where that is 0.
        """
        if not out.size:
            return []
        memory = np.empty(0, self._compute.numpy)
        if scratch is not None:
            memory = scratch[: self.scratch_bytes].view(self._compute.numpy)
        calls: list[Call] = []
        arrays = []
        whole = ((self._first.a, self._summed.a), (self._first.b, self._summed.b))
        for source, (before, after), private in zip(inputs, whole, self._private, strict=True):
            if not private:
                arrays.append(source)
                continue
            total, memory = memory[: after.numel], memory[after.numel :]
            axes = tuple(i for i, label in enumerate(before.labels) if label in private)
            calls += bind_sum(with_axes(source, before), axes, total.reshape(after.dims))
            arrays.append(total)
        if self._parts is None:
            return [*calls, *self._product(arrays, out, memory)]
        parts, memory = memory[: self._parts.numel], memory[self._parts.numel :]
        calls += self._product(arrays, parts, memory)
        summed = tuple(range(len(self._parts.labels) - len(self._out.labels)))
        dots = parts.reshape(self._parts.dims)
        return [*calls, *bind_sum(dots, summed, with_axes(out, self._out))]

    def _product(self, arrays: Sequence[Array], out: Array, memory: Array) -> list[Call]:
        pair = self._pair
        if not pair.classes.k:
            return [self._outer(arrays, out)]
        route = self._route
        if route is None:
            return [(out.fill, (0,))]
        whole = (*arrays, out)
        if self._tiling is None:
            multiply = self._method.multiply
            stacks = tuple(map(with_axes, whole, self._stacks))
            if has_many_terms(stacks[0], stacks[2]):
                return [(multiply_by_parts, (multiply, *oriented(*stacks)))]
            if isinstance(multiply, np.ufunc) and 1 in stacks[2].shape[-2:] and not route.loops:
                return [(multiply, vectors_of(*stacks))]
            return [(multiply, oriented(*stacks))]
        a, b, c = (with_axes(x, axes) for x, axes in zip(whole, route.operands, strict=True))
        method = self._method
        multiply = method.multiply
        if self._depth >= MANY_TERMS:
            multiply = partial(multiply_any, multiply)
        product = PackedProduct(route, self._tiling, multiply, self._common, method.limits.apart)
        return product.calls(a, b, c, memory)

    def _outer(self, arrays: Sequence[Array], out: Array) -> Call:
        pair: Pair = self._pair
        views = [
            with_axes(array, _aligned(axes, pair.out))
            for array, axes in zip((*arrays, out), (pair.a, pair.b, pair.out), strict=True)
        ]
        compute = self._compute.numpy
        if all(view.dtype == compute for view in views):
            return (np.multiply, tuple(views))
        loads = [
            self._common if view.dtype.kind == "i" and self._common.is_inexact else self._compute
            for view in views[:2]
        ]
        return (Mapped(np.multiply, loads, self._compute), tuple(views))


def _aligned(axes: Axes, out: Axes) -> Axes:
    return axes.over(out.labels)


def _parts_of(pair: Pair) -> Axes | None:
    """Return the axes of dots of parts; None where a contraction is better done at once.

    A dot of labels that are no one run of both operands would be packed whole. Dots along the run
    that both have, one for each element of the others, are added up instead.
    """
    classes = pair.classes
    if classes.m or classes.n or len(classes.k) < 2 or 0 in pair.extents.values():
        return None
    steps = [dict(zip(axes.labels, axes.strides, strict=True)) for axes in (pair.a, pair.b)]
    runs = [x for x in classes.k if all(step[x] == 1 for step in steps)]
    if not runs or pair.extents[runs[0]] < _LEAST_RUN:
        return None
    order = (*(label for label in classes.k if label != runs[0]), *pair.out.labels)
    return Axes.dense(order, pair.dims(order))
