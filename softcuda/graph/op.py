"""The table of operations: one row an op, and the names users call them by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol

from softcuda.dtype import DType
from softcuda.errors import ArgumentError
from softcuda.graph import dtype_rules as dt
from softcuda.graph import shape_rules as sh
from softcuda.graph.params import Dims, Params

__all__ = ["OPS", "Kind", "Op", "Typed", "op_named"]


class Kind(Enum):
    """What an op does to its operands: decides views, rows, sizes and fusion."""

    LEAF = "leaf"
    ELEMENTWISE = "elementwise"
    REDUCTION = "reduction"
    SCAN = "scan"
    VIEW = "view"
    MOVEMENT = "movement"
    CREATION = "creation"
    RANDOM = "random"
    CONTRACTION = "contraction"
    COMPOSITE = "composite"
    TRANSFER = "transfer"


class Typed(Protocol):
    """Anything with extents and a dtype: a Node, a Line, a Tensor."""

    dims: Dims
    dtype: DType


@dataclass(frozen=True, eq=False, slots=True)
class Op:
    """One operation.

    Attributes:
        name: the token, in CONFIG.soft, in printed tables and in `tensor.op`.
        public: the name of the function that users call; NumPy's and the array API's.
        kind: see Kind.
        arity: number of inputs; -1 for any number from 1.
        shape_rule: (inputs, params) -> extents of the result; raises ShapeError.
        dtype_rule: (inputs, params) -> dtype of the result; raises DTypeError.
        operand_rule: (inputs, params) -> dtype that each operand is converted to on load, or
            None where operands are read as they are.
        has_indices: operand 1 holds indices: it is never converted, widens no row, and a run
            refuses an index out of range even where the result has no elements.
    """

    name: str
    public: str
    kind: Kind
    arity: int
    shape_rule: Callable[[Sequence[Any], Any], Dims]
    dtype_rule: Callable[[Sequence[Any], Any], DType]
    operand_rule: Callable[[Sequence[Any], Any], DType] | None = None
    has_indices: bool = False

    @property
    def does_work(self) -> bool:
        """True for what a backend computes: no leaf, no view, no copy between devices."""
        return self.kind not in (Kind.LEAF, Kind.VIEW, Kind.TRANSFER)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return op_named, (self.name,)


def _elementwise(
    name: str,
    public: str | None = None,
    *,
    arity: int = 1,
    result: Callable[[Sequence[Any], Params], DType] = dt.same,
    operand: Callable[[Sequence[Any], Params], DType] = dt.common,
) -> Op:
    shape = sh.same if arity == 1 else sh.broadcast(public or name)
    return Op(name, public or name, Kind.ELEMENTWISE, arity, shape, result, operand)


def _real(name: str, *, arity: int = 1, result: dt.Rule = dt.same) -> Op:
    return _elementwise(name, arity=arity, result=dt.real(name, result))


def _floating(name: str, public: str | None = None, *, arity: int = 1) -> Op:
    return _elementwise(name, public, arity=arity, result=dt.floating, operand=dt.floating)


def _real_floating(name: str, *, arity: int = 1) -> Op:
    result = dt.real(name, dt.floating)
    return _elementwise(name, arity=arity, result=result, operand=dt.floating)


def _arithmetic(
    name: str, public: str | None = None, *, arity: int = 2, is_real: bool = False
) -> Op:
    rule = dt.no_bools(public or name)
    if is_real:
        rule = dt.real(public or name, rule)
    return _elementwise(name, public, arity=arity, result=rule, operand=rule)


def _comparison(name: str, public: str) -> Op:
    return _elementwise(name, public, arity=2, result=dt.boolean, operand=dt.common)


def _ordering(name: str, public: str) -> Op:
    result = dt.real(public, dt.boolean)
    return _elementwise(name, public, arity=2, result=result, operand=dt.common)


def _logical(name: str, arity: int = 2) -> Op:
    return _elementwise(name, arity=arity, result=dt.boolean, operand=dt.boolean)


def _reduction(
    name: str,
    result: Callable[[Sequence[Any], Params], DType],
    operand: Callable[[Sequence[Any], Params], DType] | None = None,
) -> Op:
    return Op(name, name, Kind.REDUCTION, 1, sh.reduction(name), result, operand)


def _moved(
    name: str,
    shape: Callable[[Sequence[Any], Any], Dims],
    *,
    arity: int = 1,
    public: str | None = None,
    result: Callable[[Sequence[Any], Any], DType] = dt.same,
    kind: Kind = Kind.MOVEMENT,
) -> Op:
    return Op(name, public or name, kind, arity, shape, result)


def _indexed(name: str, addressed: Callable[[str], sh.Rule]) -> Op:
    return Op(name, name, Kind.MOVEMENT, 2, addressed(name), dt.indexed(name), has_indices=True)


def _scattered(name: str, addressed: Callable[[str], sh.Rule]) -> Op:
    shape, dtype = sh.added(name, addressed(name)), dt.scattered(name)
    return Op(name, name, Kind.MOVEMENT, 3, shape, dtype, dtype, has_indices=True)


def _created(name: str, shape: Callable[[Sequence[Any], Any], Dims], arity: int = 0) -> Op:
    kind = Kind.RANDOM if arity else Kind.CREATION
    return Op(name, name, kind, arity, shape, dt.given)


def _composite(name: str, arity: int, shape: Callable[[Sequence[Any], Any], Dims]) -> Op:
    result = dt.real(name, dt.floating)
    return Op(name, name, Kind.COMPOSITE, arity, shape, result, dt.floating)


_ROWS: Final[tuple[Op, ...]] = (
    # leaves
    Op("none", "tensor", Kind.LEAF, 0, sh.unruled, dt.unruled),
    Op("input", "input", Kind.LEAF, 0, sh.unruled, dt.unruled),
    Op("variable", "variable", Kind.LEAF, 0, sh.unruled, dt.unruled),
    Op("constant", "tensor", Kind.LEAF, 0, sh.scalar, dt.given),
    # one operand
    _arithmetic("neg", "negative", arity=1),
    _elementwise("abs", result=dt.part),
    _elementwise("sign"),
    _arithmetic("square", arity=1),
    _real("relu"),
    _elementwise("conj"),
    _elementwise("real", result=dt.part),
    _elementwise("imag", result=dt.part),
    _real("floor"),
    _real("ceil"),
    _real("round"),
    *map(_floating, ("sqrt", "rsqrt", "reciprocal", "exp", "log")),
    *map(_floating, ("sin", "cos", "tan", "sinh", "cosh", "tanh")),
    *map(_real_floating, ("exp2", "expm1", "log2", "log1p")),
    *map(_real_floating, ("asin", "acos", "atan", "asinh", "acosh", "atanh")),
    *map(_real_floating, ("sigmoid", "gelu", "silu", "mish", "softplus", "softsign", "erf")),
    _elementwise("isnan", result=dt.boolean),
    _elementwise("isinf", result=dt.boolean),
    _elementwise("isfinite", result=dt.boolean),
    _logical("logical_not", arity=1),
    _elementwise("cast", result=dt.converted, operand=dt.same),
    _elementwise("copy"),
    # two operands
    _arithmetic("add"),
    _arithmetic("sub", "subtract"),
    _arithmetic("mul", "multiply"),
    _floating("div", "divide", arity=2),
    _arithmetic("floor_divide", is_real=True),
    _arithmetic("remainder", is_real=True),
    _arithmetic("pow"),
    _real("minimum", arity=2, result=dt.common),
    _real("maximum", arity=2, result=dt.common),
    _real_floating("atan2", arity=2),
    _comparison("eq", "equal"),
    _comparison("ne", "not_equal"),
    _ordering("lt", "less"),
    _ordering("le", "less_equal"),
    _ordering("gt", "greater"),
    _ordering("ge", "greater_equal"),
    _logical("logical_and"),
    _logical("logical_or"),
    _logical("logical_xor"),
    # three operands
    Op("where", "where", Kind.ELEMENTWISE, 3, sh.broadcast("where"), dt.branches, dt.branches),
    _real("clip", arity=3, result=dt.common),
    _arithmetic("multiply_add", arity=3),
    # reductions
    _reduction("sum", dt.accumulated),
    _reduction("prod", dt.accumulated),
    _reduction("min", dt.real("min", dt.same)),
    _reduction("max", dt.real("max", dt.same)),
    _reduction("mean", dt.floating),
    _reduction("var", dt.real("var", dt.floating)),
    _reduction("std", dt.real("std", dt.floating)),
    _reduction("norm", dt.magnitude),
    _reduction("logsumexp", dt.real("logsumexp", dt.floating)),
    _reduction("any", dt.boolean),
    _reduction("all", dt.boolean),
    _reduction("argmin", dt.real("argmin", dt.index)),
    _reduction("argmax", dt.real("argmax", dt.index)),
    Op("cumsum", "cumsum", Kind.SCAN, 1, sh.same, dt.accumulated),
    # views
    _moved("reshape", sh.reshape, kind=Kind.VIEW),
    _moved("permute", sh.permute, public="permute_dims", kind=Kind.VIEW),
    _moved("broadcast_to", sh.broadcast_to, kind=Kind.VIEW),
    _moved("slice", sh.sliced, public="getitem", kind=Kind.VIEW),
    _moved("diagonal", sh.diagonal, kind=Kind.VIEW),
    # data movement
    _moved("concat", sh.concat, arity=-1, result=dt.common),
    _moved("stack", sh.stack, arity=-1, result=dt.common),
    _moved("pad", sh.pad),
    _moved("tril", sh.matrix("tril")),
    _moved("triu", sh.matrix("triu")),
    _indexed("take", sh.slices),
    _indexed("gather", sh.elements),
    _moved("one_hot", sh.one_hot, result=dt.one_hot),
    _scattered("index_add", sh.slices),
    _scattered("scatter_add", sh.elements),
    # creation
    _created("full", sh.given),
    _created("arange", sh.counted),
    _created("linspace", sh.counted),
    _created("eye", sh.eye),
    _created("uniform", sh.given, arity=1),
    _created("normal", sh.given, arity=1),
    # a copy from one device to another; the compiler places them, and Tensor.to
    Op("transfer", "to", Kind.TRANSFER, 1, sh.same, dt.same),
    # contraction: matmul, dot, outer and every pair of an einsum
    Op("matmul", "matmul", Kind.CONTRACTION, 2, sh.contraction, dt.contracted, dt.factors),
    # composites
    _composite("softmax", 1, sh.same),
    _composite("log_softmax", 1, sh.same),
    _composite("layer_norm", -1, sh.layer_norm),
)

OPS: Final[dict[str, Op]] = {op.name: op for op in _ROWS}


def op_named(name: str) -> Op:
    """Return the row of the table with this token.

    Raises:
        ArgumentError: the table has no such token.
    """
    op = OPS.get(name)
    if op is None:
        raise ArgumentError(f"there is no op {name!r}; allowed are {', '.join(sorted(OPS))}")
    return op
