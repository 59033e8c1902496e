"""Stochastic gradient descent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from softcuda.errors import ArgumentError
from softcuda.optim.optimizer import Optimizer, Rate
from softcuda.tensor import Tensor
from softcuda.tensor.values import flag, plain_number

__all__ = ["SGD"]


class SGD(Optimizer):
    """Gradient descent with momentum.

    h = g + weight_decay * w;  v' = momentum * v + h;  w' = w - rate * v', with Nesterov's
    w' = w - rate * (h + momentum * v'); v is 0 at first, and there is none without momentum.

    Args:
        parameters: variables of floats, by name or in a list.
        rate: the learning rate: a number, or a tensor [].
        momentum: from 0, below 1.
        nesterov: whether the gradient is added once more, ahead; needs momentum.
        weight_decay: from 0.

    Raises:
        ArgumentTypeError: the parameters are no variables of floats, or an argument is no number.
        ArgumentError: an argument is outside its range, or as `Optimizer`.
        DTypeError: as `Optimizer`.

    Source:
        I. Sutskever, J. Martens, G. Dahl, G. Hinton, "On the importance of initialization and
        momentum in deep learning", ICML 2013.
    """

    def __init__(
        self,
        parameters: Mapping[str, Tensor] | Sequence[Tensor],
        rate: Rate,
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, rate)
        self._momentum = float(plain_number("SGD", "momentum", momentum))
        self._decay = float(plain_number("SGD", "weight_decay", weight_decay))
        self._nesterov = flag("SGD", "nesterov", nesterov)
        if not 0 <= self._momentum < 1 or not 0 <= self._decay < math.inf:
            raise ArgumentError(
                f"SGD: momentum is {self._momentum} and weight_decay {self._decay}; allowed are 0 "
                "to below 1, and finite from 0"
            )
        if self._nesterov and not self._momentum:
            raise ArgumentError("SGD: nesterov=True without momentum; give a momentum above 0")
        if self._momentum:
            self._remembered("momentum")

    def _moved(self, name: str, w: Tensor, g: Tensor) -> tuple[Tensor, dict[Tensor, Tensor]]:
        rate = self._rate(w.dtype)
        h = g + self._decay * w if self._decay else g
        if not self._momentum:
            return w - rate * h, {}
        velocity = self.state[f"{name}.momentum"]
        faster = self._momentum * velocity + h
        ahead = h + self._momentum * faster if self._nesterov else faster
        return w - rate * ahead, {velocity: faster}
