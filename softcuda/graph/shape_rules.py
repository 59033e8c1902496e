"""Shape rules of the op table: (inputs, params) -> extents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from softcuda.errors import AxisError, ShapeError
from softcuda.graph.params import Contraction, Diagonal, Dims, Eye, LayerNorm, Pad, Slice
from softcuda.graph.shapes import broadcast_dims, numel, reduced_dims

__all__ = [
    "added",
    "broadcast",
    "broadcast_to",
    "concat",
    "contraction",
    "counted",
    "diagonal",
    "elements",
    "eye",
    "given",
    "layer_norm",
    "matrix",
    "one_hot",
    "pad",
    "permute",
    "reduction",
    "reshape",
    "same",
    "scalar",
    "sliced",
    "slices",
    "stack",
    "unruled",
]

Rule = Callable[[Sequence[Any], Any], Dims]

NEEDS_ELEMENTS = frozenset({"min", "max", "argmin", "argmax"})


def same(inputs: Sequence[Any], params: Any) -> Dims:
    """Return the extents of the first operand."""
    return inputs[0].dims  # type: ignore[no-any-return]


def scalar(inputs: Sequence[Any], params: Any) -> Dims:
    """Return rank 0."""
    return ()


def given(inputs: Sequence[Any], params: Any) -> Dims:
    """Return the extents that the params name."""
    return params.dims  # type: ignore[no-any-return]


def counted(inputs: Sequence[Any], params: Any) -> Dims:
    """Return one axis of params.length elements."""
    return (params.length,)


def eye(inputs: Sequence[Any], params: Eye) -> Dims:
    """Return [rows, columns]."""
    return (params.rows, params.columns)


def broadcast(what: str) -> Rule:
    """Return the rule of elementwise ops: all operands broadcast together."""

    def rule(inputs: Sequence[Any], params: Any) -> Dims:
        first: Dims = inputs[0].dims
        for operand in inputs:
            if operand.dims != first:
                return broadcast_dims(what, [x.dims for x in inputs])
        return first

    return rule


def reduction(what: str) -> Rule:
    """Return the rule of reductions; min, max, argmin, argmax of nothing are errors."""

    def rule(inputs: Sequence[Any], params: Any) -> Dims:
        dims: Dims = inputs[0].dims
        axes: Dims = params.axes
        result = reduced_dims(dims, axes, params.keepdims)
        if what in NEEDS_ELEMENTS and any(dims[axis] == 0 for axis in axes):
            raise ShapeError(
                f"{what}: the reduced axes {list(axes)} of shape {list(dims)} hold no element "
                f"and {what} of nothing has no value; allowed are extents >= 1"
            )
        return result

    return rule


def permute(inputs: Sequence[Any], params: Any) -> Dims:
    """Return the extents in the order of params.axes."""
    dims: Dims = inputs[0].dims
    if sorted(params.axes) != list(range(len(dims))):
        raise AxisError(
            f"permute: axes {list(params.axes)} do not name each of the {len(dims)} axes of shape "
            f"{list(dims)} once"
        )
    return tuple(dims[axis] for axis in params.axes)


def reshape(inputs: Sequence[Any], params: Any) -> Dims:
    """Return params.dims, which must hold as many elements as the operand."""
    dims: Dims = inputs[0].dims
    target: Dims = params.dims
    if numel(dims) != numel(target):
        raise ShapeError(
            f"reshape: shape {list(dims)} has {numel(dims)} elements and {list(target)} has "
            f"{numel(target)}; both must hold as many; one extent may be -1"
        )
    return target


def broadcast_to(inputs: Sequence[Any], params: Any) -> Dims:
    """Return params.dims, to which the operand must broadcast."""
    dims: Dims = inputs[0].dims
    target: Dims = params.dims
    shift = len(target) - len(dims)
    if shift < 0 or any(d not in (1, target[axis + shift]) for axis, d in enumerate(dims)):
        raise ShapeError(
            f"broadcast_to: shape {list(dims)} does not broadcast to {list(target)}; aligned from "
            "the right each extent must be equal or 1"
        )
    return target


def sliced(inputs: Sequence[Any], params: Slice) -> Dims:
    """Return params.sizes, whose elements must lie inside the operand."""
    dims: Dims = inputs[0].dims
    for axis, (start, step, size) in enumerate(
        zip(params.starts, params.steps, params.sizes, strict=True)
    ):
        last = start + step * (size - 1)
        if size and not (0 <= start < dims[axis] and 0 <= last < dims[axis]):
            raise ShapeError(
                f"slice: axis {axis} reads {start} to {last} of extent {dims[axis]}; "
                f"allowed are 0 to {dims[axis] - 1}"
            )
    return params.sizes


def diagonal(inputs: Sequence[Any], params: Diagonal) -> Dims:
    """Return the extents without the two axes, the diagonal last."""
    dims: Dims = inputs[0].dims
    rows, columns = dims[params.axis1], dims[params.axis2]
    if params.offset >= 0:
        length = min(rows, columns - params.offset)
    else:
        length = min(rows + params.offset, columns)
    rest = tuple(d for axis, d in enumerate(dims) if axis not in (params.axis1, params.axis2))
    return (*rest, max(length, 0))


def _check_others_equal(what: str, shapes: list[Dims], axis: int | None) -> None:
    first = shapes[0]
    for number, shape in enumerate(shapes):
        equal = len(shape) == len(first) and all(
            a == b for k, (a, b) in enumerate(zip(shape, first, strict=True)) if k != axis
        )
        if not equal:
            rest = "all extents" if axis is None else f"all extents but those of axis {axis}"
            raise ShapeError(
                f"{what}: operand 0 has shape {list(first)} and operand {number} {list(shape)}; "
                f"{rest} must be equal"
            )


def concat(inputs: Sequence[Any], params: Any) -> Dims:
    """Return the first shape with the extents of params.axis added up."""
    shapes, axis = [x.dims for x in inputs], params.axis
    _check_others_equal("concat", shapes, axis)
    joined = sum(s[axis] for s in shapes)
    return (*shapes[0][:axis], joined, *shapes[0][axis + 1 :])


def stack(inputs: Sequence[Any], params: Any) -> Dims:
    """Return the common shape with a new axis, one element an operand."""
    _check_others_equal("stack", [x.dims for x in inputs], None)
    dims: Dims = inputs[0].dims
    return (*dims[: params.axis], len(inputs), *dims[params.axis :])


def pad(inputs: Sequence[Any], params: Pad) -> Dims:
    """Return the extents with before and after added."""
    sizes = zip(params.before, inputs[0].dims, params.after, strict=True)
    return tuple(before + extent + after for before, extent, after in sizes)


def matrix(what: str) -> Rule:
    """Return the rule of tril and triu: at least two axes."""

    def rule(inputs: Sequence[Any], params: Any) -> Dims:
        dims: Dims = inputs[0].dims
        if len(dims) < 2:
            raise ShapeError(
                f"{what}: the operand has shape {list(dims)}; at least two axes are needed"
            )
        return dims

    return rule


def slices(what: str) -> Rule:
    """Return the rule of take: the data's extents, params.axis replaced by those of indices."""

    def rule(inputs: Sequence[Any], params: Any) -> Dims:
        dims, indices = inputs[0].dims, inputs[1].dims
        if dims[params.axis] == 0 and numel(indices):
            raise ShapeError(
                f"{what}: axis {params.axis} of shape {list(dims)} is empty and no index is inside "
                f"it; the indices have shape {list(indices)}, only an empty one is allowed"
            )
        return (*dims[: params.axis], *indices, *dims[params.axis + 1 :])

    return rule


