"""What outputs were computed from, also behind evaluated nodes that keep their inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from softcuda.graph.flow import Flow
from softcuda.graph.node import Node

__all__ = ["History"]


class History:
    """The nodes that outputs depend on, inputs first, and the inputs of each.

    Inputs are read once: another thread may evaluate a node meanwhile, which then drops them.

    Args:
        outputs: where it ends.
        is_whole: whether it goes on where no gradient flows: behind integers, bools, and what is
            detached or made in `no_grad`.
    """

    def __init__(self, outputs: Iterable[Node], *, is_whole: bool = False) -> None:
        self._is_whole = is_whole
        self.order: list[Node] = []
        self.inputs: dict[int, tuple[Node, ...]] = {}
        stack: list[tuple[Node, Iterator[Node]]] = []
        for output in outputs:
            if id(output) not in self.inputs:
                stack.append((output, self._entered(output)))
            while stack:
                node, pending = stack[-1]
                for source in pending:
                    if id(source) not in self.inputs:
                        stack.append((source, self._entered(source)))
                        break
                else:
                    stack.pop()
                    self.order.append(node)

    def _entered(self, node: Node) -> Iterator[Node]:
        inputs = node.inputs  # before flow: settle() sets flow first, then drops the inputs
        is_end = node.flow is Flow.STOPPED or not node.dtype.is_inexact
        if is_end and not self._is_whole:
            inputs = ()
        self.inputs[id(node)] = inputs
        return iter(inputs)
