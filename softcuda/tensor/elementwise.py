"""Elementwise methods of tensors."""

from __future__ import annotations

from typing import Any, Final, Self

from softcuda.dtype import as_dtype
from softcuda.graph.node import Node
from softcuda.graph.op import OPS, Op
from softcuda.graph.params import Cast
from softcuda.graph.shapes import broadcast_dims
from softcuda.tensor.operands import operands, unary

__all__ = ["Elementwise"]

_CAST: Final = OPS["cast"]
_CLIP: Final = OPS["clip"]
_MINIMUM: Final = OPS["minimum"]
_MAXIMUM: Final = OPS["maximum"]
_ATAN2: Final = OPS["atan2"]
_VARIABLE: Final = OPS["variable"]


class Elementwise(Node):
    """A node with the functions of one operand as methods."""

    __slots__ = ()

    abs = unary("abs")
    sign = unary("sign")
    square = unary("square")
    negative = unary("neg")
    relu = unary("relu")
    conj = unary("conj")
    real = unary("real")
    imag = unary("imag")
    floor = unary("floor")
    ceil = unary("ceil")
    round = unary("round")
    sqrt = unary("sqrt")
    rsqrt = unary("rsqrt")
    reciprocal = unary("reciprocal")
    exp = unary("exp")
    exp2 = unary("exp2")
    expm1 = unary("expm1")
    log = unary("log")
    log2 = unary("log2")
    log1p = unary("log1p")
    sin = unary("sin")
    cos = unary("cos")
    tan = unary("tan")
    asin = unary("asin")
    acos = unary("acos")
    atan = unary("atan")
    sinh = unary("sinh")
    cosh = unary("cosh")
    tanh = unary("tanh")
    asinh = unary("asinh")
    acosh = unary("acosh")
    atanh = unary("atanh")
    sigmoid = unary("sigmoid")
    gelu = unary("gelu")
    silu = unary("silu")
    mish = unary("mish")
    softplus = unary("softplus")
    softsign = unary("softsign")
    erf = unary("erf")
    isnan = unary("isnan")
    isinf = unary("isinf")
    isfinite = unary("isfinite")
    logical_not = unary("logical_not")
    copy = unary("copy")

    def angle(self) -> Self:
        """Return softcuda.angle(self)."""
        return self.apply(_ATAN2, (self.imag(), self.real()))

    def cast(self, dtype: Any) -> Self:
        """Return softcuda.cast(self, dtype)."""
        return self.apply(_CAST, (self,), Cast(as_dtype(dtype)))

    def astype(self, dtype: Any) -> Self:
        """Return softcuda.astype(self, dtype)."""
        if as_dtype(dtype) is self.dtype and self.op is not _VARIABLE:
            return self
        return self.cast(dtype)

    def clip(self, min: Any = None, max: Any = None) -> Self:
        """Return softcuda.clip(self, min, max)."""
        if min is not None and max is not None:
            return self.apply(_CLIP, operands(type(self), "clip", (self, min, max)))
        if min is not None:
            return self._bounded(_MAXIMUM, min)
        if max is not None:
            return self._bounded(_MINIMUM, max)
        return self.copy()

    def _bounded(self, op: Op, bound: Any) -> Self:
        pair = operands(type(self), "clip", (self, bound))
        broadcast_dims("clip", [node.dims for node in pair])
        return self.apply(op, pair)
