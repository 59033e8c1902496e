"""An equation: labels of operands of known rank, and the extents that shapes give them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from softcuda.contraction.marks import ELLIPSIS, Spelling, ellipsis_axis, marked, spell
from softcuda.contraction.parse import Subscripts
from softcuda.errors import ArgumentError, ExpressionError, ShapeError
from softcuda.sizes import counted

__all__ = ["Equation", "bind_ranks", "equation_of", "label_extents"]

Labels = tuple[int, ...]
Dims = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Equation:
    """Labels of the axes of operands and of a result: out[output] = f(in_0[inputs[0]], ...).

    Labels are the ints 0, 1, ... in the order in which they first occur, so that equations which
    differ only in names have the same labels.

    Attributes:
        inputs: labels of each operand; a repeated one walks a diagonal.
        output: labels of the result, distinct.
        names: the name of each label.
    """

    inputs: tuple[Labels, ...]
    output: Labels
    names: tuple[str, ...]

    def __str__(self) -> str:
        return self.spelling().text

    def named(self, labels: Labels) -> list[str]:
        """Return the names of labels."""
        return [self.names[label] for label in labels]

    def spelling(self) -> Spelling:
        """Return the equation as text, and where each operand and label stands in it."""
        return spell([self.named(labels) for labels in self.inputs], self.named(self.output))


@lru_cache(maxsize=256)
def bind_ranks(subscripts: Subscripts, ranks: tuple[int, ...]) -> Equation:
    """Return the equation of subscripts, ellipses replaced by the axes they stand for.

    The axes of an ellipsis are those that the labels of its operand leave over. They align from
    the right: the last one is "...[-1]" in every operand.

    Args:
        subscripts: parsed labels.
        ranks: the rank of each operand.

    Raises:
        ExpressionError: another number of operands, or labels that do not match a rank.

    Example:
        >>> from softcuda.contraction.parse import parse_expression
        >>> bind_ranks(parse_expression("...i,i->...i"), (3, 1)).inputs
        ((0, 1, 2), (2,))
    """
    _check_count(subscripts, len(ranks))
    depths = [_depth(subscripts, number, rank) for number, rank in enumerate(ranks)]
    inputs = [
        _without_ellipsis(names, depth)
        for names, depth in zip(subscripts.inputs, depths, strict=True)
    ]
    return equation_of(inputs, _without_ellipsis(subscripts.output, max(depths)))


def _check_count(subscripts: Subscripts, given: int) -> None:
    expected = len(subscripts.inputs)
    if given != expected:
        span = subscripts.spans[min(given, expected - 1)]
        message = f"expression error: {counted(expected, 'input')} expected, {given} given"
        raise ExpressionError(marked(message, subscripts.text, span))


def _depth(subscripts: Subscripts, number: int, rank: int) -> int:
    """Return how many axes the ellipsis of an operand stands for; 0 without one."""
    names = subscripts.inputs[number]
    has_ellipsis = ELLIPSIS in names
    labels = len(names) - has_ellipsis
    depth = rank - labels
    if depth < 0 or (depth and not has_ellipsis):
        allowed = (
            f"at most {rank} beside the ellipsis"
            if has_ellipsis
            else (f"{rank}, or fewer and an ellipsis")
        )
        message = (
            f"expression error: the labels of operand {number} do not match its rank: "
            f"{counted(labels, 'label')}, rank {rank}; allowed are {allowed}"
        )
        raise ExpressionError(marked(message, subscripts.text, subscripts.spans[number]))
    return depth


def _without_ellipsis(names: Sequence[str], depth: int) -> list[str]:
    axes = [ellipsis_axis(axis) for axis in range(-depth, 0)]
    return [name for given in names for name in (axes if given == ELLIPSIS else [given])]


def equation_of(inputs: Sequence[Sequence[Hashable]], output: Sequence[Hashable]) -> Equation:
    """Return the equation of operands whose labels are given one an axis.

    An output label that no input has stands for a new axis; the caller knows its extent.

    Raises:
        ArgumentError: an output label is repeated.

    Example:
        >>> print(equation_of(["ik", "kj"], "ij"))
        ik,kj->ij
        >>> equation_of([[7, 9]], [9, 7]).output
        (1, 0)
    """
    number: dict[Hashable, int] = {}
    for labels in (*inputs, output):
        for label in labels:
            number.setdefault(label, len(number))
    made = Equation(
        tuple(tuple(number[label] for label in labels) for labels in inputs),
        tuple(number[label] for label in output),
        tuple(map(str, number)),
    )
    if len(set(made.output)) < len(made.output):
        repeated = next(label for label in made.output if made.output.count(label) > 1)
        place = len(made.output) - 1 - made.output[::-1].index(repeated)
        spelling = made.spelling()
        message = (
            f"descriptor error: output label {made.names[repeated]} is repeated; output labels "
            "must be unique"
        )
        raise ArgumentError(marked(message, spelling.text, spelling.labels[-1][place]))
    return made


def label_extents(
    equation: Equation, shapes: Sequence[Dims], output_shape: Dims | None = None
) -> Dims:
    """Return the extent of each label.

    The extents of a label are equal in all operands, or 1, which stretches; so 0 with 1 gives 0.
    In one operand a repeated label has equal extents. A given output may have a larger extent
    than operands that all have 1, never a smaller one.

    Args:
        equation: labels.
        shapes: extents of each operand.
        output_shape: extents of a given output; None where the output follows from the operands.

    Raises:
        ShapeError: another number of shapes, another rank, extents that do not fit.

    Example:
        >>> label_extents(equation_of(["ik", "kj"], "ij"), [(2, 1), (3, 4)])
        (2, 3, 4)
    """
    _check_ranks(equation, shapes, output_shape)
    extents: dict[int, int] = {}
    owner: dict[int, int] = {}
    for number, (labels, dims) in enumerate(zip(equation.inputs, shapes, strict=True)):
        here: dict[int, int] = {}
        for axis, (label, extent) in enumerate(zip(labels, dims, strict=True)):
            if here.setdefault(label, extent) != extent:
                raise _unequal_diagonal(equation, shapes, number, axis)
            have = extents.get(label, 1)
            if extent in (have, 1):
                extents.setdefault(label, have)
            elif have != 1:
                raise _unequal(equation, shapes, owner[label], number, axis)
            else:
                extents[label], owner[label] = extent, number
    for axis, label in enumerate(equation.output if output_shape is not None else ()):
        _stretch(equation, extents, label, axis, (output_shape or ())[axis])
    return tuple(extents[label] for label in range(len(equation.names)))


def _check_ranks(equation: Equation, shapes: Sequence[Dims], output_shape: Dims | None) -> None:
    if len(shapes) != len(equation.inputs):
        expected = counted(len(equation.inputs), "input")
        raise ShapeError(f"{expected} expected, {len(shapes)} given: {equation}")
    named = [
        (f"operand {number}", *pair)
        for number, pair in enumerate(zip(equation.inputs, shapes, strict=True))
    ]
    if output_shape is not None:
        named.append(("the output", equation.output, output_shape))
    for who, labels, dims in named:
        if len(labels) != len(dims):
            raise ShapeError(
                f"{who} of {equation} has {len(labels)} labels, and rank {len(dims)}, shape "
                f"{list(dims)}; allowed is one label an axis"
            )


def _stretch(
    equation: Equation, extents: dict[int, int], label: int, axis: int, given: int
) -> None:
    """Let a given output extent stretch labels of extent 1, or refuse it."""
    have = extents.get(label, 1)
    if have in (given, 1):
        extents[label] = given
    else:
        why = "would discard values" if given < have else "does not fit"
        spelling = equation.spelling()
        message = (
            f"extent error: label {equation.names[label]} has extent {have} in the inputs and "
            f"{given} in the output, which {why}; allowed is {have}"
        )
        raise ShapeError(marked(message, spelling.text, spelling.labels[-1][axis]))


def _unequal(
    equation: Equation, shapes: Sequence[Dims], first: int, number: int, axis: int
) -> ShapeError:
    label = equation.inputs[number][axis]
    have = shapes[first][equation.inputs[first].index(label)]
    spelling = equation.spelling()
    message = (
        f"extent error: label {equation.names[label]} has extent {have} in operand {first} "
        f"{list(shapes[first])} and {shapes[number][axis]} in operand {number} "
        f"{list(shapes[number])}; allowed are equal extents, or 1"
    )
    return ShapeError(marked(message, spelling.text, spelling.labels[number][axis]))


def _unequal_diagonal(
    equation: Equation, shapes: Sequence[Dims], number: int, axis: int
) -> ShapeError:
    labels, dims = equation.inputs[number], shapes[number]
    first = dims[labels.index(labels[axis])]
    spelling = equation.spelling()
    message = (
        f"descriptor error: label {equation.names[labels[axis]]} in operand {number} "
        f"{list(dims)}: extents {first} and {dims[axis]}; a repeated label needs equal extents"
    )
    return ShapeError(marked(message, spelling.text, spelling.labels[number][axis]))
