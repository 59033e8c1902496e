"""Plans: executables of one operation, run again and again with other tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from softcuda.contraction.parse import parse_expression
from softcuda.dtype import ComputeType, DType, as_dtype
from softcuda.errors import ArgumentTypeError
from softcuda.named.descriptors import TensorDescriptor
from softcuda.named.einsums import einsum_operation
from softcuda.named.engine import Engine, engine_of
from softcuda.named.limits import checked_limit
from softcuda.named.operation import OperationDescriptor
from softcuda.named.planned import Planned, of_engine
from softcuda.named.recipe import PathOptions
from softcuda.running import Config
from softcuda.tensor import Tensor

__all__ = ["EinsumPlan", "Plan"]


class Plan(Planned):
    """An executable of one operation: made once, run again with other tensors.

    It holds no inputs. What it is given is checked against the descriptors: strides of axes of
    extent 1 do not count. Equal plans share what was compiled, from a cache of 256. A plan can be
    pickled; what was decided stays frozen.
    """

    __slots__ = ()

    def __init__(
        self,
        operation: OperationDescriptor,
        *,
        config: Config = None,
        device: str | None = None,
        optimize: Any = "auto",
        memory_limit: int | None = None,
    ) -> None:
        """Compile an operation.

        Args:
            operation: what is computed.
            config: the profile, as in `compile`.
            device: "cpu" or "cuda", where operands and result are; None for the device of the
                backend that the operation's row names.
            optimize: as in `einsum`.
            memory_limit: as in `einsum`.

        Raises:
            ArgumentTypeError: no OperationDescriptor.
            ConfigError, NoDeviceError, BackendError: as `compile`.
            ArgumentError: a device, optimiser, path or limit that is not allowed.
        """
        if not isinstance(operation, OperationDescriptor):
            raise ArgumentTypeError(
                f"Plan: {operation!r} is no OperationDescriptor; use one of its constructors, such "
                "as OperationDescriptor.contraction, or EinsumPlan for an expression"
            )
        options = PathOptions(optimize, checked_limit("Plan", memory_limit))
        super().__init__(engine_of(operation, options, config, device))

    def execute(self, inputs: Sequence[Any], scalars: Sequence[complex] = ()) -> Tensor:
        """Submit the operation and return its result, evaluated; does not wait for a device.

        Args:
            inputs: a tensor or array for each operand, C last.
            scalars: alpha; beta with C or B; gamma: as many as the formula has.

        Returns:
            [extents of the output's descriptor], of its dtype, dense.

        Raises:
            ArgumentError: another number of inputs or scalars, other strides, another device, an
                input with gradient history outside `no_grad`, which a plan would lose.
            ShapeError, DTypeError: an input that does not fit its descriptor.
            ArgumentTypeError: inputs or scalars that are no list, or a scalar that is no number.
        """
        return self.executed(inputs, scalars)

    def execute_into(
        self, inputs: Sequence[Any], out: Any, scalars: Sequence[complex] = ()
    ) -> None:
        """Submit the operation and write its result into memory that the caller owns.

        Args:
            inputs: as in `execute`.
            out: a writable array, a variable, or an array of another library in CUDA memory: of
                the layout and dtype of the output's descriptor. It may be C itself.
            scalars: as in `execute`.

        Raises:
            ArgumentError: as `execute`; an output that overlaps itself or an input.
            ShapeError, DTypeError, ArgumentTypeError: as `execute`, of the output too.
        """
        self.executed_into(inputs, out, scalars, is_free=False)


class EinsumPlan(Planned):
    """A plan of an expression: D = sum of the product of its operands, without scalars."""

    __slots__ = ()

    def __init__(
        self,
        expression: str,
        descriptors: Sequence[TensorDescriptor],
        *,
        config: Config = None,
        device: str | None = None,
        optimize: Any = "auto",
        memory_limit: int | None = None,
    ) -> None:
        """Compile an expression; the result has the common dtype of the operands.

        Args:
            expression: as in `einsum`.
            descriptors: of each operand.
            config: the profile, as in `compile`.
            device: as in `Plan`.
            optimize: as in `einsum`.
            memory_limit: as in `einsum`.

        Raises:
            ExpressionError: labels that cannot be read, or do not match the descriptors.
            ShapeError: extents that do not fit.
            ArgumentTypeError: something else than descriptors.
            DTypeError, ArgumentError, ConfigError, NoDeviceError, BackendError: as `Plan`.
        """
        options = PathOptions(optimize, memory_limit)
        super().__init__(_compiled(expression, descriptors, None, None, options, config, device))

    @classmethod
    def with_options(
        cls,
        expression: str,
        descriptors: Sequence[TensorDescriptor],
        *,
        output_dtype: DType | Any = None,
        compute: ComputeType | None = None,
        config: Config = None,
        device: str | None = None,
        optimize: Any = "auto",
        memory_limit: int | None = None,
    ) -> Self:
        """Return a plan with a dtype of the result and a compute type.

        Args:
            expression: as in `einsum`.
            descriptors: of each operand.
            output_dtype: as in `einsum_with_options`.
            compute: as in `einsum_with_options`.
            config: the profile, as in `compile`.
            device: as in `Plan`.
            optimize: as in `einsum`.
            memory_limit: as in `einsum`.

        Raises:
            DTypeError: an f64 operand with a lesser compute type, or a float result as integers.
            ExpressionError, ShapeError, ArgumentTypeError, ArgumentError, ConfigError,
                NoDeviceError, BackendError: as the constructor.
        """
        wanted = None if output_dtype is None else as_dtype(output_dtype)
        options = PathOptions(optimize, memory_limit)
        return of_engine(
            cls, _compiled(expression, descriptors, wanted, compute, options, config, device)
        )

    def execute(self, inputs: Sequence[Any]) -> Tensor:
        """Submit the expression and return its result, evaluated; does not wait for a device.

        Args:
            inputs: a tensor or array for each operand.

        Returns:
            [extents of the output's labels], dense.

        Raises:
            ArgumentError: another number of inputs, other strides, another device, an input with
                gradient history outside `no_grad`, which a plan would lose.
            ShapeError, DTypeError: an input that does not fit its descriptor.
            ArgumentTypeError: inputs that are no list.
        """
        return self.executed(inputs, ())

    def execute_into(self, inputs: Sequence[Any], out: Any) -> None:
        """Submit the expression and write its result into memory that the caller owns.

        Args:
            inputs: as in `execute`.
            out: a writable array of any strides, and of any dtype whose kind (bool, integer,
                float, complex) is that of the result or above, to which the result is rounded
                once (integers wrap in the dtype of the operands first); a variable, or an array
                of another library in CUDA memory.

        Raises:
            ArgumentError: as `execute`; an output that overlaps itself or an input.
            ShapeError, DTypeError, ArgumentTypeError: as `execute`, of the output too.
        """
        self.executed_into(inputs, out, (), is_free=True)


def _compiled(
    expression: str,
    descriptors: Sequence[TensorDescriptor],
    output_dtype: DType | None,
    compute: ComputeType | None,
    options: PathOptions,
    config: Config,
    device: str | None,
) -> Engine:
    subscripts = parse_expression(expression)
    given = tuple(descriptors) if isinstance(descriptors, (list, tuple)) else (descriptors,)
    for described in given:
        if not isinstance(described, TensorDescriptor):
            raise ArgumentTypeError(
                f"EinsumPlan: a descriptor is {described!r}; allowed is a list of "
                "TensorDescriptors, such as TensorDescriptor.from_tensor(tensor)"
            )
    options = options._replace(memory_limit=checked_limit("EinsumPlan", options.memory_limit))
    operation = einsum_operation(subscripts, given, output_dtype, compute)
    return engine_of(operation, options, config, device)
