"""Structures of outputs: nested lists, tuples and dicts, taken apart and put together again."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Final

from softcuda.errors import ArgumentError, ArgumentTypeError
from softcuda.graph.node import Node

__all__ = ["MAX_DEPTH", "flatten", "rebuild"]

MAX_DEPTH: Final = 100  # levels of a structure; one that contains itself has no end


def flatten(structure: Any, what: str = "outputs") -> tuple[list[Node], Any]:
    """Return the nodes of a structure in order, and its skeleton with numbers for nodes.

    Lists, tuples and dicts keep their class, an OrderedDict or a named tuple say.

    Args:
        structure: a tensor, or lists, tuples and dicts of tensors.
        what: what it is, first word of the errors.

    Raises:
        ArgumentTypeError: something in it is neither a tensor nor a list, tuple or dict.
        ArgumentError: it is nested deeper than 100 levels, or contains itself.

    Example:
        >>> nodes, skeleton = flatten([])
        >>> nodes, skeleton
        ([], [])
    """
    nodes: list[Node] = []

    def visit(part: Any, depth: int) -> Any:
        if isinstance(part, Node):
            nodes.append(part)
            return len(nodes) - 1
        if depth > MAX_DEPTH:
            raise ArgumentError(
                f"{what}: a {type(part).__name__} lies {depth} levels deep; allowed are "
                f"{MAX_DEPTH} levels, and no structure that contains itself"
            )
        inner = depth + 1
        if isinstance(part, dict):
            return _refilled(part, [visit(value, inner) for value in part.values()])
        if isinstance(part, Mapping):
            return {key: visit(value, inner) for key, value in part.items()}
        if isinstance(part, (list, tuple)):
            return _refilled(part, [visit(value, inner) for value in part])
        raise ArgumentTypeError(
            f"{what}: {part!r} of type {type(part).__name__} is no tensor; allowed are tensors "
            "and lists, tuples and dicts of them"
        )

    return nodes, visit(structure, 0)


def rebuild(skeleton: Any, value: Callable[[int], Any]) -> Any:
    """Return the structure of a skeleton with `value(number)` in each place."""
    if isinstance(skeleton, int):
        return value(skeleton)
    parts = skeleton.values() if isinstance(skeleton, dict) else skeleton
    return _refilled(skeleton, [rebuild(part, value) for part in parts])


def _refilled(like: Any, parts: list[Any]) -> Any:
    """Return a list, tuple or dict of the class of `like`, with other elements or values."""
    if type(like) is list:
        return parts
    if isinstance(like, tuple):
        return tuple.__new__(type(like), parts)
    if type(like) is dict:
        return dict(zip(like, parts, strict=True))
    made = copy.copy(like)  # of a class of its own, with what else it holds
    if isinstance(like, list):
        made[:] = parts
    else:
        made.update(zip(like, parts, strict=True))
    return made
