"""Functions that join, cut and frame tensors: concat, stack, split, pad."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from softcuda.errors import ArgumentError, ArgumentTypeError, ShapeError
from softcuda.functions.operands import TensorLike, as_tensor, as_tensors
from softcuda.graph.op import OPS
from softcuda.graph.params import Concat, Dims, Gather, Pad, literal
from softcuda.graph.shapes import check_dims, normalize_axis
from softcuda.numbers import check_number
from softcuda.tensor import Tensor
from softcuda.tensor.shapes import whole_numbers
from softcuda.tensor.values import is_number

__all__ = ["concat", "pad", "split", "stack"]

_INDEX_MODES: Final = ("edge", "reflect", "symmetric", "wrap")


def _several(what: str, tensors: Sequence[TensorLike]) -> tuple[Tensor, ...]:
    if not isinstance(tensors, (list, tuple)):
        if isinstance(tensors, (Tensor, np.ndarray)) and tensors.ndim > 0:
            tensors = list(tensors)
        else:
            raise ArgumentTypeError(
                f"{what}: the tensors are {type(tensors).__name__}; allowed is a list or tuple"
            )
    if not tensors:
        raise ArgumentError(f"{what}: the list of tensors is empty; allowed is one or more")
    return as_tensors(what, *tensors)


def concat(tensors: Sequence[TensorLike], axis: int | None = 0) -> Tensor:
    """Return tensors joined end to end along an axis.

    Args:
        tensors: one or more; all extents but those of the axis are equal.
        axis: the axis; None joins the flattened tensors.

    Returns:
        [extents of the first, those of the axis added up], of the common dtype.

    Raises:
        ArgumentError: there is no tensor.
        AxisError: the first tensor has no such axis.
        ShapeError: another extent differs.
    """
    parts = _several("concat", tensors)
    if axis is None:
        parts = tuple(part.reshape(-1) for part in parts)
        axis = 0
    place = normalize_axis("concat", axis, parts[0].ndim)
    return parts[0].apply(OPS["concat"], parts, Concat(place))


def stack(tensors: Sequence[TensorLike], axis: int = 0) -> Tensor:
    """Return tensors of one shape joined along a new axis.

    Args:
        tensors: one or more, all of one shape.
        axis: the place of the new axis in the result.

    Returns:
        [extents with the number of tensors inserted], of the common dtype.

    Raises:
        ArgumentError: there is no tensor.
        AxisError: the result has no such axis.
        ShapeError: the shapes differ, or the result has more than 64 axes.
    """
    parts = _several("stack", tensors)
    rank = parts[0].ndim + 1
    check_dims("stack", (1,) * rank)
    place = normalize_axis("stack", axis, rank)
    return parts[0].apply(OPS["stack"], parts, Concat(place))


def split(x: TensorLike, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Return the parts of a tensor along an axis, as views.

    Args:
        x: [any shape of rank 1 and above], any dtype.
        indices_or_sections: a number of equal parts, or the places at which to cut: [2, 5] gives
            x[:2], x[2:5], x[5:].
        axis: the axis.

    Returns:
        A list of tensors, of the dtype of x.

    Raises:
        AxisError: x has no such axis.
        ShapeError: the extent is no multiple of the number of parts.
        ArgumentError: the number of parts is below 1.
    """
    node = as_tensor("split", x)
    place = normalize_axis("split", axis, node.ndim)
    extent = node.dims[place]
    rank = getattr(indices_or_sections, "ndim", 0)
    if hasattr(indices_or_sections, "__index__") and rank == 0:
        sections = operator.index(indices_or_sections)
        if sections < 1:
            raise ArgumentError(f"split: {sections} parts were asked for; allowed are 1 and more")
        if extent % sections:
            raise ShapeError(
                f"split: axis {place} of shape {list(node.dims)} has extent {extent}, which does "
                f"not divide into {sections} equal parts; give the places at which to cut"
            )
        cuts = tuple(part * (extent // sections) for part in range(1, sections))
    else:
        cuts = whole_numbers("split", "indices_or_sections", indices_or_sections)
    before = (slice(None),) * place
    starts, stops = (0, *cuts), (*cuts, extent)
    return [node[(*before, slice(start, stop))] for start, stop in zip(starts, stops, strict=True)]


def pad(
    x: TensorLike,
    pad_width: int | Sequence[Any] | Mapping[int, Any],
    mode: str = "constant",
    constant_values: float = 0,
) -> Tensor:
    """Return a tensor framed by added elements.

    Args:
        x: [any shape], any dtype.
        pad_width: elements added on each axis: n everywhere; (before, after) everywhere;
            ((before, after), ...) for each axis; or {axis: n or (before, after)}.
        mode: constant; edge (repeats the last element); reflect and symmetric (mirror without
            and with the last element); wrap (starts again at the other end).
        constant_values: the number that fills a constant frame.

    Returns:
        [extents of x plus before plus after], of the dtype of x.

    Raises:
        ArgumentError: an unknown mode, or a negative width.
        ArgumentTypeError: widths that are no integers or do not fit the rank.
        ShapeError: an empty axis in a mode that repeats its elements.
        DTypeError, NumberRangeError: the dtype of x cannot hold the number.
    """
    node = as_tensor("pad", x)
    widths = _widths(pad_width, node.ndim)
    if mode == "constant":
        if not is_number(constant_values):
            raise ArgumentTypeError(
                f"pad: constant_values is {constant_values!r}; allowed is one number"
            )
        value = literal(check_number(constant_values, node.dtype))
        before, after = tuple(b for b, _ in widths), tuple(a for _, a in widths)
        check_dims("pad", tuple(b + d + a for (b, a), d in zip(widths, node.dims, strict=True)))
        return node.apply(OPS["pad"], (node,), Pad(before, after, value))
    if mode not in _INDEX_MODES:
        raise ArgumentError(
            f"pad: there is no mode {mode!r}; allowed are constant, {', '.join(_INDEX_MODES)}"
        )
    for axis, width in enumerate(widths):
        if any(width):
            node = _framed(node, axis, width, mode)
    return node


def _framed(node: Tensor, axis: int, width: tuple[int, int], mode: str) -> Tensor:
    extent = node.dims[axis]
    if extent == 0:
        raise ShapeError(
            f"pad: axis {axis} of shape {list(node.dims)} is empty, and mode {mode!r} repeats its "
            "elements; allowed there is mode constant"
        )
    dims: Dims = (*node.dims[:axis], extent + width[0] + width[1], *node.dims[axis + 1 :])
    check_dims("pad", dims)
    places: Any = np.pad(np.arange(extent), width, mode=mode)  # type: ignore[call-overload]
    return node.apply(OPS["take"], (node, Tensor.leaf(places.astype(np.int64))), Gather(axis))


def _widths(pad_width: Any, rank: int) -> list[tuple[int, int]]:
    if isinstance(pad_width, Mapping):
        chosen = {normalize_axis("pad", axis, rank): pad_width[axis] for axis in pad_width}
        return [_widths(chosen.get(axis, 0), 1)[0] for axis in range(rank)]
    given = pad_width.numpy() if isinstance(pad_width, Tensor) else pad_width
    try:
        table = np.broadcast_to(np.asarray(given), (rank, 2))
    except ValueError:
        raise ArgumentTypeError(
            f"pad: pad_width is {pad_width!r}; allowed are n, (before, after), or "
            f"((before, after), ...) for each of the {rank} axes"
        ) from None
    if table.dtype.kind not in "iu" and table.size:
        raise ArgumentTypeError(f"pad: pad_width is {pad_width!r}; allowed are integers")
    widths = [(int(before), int(after)) for before, after in table]
    if any(number < 0 for width in widths for number in width):
        raise ArgumentError(f"pad: pad_width is {pad_width!r}; allowed are numbers >= 0")
    return widths
