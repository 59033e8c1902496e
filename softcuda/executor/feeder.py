"""The feeder: finds the leaf that each feed of a run is for, and checks that none is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from softcuda.errors import ArgumentError, FeedError
from softcuda.executor.feeds import conform, declared
from softcuda.graph.lines import Line
from softcuda.graph.node import Node

__all__ = ["Feeder"]


class Feeder:
    """The leaves of an executable, as the feeds of its runs name them.

    Args:
        leaves: by position.
        lines: the line of each leaf.

    Raises:
        ArgumentError: two leaves have one name.
    """

    def __init__(self, leaves: Sequence[Node], lines: Sequence[Line]) -> None:
        self._leaves = leaves
        self._lines = lines
        self._positions = {id(leaf): position for position, leaf in enumerate(leaves)}
        self._names = _named(leaves)
        self._missing = [position for position, leaf in enumerate(leaves) if leaf.data is None]
        self._declared = [declared(line, self._label(at)) for at, line in enumerate(lines)]

    def place(
        self, feeds: Mapping[Any, Any], by_name: Mapping[str, Any], arrays: list[Any]
    ) -> dict[int, Any]:
        """Put each feed, conformed to its leaf, into `arrays`, and return those that it put there.

        Args:
            feeds: leaf, or name of a leaf -> array, tensor or number.
            by_name: the same, by name alone.
            arrays: by position of the leaf; feeds take the place of what is there.

        Raises:
            FeedError: a feed is unknown, given twice, missing, or of the wrong shape or dtype, or
                `feeds` is no mapping.
        """
        if type(feeds) is not dict and not isinstance(feeds, Mapping):
            raise self._no_mapping(feeds)
        names, positions, wanted = self._names, self._positions, self._declared
        given: dict[int, Any] = {}
        for key, value in [*feeds.items(), *by_name.items()] if by_name else feeds.items():
            position = names.get(key) if isinstance(key, str) else positions.get(id(key))
            if position is None:
                raise self._unknown(key)
            if position in given:
                raise FeedError(
                    f"run: {self._label(position)} is fed twice; give each leaf one value"
                )
            given[position] = arrays[position] = conform(value, wanted[position])
        if self._missing:
            self.check_complete(given)
        return given

    def check_complete(self, given: Mapping[int, Any] | None = None) -> None:
        """Check that every leaf without a value of its own is fed.

        Raises:
            FeedError: names those that are not.
        """
        if self._missing:
            missing = [position for position in self._missing if position not in (given or ())]
            if missing:
                raise self._lacking(missing)

    def _unknown(self, key: Any) -> FeedError:
        what = f"a node made by {key.op.name!r}" if isinstance(key, Node) else repr(key)
        names = ", ".join(sorted(self._names)) or "none has a name"
        return FeedError(
            f"run: {what} is no leaf of this graph; allowed are its {len(self._leaves)} leaves, by "
            f"name ({names}) or the leaf itself"
        )

    def _no_mapping(self, feeds: Any) -> FeedError:
        name = next(iter(self._names), None)
        use = "run({leaf: value})" if name is None else f"run({{{name!r}: value}})"
        shape = getattr(feeds, "shape", None)
        about = "" if not isinstance(shape, tuple) else f" and shape {list(shape)}"
        return FeedError(
            f"run: feeds is a mapping {{leaf or name: value}} and a value of type "
            f"{type(feeds).__name__}{about} was given; say which of the {len(self._leaves)} leaves "
            f"it is for, as in {use}"
        )

    def _lacking(self, positions: Iterable[int]) -> FeedError:
        listed = ", ".join(
            f"{self._label(k)} {list(self._lines[k].dims)} {self._lines[k].dtype}"
            for k in positions
        )
        return FeedError(f"run: no value for {listed}; feed it, by name or by the leaf itself")

    def _label(self, position: int) -> str:
        name = self._leaves[position].name
        return f"input {name!r}" if name is not None else f"leaf {position}"


def _named(leaves: Sequence[Node]) -> dict[str, int]:
    names: dict[str, int] = {}
    for position, leaf in enumerate(leaves):
        if leaf.name is None:
            continue
        if leaf.name in names:
            raise ArgumentError(
                f"compile: two leaves are named {leaf.name!r}; names of one graph must differ, "
                "give each input and variable its own"
            )
        names[leaf.name] = position
    return names
