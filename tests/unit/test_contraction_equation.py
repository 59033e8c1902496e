"""Equations: ranks bound to labels, extents of labels, and what each operation allows."""

from __future__ import annotations

import pickle

import pytest

from softcuda.contraction.equation import Equation, bind_ranks, equation_of, label_extents
from softcuda.contraction.parse import parse_expression, parse_labels
from softcuda.errors import ArgumentError, ExpressionError, ShapeError


def bound(text: str, *ranks: int) -> Equation:
    return bind_ranks(parse_expression(text), ranks)


# ---- ranks -------------------------------------------------------------------------------------


def test_labels_are_numbered_as_they_occur() -> None:
    equation = bound("kj,ji->ik", 2, 2)
    assert equation == Equation(((0, 1), (1, 2)), (2, 0), ("k", "j", "i"))
    assert str(equation) == "kj,ji->ik"
    assert bound("ab,bc->ca", 2, 2).inputs == equation.inputs
    assert pickle.loads(pickle.dumps(equation)) == equation


@pytest.mark.parametrize(
    ("text", "ranks", "inputs", "output"),
    [
        ("...ij,...jk", (3, 4), ((0, 1, 2), (3, 0, 2, 4)), (3, 0, 1, 4)),
        ("i...k,k...j->i...j", (3, 2), ((0, 1, 2), (2, 3)), (0, 1, 3)),
        ("ii...->i...", (4,), ((0, 0, 1, 2),), (0, 1, 2)),
        ("i...i->...i", (3,), ((0, 1, 0),), (1, 0)),
        ("...->", (2,), ((0, 1),), ()),
        ("ij->...ij", (2,), ((0, 1),), (0, 1)),
        ("...,...", (0, 2), ((), (0, 1)), (0, 1)),
        ("...i->...i", (1,), ((0,),), (0,)),
    ],
)
def test_an_ellipsis_takes_the_axes_left_over(
    text: str,
    ranks: tuple[int, ...],
    inputs: tuple[tuple[int, ...], ...],
    output: tuple[int, ...],
) -> None:
    equation = bound(text, *ranks)
    assert (equation.inputs, equation.output) == (inputs, output)


def test_a_bound_ellipsis_is_printed_as_one() -> None:
    equation = bound("i...k,k...j", 4, 3)
    assert str(equation) == "i...k,k...j->...ij"
    assert equation.names[1:3] == ("...[-2]", "...[-1]")
    assert bind_ranks(parse_expression(str(equation)), (4, 3)) == equation


@pytest.mark.parametrize(
    ("text", "ranks", "says", "span"),
    [
        ("ij,jk", (2,), "2 inputs expected, 1 given", (3, 5)),
        ("ij,jk", (), "2 inputs expected, 0 given", (0, 2)),
        ("ij->i", (2, 2, 1), "1 input expected, 3 given", (0, 2)),
        ("", (), "1 input expected, 0 given", (0, 1)),
        (
            "a,ijk->i",
            (1, 2),
            "the labels of operand 1 do not match its rank: 3 labels, rank 2; allowed are 2, or "
            "fewer and an ellipsis",
            (2, 5),
        ),
        (
            "ij...->i",
            (1,),
            "the labels of operand 0 do not match its rank: 2 labels, rank 1; allowed are at "
            "most 1 beside the ellipsis",
            (0, 5),
        ),
        ("i,->i", (1, 1), "operand 1 do not match its rank: 0 labels, rank 1", (2, 3)),
    ],
)
def test_operands_that_do_not_fit(
    text: str, ranks: tuple[int, ...], says: str, span: tuple[int, int]
) -> None:
    with pytest.raises(ExpressionError) as caught:
        bound(text, *ranks)
    first, quoted, carets = str(caught.value).split("\n")
    assert first.startswith("expression error: ") and says in first
    assert quoted.strip() == text
    assert carets == " " * (4 + span[0]) + "^" * (span[1] - span[0])


def test_equations_of_modes() -> None:
    equation = equation_of([[7, 9], [9, 3]], [3, 7])
    assert (equation.inputs, equation.output) == (((0, 1), (1, 2)), (2, 0))
    assert str(equation) == "7 9, 9 3 -> 3 7"
    assert equation_of([[1]], [2, 1]).output == (1, 0)
    with pytest.raises(ArgumentError, match="output label 9 is repeated; output labels must be"):
        equation_of([[7, 9]], [9, 7, 9])
    with pytest.raises(ArgumentError) as caught:
        equation_of(["ij"], "ii")
    assert str(caught.value).endswith("\n    ij->ii\n" + " " * 9 + "^")


