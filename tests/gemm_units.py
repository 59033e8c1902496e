"""Units of a contraction and a chain behind it, written as an equation and shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from softcuda.backends.steps import Micro, Operand, Unit
from softcuda.dtype import DType
from softcuda.graph.lines import GraphBuilder, Line
from softcuda.graph.op import OPS
from softcuda.graph.params import Cast, Contraction, Dims
from softcuda.graph.shapes import contiguous_strides

# (op, sources: -1 the link before, others operands; dtype that the first of them has, or None)
Link = tuple[str, tuple[int, ...], DType | None]
Layout = tuple[Dims, Dims]


def labels_of(equation: str) -> Contraction:
    """Return the labels of an equation such as "ij,jk->ik"."""
    operands, out = equation.split("->")
    a, b = operands.split(",")
    number = {label: k for k, label in enumerate(dict.fromkeys(a + b + out))}
    return Contraction(*(tuple(number[label] for label in part) for part in (a, b, out)))


def unit_of(
    equation: str,
    shapes: Sequence[Dims | Layout],
    dtype: DType,
    chain: Sequence[Link] = (),
    other: DType | None = None,
) -> Unit:
    """Return the unit of a contraction of the first two operands, and a chain that reads the rest.

    Args:
        equation: labels of the product.
        shapes: extents of every operand, or pairs (extents, strides).
        dtype: of operand 0, and of the others unless `other` or a link says otherwise.
        chain: links; a cast's dtype is its target.
        other: dtype of operand 1.
    """
    layouts: list[Any] = [
        given if given and isinstance(given[0], tuple) else (given, contiguous_strides(given))  # type: ignore[arg-type]
        for given in shapes
    ]
    dtypes = [dtype, other or dtype, *(dtype for _ in shapes[2:])]
    for op, sources, given in chain:
        for source in sources:
            if source >= 0 and given is not None and op != "cast":
                dtypes[source] = given
    builder = GraphBuilder()
    for (dims, _), own in zip(layouts, dtypes, strict=True):
        builder.append(Line(OPS["input"], (), dims, own, ()))
    numbers = [builder.add(OPS["matmul"], (0, 1), labels_of(equation))]
    sources_of: list[tuple[int, ...]] = [(0, 1)]
    for op, sources, given in chain:
        params = Cast(given) if op == "cast" and given is not None else ()
        read = tuple(numbers[-1] if s < 0 else s for s in sources)
        sources_of.append(tuple(~(len(numbers) - 1) if s < 0 else s for s in sources))
        numbers.append(builder.add(OPS[op], read, params))
    lines = [builder.lines[number] for number in numbers]
    micros = tuple(
        Micro(line.op, own, line.dims, line.dtype, line.params)
        for line, own in zip(lines, sources_of, strict=True)
    )
    operands = tuple(
        Operand(k, 0, dims, strides, own)
        for k, ((dims, strides), own) in enumerate(zip(layouts, dtypes, strict=True))
    )
    last = lines[-1]
    result = Operand(numbers[-1], 0, last.dims, contiguous_strides(last.dims), last.dtype)
    return Unit(micros, operands, result, tuple(numbers))


def layout_of_array(array: np.ndarray[Any, Any]) -> Layout:
    """Return extents and strides [elements] of an array."""
    return array.shape, tuple(stride // array.itemsize for stride in array.strides)
