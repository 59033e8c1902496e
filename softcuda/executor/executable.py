"""The Executable: a compiled graph that a user runs, prints, saves, pickles."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from softcuda.compiler.definition import Definition, makers
from softcuda.compiler.program import Program
from softcuda.compiler.table import decision_table, line_report
from softcuda.errors import ArgumentError, ArgumentTypeError
from softcuda.executor.feeder import Feeder
from softcuda.executor.feeds import restrided
from softcuda.executor.on_demand import land, upload, write_saved
from softcuda.executor.runtime import Runtime
from softcuda.executor.structure import rebuild
from softcuda.forks import renew_in_child
from softcuda.graph.node import Node, amend, become, result
from softcuda.graph.op import OPS
from softcuda.sizes import counted
from softcuda.whole_files import path_text

__all__ = ["Executable"]

_VARIABLE = OPS["variable"]


class Executable:
    """A compiled graph.

    Every node's backend was chosen once, when it was compiled, and is frozen here. `print` shows
    the decision table. Two threads may run two executables that share nodes; runs of one
    executable are serialised.

    Attributes:
        program: the frozen program.
        leaves: its leaf nodes, by position.
        definition: what it was compiled from.
    """

    def __init__(
        self,
        program: Program,
        leaves: Sequence[Node],
        skeleton: Any,
        definition: Definition,
        *,
        nodes: Sequence[Node] = (),
        tensor: type[Node] = Node,
    ) -> None:
        """Make an executable that has not run yet.

        Args:
            program: what compiling gave.
            leaves: its leaf nodes, by position.
            skeleton: the structure of the outputs, with numbers for tensors.
            definition: what it was compiled from.
            nodes: the node of each traced line.
            tensor: the class of the tensors that `run` returns.
        """
        self.program = program
        self.leaves = tuple(leaves)
        self.definition = definition
        self._skeleton = skeleton
        self._runtime: Runtime | None = None
        self._making = threading.Lock()
        self._tensor = tensor
        self._numbers = {
            id(node): (weakref.ref(node), line)
            for node, line in zip(nodes, program.origin, strict=False)
        }
        leaf_lines = [program.graph.lines[n] for n in program.leaf_lines]
        self._feeder = Feeder(self.leaves, leaf_lines)
        self._own: list[Any] = [leaf.data for leaf in self.leaves]
        self._to_send = [
            k
            for k, line in enumerate(leaf_lines)
            if line.params.device == "cuda" and isinstance(self._own[k], np.ndarray)
        ]
        self._single = isinstance(skeleton, int)
        made_by = makers(definition.graph, program)
        results = list(zip(program.outputs, made_by, strict=True))
        distinct = list(dict.fromkeys(results))
        number_of = {result: number for number, result in enumerate(distinct)}
        self._tensor_of = [number_of[result] for result in results]
        lines = [program.graph.lines[n] for n in program.output_lines]
        self._results = [(k, lines[k].dims, lines[k].dtype, *made) for k, made in distinct]
        # a list of different tensors, in the order in which they are made
        self._is_list = type(skeleton) is list and skeleton == list(range(len(distinct)))
        renew_in_child(self)

    def after_fork(self) -> None:
        """Make the lock anew in a forked child."""
        self._making = threading.Lock()

    def run(self, feeds: Mapping[Any, Any] | None = None, /, **by_name: Any) -> Any:
        """Run the graph and return evaluated tensors in the structure of its outputs.

        Args:
            feeds: leaf, or name of a leaf -> array, tensor or number of its shape and dtype.
            by_name: the same, for names that are Python identifiers; any may be an input's name.

        Returns:
            New tensors; a tensor that an earlier run returned keeps its value.

        Raises:
            FeedError: a feed is unknown, given twice, missing, or of the wrong shape or dtype, or
                `feeds` is no mapping.
        """
        if feeds is not None or by_name:
            own = self._values()
            arrays = own.copy()
            given = self._feeder.place({} if feeds is None else feeds, by_name, arrays)
            return self._wrapped(self._ready().run(arrays, own, given))
        self._feeder.check_complete()
        own = self._values()
        return self._wrapped(self._ready().run(own, own))

    def _ready(self) -> Runtime:
        """Return the runtime, made at the first run."""
        if self._runtime is None:
            with self._making:
                if self._runtime is None:
                    self._runtime = Runtime(self.program)
        return self._runtime

    def _values(self) -> list[Any]:
        """Return the leaves' own values; what a pickle brought to the host goes to its device."""
        if self._to_send:
            with self._making:
                while self._to_send:
                    leaf = self.leaves[position := self._to_send[-1]]
                    if leaf.op is _VARIABLE:
                        data = upload(leaf.data, is_volatile=True)
                    else:
                        data = land(leaf.data, None)  # with its strides
                    amend(leaf, "data", data)
                    self._own[position] = leaf.data
                    self._to_send.pop()
        return self._own

    def _wrapped(self, arrays: list[Any]) -> Any:
        cls = self._tensor
        if self._single:
            place, dims, dtype, op, backend_id = self._results[0]
            return become(cls, result(op, dims, dtype, arrays[place], backend_id))
        made = []
        for place, dims, dtype, op, backend_id in self._results:
            made.append(become(cls, result(op, dims, dtype, arrays[place], backend_id)))
        if self._is_list:
            return made
        numbers = self._tensor_of
        return rebuild(self._skeleton, lambda number: made[numbers[number]])

    def backend_id(self, node: Node) -> str:
        """Return the backend that this executable froze for a node.

        Returns:
            The backend_id; "view" and "leaf" for nodes that do no work, "folded" for one that
            simplify removed.

        Raises:
            ArgumentError: the node is not in this graph.
        """
        line = self._line_of(node)
        return "folded" if line < 0 else self.program.choices[line].backend_id

    def _line_of(self, node: Node) -> int:
        if not isinstance(node, Node):
            raise ArgumentTypeError(
                f"{node!r} of type {type(node).__name__} is no tensor; allowed are the tensors "
                "that this executable's outputs depend on"
            )
        known = self._numbers.get(id(node))
        if known is None or known[0]() is not node:
            raise ArgumentError(
                f"the node made by {node.op.name!r} is not part of this executable; allowed are "
                "the nodes that its outputs depend on"
            )
        return known[1]

    def explain(self, node: Node) -> str:
        """Return what was decided for a node, by which profile line, and where it runs."""
        line = self._line_of(node)
        if line < 0:
            return f"{node.op.name} -> folded away by simplify; nothing runs for it"
        made_for = f"profile {self.program.profile}, target {self.program.target}"
        return line_report(self.program, line, (made_for,))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the executable to a file, which `softcuda.load` reads in any process.

        With its decisions, its memory plan, the rows of the profile that decided, its kernels and
        their sources, and the values that its leaves have now: variables, generators, constants.
        No pickle; docs/saved.md has the format. The file is the old one or the new one, never a
        part. Kernels that were not compiled yet are.

        Args:
            path: the file.

        Raises:
            SavedFileError: it cannot be written, or holds something that no file can: outputs
                in another class than list, tuple and dict, a backend's own params.
            ArgumentTypeError, ArgumentError: the path is none.
            CompileError, NvrtcNotFound, CacheMiss: a kernel is not there and cannot be compiled.
        """
        named = path_text("save", path)
        write_saved(named, self.program, self.leaves, self._skeleton, self.definition)

    def release(self) -> None:
        """Give back the output buffers that no tensor uses."""
        if self._runtime is not None:
            self._runtime.release_idle()

    @property
    def arena_bytes(self) -> int:
        """Size of the host arena that the intermediates share [bytes]."""
        return self.program.arena_bytes("cpu")

    def __repr__(self) -> str:
        return (
            f"<softcuda.Executable: {counted(len(self.program.steps), 'step')}, "
            f"{counted(len(self.leaves), 'leaf', 'leaves')}, "
            f"{counted(len(self.program.output_lines), 'output')}, profile {self.program.profile}>"
        )

    def __str__(self) -> str:
        return decision_table(self.program)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        parts = (self.program, self.leaves, self._skeleton, self.definition, self._tensor)
        return _restored, parts


def _restored(
    program: Program,
    leaves: Sequence[Node],
    skeleton: Any,
    definition: Definition,
    tensor: type[Node],
) -> Executable:
    for leaf, number in zip(leaves, program.leaf_lines, strict=True):
        if isinstance(leaf.data, np.ndarray):
            amend(leaf, "data", restrided(leaf.data, program.graph.lines[number]))
    return Executable(program, leaves, skeleton, definition, tensor=tensor)
