"""Contractions on the host, shared by cpu_blas and cpu_fallback: planned once, bound to arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from softcuda.backends.host.contraction import Pair, Views, direct_views, pair_of, with_axes
from softcuda.backends.host.mapped import Mapped
from softcuda.backends.host.packed import PackedProduct, packed_bytes, turned
from softcuda.backends.host.reductions import bind_sum
from softcuda.backends.host.tiling import TileLimits
from softcuda.backends.steps import Operand
from softcuda.contraction.axes import Axes
from softcuda.dtype import DType
from softcuda.graph.params import Contraction

__all__ = ["Method", "Product"]

Array = np.ndarray[Any, Any]
Call = tuple[Callable[..., Any], tuple[Any, ...]]

# From this k on the inner loop of a product runs along k, below along n.
_LONG_K = 16


@dataclass(frozen=True, slots=True)
class Method:
    """How a backend multiplies matrices.

    Attributes:
        multiply: f(a [b, m, k], b [b, k, n], out [b, m, n]) in the compute dtype.
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
        self._pair = self._first.summed()
        self._method = method
        self._compute = compute
        self._common = out.dtype
        native = out.dtype in method.direct and all(
            operand.dtype is compute or private
            for operand, private in zip(inputs, self._private, strict=True)
        )
        self._views: Views | None = None
        if native and self._pair.classes.k:
            self._views = direct_views(self._pair)

    @property
    def _private(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return self._first.classes.private_a, self._first.classes.private_b

    @property
    def kernel(self) -> str:
        """matmul, matmul_packed where operands go through scratch, or outer without a sum."""
        if not self._pair.classes.k:
            return "outer"
        return "matmul" if self._views else "matmul_packed"

    @property
    def scratch_bytes(self) -> int:
        """Scratch of the sums over private labels and of packed tiles [bytes]."""
        size = self._compute.itemsize
        sums = sum(
            axes.numel * size
            for axes, private in zip((self._pair.a, self._pair.b), self._private, strict=True)
            if private
        )
        packs = self.kernel == "matmul_packed"
        return sums + (packed_bytes(turned(self._pair), self._method.limits, size) if packs else 0)

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
        whole = ((self._first.a, self._pair.a), (self._first.b, self._pair.b))
        for source, (before, after), private in zip(inputs, whole, self._private, strict=True):
            if not private:
                arrays.append(source)
                continue
            total, memory = memory[: after.numel], memory[after.numel :]
            axes = tuple(i for i, label in enumerate(before.labels) if label in private)
            calls.append(bind_sum(with_axes(source, before), axes, total.reshape(after.dims)))
            arrays.append(total)
        return [*calls, self._product(arrays, out, memory)]

    def _product(self, arrays: Sequence[Array], out: Array, memory: Array) -> Call:
        pair = self._pair
        if not pair.classes.k:
            return self._outer(arrays, out)
        if self._views is not None:
            views = self._views
            a, b = arrays[::-1] if views.swapped else arrays
            return (
                self._method.multiply,
                (with_axes(a, views.a), with_axes(b, views.b), with_axes(out, views.out)),
            )
        kept, pair = pair, turned(pair)
        if pair is not kept:
            arrays = arrays[::-1]
        by_columns = self._method.by_columns and pair.count(pair.classes.k) >= _LONG_K
        product = PackedProduct(
            pair, self._method.limits, self._method.multiply, self._common, by_columns=by_columns
        )
        ordered = [
            with_axes(array, axes.over(order))
            for array, axes, order in zip(
                (*arrays, out), (pair.a, pair.b, pair.out), product.orders, strict=True
            )
        ]
        return (product, (*ordered, memory))

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
            self._common if view.dtype.kind == "i" and self._common.is_float else self._compute
            for view in views[:2]
        ]
        return (Mapped(np.multiply, loads, self._compute), tuple(views))


def _aligned(axes: Axes, out: Axes) -> Axes:
    return axes.over(out.labels)
