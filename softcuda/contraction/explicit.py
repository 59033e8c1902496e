"""Paths that the user gives: positions in the list of operands, in opt_einsum's convention.

Each group of positions takes those values out of the list and appends what they become. A group
of more than two is replaced by pairs, so that no step loops over the joint index space.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from softcuda.contraction.network import Network, Tree, Values
from softcuda.errors import ArgumentError, ArgumentTypeError

__all__ = ["SLICED", "ExplicitPath", "positions_of", "read_path", "tree_of_positions"]

Groups = tuple[tuple[int, ...], ...]

# First word of the entry that lists sliced labels, and of the paths of numpy.einsum_path.
SLICED = "sliced"
_NUMPY = "einsum_path"

_FORM = (
    "allowed are tuples of positions, as in [(0, 2), (0, 1)], with at most one entry "
    "('sliced', 'k', ('j', 16)) of labels, an extent after those that keep more than 1 a slice"
)

# Where a path begins with a word, as NumPy's ("greedy", 1000) of a name and a limit in elements.
_NAMED = (
    "allowed are paths, and names alone: optimize={!r}, with a limit as memory_limit=, in bytes"
)


@dataclass(frozen=True, slots=True)
class ExplicitPath:
    """A path as it was given.

    Attributes:
        groups: positions of each step.
        sliced: (name, extent of a slice) of each sliced label.
    """

    groups: Groups
    sliced: tuple[tuple[str, int], ...] = ()


def read_path(given: Iterable[Any]) -> ExplicitPath:
    """Return a path that is given as a sequence, such as np.einsum_path returns.

    What np.einsum_path or opt_einsum.contract_path return beside the path may be there too.

    Raises:
        ArgumentTypeError: it has no order, or an entry is neither positions nor sliced labels.

    Example:
        >>> read_path(["einsum_path", (0, 1), (0, 1), ("sliced", "k")]).sliced
        (('k', 1),)
    """
    groups: list[tuple[int, ...]] = []
    sliced: list[tuple[str, int]] = []
    if isinstance(given, (Set, Mapping)):
        raise ArgumentTypeError(f"the path is {given!r}, which has no order; {_FORM}")
    if isinstance(given, (tuple, list)) and len(given) == 2 and _is_report(given[1]):
        given = given[0]
    for place, entry in enumerate(given):
        if isinstance(entry, str) and entry == _NUMPY and not place:
            continue
        if isinstance(entry, (tuple, list)) and entry and entry[0] == SLICED:
            sliced += [_slice(label) for label in entry[1:]]
            continue
        try:
            groups.append(tuple(_position(position) for position in entry))
        except TypeError:
            form = _NAMED.format(entry) if isinstance(entry, str) and not place else _FORM
            raise ArgumentTypeError(f"entry {place} of the path is {entry!r}; {form}") from None
    return ExplicitPath(tuple(groups), tuple(sliced))


def _is_report(entry: Any) -> bool:
    """Return whether this is what np.einsum_path or opt_einsum returns beside its path."""
    is_text = isinstance(entry, str) and entry != _NUMPY
    return is_text or hasattr(entry, "contraction_list")


def _position(given: Any) -> int:
    if isinstance(given, bool):  # an int to Python, and no position
        raise TypeError
    return operator.index(given)


def _slice(label: Any) -> tuple[str, int]:
    if not isinstance(label, tuple):
        return str(label), 1
    try:
        name, extent = label
        return str(name), operator.index(extent)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"a sliced label of the path is {label!r}; {_FORM}") from None


def tree_of_positions(
    network: Network,
    groups: Sequence[Sequence[int]],
    search: Callable[[Network], Tree],
) -> Tree:
    """Return the pairs that groups of positions stand for.

    Args:
        network: the operands.
        groups: positions of each step.
        search: orders the pairs of a group of more than two.

    Raises:
        ArgumentError: a position that is not in the list, or twice in a group; operands that
            are left over.

    Example:
        >>> i, j, k = frozenset({0, 1}), frozenset({1, 2}), frozenset({2})
        >>> network = Network((i, j, k), frozenset({0}), (10, 10, 10))
        >>> tree_of_positions(network, [(1, 2), (0, 1)], lambda part: ())
        ((1, 2), (0, 3))
    """
    count = len(network.terms)
    listed = list(range(count))
    tree: list[tuple[int, int]] = []
    for step, group in enumerate(groups):
        _check_group(step, group, len(listed))
        chosen = [listed[position] for position in group]
        for position in sorted(group, reverse=True):
            del listed[position]
        if len(chosen) > 2:
            tree += _pairs(network, tree, chosen, search)
        elif len(chosen) == 2:
            tree.append((chosen[0], chosen[1]))
        listed.append(chosen[0] if len(chosen) == 1 else count + len(tree) - 1)
    if len(listed) > 1:
        raise ArgumentError(
            f"the path leaves {len(listed)} operands; allowed is a path that ends with one: of "
            f"{count} operands all are used, and every result again"
        )
    return tuple(tree)


def _check_group(step: int, group: Sequence[int], count: int) -> None:
    fits = all(0 <= position < count for position in group)
    if not group or not fits or len(set(group)) < len(group):
        raise ArgumentError(
            f"step {step} of the path takes positions {tuple(group)} of {count} operands; allowed "
            f"are one or more different positions from 0 to {count - 1}"
        )


def _pairs(
    network: Network,
    tree: Sequence[tuple[int, int]],
    chosen: list[int],
    search: Callable[[Network], Tree],
) -> Tree:
    """Return the pairs of a group, numbered as they will be after those of the tree so far."""
    values = Values(network)
    for a, b in tree:
        values.join(a, b)
    terms = tuple(values.labels[value] for value in chosen)
    found = search(Network(terms, values.kept(*chosen), network.extents))
    number = [*chosen, *range(len(values.labels), len(values.labels) + len(found))]
    return tuple((number[a], number[b]) for a, b in found)


def positions_of(tree: Tree, count: int) -> Groups:
    """Return a tree as positions in the list of operands, in opt_einsum's convention.

    Example:
        >>> positions_of(((1, 2), (0, 3)), 3)
        ((1, 2), (0, 1))
    """
    listed = list(range(count))
    groups = []
    for number, (a, b) in enumerate(tree):
        one, two = sorted((listed.index(a), listed.index(b)))
        groups.append((one, two))
        del listed[two], listed[one]
        listed.append(count + number)
    return tuple(groups)
