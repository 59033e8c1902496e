"""Structures of outputs: nested lists, tuples and dicts, taken apart and put together again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from softcuda.errors import ArgumentTypeError
from softcuda.graph.node import Node

__all__ = ["flatten", "rebuild"]


def flatten(outputs: Any) -> tuple[list[Node], Any]:
    """Return the nodes of a structure in order, and its skeleton with numbers for nodes.

    Raises:
        ArgumentTypeError: something in it is neither a tensor nor a list, tuple or dict.

    Example:
        >>> nodes, skeleton = flatten([])
        >>> nodes, skeleton
        ([], [])
    """
    nodes: list[Node] = []

    def visit(part: Any) -> Any:
        if isinstance(part, Node):
            nodes.append(part)
            return len(nodes) - 1
        if isinstance(part, Mapping):
            return {key: visit(value) for key, value in part.items()}
        if isinstance(part, tuple):
            parts = [visit(value) for value in part]
            return type(part)(*parts) if hasattr(part, "_fields") else tuple(parts)
        if isinstance(part, list):
            return [visit(value) for value in part]
        raise ArgumentTypeError(
            f"outputs: {part!r} of type {type(part).__name__} is no tensor; allowed are tensors "
            "and lists, tuples and dicts of them"
        )

    return nodes, visit(outputs)


def rebuild(skeleton: Any, value: Callable[[int], Any]) -> Any:
    """Return the structure of a skeleton with `value(number)` in each place."""
    if isinstance(skeleton, int):
        return value(skeleton)
    if isinstance(skeleton, dict):
        return {key: rebuild(part, value) for key, part in skeleton.items()}
    parts = [rebuild(part, value) for part in skeleton]
    if isinstance(skeleton, tuple):
        return type(skeleton)(*parts) if hasattr(skeleton, "_fields") else tuple(parts)
    return parts
