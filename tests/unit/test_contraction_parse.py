"""Labels as they are given: both forms, the implicit output, and each error with its mark."""

from __future__ import annotations

import string
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from softcuda.contraction.arguments import read_arguments
from softcuda.contraction.marks import listed, marked, spell
from softcuda.contraction.parse import Subscripts, parse_expression, parse_labels
from softcuda.errors import ArgumentTypeError, ExpressionError, SoftCudaError

# expression -> (what it is read as, with its output).
READ = {
    "ik,kj->ij": "ik,kj->ij",
    "ik,kj": "ik,kj->ij",
    "ki": "ki->ik",
    "aB": "aB->Ba",
    "Ab": "Ab->Ab",
    "ii": "ii->",
    "ij,jk,ki->": "ij,jk,ki->",
    "...ij,...jk": "...ij,...jk->...ik",
    "i...": "i...->...i",
    "...,...": "...,...->...",
    "...i->i": "...i->i",
    "ij->...ij": "ij->...ij",
    "": "->",
    "->": "->",
    ",": ",->",
    ",ij": ",ij->ij",
    "i,->i": "i,->i",
    " ...ab ,\t...bc\n-> ...ac ": "...ab,...bc->...ac",
    "i . . . - > . . . i": "i...->...i",
    "ж漢,漢β": "ж漢,漢β->βж",
    "i j , j k -> i k": "ij,jk->ik",
    # What opt_einsum.get_symbol names 75 and 107: the signs of multiplication and division.
    "\u00d7\u00f7,\u00f7a->a\u00d7": "\u00d7\u00f7,\u00f7a->a\u00d7",
}

# expression -> (what the message says, the marked place).
REFUSED = {
    "ij->i->j": ("a second arrow", (5, 7)),
    "i1->i": ("'1', which is no letter", (1, 2)),
    "i#->i": ("'#', which is no letter", (1, 2)),
    "i-j->i": ("a '-' without '>'", (1, 2)),
    "i>j": ("a '>' without '-'", (1, 2)),
    "i......j": ("a second ellipsis in operand 0", (4, 7)),
    "ij,...k...": ("a second ellipsis in operand 1", (7, 10)),
    "i...->...i...": ("a second ellipsis in the output", (10, 13)),
    "i.j": ("a lone dot", (1, 2)),
    "i..j": ("a lone dot", (1, 2)),
    "i....j": ("a lone dot", (4, 5)),
    "ij->i,j": ("a comma after the arrow", (5, 6)),
    "ij->ii": ("output label i is repeated; output labels must be unique", (5, 6)),
    "i->ii": ("output label i is repeated", (4, 5)),
    "ij->ik": (
        "output label k is in no input; allowed are the labels of the inputs: i and j",
        (5, 6),
    ),
    "->k": ("output label k is in no input; allowed are the labels of the inputs: none", (2, 3)),
    "i j -> i  q": ("output label q is in no input", (10, 11)),
    "i→i": ("'→', which is no letter", (1, 2)),
    "e\u0301->": ("'\u0301', which is no letter", (1, 2)),
}


@pytest.mark.parametrize("text", READ)
def test_an_expression_is_read(text: str) -> None:
    assert str(parse_expression(text)) == READ[text]
    assert str(parse_expression(READ[text])) == READ[text]


@pytest.mark.parametrize("text", REFUSED)
def test_an_expression_is_refused_with_the_place(text: str) -> None:
    says, (start, stop) = REFUSED[text]
    with pytest.raises(ExpressionError) as caught:
        parse_expression(text)
    first, quoted, carets = str(caught.value).split("\n")
    assert first.startswith("expression error: ")
    assert says in first
    assert quoted == f"    {text}"
    assert carets == " " * (4 + start) + "^" * (stop - start)
    assert isinstance(caught.value, ValueError)


def test_an_expression_is_a_string() -> None:
    with pytest.raises(ArgumentTypeError, match="the expression is a int; allowed is a string"):
        parse_expression(3)  # type: ignore[arg-type]


def test_spans_are_those_of_the_operands_as_written() -> None:
    text = " ij , ,k->"
    assert [text[a:b] for a, b in parse_expression(text).spans] == ["ij", "", "k"]


def test_more_labels_than_the_latin_alphabet_has() -> None:
    letters = [*string.ascii_letters, *map(chr, range(0x4E00, 0x4E00 + 40))]
    text = ",".join(f"{a}{b}" for a, b in pairwise(letters))
    assert parse_expression(text).output == (min(letters[0], letters[-1]), letters[-1])


# ---- lists of labels ---------------------------------------------------------------------------


def test_lists_of_labels() -> None:
    read = parse_labels([[0, 1], [1, 12]], [0, 12])
    assert (read.inputs, read.output) == ((("0", "1"), ("1", "12")), ("0", "12"))
    assert read.text == str(read) == "0 1, 1 12 -> 0 12"
    assert [read.text[a:b] for a, b in read.spans] == ["0 1", "1 12"]


