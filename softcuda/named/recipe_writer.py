"""Writing recipes: an operation as lines of a graph."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from softcuda.contraction.path import ContractionPath
from softcuda.contraction.slicing import Storage
from softcuda.dtype import DType, complex64, compute_dtype, promote, real_dtype
from softcuda.graph.op import OPS
from softcuda.named.arithmetic import Arithmetic, arithmetic_of, scale_dtype
from softcuda.named.limits import found_path
from softcuda.named.operation import Form, OperationDescriptor
from softcuda.named.operators import UnaryOp
from softcuda.named.pairs import walk
from softcuda.named.recipe import PathOptions, Recipe, Scalar, as_optimizer
from softcuda.named.reducing import reduced
from softcuda.named.results import factor_dtype, reduced_dtype, sum_dtype, unary_dtype
from softcuda.named.sketch import Sketch, Value

__all__ = ["recipe_of"]

_INPUT: Final = OPS["input"]


def recipe_of(
    operation: OperationDescriptor, scalars: tuple[Scalar, ...], options: PathOptions
) -> Recipe:
    """Return the recipe of an operation, from a cache of 256 where the options can be hashed.

    Args:
        operation: what is computed.
        scalars: how each of its scalars enters.
        options: how the path of a contraction is found.

    Raises:
        ArgumentError, ArgumentTypeError: options that do not fit.
        DTypeError: a function that does not take the dtype of its operand.
        ShapeError: positions in an empty set of elements.
    """
    options = options._replace(optimize=as_optimizer(options.optimize))
    if isinstance(options.optimize, Hashable):
        return _cached(operation, scalars, options)
    return _Writer(operation, scalars, options).recipe()


@lru_cache(maxsize=256)
def _cached(
    operation: OperationDescriptor, scalars: tuple[Scalar, ...], options: PathOptions
) -> Recipe:
    return _Writer(operation, scalars, options).recipe()


class _Writer:
    """Writes the lines of one operation."""

    def __init__(
        self, operation: OperationDescriptor, scalars: tuple[Scalar, ...], options: PathOptions
    ) -> None:
        self._operation = operation
        self._scalars = scalars
        self._options = options
        typed = [x.tensor_descriptor for x in operation.operands]
        self._sketch = Sketch([(x.extents, x.dtype) for x in typed])
        self._path: ContractionPath | None = None
        self._steps: tuple[int, ...] = ()

    def recipe(self) -> Recipe:
        write = {
            Form.SUM_PRODUCT: self._sum_product,
            Form.EINSUM: self._sum_product,
            Form.REDUCTION: self._reduction,
            Form.PERMUTATION: self._permutation,
            Form.BINARY: self._elementwise,
            Form.TRINARY: self._elementwise,
        }[self._operation.form]
        sketch, out = self._sketch, self._operation.out
        found = write()
        line = sketch.cast(found.line, out.dtype)
        line = sketch.spread(Value(line, found.labels), self._operation.equation.output)
        line = sketch.filled(line, out.extents)
        if sketch.lines[line].op is _INPUT:
            line = sketch.add("copy", line)
        count = len(self._operation.operands)
        return Recipe(tuple(sketch.lines), line, self._path, self._steps, count)

    def _sum_product(self) -> Value:
        operation, sketch = self._operation, self._sketch
        dtypes = [factor_dtype(x.tensor_descriptor.dtype, x.unary) for x in operation.operands]
        whole = arithmetic_of("contraction", dtypes, operation.compute, operation.out.dtype)
        factors = len(operation.operands) - operation.has_addend
        lines = [self._applied(k, whole.between) for k in range(factors)]
        is_plain = not operation.has_addend and self._plain(0)
        result = whole.result if is_plain else whole.between
        self._path = self._find_path(lines, Arithmetic(whole.between, result, whole.compute))
        walked = walk(sketch, self._path, lines, whole._replace(result=result))
        self._steps = walked.steps
        return self._affine(walked.value, whole.between)

    def _find_path(self, lines: Sequence[int], arithmetic: Arithmetic) -> ContractionPath:
        operation, options = self._operation, self._options
        equation = operation.equation
        shapes = [self._sketch.dims(line) for line in lines]
        out = operation.out.extents
        if operation.has_addend:  # C is added to what the factors give, with the extents of all
            equation = replace(equation, inputs=equation.inputs[:-1])
        storage = Storage(
            tuple(self._sketch.dtype(line).itemsize for line in lines),
            arithmetic.between.itemsize,
            arithmetic.result.itemsize,
        )
        return found_path(
            equation, tuple(shapes), storage, options.optimize, options.memory_limit, out
        )

    def _reduction(self) -> Value:
        operation, sketch = self._operation, self._sketch
        a, *addends = operation.operands
        op: Any = operation.functions[0]
        dtype = a.tensor_descriptor.dtype
        inner = unary_dtype(dtype, a.unary, is_scaled=False)
        joined = compute_dtype(reduced_dtype(inner, op))
        whole = compute_dtype(sum_dtype(inner, op, *addends))
        is_bare = a.unary is UnaryOp.Identity and not addends and self._plain(0)
        if joined.is_inexact and real_dtype(joined) is not real_dtype(whole):
            dtype = whole  # of a C of more bits
        elif not is_bare or operation.out.dtype is not dtype:
            dtype = compute_dtype(dtype)
        value = Value(self._applied(0, dtype), operation.equation.inputs[0])
        found = reduced(sketch, value, operation.equation.output, op)
        return self._affine(found, scale_dtype(whole))

    def _permutation(self) -> Value:
        dtype = self._operation.operands[0].tensor_descriptor.dtype
        is_bare = self._operation.operands[0].unary is UnaryOp.Identity and self._plain(0)
        line = self._applied(0, dtype if is_bare else compute_dtype(dtype))
        line = self._scaled(line, 0, scale_dtype(self._sketch.dtype(line)))
        return Value(line, self._operation.equation.inputs[0])

    def _elementwise(self) -> Value:
        """Return the operands joined in their order, each aligned with the output's labels."""
        operation, sketch = self._operation, self._sketch
        output = operation.equation.output
        common = operation.common_dtype
        computed = compute_dtype(common) if common.is_inexact else None
        joined = -1
        for number, operand in enumerate(operation.operands):
            line = self._applied(number, computed or operand.tensor_descriptor.dtype)
            line = self._scaled(line, number, scale_dtype(sketch.dtype(line)))
            labels = operation.equation.inputs[number]
            aligned = sketch.spread(sketch.distinct(Value(line, labels)), output)
            if number:
                joined = sketch.add(operation.functions[number - 1].value, joined, aligned)
            else:
                joined = aligned
        return Value(joined, output)

    def _applied(self, number: int, dtype: DType) -> int:
        """Return an operand after its function, which is computed in a dtype of its own.

        Without a function the operand of a contraction is returned as it is. The function of a
        real operand is a real one, whatever the operand meets.
        """
        sketch = self._sketch
        unary = self._operation.operands[number].unary
        is_contraction = self._operation.form in (Form.SUM_PRODUCT, Form.EINSUM)
        if unary is UnaryOp.Identity and is_contraction:
            return number
        line = number
        if dtype.is_inexact or is_contraction:
            line = sketch.cast(line, self._own_dtype(number, dtype))
        return line if unary is UnaryOp.Identity else sketch.add(unary.value, line)

    def _own_dtype(self, number: int, dtype: DType) -> DType:
        is_complex = self._operation.operands[number].tensor_descriptor.dtype.is_complex
        return promote(dtype, complex64) if is_complex else real_dtype(dtype)

    def _plain(self, number: int) -> bool:
        return self._operation.form is Form.EINSUM or self._scalars[number] is Scalar.ONE

    def _scaled(self, line: int, number: int, dtype: DType) -> int:
        """Return a line times a scalar, in a dtype."""
        if self._plain(number):
            return line
        sketch = self._sketch
        return sketch.add("mul", sketch.operand((), dtype), sketch.cast(line, dtype))

    def _affine(self, value: Value, dtype: DType) -> Value:
        """Return alpha * value + beta * op(C), where there is a C."""
        operation, sketch = self._operation, self._sketch
        if not operation.has_addend:
            return Value(self._scaled(value.line, 0, dtype), value.labels)
        number = len(operation.operands) - 1
        output = operation.equation.output
        c = self._applied_addend(number, dtype)
        both = scale_dtype(promote(dtype, sketch.dtype(c)))
        scaled = sketch.cast(self._scaled(value.line, 0, both), both)
        aligned = sketch.spread(Value(scaled, value.labels), output)
        kind = self._scalars[1]
        if kind is Scalar.ZERO:
            return Value(aligned, output)
        own = sketch.distinct(Value(c, operation.equation.inputs[number]))
        addend = sketch.spread(own, output)
        if kind is Scalar.ONE:
            return Value(sketch.add("add", aligned, sketch.cast(addend, both)), output)
        beta = sketch.operand((), both)
        addend = sketch.add("mul", beta, sketch.cast(addend, both))
        total = sketch.add("add", aligned, addend)
        if kind is Scalar.GIVEN:
            # Chosen element by element, since what is not read may be NaN.
            is_zero = sketch.add("eq", beta, sketch.number(0, both))
            aligned = sketch.filled(aligned, sketch.dims(total))
            total = sketch.add("where", is_zero, aligned, total)
        return Value(total, output)

    def _applied_addend(self, number: int, dtype: DType) -> int:
        sketch, unary = self._sketch, self._operation.operands[number].unary
        line = sketch.cast(number, self._own_dtype(number, dtype))
        return line if unary is UnaryOp.Identity else sketch.add(unary.value, line)
