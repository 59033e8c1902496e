"""What `optimize=` may be, and the orders of pairs that each proposes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from softcuda.contraction.explicit import ExplicitPath, read_path, tree_of_positions
from softcuda.contraction.greedy import (
    greedy_positions,
    letter,
    optimal_positions,
    random_greedy_positions,
)
from softcuda.contraction.marks import listed
from softcuda.contraction.network import Network, Tree
from softcuda.contraction.optimal import optimal
from softcuda.errors import ArgumentError, ArgumentTypeError

__all__ = ["NEAREST", "OPTIMIZERS", "Candidate", "candidates"]

# Operands up to which every order is tried: 8 take 7 ms in Python, each more three times that.
_EXACT = 8

# Perturbed greedy paths: as many as fit in some 10 ms, and all where the path then found takes so
# many products (log10) that a better one repays the time.
_MOST_TRIES, _LEAST_TRIES, _TRIES_TIMES_OPERANDS = 128, 8, 3200
_WORTH_ALL_TRIES = 9.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """An order of pairs that an optimiser proposes.

    Attributes:
        tree: the pairs.
        found_by: the optimiser's name, for printing.
        is_free: whether the pairs may be formed in any order that keeps the tree.
        sliced: (name, extent of a slice) of labels that the optimiser slices.
    """

    tree: Tree
    found_by: str
    is_free: bool = True
    sliced: tuple[tuple[str, int], ...] = ()


def candidates(
    network: Network, names: Sequence[str], optimize: Any, largest: int | None
) -> tuple[Candidate, ...]:
    """Return the orders of pairs that an optimiser proposes for a network.

    Args:
        network: the operands.
        names: name of each label; an optimiser of another library sees it where all are one
            character.
        optimize: a name of `OPTIMIZERS` or `NEAREST`; True for "auto", False for
            "left-to-right"; an `ExplicitPath`; a callable of opt_einsum's signature (inputs as
            sets, output as a set, extents by label, memory limit in elements) that returns a path;
            an object of cotengra with `search`, or what that returns.
        largest: elements that an intermediate may have; None for any number. Only a wish: the
            exact search and callables see it.

    Raises:
        ArgumentError: an unknown name, a path that does not fit the network.
        ArgumentTypeError: it is none of these, or returns no path.
    """
    if isinstance(optimize, bool):
        optimize = "auto" if optimize else "left-to-right"
    if isinstance(optimize, str):
        optimize = NEAREST.get(optimize, optimize)
        if optimize not in OPTIMIZERS:
            raise ArgumentError(
                f"optimize is {optimize!r}; allowed are {listed(list(OPTIMIZERS))}, opt_einsum's "
                f"names {listed(list(NEAREST))}, a path, or an optimiser of opt_einsum or cotengra"
            )
    if isinstance(optimize, ExplicitPath):
        return (_explicit(network, optimize, "the given path"),)
    if len(network.terms) == 1:
        return (Candidate((), "nothing to order"),)
    if isinstance(optimize, str):
        # A label that one operand alone has is summed before any pair is formed.
        return OPTIMIZERS[optimize](network.without_private_labels(), largest)
    return (_foreign(network, names, optimize, largest),)


def _explicit(network: Network, path: ExplicitPath, found_by: str) -> Candidate:
    tree = tree_of_positions(network, path.groups, _best_tree)
    return Candidate(tree, found_by, False, path.sliced)


def _best_tree(network: Network) -> Tree:
    return _auto(network.without_private_labels(), None)[0].tree


def _foreign(
    network: Network, names: Sequence[str], optimize: Any, largest: int | None
) -> Candidate:
    """Return what an optimiser of another library proposes."""
    who = getattr(optimize, "__name__", type(optimize).__name__)
    is_short = all(len(name) == 1 for name in names)
    letters = names if is_short else [letter(label) for label in range(len(names))]
    terms = [tuple(letters[label] for label in sorted(term)) for term in network.terms]
    output = tuple(letters[label] for label in sorted(network.output))
    used = sorted(network.output.union(*network.terms))
    # An empty label orders nothing, and optimisers divide by extents or take logarithms.
    extents = {letters[label]: max(network.extents[label], 1) for label in used}
    if hasattr(optimize, "search"):
        optimize = optimize.search(terms, output, extents)
    if hasattr(optimize, "get_path"):
        cut = getattr(optimize, "sliced_inds", ())
        sliced = tuple((name, 1) for name, char in zip(names, letters, strict=True) if char in cut)
        groups = _read(who, optimize.get_path()).groups
        return _explicit(network, ExplicitPath(groups, sliced), who)
    if not callable(optimize):
        raise ArgumentTypeError(
            f"optimize is a {who}; allowed are {listed(list(OPTIMIZERS))}, a path such as "
            "[(0, 1), (0, 1)], a callable, or an optimiser with a method search"
        )
    arguments = ([set(term) for term in terms], set(output), extents)
    try:
        path = optimize(*arguments, largest)
    except RuntimeError:
        # So opt_einsum's DynamicProgramming says that no path meets the limit. Slices will.
        if largest is None:
            raise
        path = optimize(*arguments, None)
    return _explicit(network, _read(who, path), who)


def _read(who: str, path: Any) -> ExplicitPath:
    if not isinstance(path, Iterable):
        raise ArgumentTypeError(
            f"the optimiser {who} returned {path!r}; allowed is a path such as [(0, 1), (0, 1)]"
        )
    return read_path(path)


def _auto(network: Network, largest: int | None) -> tuple[Candidate, ...]:
    if len(network.terms) <= _EXACT:
        return _optimal(network, largest)
    tries = min(_MOST_TRIES, max(_LEAST_TRIES, _TRIES_TIMES_OPERANDS // len(network.terms)))
    positions, log_products = random_greedy_positions(network, tries)
    if log_products > _WORTH_ALL_TRIES and tries < _MOST_TRIES:
        positions, _ = random_greedy_positions(network, _MOST_TRIES)
    return (*_greedy(network, largest), _searched(network, positions, "random-greedy"))


def _optimal(network: Network, largest: int | None) -> tuple[Candidate, ...]:
    if len(network.terms) > _EXACT:
        return (_searched(network, optimal_positions(network), "optimal"),)
    tree = optimal(network, largest) or optimal(network) or ()
    return (Candidate(tree, "optimal"),)


def _greedy(network: Network, largest: int | None) -> tuple[Candidate, ...]:
    return (_searched(network, greedy_positions(network), "greedy"),)


def _random_greedy(network: Network, largest: int | None) -> tuple[Candidate, ...]:
    positions, _ = random_greedy_positions(network, _MOST_TRIES)
    return (_searched(network, positions, "random-greedy"),)


def _left_to_right(network: Network, largest: int | None) -> tuple[Candidate, ...]:
    count = len(network.terms)
    tree = tuple((0 if k == 1 else count + k - 2, k) for k in range(1, count))
    return (Candidate(tree, "left-to-right", is_free=False),)


def _searched(network: Network, positions: Sequence[Sequence[int]], found_by: str) -> Candidate:
    tree = tree_of_positions(network, positions, _best_tree)
    return Candidate(tree, found_by)


OPTIMIZERS: Final[dict[str, Callable[[Network, int | None], tuple[Candidate, ...]]]] = {
    "auto": _auto,
    "optimal": _optimal,
    "greedy": _greedy,
    "random-greedy": _random_greedy,
    "left-to-right": _left_to_right,
}

# Other names that opt_einsum has, and the optimiser here that comes nearest to each.
NEAREST: Final[dict[str, str]] = {
    "auto-hq": "auto",
    "dp": "optimal",
    "dynamic-programming": "optimal",
    "branch-all": "random-greedy",
    "branch-2": "random-greedy",
    "branch-1": "random-greedy",
    "random-greedy-128": "random-greedy",
    "eager": "greedy",
    "opportunistic": "greedy",
}