def test_integers_sort_as_integers() -> None:
    assert parse_labels([[26, 25, 100]], None).output == ("25", "26", "100")
    assert parse_labels([[..., 3, -1]], None).output == ("...", "-1", "3")


def test_labels_are_anything_that_hashes() -> None:
    assert parse_labels([["row", "column"], [("a", 1)]], ["column"]).output == ("column",)
    assert str(parse_labels(["ij", "jk"], "ik")) == "ij,jk->ik"
    assert parse_labels([np.arange(2)], [np.int64(1)]).output == ("1",)
    assert parse_labels([["1", 1]], [1]).output == ("1",)
    assert parse_labels([["1", 1]], [1]).inputs == (("'1'", "1"),)


def test_lists_of_labels_are_refused() -> None:
    with pytest.raises(ArgumentTypeError, match=r"labels of operand 1 are 3; allowed is a list"):
        parse_labels([[0], 3], None)  # type: ignore[list-item]
    with pytest.raises(ArgumentTypeError, match=r"labels of the output are \[\[0\]\]"):
        parse_labels([[0]], [[0]])  # type: ignore[list-item]
    with pytest.raises(ExpressionError, match="labels 1 and 'a' have no common order"):
        parse_labels([[1, "a"]], None)
    with pytest.raises(ExpressionError, match=r"second ellipsis in operand 0") as caught:
        parse_labels([[..., 10, ...]], None)
    assert str(caught.value).endswith("\n    ... 10 ...\n" + " " * 11 + "^^^")
    with pytest.raises(ExpressionError, match="output label 7 is in no input") as caught:
        parse_labels([[0, 12]], [12, 7])
    assert str(caught.value).endswith("\n    0 12 -> 12 7\n" + " " * 15 + "^")
    with pytest.raises(ExpressionError, match="output label 0 is repeated"):
        parse_labels([[0, 1]], [0, 0])


# ---- the arguments of einsum -------------------------------------------------------------------

X, Y = np.ones((2, 2)), np.zeros((2, 2))


@pytest.mark.parametrize(
    ("arguments", "text", "operands"),
    [
        (("ij,jk", X, Y), "ij,jk->ik", (X, Y)),
        (("ij,jk", [X, Y]), "ij,jk->ik", (X, Y)),
        (("ij", [X]), "ij->ij", (X,)),
        (("ij", [[1, 2], [3, 4]]), "ij->ij", ([[1, 2], [3, 4]],)),
        (("i", [5.0]), "i->i", ([5.0],)),
        (("ij,jk", [X]), "ij,jk->ik", (X,)),
        (("ij,jk",), "ij,jk->ik", ()),
        ((X, [0, 1], Y, [1, 12], [0, 12]), "0 1, 1 12 -> 0 12", (X, Y)),
        ((X, [10, 1]), "10 1 -> 1 10", (X,)),
        ((2.5, []), "->", (2.5,)),
        ((X, [..., 1], [...]), "... 1 -> ...", (X,)),
    ],
)
def test_arguments_of_all_forms(
    arguments: tuple[Any, ...], text: str, operands: tuple[Any, ...]
) -> None:
    read = read_arguments(arguments)
    assert str(read.subscripts) == text
    assert len(read.operands) == len(operands)
    assert all(np.array_equal(a, b) for a, b in zip(read.operands, operands, strict=True))


@pytest.mark.parametrize("arguments", [(), (X,), ([0, 1],)])
def test_too_few_arguments(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ArgumentTypeError, match="allowed are an expression and operands, or"):
        read_arguments(arguments)


# ---- marks ---------------------------------------------------------------------------------------


def test_a_mark_in_a_long_expression() -> None:
    text = ",".join(["ij"] * 60)
    [_, quoted, carets] = marked("no", text, (90, 92)).split("\n")
    assert quoted.strip().startswith("… ") and quoted.endswith(" …")
    assert len(quoted) < 100
    assert quoted[carets.index("^") : len(carets)] == text[90:92]


def test_a_mark_under_wide_letters_and_control_characters() -> None:
    assert marked("no", "漢漢q", (2, 3)).split("\n")[2] == " " * 8 + "^"
    assert marked("no", "i\tj\nq", (4, 5)).split("\n")[1:] == ["    i j q", " " * 8 + "^"]


def test_names_in_a_sentence() -> None:
    assert [listed(list(names)) for names in ("", "i", "ij", "ijk")] == [
        "none",
        "i",
        "i and j",
        "i, j and k",
    ]


def test_ellipsis_axes_are_spelled_together_only_where_they_stand_so() -> None:
    last, before = "...[-1]", "...[-2]"
    assert spell([["i", before, last], [last, "j"]], []).text == "i...,...j->"
    assert spell([[last, before]], None).text == "...[-1] ...[-2]"
    assert spell([[before, "i"]], None).text == "...[-2] i"


def test_every_error_is_one_of_softcuda() -> None:
    assert issubclass(ExpressionError, SoftCudaError)
    assert isinstance(parse_expression("i"), Subscripts)