# ---- extents -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shapes", "extents"),
    [
        ("ik,kj->ij", [(2, 3), (3, 4)], (2, 3, 4)),
        ("ik,kj->ij", [(2, 1), (3, 4)], (2, 3, 4)),
        ("ik,kj->ij", [(2, 3), (1, 4)], (2, 3, 4)),
        ("i,i->i", [(1,), (0,)], (0,)),
        ("i,i->i", [(0,), (1,)], (0,)),
        ("i,i,i->", [(1,), (3,), (1,)], (3,)),
        ("i,i->", [(1,), (1,)], (1,)),
        ("ii,i->", [(1, 1), (4,)], (4,)),
        ("->", [()], ()),
    ],
)
def test_extents_of_labels(
    text: str, shapes: list[tuple[int, ...]], extents: tuple[int, ...]
) -> None:
    assert label_extents(bound(text, *map(len, shapes)), shapes) == extents


@pytest.mark.parametrize(
    ("text", "shapes", "says", "span"),
    [
        (
            "ik,kj->ij",
            [(2, 3), (2, 3)],
            "extent error: label k has extent 3 in operand 0 [2, 3] and 2 in operand 1 [2, 3]; "
            "allowed are equal extents, or 1",
            (3, 4),
        ),
        (
            "i,i->i",
            [(3,), (0,)],
            "label i has extent 3 in operand 0 [3] and 0 in operand 1",
            (2, 3),
        ),
        ("i,i,i", [(1,), (3,), (2,)], "label i has extent 3 in operand 1 [3] and 2 in", (4, 5)),
        (
            "iij->j",
            [(2, 3, 4)],
            "descriptor error: label i in operand 0 [2, 3, 4]: extents 2 and 3; a repeated label "
            "needs equal extents",
            (1, 2),
        ),
        ("ii->i", [(1, 3)], "label i in operand 0 [1, 3]: extents 1 and 3", (1, 2)),
        ("ii->", [(3, 1)], "label i in operand 0 [3, 1]: extents 3 and 1", (1, 2)),
        ("...i,...i", [(2, 3), (4, 3)], "label ...[-1] has extent 2 in operand 0", (5, 8)),
    ],
)
def test_extents_that_do_not_fit(
    text: str, shapes: list[tuple[int, ...]], says: str, span: tuple[int, int]
) -> None:
    with pytest.raises(ShapeError) as caught:
        label_extents(bound(text, *map(len, shapes)), shapes)
    first, _, carets = str(caught.value).split("\n")
    assert says in first
    assert carets == " " * (4 + span[0]) + "^" * (span[1] - span[0])


def test_operands_are_checked_in_their_order() -> None:
    shapes = [(2, 3), (4, 4), (5, 6)]
    with pytest.raises(ShapeError, match="label j has extent 3 in operand 0"):
        label_extents(equation_of(["ij", "jj", "jk"], "ik"), shapes)
    with pytest.raises(ShapeError, match=r"in operand 1 .*: extents 4 and 5; a repeated label"):
        label_extents(equation_of(["ij", "jj", "jk"], "ik"), [(2, 4), (4, 5), (5, 6)])


def test_a_given_output() -> None:
    product = equation_of(["ik", "kj"], "ij")
    shapes = [(1, 3), (3, 2)]
    assert label_extents(product, shapes, (4, 2)) == (4, 3, 2)
    assert label_extents(product, [(0, 3), (3, 2)], (0, 2)) == (0, 3, 2)
    assert label_extents(equation_of(["ij"], "ixj"), [(2, 2)], (2, 3, 2)) == (2, 2, 3)
    with pytest.raises(
        ShapeError,
        match="label j has extent 2 in the inputs and 1 in the output, "
        "which would discard values; allowed is 2",
    ) as caught:
        label_extents(product, shapes, (4, 1))
    assert str(caught.value).endswith("\n    ik,kj->ij\n" + " " * 12 + "^")
    with pytest.raises(ShapeError, match="extent 2 in the inputs and 3 in the output, which does"):
        label_extents(product, shapes, (4, 3))
    with pytest.raises(ShapeError, match="extent 0 in the inputs and 1 in the output"):
        label_extents(product, [(0, 3), (3, 2)], (1, 2))


def test_shapes_of_another_rank() -> None:
    product = equation_of(["ik", "kj"], "ij")
    with pytest.raises(ShapeError, match="2 inputs expected, 1 given"):
        label_extents(product, [(2, 2)])
    with pytest.raises(ShapeError, match=r"operand 1 of ik,kj->ij has 2 labels, and rank 1, shape"):
        label_extents(product, [(2, 2), (2,)])
    with pytest.raises(ShapeError, match="the output of ik,kj->ij has 2 labels, and rank 3"):
        label_extents(product, [(2, 2), (2, 2)], (2, 2, 1))


def test_lists_of_labels_are_bound_too() -> None:
    assert bind_ranks(parse_labels([[..., 3], [3]], None), (3, 1)).output == (0, 1)
