"""The cases of the sweep of reductions and rows: what is read, and what is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from softcuda.backends.steps import Micro, Operand, Unit
from softcuda.dtype import DType, bf16, f32
from softcuda.graph.op import OPS
from softcuda.graph.params import Cumulative, Dims, LayerNorm, Moment, Norm, Reduce, Softmax
from softcuda.graph.shapes import contiguous_strides, numel

__all__ = ["ELEMENTS", "SAMPLE", "Case", "cases"]

Array = np.ndarray[Any, Any]

ELEMENTS: Final = 1 << 26
SAMPLE: Final = 64  # rows of a large result that are compared, at both ends


class Case(NamedTuple):
    """One workload.

    Attributes:
        name: such as "sum 8192x8192 ax1".
        unit: the op and its operands.
        right: the input, f32 or bf16, of the case's extents -> the result in f64.
        is_sampled: only SAMPLE rows at both ends of the result are compared.
    """

    name: str
    unit: Unit
    right: Callable[[Array], Array]
    is_sampled: bool = False

    @property
    def dims(self) -> Dims:
        """Extents of the input."""
        return self.unit.operands[0].dims

    @property
    def dtype(self) -> DType:
        """Dtype of the input."""
        return self.unit.operands[0].dtype

    @property
    def nbytes(self) -> int:
        """Bytes that are read and written at least once."""
        windows = (*self.unit.operands, self.unit.result)
        return sum(numel(w.dims) * w.dtype.itemsize for w in windows)


def _unit(name: str, operands: Sequence[Operand], params: Any) -> Unit:
    op, sources = OPS[name], tuple(range(len(operands)))
    dims, dtype = op.shape_rule(operands, params), op.dtype_rule(operands, params)
    micro = Micro(op, sources, dims, dtype, params)
    return Unit(
        (micro,), tuple(operands), Operand(0, 0, dims, contiguous_strides(dims), dtype), (0,)
    )


def _operand(number: int, dims: Dims, dtype: DType) -> Operand:
    return Operand(number, 0, dims, contiguous_strides(dims), dtype)


def _text(dims: Dims) -> str:
    return "x".join(map(str, dims))


def _reduction(name: str, dims: Dims, axes: Dims, right: Any, dtype: DType = f32) -> Case:
    params: Any = Reduce(axes, False)
    if name == "var":
        params = Moment(axes, False, "0")
    elif name == "norm":
        params = Norm(axes, False, "2")
    shown = f"{name} {dtype} {_text(dims)} ax{''.join(map(str, axes))}"
    unit = _unit(name, [_operand(0, dims, dtype)], params)
    return Case(shown, unit, lambda x: np.asarray(right(x, axes)))


def _sum64(x: Array, axes: Dims) -> Array:
    return np.asarray(np.sum(x, axes, dtype=np.float64))


def _var64(x: Array, axes: Dims) -> Array:
    mean = np.mean(x, axes, dtype=np.float64)
    square = np.einsum("ij,ij->i" if axes == (1,) else "ij,ij->j", x, x, dtype=np.float64)
    return np.asarray(square / x.shape[axes[0]] - mean**2)


def _ends(x: Array) -> Array:
    return np.concatenate([x[:SAMPLE], x[-SAMPLE:]]).astype(np.float64)


def _softmax64(x: Array) -> Array:
    powers = np.exp(_ends(x))
    return np.asarray(powers / powers.sum(1, keepdims=True))


def _layer_norm64(x: Array) -> Array:
    rows = _ends(x)
    away = rows - rows.mean(1, keepdims=True)
    made = away / np.sqrt(np.square(away).mean(1, keepdims=True) + 1e-5)
    first = x.reshape(-1)[: x.shape[1]].astype(np.float64)
    return np.asarray(made * first + first)


def cases() -> Iterator[Case]:
    """Yield the cases; every input is the first elements of the same random numbers."""
    square = (8192, 8192)
    for dims, axes in (
        ((ELEMENTS,), (0,)),
        (square, (0,)),
        (square, (1,)),
        ((256, 256, 1024), (1,)),
        ((256, 256, 1024), (0, 2)),
        ((64, 1 << 20), (0,)),
        ((1 << 20, 64), (1,)),
        ((1 << 22, 16), (0,)),
        ((8191, 8191), (1,)),
        ((256,), (0,)),  # what a launch takes
    ):
        yield _reduction("sum", dims, axes, _sum64)
    yield _reduction("max", square, (1,), np.max)
    yield _reduction("max", square, (0,), np.max)
    yield _reduction("sum", (1 << 22, 16), (1,), _sum64)
    yield _reduction("sum", square, (1,), _sum64, bf16)
    yield _reduction("sum", square, (0,), _sum64, bf16)
    for axis in (0, 1):
        yield _reduction("argmax", square, (axis,), lambda x, axes: np.argmax(x, axes[0]))
        yield _reduction("var", square, (axis,), _var64)
    yield _reduction("logsumexp", square, (1,), lambda x, axes: np.log(_sum64(np.exp(x), axes)))
    yield _reduction("norm", square, (1,), lambda x, axes: np.sqrt(_sum64(x * x, axes)))
    unit = _unit("cumsum", [_operand(0, square, f32)], Cumulative(1))
    yield Case("cumsum f32 8192x8192 ax1", unit, lambda x: np.cumsum(_ends(x), 1), True)
    for dims in (square, (65536, 128)):
        for dtype in (f32, bf16):
            x, row = _operand(0, dims, dtype), dims[1:]
            unit = _unit("softmax", [x], Softmax(1))
            yield Case(f"softmax {dtype} {_text(dims)}", unit, _softmax64, True)
            factors = [_operand(k, row, dtype) for k in (1, 2)]
            unit = _unit("layer_norm", [x, *factors], LayerNorm(1, "1e-05", True, True))
            yield Case(f"layer_norm {dtype} {_text(dims)}", unit, _layer_norm64, True)
