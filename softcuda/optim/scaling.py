"""Loss scaling: gradients that f16 would lose are kept in its range by a factor that adapts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from softcuda.dtype import compute_dtype, i64
from softcuda.errors import ArgumentError
from softcuda.functions import all as all_of
from softcuda.functions import isfinite, maximum, minimum, stack, variable, where
from softcuda.tensor import Tensor
from softcuda.tensor.values import plain_number, whole_number

__all__ = ["LossScale"]

_LARGEST: Final = float(np.finfo(np.float32).max)


class LossScale:
    """A factor of the loss, halved where a gradient is not finite, doubled after a long while.

    A step whose gradients are not all finite changes no parameter and no state of the optimiser.
    The factor is not halved below 1, nor doubled past what f32 holds.

    Args:
        initial: the first factor, above 0.
        factor: what it is multiplied or divided by, above 1.
        interval: after how many finite steps in a row it grows, from 1.
        device: "cpu" or "cuda", where it is kept.
        name: what the names of its variables begin with, "name.value"; None for none.

    Attributes:
        value: [] f32, a variable.
        streak: [] i64, a variable: finite steps since the last change.

    Raises:
        ArgumentError: an argument is outside its range.
        ArgumentTypeError: an argument is no number.

    Source:
        P. Micikevicius and others, "Mixed precision training", ICLR 2018, section 3.2.
    """

    def __init__(
        self,
        initial: float = 65536.0,
        factor: float = 2.0,
        interval: int = 2000,
        device: str = "cpu",
        name: str | None = None,
    ) -> None:
        first = float(plain_number("LossScale", "initial", initial))
        self._factor = float(plain_number("LossScale", "factor", factor))
        self._interval = whole_number("LossScale", "interval", interval)
        fits = 0 < first <= _LARGEST and 1 < self._factor <= _LARGEST
        if not fits or not np.float32(first) or self._interval < 1:
            raise ArgumentError(
                f"LossScale: initial is {first}, factor {self._factor}, interval "
                f"{self._interval}; allowed are above 0, above 1, both finite in f32, and from 1"
            )
        names = (None, None) if name is None else (f"{name}.value", f"{name}.streak")
        self.value = variable(np.float32(first), names[0], device=device)
        self.streak = variable(np.int64(0), names[1], device=device)

    @property
    def state(self) -> dict[str, Tensor]:
        """Its variables by name."""
        return {"value": self.value, "streak": self.streak}

    def scaled(self, loss: Tensor) -> Tensor:
        """Return the loss times the factor, [shape of loss], in its dtype, 16-bit losses in f32."""
        return loss.astype(compute_dtype(loss.dtype)) * self.value

    def unscaled(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        """Return gradients of the scaled loss as those of the loss, 16-bit ones in f32."""
        wide = [g.astype(compute_dtype(g.dtype)) for g in gradients]
        return [(g / self.value).astype(g.dtype) for g in wide]

    def updates(
        self, gradients: Sequence[Tensor], new: dict[Tensor, Tensor]
    ) -> dict[Tensor, Tensor]:
        """Return the updates of a step: those given, where all gradients are finite, and its own.

        Args:
            gradients: of the loss, [any shapes].
            new: variable -> its new value in a finite step.
        """
        is_finite = all_of(stack([all_of(isfinite(g)) for g in gradients]))
        kept = {v: where(is_finite, value, v) for v, value in new.items()}
        streak = self.streak + 1
        is_long = streak >= self._interval
        larger = self.value * self._factor
        grown = where(is_long & isfinite(larger), larger, self.value)
        shrunk = maximum(self.value / self._factor, minimum(self.value, 1.0))
        kept[self.value] = where(is_finite, grown, shrunk)
        kept[self.streak] = where(is_finite, where(is_long, 0, streak), 0).astype(i64)
        return kept
