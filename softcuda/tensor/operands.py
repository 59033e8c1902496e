"""Operands: numbers, lists and arrays beside a tensor become nodes; the operators of a tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from softcuda.dtype import DType, promote, weak_promote
from softcuda.errors import DTypeError, IntegerPowerError
from softcuda.graph.node import Node
from softcuda.graph.op import OPS
from softcuda.graph.params import value_of
from softcuda.numbers import check_number, number_dtype
from softcuda.tensor.values import is_number, leaf_data, refuse_kind

__all__ = [
    "NumberCache",
    "as_node",
    "binary",
    "checked_power",
    "logical",
    "operands",
    "partner",
    "reflected",
    "unary",
]

N = TypeVar("N", bound=Node)

_KIND: Final[dict[type, int]] = {bool: 0, int: 1, float: 2, complex: 3}
_FOREIGN: Final = (str, bytes)  # what no dtype holds
_CONSTANT: Final = OPS["constant"]
_PROTOCOLS: Final = (
    "__array__",
    "__array_interface__",
    "__dlpack__",
    "__cuda_array_interface__",
)


class NumberCache:
    """Constant nodes by value, so that `a + 1.5` written often makes its 1.5 once.

    Bounded: at the limit everything is forgotten. Constants never change, so sharing one is the
    same as making another. A key holds the class of the number, since 1, 1.0 and True are equal,
    and the text of a zero or a complex number, since 0.0 and -0.0 are.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._made: dict[tuple[Any, ...], Any] = {}

    def get(self, cls: type[N], value: Any, dtype: DType) -> N:
        """Return the constant node of `value` as `dtype`."""
        kind = value.__class__
        key = (kind, value if value and kind is not complex else str(value), dtype, cls)
        found: N | None = self._made.get(key)
        if found is None:
            found = cls.number(check_number(value, dtype), dtype)
            if len(self._made) >= self._limit:
                self._made.clear()
            self._made[key] = found
        return found


_numbers: Final = NumberCache(1024)


def partner(x: N, value: Any) -> N | None:
    """Return what stands beside `x` in an operator, as a node; None for a foreign type.

    A number is weak: it takes the dtype of `x` unless its kind is higher. Lists and arrays are
    copied into leaves.

    Raises:
        NumberRangeError: an integer dtype that cannot hold the number.
        DTypeError, ShapeError: a value that cannot be a tensor.
    """
    kind = _KIND.get(value.__class__)
    if kind is not None:
        return _numbers.get(x.__class__, value, weak_promote(x.dtype, kind))
    if isinstance(value, Node):
        return value  # type: ignore[return-value]
    if is_number(value):
        dtype = weak_promote(x.dtype, number_dtype(value).kind)
        return x.number(check_number(value, dtype), dtype)
    refuse_kind("operand", value)
    known = isinstance(value, (list, tuple, range)) or any(hasattr(value, p) for p in _PROTOCOLS)
    return x.leaf(leaf_data("operand", value)) if known else None


def as_node(cls: type[N], what: str, value: Any) -> N:
    """Return a value as a node of class `cls`: itself, or a leaf with a copy of it.

    Raises:
        DTypeError, ShapeError, ArgumentTypeError: a value that cannot be a tensor.
    """
    if isinstance(value, cls):
        return value
    return cls.leaf(leaf_data(what, value))


def operands(cls: type[N], what: str, values: Sequence[Any]) -> tuple[N, ...]:
    """Return values as nodes; numbers are weak beside the tensors, arrays and lists.

    Raises:
        DTypeError, ShapeError, ArgumentTypeError: a value that cannot be a tensor.
        NumberRangeError: a number that the dtype of the others cannot hold.
    """
    nodes: list[N | None] = []
    common: DType | None = None
    for value in values:
        node = None if is_number(value) else as_node(cls, what, value)
        if node is not None:
            common = node.dtype if common is None else promote(common, node.dtype)
        nodes.append(node)
    return tuple(
        _number(cls, value, common) if node is None else node
        for node, value in zip(nodes, values, strict=True)
    )


def _number(cls: type[N], value: Any, beside: DType | None) -> N:
    own = number_dtype(value)
    return _numbers.get(cls, value, own if beside is None else weak_promote(beside, own.kind))


def checked_power(pair: tuple[N, N]) -> tuple[N, N]:
    """Return the operands of pow.

    Raises:
        IntegerPowerError: the base is an integer and the exponent a negative number.
    """
    base, exponent = pair
    if exponent.op is _CONSTANT and exponent.dtype.is_integer and not base.dtype.is_inexact:
        value = value_of(exponent.params.value)
        if value < 0:
            raise IntegerPowerError(
                f"pow: a tensor of {base.dtype} to the power {value} is no integer; allowed are "
                "exponents >= 0; cast the base to a float, or use a float exponent"
            )
    return pair


def _named(function: Any, name: str, doc: str) -> Any:
    function.__name__ = name
    function.__qualname__ = f"Tensor.{name}"
    function.__doc__ = doc
    return function


def binary(token: str, method: str) -> Callable[[N, Any], N]:
    """Return the operator method of an op whose first operand is the tensor.

    Beside text == and != leave the answer to Python: not equal.
    """
    op = OPS[token]
    foreign = _FOREIGN if token in ("eq", "ne") else ()

    def operator(self: N, other: Any) -> N:
        if other.__class__ is not self.__class__:
            other = None if isinstance(other, foreign) else partner(self, other)
            if other is None:
                return NotImplemented  # type: ignore[no-any-return]
        return self.apply(op, (self, other))

    return _named(operator, method, f"Return softcuda.{op.public}(self, other).")  # type: ignore[no-any-return]


def reflected(token: str, method: str) -> Callable[[N, Any], N]:
    """Return the operator method of an op whose second operand is the tensor."""
    op = OPS[token]

    def operator(self: N, other: Any) -> N:
        first = partner(self, other)
        if first is None:
            return NotImplemented  # type: ignore[no-any-return]
        return self.apply(op, (first, self))

    return _named(operator, method, f"Return softcuda.{op.public}(other, self).")  # type: ignore[no-any-return]


def unary(token: str) -> Callable[[N], N]:
    """Return the method of an op with one operand and no params."""
    op = OPS[token]

    def method(self: N) -> N:
        return self.apply(op, (self,))

    return _named(method, op.public, f"Return softcuda.{op.public} of this tensor.")  # type: ignore[no-any-return]


def logical(token: str, sign: str, method: str) -> Callable[[N, Any], N]:
    """Return the method of & | ^: the logical op, for two bools only."""
    op = OPS[token]

    def operator(self: N, other: Any) -> N:
        second = partner(self, other)
        if second is None:
            return NotImplemented  # type: ignore[no-any-return]
        for operand in (self, second):
            if not operand.dtype.is_bool:
                raise DTypeError(
                    f"{sign}: an operand has dtype {operand.dtype}; allowed are bool tensors, for "
                    f"which {sign} is {op.public}; compare first, or use {op.public} for the "
                    "truth of numbers"
                )
        return self.apply(op, (self, second))

    return _named(operator, method, f"Return softcuda.{op.public}(self, other), bools only.")  # type: ignore[no-any-return]