def elements(what: str) -> Rule:
    """Return the rule of gather: the extents of indices that fit the data beside params.axis."""

    def rule(inputs: Sequence[Any], params: Any) -> Dims:
        dims, indices = inputs[0].dims, inputs[1].dims
        pairs = enumerate(zip(dims, indices, strict=False))
        fits = all(i <= d for axis, (d, i) in pairs if axis != params.axis)
        if len(dims) != len(indices) or not fits or (dims[params.axis] == 0 and numel(indices)):
            raise ShapeError(
                f"{what}: indices of shape {list(indices)} do not address data of shape "
                f"{list(dims)} along axis {params.axis}; ranks must be equal and the other extents "
                "no larger than the data's"
            )
        return inputs[1].dims  # type: ignore[no-any-return]

    return rule


def added(what: str, addressed: Rule) -> Rule:
    """Return the rule of what adds values at addressed places: the data's extents."""

    def rule(inputs: Sequence[Any], params: Any) -> Dims:
        wanted, values = addressed(inputs, params), inputs[2].dims
        if values != wanted:
            raise ShapeError(
                f"{what}: the values have shape {list(values)}; data of shape "
                f"{list(inputs[0].dims)} and indices of shape {list(inputs[1].dims)} need "
                f"{list(wanted)}"
            )
        return inputs[0].dims  # type: ignore[no-any-return]

    return rule


def one_hot(inputs: Sequence[Any], params: Any) -> Dims:
    """Return the extents of the indices with params.depth appended."""
    return (*inputs[0].dims, params.depth)


def layer_norm(inputs: Sequence[Any], params: LayerNorm) -> Dims:
    """Return the operand's extents; weight and bias have those of the normalised axes."""
    dims: Dims = inputs[0].dims
    tail = dims[len(dims) - params.axes_count :]
    names = [n for n, given in (("weight", params.has_weight), ("bias", params.has_bias)) if given]
    for name, operand in zip(names, inputs[1:], strict=True):
        if operand.dims != tail:
            raise ShapeError(
                f"layer_norm: {name} has shape {list(operand.dims)}; allowed is {list(tail)}, the "
                f"last {params.axes_count} extents of {list(dims)}"
            )
    return dims


def contraction(inputs: Sequence[Any], params: Contraction) -> Dims:
    """Return the extents of params.out; a label's extents are equal or 1."""
    extents: dict[int, int] = {}
    for number, (operand, labels) in enumerate(((inputs[0], params.a), (inputs[1], params.b))):
        for axis, (label, extent) in enumerate(zip(labels, operand.dims, strict=True)):
            have = extents.setdefault(label, extent)
            if extent in (have, 1):
                continue
            if have != 1:
                raise ShapeError(
                    f"matmul: shapes {list(inputs[0].dims)} and {list(inputs[1].dims)} do not "
                    f"fit: extent {have} meets {extent}, axis {axis} of operand {number}; both "
                    "must be equal or 1 "
                    "(matmul: the last axis of operand 0 and the second last, or only, of "
                    "operand 1)"
                )
            extents[label] = extent
    return tuple(extents[label] for label in params.out)


def unruled(inputs: Sequence[Any], params: Any) -> Dims:
    """Refuse: a leaf has its extents from its value."""
    raise ShapeError("a leaf has no shape rule; its shape is that of its value")
