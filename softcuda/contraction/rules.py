"""What each named-axis operation allows its labels to do, beyond what an equation checks."""

from __future__ import annotations

from softcuda.contraction.equation import Equation
from softcuda.contraction.marks import Span, listed, marked
from softcuda.errors import ArgumentError

__all__ = ["check_addend", "check_keeps_labels", "check_known_output", "check_permutation"]


def check_addend(equation: Equation, number: int) -> None:
    """Check that an added operand (C of a contraction or reduction) has output labels only.

    Raises:
        ArgumentError: it has another label.
    """
    for axis, label in enumerate(equation.inputs[number]):
        if label not in equation.output:
            allowed = listed(equation.named(equation.output))
            raise _wrong(
                f"label {equation.names[label]} of operand {number}, which is added, is not in "
                f"the output; allowed are output labels: {allowed}",
                equation,
                equation.spelling().labels[number][axis],
            )


def check_keeps_labels(equation: Equation, operation: str) -> None:
    """Check that an operation which cannot sum has every label of its operands in its output.

    Args:
        equation: labels.
        operation: what does not sum, first words of the message, such as "a permutation".

    Raises:
        ArgumentError: a label is not in the output.
    """
    for number, labels in enumerate(equation.inputs):
        for axis, label in enumerate(labels):
            if label not in equation.output:
                raise _wrong(
                    f"{operation} may not discard a label, and {equation.names[label]} of operand "
                    f"{number} is not in the output; sum over it with a reduction",
                    equation,
                    equation.spelling().labels[number][axis],
                )


def check_permutation(equation: Equation) -> None:
    """Check that a permutation has each label of its operand once, and once in its output.

    Raises:
        ArgumentError: a label is repeated, discarded or new.
    """
    [labels] = equation.inputs
    for axis, label in enumerate(labels):
        if label in labels[:axis]:
            raise _wrong(
                f"a permutation takes no diagonal, and label {equation.names[label]} is repeated "
                "in its operand; allowed is each label once",
                equation,
                equation.spelling().labels[0][axis],
            )
    check_keeps_labels(equation, "a permutation")
    check_known_output(equation, "a permutation")


def check_known_output(equation: Equation, operation: str) -> None:
    """Check that every output label is in an operand, where new axes are not allowed.

    Args:
        equation: labels.
        operation: what makes no new axes, first words of the message.

    Raises:
        ArgumentError: an output label is in no operand.
    """
    known = {label for labels in equation.inputs for label in labels}
    for axis, label in enumerate(equation.output):
        if label not in known:
            raise _wrong(
                f"{operation} makes no new axis: output label {equation.names[label]} is in no "
                f"input; allowed are {listed(equation.named(tuple(sorted(known))))}",
                equation,
                equation.spelling().labels[-1][axis],
            )


def _wrong(what: str, equation: Equation, span: Span) -> ArgumentError:
    return ArgumentError(marked(f"descriptor error: {what}", equation.spelling().text, span))
