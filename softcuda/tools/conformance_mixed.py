"""Random operations: every form, functions, scalars, C, dtypes, strides of operands and result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from softcuda.dtype import DType, bf16, f16, f32, f64
from softcuda.named import (
    BinaryOp,
    OperandDescriptor,
    OperationDescriptor,
    ReductionOp,
    TensorDescriptor,
    UnaryOp,
)
from softcuda.tools.conformance_bench import Bench, Check, operand
from softcuda.tools.conformance_oracle import contract
from softcuda.tools.conformance_random import laid_out
from softcuda.tools.tolerance import difference

__all__ = ["mixed_checks"]

Array = np.ndarray[Any, Any]

_DTYPES: Final = (f64, f32, f32, f16, bf16)
_SCALARS: Final = (0.0, 1.0, -2.0, 0.5)
_MOST_ELEMENTS: Final = 4096

# Exact, so that an error of one unit in an operand stays one unit.
_UNARY: Final[dict[UnaryOp, Callable[[Array], Array]]] = {
    UnaryOp.Identity: lambda x: x,
    UnaryOp.Negate: np.negative,
    UnaryOp.Abs: np.abs,
    UnaryOp.Relu: lambda x: np.maximum(x, 0),
    UnaryOp.Square: np.square,
    UnaryOp.Floor: np.floor,
}
_BINARY: Final[dict[BinaryOp, Callable[[Array, Array], Array]]] = {
    BinaryOp.Add: np.add,
    BinaryOp.Sub: np.subtract,
    BinaryOp.Mul: np.multiply,
    BinaryOp.Min: np.minimum,
    BinaryOp.Max: np.maximum,
}
_REDUCTIONS: Final[dict[ReductionOp, Callable[..., Any]]] = {
    ReductionOp.Sum: np.sum,
    ReductionOp.Min: np.min,
    ReductionOp.Max: np.max,
    ReductionOp.Mean: np.mean,
    ReductionOp.Norm1: lambda x, axis: np.abs(x).sum(axis),
}


def mixed_checks(count: int) -> Iterator[Check]:
    """Yield random operations, through plans, into results of random strides.

    Args:
        count: how many; the seeds are 0 to count - 1.
    """
    for seed in range(count):
        yield Check(f"random operation {seed}", _Random(seed))


class _Random:
    """One random operation."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __call__(self, bench: Bench) -> str:
        made = _Draw(np.random.default_rng([self._seed, 3]))
        out = laid_out(np.zeros(made.value.shape, made.dtype.numpy), made.rng)
        strides = tuple(stride // out.itemsize for stride in out.strides)
        described = TensorDescriptor(out.shape, strides, made.dtype)
        operation = made.operation(described)
        plan = bench.plan(operation)
        placed = [bench.place(array) for array in made.arrays]
        results = {"execute": plan.execute(placed, made.scalars).numpy()}
        if bench.device == "cpu":
            plan.execute_into(placed, out, made.scalars)
            results["execute_into"] = out
        for way, found in results.items():
            wrong = difference(
                found, made.value, made.dtype, "matmul", k_extent=made.terms, scale=made.scale
            )
            if wrong:
                return f"{way}: {operation}: {wrong}"
        return ""


class _Draw:
    """The draws of one operation, one after the other; its value in f64."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.arrays: list[Array] = []
        self.operation: Callable[[TensorDescriptor], OperationDescriptor]
        self._operands: list[OperandDescriptor] = []
        self._wide: list[Array] = []
        pool = list("ijklm")[: rng.integers(1, 6)]
        self._extents = {x: int(rng.choice((1, 2, 3, 4))) for x in pool}
        self.dtype: DType = _DTYPES[rng.integers(len(_DTYPES))]
        forms: tuple[Callable[[], None], ...] = (
            self._product,
            self._reduction,
            self._permutation,
            self._elementwise,
        )
        forms[rng.integers(len(forms))]()

    def _letters(self, among: list[str]) -> list[str]:
        return [str(x) for x in self.rng.permutation(among) if self.rng.integers(3)]

    def _operand(self, letters: list[str], *, may_stretch: bool = True) -> None:
        """Draw an operand with these labels."""
        rng = self.rng
        shape = [1 if may_stretch and not rng.integers(6) else self._extents[x] for x in letters]
        dtype = self.dtype if rng.integers(4) else _DTYPES[rng.integers(len(_DTYPES))]
        if self.dtype is not f64 and dtype is f64:
            dtype = self.dtype
        values = rng.integers(-5, 6, shape) / 4
        array = laid_out(np.asarray(values).astype(dtype.numpy), rng)
        unary = list(_UNARY)[rng.integers(len(_UNARY))]
        self.arrays.append(array)
        self._operands.append(operand(array, letters).with_unary(unary))
        self._wide.append(_UNARY[unary](array.astype(np.float64)))

    def _draw_scalars(self, count: int) -> None:
        self.scalars = [float(self.rng.choice(_SCALARS)) for _ in range(count)]

    def _over(self, number: int, letters: list[str]) -> Array:
        """Return an operand over all of these labels, stretched to their extents."""
        shape = [self._extents[x] for x in letters]
        modes = [str(x) for x in self._operands[number].modes]
        return contract([modes, letters], letters, [self._wide[number], np.ones(shape)])

    def _product(self) -> None:
        pool, rng = list(self._extents), self.rng
        for _ in range(rng.integers(1, 4)):
            self._operand(self._letters(pool))
        out = self._letters(pool)
        factors, modes = self._wide, [x.modes for x in self._operands]
        shape = [self._extents[x] for x in out]
        ones = [*factors, np.ones(shape)]
        labels: Any = [*modes, out]
        value = contract(labels, out, ones)
        scale = contract(labels, out, [np.abs(x) for x in ones])
        has_c = bool(rng.integers(2))
        if has_c:
            self._operand(self._letters(out))
        self._draw_scalars(1 + has_c)
        self.value, self.scale = self.scalars[0] * value, abs(self.scalars[0]) * scale
        if has_c:
            c = self._over(len(self._operands) - 1, out)
            self.value = self.value + self.scalars[1] * c
            self.scale = self.scale + np.abs(self.scalars[1] * c)
        self.terms = int(np.prod(list(self._extents.values()))) + 4
        *given, last = self._operands
        operands = given if has_c else [*given, last]
        self.operation = lambda described: OperationDescriptor.sum_product(
            operands, last if has_c else None, described, out
        )

    def _reduction(self) -> None:
        pool = list(self._extents)
        letters = [str(x) for x in self.rng.permutation(pool)]
        self._operand(letters, may_stretch=False)
        out = self._letters(letters)
        op = list(_REDUCTIONS)[self.rng.integers(len(_REDUCTIONS))]
        self._draw_scalars(1)
        kept = [x for x in letters if x in out]
        axes = tuple(axis for axis, x in enumerate(letters) if x not in out)
        wide = self._wide[0]
        reduced = np.asarray(_REDUCTIONS[op](wide, axes))
        size = np.asarray(np.abs(wide).sum(axes))
        order = [kept.index(x) for x in out]
        self.value = self.scalars[0] * reduced.transpose(order)
        self.scale = abs(self.scalars[0]) * size.transpose(order)
        self.terms = wide.size + 4
        a = self._operands[0]
        self.operation = lambda described: OperationDescriptor.reduction(
            a, None, described, out, op
        )

    def _permutation(self) -> None:
        letters = [str(x) for x in self.rng.permutation(list(self._extents))]
        self._operand(letters, may_stretch=False)
        out = [str(x) for x in self.rng.permutation(letters)]
        self._draw_scalars(1)
        self.value = self.scalars[0] * self._over(0, out)
        self.scale, self.terms = np.abs(self.value), 1
        a = self._operands[0]
        self.operation = lambda described: OperationDescriptor.permutation(a, described, out)

    def _elementwise(self) -> None:
        pool = list(self._extents)
        out = [str(x) for x in self.rng.permutation(pool)]
        count = int(self.rng.integers(2, 4))
        for _ in range(count):
            self._operand(self._letters(out))
        self._draw_scalars(count)
        parts = [s * self._over(n, out) for n, s in enumerate(self.scalars)]
        functions = [list(_BINARY)[self.rng.integers(len(_BINARY))] for _ in range(count - 1)]
        self.value, self.scale = parts[0], np.abs(parts[0])
        for part, function in zip(parts[1:], functions, strict=True):
            self.value = _BINARY[function](self.value, part)
            larger = self.scale + np.abs(part)
            is_product = function is BinaryOp.Mul
            self.scale = self.scale * np.abs(part) if is_product else larger
        self.terms = 4
        a, b, *c = self._operands
        if not c:
            self.operation = lambda described: OperationDescriptor.elementwise_binary(
                a, b, described, out, functions[0]
            )
        else:
            self.operation = lambda described: OperationDescriptor.elementwise_trinary(
                a, b, c[0], described, out, functions[0], functions[1]
            )
