"""Python's operators on tensors: each makes a node of the op table."""

from __future__ import annotations

from typing import Any, Final, Self

from softcuda.errors import ArgumentTypeError, DTypeError
from softcuda.graph.node import Node
from softcuda.graph.op import OPS
from softcuda.tensor.contractions import dot_labels, matmul_labels
from softcuda.tensor.operands import (
    as_node,
    binary,
    checked_power,
    logical,
    operands,
    partner,
    reflected,
)

__all__ = ["Operators"]

_NEG: Final = OPS["neg"]
_ABS: Final = OPS["abs"]
_POW: Final = OPS["pow"]
_MUL: Final = OPS["mul"]
_MATMUL: Final = OPS["matmul"]
_COPY: Final = OPS["copy"]
_VARIABLE: Final = OPS["variable"]
_LOGICAL_NOT: Final = OPS["logical_not"]


class Operators(Node):
    """A node with Python's operators; nothing is computed by them.

    Numbers beside a tensor are weak: they take its dtype unless their kind is higher. Lists and
    arrays are copied into leaves. & | ^ ~ are the logical functions of bool tensors.
    """

    __slots__ = ()

    __add__ = binary("add", "__add__")
    __radd__ = reflected("add", "__radd__")
    __sub__ = binary("sub", "__sub__")
    __rsub__ = reflected("sub", "__rsub__")
    __mul__ = binary("mul", "__mul__")
    __rmul__ = reflected("mul", "__rmul__")
    __truediv__ = binary("div", "__truediv__")
    __rtruediv__ = reflected("div", "__rtruediv__")
    __floordiv__ = binary("floor_divide", "__floordiv__")
    __rfloordiv__ = reflected("floor_divide", "__rfloordiv__")
    __mod__ = binary("remainder", "__mod__")
    __rmod__ = reflected("remainder", "__rmod__")
    __eq__ = binary("eq", "__eq__")  # type: ignore[assignment]
    __ne__ = binary("ne", "__ne__")  # type: ignore[assignment]
    __lt__ = binary("lt", "__lt__")
    __le__ = binary("le", "__le__")
    __gt__ = binary("gt", "__gt__")
    __ge__ = binary("ge", "__ge__")
    __and__ = logical("logical_and", "&", "__and__")
    __rand__ = logical("logical_and", "&", "__rand__")
    __or__ = logical("logical_or", "|", "__or__")
    __ror__ = logical("logical_or", "|", "__ror__")
    __xor__ = logical("logical_xor", "^", "__xor__")
    __rxor__ = logical("logical_xor", "^", "__rxor__")

    __hash__ = object.__hash__  # by identity: == is elementwise

    def __pow__(self, exponent: Any, modulo: object = None) -> Self:
        if modulo is not None:
            raise ArgumentTypeError(
                f"pow: a modulus ({modulo!r}) is not supported; allowed are two operands; "
                "use (a ** b) % modulus"
            )
        other = partner(self, exponent)
        if other is None:
            return NotImplemented
        return self.apply(_POW, checked_power((self, other)))

    def __rpow__(self, base: Any, modulo: object = None) -> Self:
        other = partner(self, base)
        if other is None:
            return NotImplemented
        return self.apply(_POW, checked_power((other, self)))

    def __divmod__(self, other: Any) -> tuple[Self, Self]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Self, Self]:
        return other // self, other % self

    def __matmul__(self, other: Any) -> Self:
        second = partner(self, other)
        return NotImplemented if second is None else self.matmul(second)

    def __rmatmul__(self, other: Any) -> Self:
        first = partner(self, other)
        return NotImplemented if first is None else first.matmul(self)

    def __neg__(self) -> Self:
        return self.apply(_NEG, (self,))

    def __pos__(self) -> Self:
        if self.dtype.is_bool:
            raise DTypeError("+: the operand is bool and has no sign; cast it to an integer first")
        return self.apply(_COPY, (self,)) if self.op is _VARIABLE else self

    def __abs__(self) -> Self:
        return self.apply(_ABS, (self,))

    def __invert__(self) -> Self:
        if not self.dtype.is_bool:
            raise DTypeError(
                f"~: the operand has dtype {self.dtype}; allowed is bool, for which ~ is "
                "logical_not; compare first, or use logical_not for the truth of numbers"
            )
        return self.apply(_LOGICAL_NOT, (self,))

    def matmul(self, other: Any) -> Self:
        """Return softcuda.matmul(self, other)."""
        second = as_node(type(self), "matmul", other)
        return self.apply(_MATMUL, (self, second), matmul_labels(self.dims, second.dims))

    def dot(self, other: Any) -> Self:
        """Return softcuda.dot(self, other)."""
        first, second = operands(type(self), "dot", (self, other))
        if not first.dims or not second.dims:
            return self.apply(_MUL, (first, second))
        return self.apply(_MATMUL, (first, second), dot_labels(first.dims, second.dims))
