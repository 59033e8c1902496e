"""What `optimize=` may be: names, paths, callables, and optimisers of other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from softcuda.contraction.equation import Equation, equation_of
from softcuda.contraction.optimizers import NEAREST, OPTIMIZERS
from softcuda.contraction.path import ContractionPath
from softcuda.contraction.planning import find_path
from softcuda.contraction.slicing import Storage
from softcuda.errors import ArgumentError, ArgumentTypeError


def path_of(equation: Equation, extent: int = 3, **options: Any) -> ContractionPath:
    shapes = [(extent,) * len(labels) for labels in equation.inputs]
    return find_path(equation, shapes, Storage((8,) * len(shapes), 8, 8), **options)


CHAIN = equation_of(["ij", "jk", "kl", "lm"], "im")


@pytest.mark.parametrize(("optimize", "name"), [(True, "optimal"), (False, "left-to-right")])
def test_numpys_true_and_false(optimize: bool, name: str) -> None:
    assert path_of(CHAIN, optimize=optimize).found_by == name


# Of opt_einsum 3.4, as opt_einsum.contract takes them.
THEIRS = (
    *("auto", "auto-hq", "optimal", "branch-all", "branch-2", "branch-1", "greedy", "eager"),
    *("opportunistic", "dp", "dynamic-programming", "random-greedy", "random-greedy-128"),
)


@pytest.mark.parametrize("optimize", THEIRS)
def test_names_of_opt_einsum(optimize: str) -> None:
    nearest = NEAREST.get(optimize, optimize)
    assert nearest in OPTIMIZERS
    assert path_of(CHAIN, optimize=optimize) == path_of(CHAIN, optimize=nearest)


def test_a_name_with_a_limit_as_numpy_takes_it() -> None:
    with pytest.raises(ArgumentTypeError, match="optimize='greedy', with a limit as memory_limit"):
        path_of(CHAIN, optimize=("greedy", 1000))


@pytest.mark.parametrize("optimize", [*OPTIMIZERS, [(0,)], lambda *_: 1 / 0])
def test_one_operand_has_no_order(optimize: Any) -> None:
    path = path_of(equation_of(["ij"], "j"), optimize=optimize)
    assert path.tree == () and len(path.steps) == 1


@pytest.mark.parametrize(
    "given",
    [
        [(2, 3), (0, 1), (0, 1)],
        ((2, 3), [0, 1], (0, 1)),
        ["einsum_path", (2, 3), (0, 1), (0, 1)],
        np.array([(2, 3), (0, 1), (0, 1)]),
        [(3, 2), (0,), (0, 2), (1, 0)],
    ],
)
def test_an_explicit_path(given: Any) -> None:
    path = path_of(CHAIN, optimize=given)
    assert path.found_by == "the given path"
    assert [len(step.inputs) for step in path.steps] == [2, 2, 2]
    assert path.tree == ((2, 3), (0, 1), (5, 4))
    assert path_of(CHAIN, optimize=path.positions).tree == path.tree
    assert path_of(CHAIN, optimize=path).steps == path.steps


def test_numpys_own_path() -> None:
    operands = [np.ones((3, 3))] * 4
    given, _ = np.einsum_path("ij,jk,kl,lm->im", *operands, optimize="greedy")
    assert path_of(CHAIN, optimize=given).positions == tuple(map(tuple, given[1:]))


def test_what_opt_einsum_returns_beside_a_path() -> None:
    """Its contract_path returns the path and a report, which is an object."""
    report = type("PathInfo", (), {"contraction_list": []})()
    given = [(2, 3), (0, 1), (0, 1)]
    assert path_of(CHAIN, optimize=(given, report)).positions == tuple(given)


def test_a_group_of_many_is_done_in_pairs() -> None:
    path = path_of(CHAIN, optimize=[(0, 1, 2, 3)])
    assert path.flops == path_of(CHAIN).flops
    part = path_of(CHAIN, optimize=[(3, 1, 2), (0, 1)])
    assert part.tree[-1] == (0, 5)


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ([(0, 1)], ArgumentError, "the path leaves 3 operands"),
        ([(0, 4)], ArgumentError, r"step 0 of the path takes positions \(0, 4\) of 4 operands"),
        ([(0, 1), (2, 3)], ArgumentError, r"step 1 of the path takes positions \(2, 3\) of 3"),
        ([(1, 1)], ArgumentError, "allowed are one or more different positions from 0 to 3"),
        ([()], ArgumentError, r"takes positions \(\)"),
        ([(0, -1)], ArgumentError, r"takes positions \(0, -1\)"),
        ([3], ArgumentTypeError, "entry 0 of the path is 3; allowed are tuples of positions"),
        ([(0, "a")], ArgumentTypeError, "entry 0 of the path is"),
        (["greedy"], ArgumentTypeError, "entry 0 of the path is 'greedy'"),
        ([(0, 1.0)], ArgumentTypeError, "entry 0 of the path is"),
        ("fast", ArgumentError, "optimize is 'fast'; allowed are auto, optimal, greedy"),
        (3, ArgumentTypeError, "optimize is a int; allowed are auto"),
        (lambda *_: None, ArgumentTypeError, "the optimiser <lambda> returned None"),
        ([("sliced", "q"), (0, 1, 2, 3)], ArgumentError, "slices label q, which is in no operand"),
        ([("sliced", ("i", 2)), (0, 1, 2, 3)], ArgumentError, "extent 3 in slices of 2; allowed"),
        ([("sliced", ("i", 0)), (0, 1, 2, 3)], ArgumentError, "extent 3 in slices of 0; allowed"),
        ([("sliced", ("i", "a"))], ArgumentTypeError, "a sliced label of the path is"),
    ],
)
def test_paths_that_do_not_fit(given: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        path_of(CHAIN, optimize=given)


# ---- optimisers of other libraries -------------------------------------------------------------


def test_a_callable_sees_the_network_as_sets() -> None:
    seen: list[Any] = []

    def optimiser(*arguments: Any) -> list[tuple[int, ...]]:
        seen.extend(arguments)
        return [(0, 1), (0, 1)]

    equation = equation_of(["iij", "jk", "kl"], "l")
    shapes = [(2, 2, 1), (4, 5), (5, 6)]
    find_path(equation, shapes, Storage((4, 4, 4), 4, 4), optimize=optimiser, memory_limit=80)
    inputs, output, extents, limit = seen
    assert inputs == [{"i"}, {"j", "k"}, {"k", "l"}]
    assert output == {"l"}
    assert extents == {"i": 2, "j": 4, "k": 5, "l": 6}
    assert limit == 20


def test_a_callable_that_refuses_a_limit_is_asked_without_one() -> None:
    limits = []

    def optimiser(inputs: Any, output: Any, extents: Any, limit: int | None) -> Any:
        limits.append(limit)
        if limit is not None:
            raise RuntimeError("No contraction found for given `memory_limit`.")
        return [(0, 1, 2, 3)]

    path = path_of(CHAIN, optimize=optimiser, memory_limit=16)
    assert limits == [2, None]
    assert path.largest_bytes <= 16 and path.sliced
    with pytest.raises(ZeroDivisionError):
        path_of(CHAIN, optimize=lambda *_: 1 / 0)


class Found:
    """What cotengra's optimisers return: a path and the labels that are sliced."""

    def __init__(self, inputs: Any, sliced: str) -> None:
        self.inputs = inputs
        self.sliced_inds = dict.fromkeys(sliced)

    def get_path(self) -> Any:
        return ((0, 1), (0, 1), (0, 1))


class Searching:
    """An optimiser of cotengra's form, which is callable too."""

    def __init__(self, sliced: str) -> None:
        self.sliced = sliced

    def search(self, inputs: Any, output: Any, extents: Any) -> Found:
        assert all(len(x) == 1 for term in inputs for x in term)
        return Found(inputs, self.sliced)

    def __call__(self, *_: Any) -> Any:
        raise AssertionError("search says more")


def test_an_optimiser_with_search_may_slice() -> None:
    path = path_of(CHAIN, optimize=Searching("kl"))
    assert [(CHAIN.names[cut.label], cut.slices) for cut in path.sliced] == [("k", 3), ("l", 3)]
    assert path.found_by == "Searching"
    assert path_of(CHAIN, optimize=Found([], "")).positions == ((0, 1), (0, 1), (0, 1))


def test_optimisers_see_one_character_a_label() -> None:
    equation = equation_of([[10, 11], [11, 12], [12, 13], [13, 14]], [10, 14])
    assert path_of(equation, optimize=Searching("")).sliced == ()
