"""What optimisers share: parameters, rate, state, and the updates of a step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from softcuda.dtype import DType, compute_dtype
from softcuda.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from softcuda.functions import variable
from softcuda.gradients import grad
from softcuda.graph.op import OPS
from softcuda.optim.clipping import clip_by_global_norm
from softcuda.optim.scaling import LossScale
from softcuda.tensor import Tensor
from softcuda.tensor.values import plain_number

__all__ = ["Optimizer", "Rate"]

Rate = float | Tensor

_VARIABLE: Final = OPS["variable"]


class Optimizer:
    """The parameters that a step changes, how far, and what it remembers.

    A step is computed in f32 for 16-bit parameters, in the parameter's dtype for others, and
    rounded once.

    Args:
        parameters: variables of floats, by name or in a list.
        rate: the learning rate: a number, or a tensor [], an input that runs are fed say.

    Attributes:
        parameters: the variables by name.
        rate: the learning rate.
        state: what it remembers: variables by name, zeros at first, on the parameters' devices.
            The variable of a parameter that has a name has one too: "w.momentum" beside "w".

    Raises:
        ArgumentTypeError: the parameters are no variables of floats, or the rate is no number.
        ArgumentError: there are no parameters, one is given twice, or the rate has axes, is below
            0, or is not finite.
        DTypeError: the rate is a tensor of something else than floats.
    """

    def __init__(self, parameters: Mapping[str, Tensor] | Sequence[Tensor], rate: Rate) -> None:
        self.parameters = _named(parameters)
        self.state: dict[str, Tensor] = {}
        self.rate: Rate = _checked_rate(rate)

    def updates(
        self, loss: Tensor, *, clip: float | None = None, scale: LossScale | None = None
    ) -> dict[Tensor, Tensor]:
        """Return the updates of one step down the gradient of a loss, for softcuda.compile.

        Args:
            loss: [any shape], floats; the sum of its elements goes down.
            clip: the largest norm of all gradients together; None for any.
            scale: a LossScale, for 16-bit gradients.

        Returns:
            variable -> its new value, of the parameters, the state and the scale.

        Raises:
            ArgumentError: the loss does not depend on a parameter, or clip is not above 0.
            ArgumentTypeError: the loss is no tensor, the scale no LossScale, or clip no number.
        """
        if not isinstance(loss, Tensor) or not isinstance(scale, (LossScale, type(None))):
            raise ArgumentTypeError(
                f"updates: the loss is of type {type(loss).__name__} and the scale of type "
                f"{type(scale).__name__}; allowed are a tensor, and a LossScale or None"
            )
        gradients = grad(loss if scale is None else scale.scaled(loss), self.parameters)
        for name, gradient in gradients.items():
            if gradient is None:
                raise ArgumentError(
                    f"updates: the loss does not depend on the parameter {name}; leave it out of "
                    "the optimiser"
                )
        if scale is not None:
            found = scale.unscaled(list(gradients.values()))
            gradients = dict(zip(gradients, found, strict=True))
        finite = list(gradients.values())
        if clip is not None:
            gradients = clip_by_global_norm(gradients, clip).gradients
        new = self.step(gradients)
        return new if scale is None else scale.updates(finite, new)

    def step(self, gradients: Mapping[str, Tensor]) -> dict[Tensor, Tensor]:
        """Return the updates of one step along given gradients.

        Args:
            gradients: by the name of the parameter, [its shape], floats.

        Returns:
            variable -> its new value, of the parameters and the state.

        Raises:
            ArgumentTypeError: the gradients are no mapping of names to tensors of floats.
            ArgumentError: the names are not those of the parameters.
            ShapeError: a gradient has another shape than its parameter.
        """
        self._check(gradients)
        new: dict[Tensor, Tensor] = dict(self._begun())
        for name, parameter in self.parameters.items():
            dtype = compute_dtype(parameter.dtype)
            moved, changes = self._moved(
                name, parameter.astype(dtype), gradients[name].astype(dtype)
            )
            new[parameter] = moved.astype(parameter.dtype)
            new |= changes
        return new

    def _check(self, gradients: Any) -> None:
        """Check that there is one gradient, of its shape, for every parameter."""
        if not isinstance(gradients, Mapping):
            raise ArgumentTypeError(
                f"step: the gradients are of type {type(gradients).__name__}; allowed is a mapping "
                "of the parameters' names to tensors"
            )
        if set(gradients) != set(self.parameters):
            raise ArgumentError(
                f"step: gradients of {', '.join(map(str, gradients))}; allowed are those of "
                f"{', '.join(map(str, self.parameters))}"
            )
        for name, parameter in self.parameters.items():
            found = gradients[name]
            if not isinstance(found, Tensor) or not found.dtype.is_float:
                kind = found.dtype if isinstance(found, Tensor) else type(found).__name__
                raise ArgumentTypeError(
                    f"step: the gradient of {name} is of {kind}; allowed are tensors of floats"
                )
            if found.dims != parameter.dims:
                raise ShapeError(
                    f"step: the gradient of {name} has shape {list(found.dims)} and the parameter "
                    f"{list(parameter.dims)}; both must be equal"
                )

    def _begun(self) -> dict[Tensor, Tensor]:
        """Return the updates of what all parameters share."""
        return {}

    def _moved(self, name: str, w: Tensor, g: Tensor) -> tuple[Tensor, dict[Tensor, Tensor]]:
        """Return the new value of a parameter, and the updates of its state."""
        raise NotImplementedError

    def _remembered(self, what: str) -> None:
        """Add a variable of zeros for each parameter to the state."""
        for name, parameter in self.parameters.items():
            self._zeros(f"{name}.{what}", parameter.dims, compute_dtype(parameter.dtype), parameter)

    def _zeros(self, name: str, dims: tuple[int, ...], dtype: DType, beside: Tensor) -> Tensor:
        device = "cpu" if beside.device is None else beside.device.type
        of = beside.name
        known = None if of is None else f"{of}.{name.rsplit('.', 1)[-1]}"
        made = variable(np.zeros(dims, dtype.numpy), known, device=device)
        self.state[name] = made
        return made

    def _rate(self, dtype: DType) -> Rate:
        rate = self.rate
        return rate.astype(dtype) if isinstance(rate, Tensor) else rate


def _checked_rate(rate: Any) -> Rate:
    if not isinstance(rate, Tensor):
        number = float(plain_number("optim", "rate", rate))
        if not 0 <= number < math.inf:
            raise ArgumentError(f"optim: the rate is {number}; allowed are finite numbers from 0")
        return number
    if rate.dims:
        raise ArgumentError(f"optim: the rate has shape {list(rate.dims)}; allowed is rank 0")
    if not rate.dtype.is_float:
        raise DTypeError(
            f"optim: the rate is a tensor of {rate.dtype}, which every parameter would round to; "
            "allowed are floats; use astype first"
        )
    return rate


def _named(parameters: Any) -> dict[str, Tensor]:
    if isinstance(parameters, Mapping):
        pairs = list(parameters.items())
    elif isinstance(parameters, Sequence):
        pairs = [(getattr(x, "name", None) or str(k), x) for k, x in enumerate(parameters)]
    else:
        raise ArgumentTypeError(
            f"optim: the parameters are of type {type(parameters).__name__}; allowed are a mapping "
            "of names to variables and a list of variables"
        )
    if not pairs:
        raise ArgumentError("optim: there are no parameters; allowed is one or more")
    named: dict[str, Tensor] = {}
    first_names: dict[int, str] = {}
    for name, x in pairs:
        if not isinstance(x, Tensor) or x.op is not _VARIABLE or not x.dtype.is_float:
            made = f"made by {x.op}, {x.dtype}" if isinstance(x, Tensor) else type(x).__name__
            raise ArgumentTypeError(
                f"optim: the parameter {name} is no variable of floats ({made}); allowed is what "
                "softcuda.variable makes"
            )
        if id(x) in first_names:
            raise ArgumentError(
                f"optim: the parameters {first_names[id(x)]} and {name} are one variable, given "
                "twice; allowed is once; leave one out"
            )
        if name in named:
            raise ArgumentError(
                f"optim: two parameters have the name {name}; allowed is one; give a mapping of "
                "names to variables"
            )
        named[name] = x
        first_names[id(x)] = name
    return named
