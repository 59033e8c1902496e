"""The forms in which einsum takes its arguments: an expression first, or lists of labels between.

Operands are handed through; nothing here looks into them but for whether they have a shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from softcuda.contraction.parse import Subscripts, parse_expression, parse_labels
from softcuda.errors import ArgumentTypeError

__all__ = ["EinsumArguments", "read_arguments"]


class EinsumArguments(NamedTuple):
    """What an einsum was asked for."""

    subscripts: Subscripts
    operands: tuple[Any, ...]


def read_arguments(arguments: Sequence[Any]) -> EinsumArguments:
    """Return the labels and the operands of an einsum's positional arguments.

    Forms: expression, operand, ...; expression, [operand, ...]; operand, [labels], ...,
    and there the labels of the output last, if they are given.

    Raises:
        ArgumentTypeError: there are no arguments, the expression is of bytes, or labels are no list
            of hashable objects.
        ExpressionError: as `parse_expression` and `parse_labels`.

    Example:
        >>> read_arguments(["ij,jk", "A", "B"]).operands
        ('A', 'B')
        >>> str(read_arguments([2.5, [], 1.5, [], []]).subscripts)
        ',->'
    """
    if not arguments:
        raise ArgumentTypeError(
            "einsum was given nothing; allowed are an expression and operands, or operands each "
            "followed by the list of its labels"
        )
    first, *rest = arguments
    if isinstance(first, (bytes, bytearray)):
        raise ArgumentTypeError(
            f"einsum: the expression is {first!r} of type {type(first).__name__}; allowed is a str"
        )
    if isinstance(first, str):
        subscripts = parse_expression(first)
        return EinsumArguments(subscripts, _listed_operands(subscripts, rest))
    pairs = len(arguments) // 2
    output = arguments[-1] if len(arguments) % 2 else None
    if not pairs:
        raise ArgumentTypeError(
            f"einsum was given one argument, a {type(first).__name__}; allowed are an expression "
            "and operands, or operands each followed by the list of its labels"
        )
    operands = tuple(arguments[0 : 2 * pairs : 2])
    return EinsumArguments(parse_labels(arguments[1 : 2 * pairs : 2], output), operands)


def _listed_operands(subscripts: Subscripts, rest: Sequence[Any]) -> tuple[Any, ...]:
    """Return the operands; one list stands for several operands, or for one that has a shape."""
    if len(rest) == 1 and isinstance(rest[0], (list, tuple)):
        [inner] = rest
        is_one = len(subscripts.inputs) == 1
        if not is_one or (len(inner) == 1 and hasattr(inner[0], "shape")):
            return tuple(inner)
    return tuple(rest)
