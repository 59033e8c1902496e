"""What the lazy functions were given: operands with labels, scalars, the shape of the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from softcuda.contraction.equation import equation_of, label_extents
from softcuda.contraction.rules import check_known_output
from softcuda.dtype import DType, as_dtype
from softcuda.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from softcuda.functions.operands import TensorLike
from softcuda.graph.shapes import check_dims
from softcuda.graph.trace import on_device
from softcuda.named.checks import checked_scalar, operand_tensors, rounded
from softcuda.named.descriptors import Modes, OperandDescriptor, TensorDescriptor, checked_modes
from softcuda.named.einsums import within_memory
from softcuda.named.operation import OperationDescriptor
from softcuda.named.operators import BinaryOp, UnaryOp
from softcuda.named.recipe import PathOptions, Scalar, instantiate
from softcuda.named.recipe_writer import recipe_of
from softcuda.named.results import elementwise_dtype, unary_dtype
from softcuda.tensor import Tensor
from softcuda.tensor.values import is_number

__all__ = [
    "Factor",
    "Given",
    "ShapeLike",
    "check_addend_given",
    "elementwise_result",
    "factor_of",
    "given_operands",
    "make",
    "result_layout",
]

ShapeLike = int | Sequence[int] | None


class Given(NamedTuple):
    """Operands as tensors, and what an operation knows of them."""

    tensors: tuple[Tensor, ...]
    descriptors: tuple[OperandDescriptor, ...]


class Factor(NamedTuple):
    """A scalar: how it enters the operation, and its value where it does."""

    kind: Scalar
    value: Any
    who: str = ""  # the function and the scalar, first words of the errors


def given_operands(
    what: str, pairs: Sequence[tuple[TensorLike, Modes]], unary: Sequence[UnaryOp]
) -> Given:
    """Return operands that were given as tensors and labels.

    Args:
        what: who asks, first word of the errors.
        pairs: a tensor, array or number, and its labels.
        unary: their functions; those left out are the identity.

    Raises:
        ArgumentError: more functions than operands.
        ArgumentTypeError: `unary` is no list.
        ShapeError, DTypeError, ArgumentTypeError: as OperandDescriptor and Tensor.
    """
    if isinstance(unary, (UnaryOp, str)) or not isinstance(unary, Sequence):
        raise ArgumentTypeError(
            f"{what}: unary is {unary!r}; allowed is a list of members of UnaryOp, one an operand, "
            "such as [UnaryOp.Sqrt]"
        )
    functions = tuple(unary)
    if len(functions) > len(pairs):
        raise ArgumentError(
            f"{what}: {len(functions)} unary functions for {len(pairs)} operands; allowed is one "
            "an operand"
        )
    functions += (UnaryOp.Identity,) * (len(pairs) - len(functions))
    tensors = operand_tensors(what, [value for value, _ in pairs])
    descriptors = tuple(
        OperandDescriptor(
            TensorDescriptor.contiguous(tensor.dims, tensor.dtype),
            checked_modes(what, modes),
            function,
        )
        for tensor, (_, modes), function in zip(tensors, pairs, functions, strict=True)
    )
    return Given(tensors, descriptors)


def factor_of(what: str, name: str, value: TensorLike, *, is_addend: bool = False) -> Factor:
    """Return a scalar that was given.

    Args:
        what: who asks, first word of the errors.
        name: of the scalar.
        value: a number, or a tensor of rank 0.
        is_addend: whether it is the beta of what is added, which is not read where beta is 0.

    Raises:
        ArgumentTypeError: it is neither a number nor a tensor.
        ShapeError: a tensor of another rank.
    """
    if is_number(value):
        if value == 1:
            return Factor(Scalar.ONE, None)
        is_zero = is_addend and value == 0
        kind = Scalar.ZERO if is_zero else Scalar.NUMBER
        return Factor(kind, None if is_zero else value, f"{what}: {name}")
    if not isinstance(value, Tensor):
        raise ArgumentTypeError(
            f"{what}: {name} is {value!r} of type {type(value).__name__}; allowed are a number and "
            "a tensor of rank 0"
        )
    if value.dims:
        raise ShapeError(
            f"{what}: {name} has shape {list(value.dims)}; allowed are a number and a tensor of "
            "rank 0"
        )
    return Factor(Scalar.GIVEN, value, f"{what}: {name}")


def check_addend_given(what: str, c: TensorLike | None, c_modes: Modes, beta: TensorLike) -> None:
    """Refuse labels or a factor of an operand that was not given.

    Raises:
        ArgumentError: there is no C.
    """
    if c is not None:
        return
    is_one = is_number(beta) and beta == 1
    if len(checked_modes(what, c_modes)) or not is_one:
        given = f"beta={beta!r}" if not is_one else f"c_modes={c_modes!r}"
        raise ArgumentError(f"{what}: {given} and no c to add; give c, or leave it out")


def elementwise_result(
    given: Given, factors: Sequence[Factor], functions: Sequence[Any], output_dtype: Any
) -> DType:
    """Return the dtype of an elementwise result: what was asked for, else by the ops' rules.

    Raises:
        DTypeError: a function that does not take the dtypes, or `output_dtype` names none.
    """
    if output_dtype is not None:
        return as_dtype(output_dtype)
    dtypes = [
        unary_dtype(x.tensor_descriptor.dtype, x.unary, is_scaled=factor.kind is not Scalar.ONE)
        for x, factor in zip(given.descriptors, factors, strict=True)
    ]
    known = [function for function in functions if isinstance(function, BinaryOp)]
    return elementwise_dtype(dtypes, known) if len(known) == len(functions) else dtypes[0]


def result_layout(
    what: str,
    given: Given,
    modes: tuple[Any, ...],
    shape: ShapeLike,
    dtype: DType,
) -> TensorDescriptor:
    """Return where the result lies: dense, of a given shape or of that of the operands.

    Raises:
        ArgumentError: an output label that no operand has, and no shape to say its extent.
        ShapeError, ArgumentTypeError: extents that do not fit.
    """
    equation = equation_of([x.modes for x in given.descriptors], modes)
    if shape is None:
        check_known_output(equation, what)
    extents = label_extents(
        equation,
        [x.dims for x in given.tensors],
        None if shape is None else check_dims(what, shape),
    )
    return TensorDescriptor.contiguous([extents[label] for label in equation.output], dtype)


def make(
    operation: OperationDescriptor,
    given: Given,
    factors: Sequence[Factor],
    options: PathOptions,
) -> Tensor:
    """Return the tensor that an operation gives.

    Raises:
        ArgumentError, DTypeError, ShapeError: as `recipe_of`.
        DTypeError: a scalar whose kind is above that of the dtype of the operands.
        NumberRangeError: a scalar that the dtype of the operands does not hold.
    """
    kinds = tuple(factor.kind for factor in factors)
    recipe = recipe_of(operation, kinds, options)
    on = "cuda" if any(on_device(x) == "cuda" for x in given.tensors) else "cpu"
    bounded = within_memory(recipe, options, on)
    if bounded is not options:
        recipe = recipe_of(operation, kinds, bounded)
    entering = [factor for factor in factors if factor.value is not None]
    scalars = []
    for place, factor in zip(recipe.places[len(given.tensors) :], entering, strict=True):
        dtype = recipe.lines[place].dtype
        if isinstance(factor.value, Tensor):
            scalars.append(_converted(factor, dtype))
            continue
        number = checked_scalar(factor.who, factor.value, dtype)
        if operation.has_addend and factor is factors[1] and not rounded(number, dtype):
            # A beta that the compute type holds as 0: C is not read.
            return make(operation, given, [factors[0], Factor(Scalar.ZERO, None)], options)
        scalars.append(Tensor.number(number, dtype))
    return instantiate(recipe, (*given.tensors, *scalars))[recipe.result]


def _converted(factor: Factor, dtype: DType) -> Tensor:
    """Return a scalar that is a tensor, in a dtype of its kind or above: a number is no weaker.

    Raises:
        DTypeError: its kind is above that of the dtype.
        NumberRangeError: it has a value already, which the dtype does not hold.
    """
    tensor: Tensor = factor.value
    if tensor.dtype.kind > dtype.kind:
        raise DTypeError(
            f"{factor.who}: a tensor of {tensor.dtype} cannot be a {dtype} without losing its "
            "kind; use softcuda.cast, or a dtype of its kind"
        )
    is_known = isinstance(tensor.data, np.ndarray) and tensor.op.name != "variable"
    if dtype.is_integer and is_known:
        checked_scalar(factor.who, tensor.data[()], dtype)
    return tensor.astype(dtype)
