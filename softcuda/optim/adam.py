"""Adam, and Adam with decoupled weight decay."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from softcuda.dtype import i64
from softcuda.errors import ArgumentError, ArgumentTypeError
from softcuda.functions import expm1, sqrt
from softcuda.optim.optimizer import Optimizer, Rate
from softcuda.tensor import Tensor
from softcuda.tensor.values import plain_number

__all__ = ["Adam", "AdamW"]


class Adam(Optimizer):
    """Adam: each element goes by its own first and second moments.

    h = g + weight_decay * w;  m' = b1 * m + (1 - b1) * h;  v' = b2 * v + (1 - b2) * h^2;
    w' = w - rate * (m' / (1 - b1^t)) / (sqrt(v' / (1 - b2^t)) + eps), t from 1.

    Args:
        parameters: variables of floats, by name or in a list.
        rate: the learning rate: a number, or a tensor [].
        betas: b1 and b2, from 0, below 1.
        eps: above 0.
        weight_decay: from 0; it passes through the moments.

    Raises:
        ArgumentTypeError: the parameters are no variables of floats, or an argument is no number.
        ArgumentError: an argument is outside its range, or as `Optimizer`.
        DTypeError: as `Optimizer`.

    Source:
        D. P. Kingma, J. Ba, "Adam: a method for stochastic optimization", ICLR 2015.
    """

    is_decoupled = False

    def __init__(
        self,
        parameters: Mapping[str, Tensor] | Sequence[Tensor],
        rate: Rate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, rate)
        what = type(self).__name__
        if not isinstance(betas, (tuple, list)):
            raise ArgumentTypeError(
                f"{what}: betas is {betas!r} of type {type(betas).__name__}; allowed are two "
                "numbers, as in (0.9, 0.999)"
            )
        self._betas = tuple(float(plain_number(what, "betas", beta)) for beta in betas)
        self._eps = float(plain_number(what, "eps", eps))
        self._decay = float(plain_number(what, "weight_decay", weight_decay))
        in_range = len(self._betas) == 2 and all(0 <= beta < 1 for beta in self._betas)
        if not in_range or not 0 < self._eps < math.inf or not 0 <= self._decay < math.inf:
            raise ArgumentError(
                f"{what}: betas are {self._betas}, eps {self._eps}, weight_decay {self._decay}; "
                "allowed are two numbers from 0 to below 1, above 0, from 0, and all finite"
            )
        self._remembered("first_moment")
        self._remembered("second_moment")
        self._count = self._zeros("count", (), i64, next(iter(self.parameters.values())))

    def _begun(self) -> dict[Tensor, Tensor]:
        return {self._count: self._count + 1}

    def _moved(self, name: str, w: Tensor, g: Tensor) -> tuple[Tensor, dict[Tensor, Tensor]]:
        rate = self._rate(w.dtype)
        if self._decay and self.is_decoupled:
            w = w - (rate * self._decay) * w
        elif self._decay:
            g = g + self._decay * w
        first, second = self.state[f"{name}.first_moment"], self.state[f"{name}.second_moment"]
        b1, b2 = self._betas
        m = b1 * first + (1 - b1) * g
        v = b2 * second + (1 - b2) * g.square()
        pace = rate / self._share(b1, w)  # numbers first: they are computed once
        scale = sqrt(v) / sqrt(self._share(b2, w)) + self._eps
        return w - pace * m / scale, {first: m, second: v}

    def _share(self, beta: float, like: Tensor) -> Tensor:
        """Return 1 - beta^t, without cancellation."""
        count = (self._count + 1).astype(like.dtype)
        return -expm1(count * (math.log(beta) if beta else -math.inf))


class AdamW(Adam):
    """Adam with weight decay beside the moments.

    w~ = w - rate * weight_decay * w, then a step of Adam from w~ along g.

    Args:
        parameters: variables of floats, by name or in a list.
        rate: the learning rate: a number, or a tensor [].
        betas: b1 and b2, from 0, below 1.
        eps: above 0.
        weight_decay: from 0.

    Raises:
        ArgumentTypeError: the parameters are no variables of floats, or an argument is no number.
        ArgumentError: an argument is outside its range, or as `Optimizer`.
        DTypeError: as `Optimizer`.

    Source:
        I. Loshchilov, F. Hutter, "Decoupled weight decay regularization", ICLR 2019.
    """

    is_decoupled = True

    def __init__(
        self,
        parameters: Mapping[str, Tensor] | Sequence[Tensor],
        rate: Rate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(parameters, rate, betas, eps, weight_decay)
