"""The nodes that others depend on, inputs first."""

from __future__ import annotations

from collections.abc import Sequence

from softcuda.graph.node import Node

__all__ = ["ancestors"]


def ancestors(roots: Sequence[Node]) -> list[Node]:
    """Return every node that `roots` depend on, and them, each once, inputs first.

    An evaluated node comes without what it was computed from. No recursion: chains of any length
    are fine.
    """
    found: list[Node] = []
    seen: set[int] = set()
    for root in roots:
        if id(root) in seen:
            continue
        seen.add(id(root))
        inputs = root.inputs
        stack = [(root, iter(() if root.data is not None else inputs))]
        while stack:
            node, pending = stack[-1]
            for source in pending:
                if id(source) in seen:
                    continue
                seen.add(id(source))
                inputs = source.inputs  # before data: settle() sets data, then drops the inputs
                if inputs and source.data is None:
                    stack.append((source, iter(inputs)))
                    break
                found.append(source)
            else:
                stack.pop()
                found.append(node)
    return found
