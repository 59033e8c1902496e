"""einsum: a sum of products of any number of operands by an expression, as nodes of the graph."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import chain
from typing import Any

from softcuda.contraction.arguments import read_arguments
from softcuda.contraction.equation import bind_ranks, label_extents
from softcuda.contraction.parse import Subscripts, parse_expression
from softcuda.contraction.path import ContractionPath
from softcuda.dtype import ComputeType, DType, as_dtype
from softcuda.functions.operands import TensorLike
from softcuda.graph.params import Dims
from softcuda.graph.trace import on_device
from softcuda.named.arithmetic import arithmetic_of
from softcuda.named.checks import operand_tensors
from softcuda.named.descriptors import OperandDescriptor, TensorDescriptor
from softcuda.named.limits import checked_limit, default_limit, is_large
from softcuda.named.operation import Form, OperationDescriptor
from softcuda.named.recipe import PathOptions, Recipe, as_optimizer, instantiate
from softcuda.named.recipe_writer import recipe_of
from softcuda.profile.model import Profile
from softcuda.running import compile
from softcuda.sizes import counted
from softcuda.target import Target
from softcuda.tensor import Tensor

__all__ = [
    "EinsumPath",
    "einsum",
    "einsum_operation",
    "einsum_path",
    "einsum_with_options",
    "within_memory",
]


@dataclass(frozen=True, slots=True, repr=False)
class EinsumPath(ContractionPath):
    """A path that also knows where each of its steps runs; print it.

    `positions` are its steps as NumPy and opt_einsum take them: `np.einsum(..., optimize=
    ["einsum_path", *path.positions])`.

    Attributes:
        backends: the backend_id of each step.
        strides: of each operand [elements].
    """

    backends: tuple[str, ...]
    strides: tuple[Dims, ...]

    def __repr__(self) -> str:
        steps = counted(len(self.backends), "step")
        return f"<EinsumPath {self.equation}, {steps}; print it>"

    def __str__(self) -> str:
        return ContractionPath.describe(self, self.backends, self.strides)


def einsum(
    *arguments: TensorLike | str | Sequence[Any],
    optimize: Any = "auto",
    memory_limit: int | None = None,
) -> Tensor:
    """Return the sum of products that an expression names.

    "ij,jk->ik": D[i, k] = sum over j of A[i, j] * B[j, k]. A label is a letter of any script; a
    repeated one in an operand takes the diagonal; labels that the output lacks are summed; an
    ellipsis stands for axes aligned from the right. Extents of a label are equal, or 1, which
    stretches. Without an arrow the output has the ellipsis axes, then the labels that occur once,
    by code point. Floats compute in f64 if an operand is f64, else in f32, and are rounded once.

    Args:
        arguments: the expression and the operands [any shapes], one by one or in a list; or each
            operand followed by the list of its labels, and that of the output last.
        optimize: "auto", a name of an optimiser, a path, or an optimiser of opt_einsum or
            cotengra; see docs/named_axes.md.
        memory_limit: bytes that an intermediate may take, met by slicing where no path meets it;
            None for a quarter of the free memory.

    Returns:
        [extents of the output's labels], of the common dtype.

    Raises:
        ExpressionError: labels that cannot be read, or do not match the operands.
        ShapeError: extents of a label that do not fit.
        DTypeError: operands that are all bool, and would be multiplied or summed.
        ArgumentError, ArgumentTypeError: an optimiser, path or limit that is not allowed.
    """
    return _defined(arguments, None, None, optimize, memory_limit)


def einsum_with_options(
    *arguments: TensorLike | str | Sequence[Any],
    output_dtype: DType | Any = None,
    compute: ComputeType | None = None,
    optimize: Any = "auto",
    memory_limit: int | None = None,
) -> Tensor:
    """Return einsum with a dtype of the result and a compute type.

    Args:
        arguments: as in `einsum`.
        output_dtype: of the result; None for the common dtype of the operands.
        compute: the type in which products are formed; None for F64 where an operand is f64, else
            F32. TF32, BF16 and F16 are less precise, and taken only when asked for here.
        optimize: as in `einsum`.
        memory_limit: as in `einsum`.

    Returns:
        [extents of the output's labels], of `output_dtype`.

    Raises:
        DTypeError: an f64 operand with a lesser compute type, or a float result as integers.
        ExpressionError, ShapeError, ArgumentError, ArgumentTypeError: as in `einsum`.
    """
    wanted = None if output_dtype is None else as_dtype(output_dtype)
    return _defined(arguments, wanted, compute, optimize, memory_limit)


def einsum_path(
    *arguments: TensorLike | str | Sequence[Any],
    output_dtype: DType | Any = None,
    compute: ComputeType | None = None,
    optimize: Any = "auto",
    memory_limit: int | None = None,
    config: str | os.PathLike[str] | Profile | None = None,
    target: str | Profile | Target | None = None,
) -> EinsumPath:
    """Return the order in which `einsum_with_options` computes; print it.

    A row a step: what is multiplied, what kind of product that is, operations, bytes read and
    written, elements of the result, the backend. The path can be given as `optimize`.

    Args:
        arguments: as in `einsum`.
        output_dtype: as in `einsum_with_options`.
        compute: as in `einsum_with_options`.
        optimize: as in `einsum`.
        memory_limit: as in `einsum`.
        config: the profile that chooses backends; as in `compile`.
        target: as in `compile`: the backends of a device that is not here.

    Raises:
        ExpressionError, ShapeError, DTypeError, ArgumentError, ArgumentTypeError: as in
            `einsum_with_options`.
        ConfigError: the profile cannot be used.
        NoDeviceError: it names CUDA backends, there is no device, and no target is given.
    """
    wanted = None if output_dtype is None else as_dtype(output_dtype)
    subscripts, tensors = _read(arguments)
    recipe = _recipe(subscripts, tensors, wanted, compute, optimize, memory_limit)
    nodes = instantiate(recipe, tensors)
    executable = compile(nodes[recipe.result], config, target=target)
    backends = tuple(executable.backend_id(nodes[line]) for line in recipe.steps)
    path = recipe.path
    parts = {field.name: getattr(path, field.name) for field in fields(ContractionPath)}
    return EinsumPath(**parts, backends=backends, strides=tuple(x.stride for x in tensors))


def _defined(
    arguments: Sequence[Any],
    output_dtype: DType | None,
    compute: ComputeType | None,
    optimize: Any,
    memory_limit: int | None,
) -> Tensor:
    labels = arguments[0] if arguments else None
    if labels.__class__ is str and optimize.__class__ is str and memory_limit is None:
        operands = arguments[1:]
        typed: list[Dims | DType] = []
        for x in operands:
            if x.__class__ is not Tensor:
                break
            typed.append(x.dims)
            typed.append(x.dtype)
        else:  # an expression over tensors, the path left to us: nothing has to be read or asked
            recipe, needs_look = _found(
                labels, tuple(typed), output_dtype, compute, optimize, memory_limit
            )
            if not needs_look:
                return instantiate(recipe, operands)[recipe.result]
    subscripts, tensors = _read(arguments)
    recipe = _recipe(subscripts, tensors, output_dtype, compute, optimize, memory_limit)
    return instantiate(recipe, tensors)[recipe.result]


def _read(arguments: Sequence[Any]) -> tuple[Subscripts, tuple[Tensor, ...]]:
    subscripts, operands = read_arguments(arguments)
    return subscripts, operand_tensors("einsum", operands)


def _recipe(
    subscripts: Subscripts,
    tensors: Sequence[Tensor],
    output_dtype: DType | None,
    compute: ComputeType | None,
    optimize: Any,
    memory_limit: int | None,
) -> Recipe:
    memory_limit = checked_limit("einsum", memory_limit)
    optimize = as_optimizer(optimize)
    typed = tuple(chain.from_iterable((x.dims, x.dtype) for x in tensors))
    found = _found if isinstance(optimize, (str, Hashable)) else _found.__wrapped__
    recipe, needs_look = found(subscripts, typed, output_dtype, compute, optimize, memory_limit)
    if needs_look and memory_limit is None:
        is_there = any(on_device(x) == "cuda" for x in tensors)
        options = PathOptions(optimize)
        bounded = within_memory(recipe, options, "cuda" if is_there else "cpu")
        if bounded is not options:
            recipe, _ = found(subscripts, typed, output_dtype, compute, *bounded)
    return recipe


def within_memory(recipe: Recipe, options: PathOptions, device: str) -> PathOptions:
    """Return the options under which a path keeps within the free memory of a device.

    Args:
        recipe: made under `options`.
        options: those that were asked for; returned as they are where nothing has to change.
        device: "cpu" or "cuda".
    """
    if recipe.path is None or options.memory_limit is not None:
        return options
    limit = default_limit(recipe.path, device)
    return options if limit is None else options._replace(memory_limit=limit)


@lru_cache(maxsize=256)
def _found(
    labels: str | Subscripts,
    typed: tuple[Dims | DType, ...],
    output_dtype: DType | None,
    compute: ComputeType | None,
    optimize: Any,
    memory_limit: int | None,
) -> tuple[Recipe, bool]:
    """Return a recipe, and whether its intermediates are so large that free memory matters."""
    subscripts = parse_expression(labels) if isinstance(labels, str) else labels
    pairs: Any = zip(typed[::2], typed[1::2], strict=True)  # flat, since that is hashed sooner
    described = [TensorDescriptor.contiguous(dims, dtype) for dims, dtype in pairs]
    operation = einsum_operation(subscripts, described, output_dtype, compute)
    recipe = recipe_of(operation, (), PathOptions(optimize, memory_limit))
    return recipe, recipe.path is not None and is_large(recipe.path)


def einsum_operation(
    subscripts: Subscripts,
    operands: Sequence[TensorDescriptor],
    output_dtype: DType | None,
    compute: ComputeType | None,
) -> OperationDescriptor:
    """Return the operation of an expression; its result is dense.

    Raises:
        ExpressionError: labels that do not match the operands.
        ShapeError: extents that do not fit.
        DTypeError: a compute type or an output dtype that the operands do not allow.
    """
    equation = bind_ranks(subscripts, tuple(len(x.extents) for x in operands))
    extents = label_extents(equation, [x.extents for x in operands])
    dtypes = [x.dtype for x in operands]
    arithmetic = arithmetic_of("einsum", dtypes, compute, output_dtype)
    out = TensorDescriptor.contiguous(
        tuple(extents[label] for label in equation.output), arithmetic.result
    )
    described = tuple(
        OperandDescriptor(x, labels) for x, labels in zip(operands, equation.inputs, strict=True)
    )
    return OperationDescriptor(Form.EINSUM, described, False, out, equation, (), compute)
