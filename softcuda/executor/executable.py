"""The Executable: a compiled graph that a user runs, prints, pickles."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from softcuda.compiler.program import Program
from softcuda.compiler.table import counted, decision_table, line_report
from softcuda.errors import ArgumentError, ArgumentTypeError, FeedError
from softcuda.executor.feeds import conform, restrided
from softcuda.executor.on_demand import upload
from softcuda.executor.runtime import Runtime
from softcuda.executor.structure import rebuild
from softcuda.graph.node import Node, amend, become
from softcuda.graph.op import OPS, Kind, Op

__all__ = ["Executable"]

MadeBy = tuple[Op, str | None]

_NONE = OPS["none"]
_VARIABLE = OPS["variable"]


class Executable:
    """A compiled graph.

    Every node's backend was chosen once, when it was compiled, and is frozen here. `print` shows
    the decision table. Two threads may run two executables that share nodes; runs of one
    executable are serialised.

    Attributes:
        program: the frozen program.
        leaves: its leaf nodes, by position.
    """

    def __init__(
        self,
        program: Program,
        leaves: Sequence[Node],
        skeleton: Any,
        nodes: Sequence[Node] = (),
        made_by: Sequence[MadeBy] = (),
    ) -> None:
        """Make an executable that has not run yet.

        Args:
            program: what compiling gave.
            leaves: its leaf nodes, by position.
            skeleton: the structure of the outputs, with numbers for tensors.
            nodes: the node of each traced line.
            made_by: for each number of the skeleton the op and the backend_id of its tensor.
        """
        self.program = program
        self.leaves = tuple(leaves)
        self._skeleton = skeleton
        self._runtime: Runtime | None = None
        self._making = threading.Lock()
        self._tensor = type(self.leaves[0]) if self.leaves else Node
        if nodes:
            self._tensor = type(nodes[0])
        self._positions = {id(leaf): k for k, leaf in enumerate(self.leaves)}
        self._names = self._named_leaves()
        self._numbers = {
            id(node): (weakref.ref(node), line)
            for node, line in zip(nodes, program.origin, strict=False)
        }
        self._missing = [k for k, leaf in enumerate(self.leaves) if leaf.data is None]
        self._own: list[Any] = [leaf.data for leaf in self.leaves]
        self._lines = [program.graph.lines[n] for n in program.leaf_lines]
        self._to_send = [
            k
            for k, line in enumerate(self._lines)
            if line.params.device == "cuda" and isinstance(self._own[k], np.ndarray)
        ]
        self._single = isinstance(skeleton, int)
        self._made_by = tuple(made_by) or _made_by(program)
        results = list(zip(program.outputs, self._made_by, strict=True))
        distinct = list(dict.fromkeys(results))
        number_of = {result: number for number, result in enumerate(distinct)}
        self._tensor_of = [number_of[result] for result in results]
        lines = [program.graph.lines[n] for n in program.output_lines]
        self._results = [(k, lines[k].dims, lines[k].dtype, *made) for k, made in distinct]

    def _named_leaves(self) -> dict[str, int]:
        names: dict[str, int] = {}
        for position, leaf in enumerate(self.leaves):
            if leaf.name is None:
                continue
            if leaf.name in names:
                raise ArgumentError(
                    f"compile: two leaves are named {leaf.name!r}; names of one graph must differ, "
                    "give each input and variable its own"
                )
            names[leaf.name] = position
        return names

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
            arrays, transient = self._fed({} if feeds is None else feeds, by_name)
            return self._wrapped(self._ready().run(arrays, self._values(), transient))
        if self._missing:
            raise self._lacking(self._missing)
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
                    data = upload(leaf.data, is_volatile=leaf.op is _VARIABLE)
                    amend(leaf, "data", data)
                    self._own[position] = leaf.data
                    self._to_send.pop()
        return self._own

    def _wrapped(self, arrays: list[Any]) -> Any:
        cls = self._tensor
        if self._single:
            place, dims, dtype, op, backend_id = self._results[0]
            node = Node(op, (), dims, dtype, (), arrays[place])
            node.backend_id = backend_id
            return become(cls, node)
        made = []
        for place, dims, dtype, op, backend_id in self._results:
            node = Node(op, (), dims, dtype, (), arrays[place])
            node.backend_id = backend_id
            made.append(become(cls, node))
        numbers = self._tensor_of
        return rebuild(self._skeleton, lambda number: made[numbers[number]])

    def _fed(
        self, feeds: Mapping[Any, Any], by_name: Mapping[str, Any]
    ) -> tuple[list[Any], list[int]]:
        if not isinstance(feeds, Mapping):
            raise self._no_mapping(feeds)
        arrays = list(self._values())
        given: dict[int, Any] = {}
        for key, value in [*feeds.items(), *by_name.items()]:
            position = self._position(key)
            if position in given:
                raise FeedError(
                    f"run: {self._label(position)} is fed twice; give each leaf one value"
                )
            given[position] = value
        for position, value in given.items():
            arrays[position] = conform(value, self._lines[position], self._label(position))
        missing = [position for position in self._missing if position not in given]
        if missing:
            raise self._lacking(missing)
        return arrays, list(given)

    def _no_mapping(self, feeds: Any) -> FeedError:
        name = next(iter(self._names), None)
        use = "run({leaf: value})" if name is None else f"run({{{name!r}: value}})"
        shape = getattr(feeds, "shape", None)
        about = "" if not isinstance(shape, tuple) else f" and shape {list(shape)}"
        return FeedError(
            f"run: feeds is a mapping {{leaf or name: value}} and a value of type "
            f"{type(feeds).__name__}{about} was given; say which of the {len(self.leaves)} leaves "
            f"it is for, as in {use}"
        )

    def _position(self, key: Any) -> int:
        found = self._names.get(key) if isinstance(key, str) else self._positions.get(id(key))
        if found is None:
            what = f"a node made by {key.op.name!r}" if isinstance(key, Node) else repr(key)
            names = ", ".join(sorted(self._names)) or "none has a name"
            raise FeedError(
                f"run: {what} is no leaf of this graph; allowed are its {len(self.leaves)} leaves, "
                f"by name ({names}) or the leaf itself"
            )
        return found

    def _lacking(self, positions: Sequence[int]) -> FeedError:
        listed = ", ".join(
            f"{self._label(k)} {list(self._lines[k].dims)} {self._lines[k].dtype}"
            for k in positions
        )
        return FeedError(f"run: no value for {listed}; feed it, by name or by the leaf itself")

    def _label(self, position: int) -> str:
        name = self.leaves[position].name
        return f"input {name!r}" if name is not None else f"leaf {position}"

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
        return line_report(self.program, line, (f"profile {self.program.profile}",))

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
        parts = (self.program, self.leaves, self._skeleton, self._tensor, self._made_by)
        return _restored, parts


def _made_by(program: Program) -> tuple[MadeBy, ...]:
    """Return op and backend_id of each output, as the program's own lines have them."""
    found: list[MadeBy] = []
    for index in program.outputs:
        number = program.output_lines[index]
        op = program.graph.lines[number].op
        is_leaf = op.kind is Kind.LEAF
        found.append((_NONE, None) if is_leaf else (op, program.choices[number].backend_id))
    return tuple(found)


def _restored(
    program: Program,
    leaves: Sequence[Node],
    skeleton: Any,
    tensor: type[Node],
    made_by: Sequence[MadeBy] = (),
) -> Executable:
    for leaf, number in zip(leaves, program.leaf_lines, strict=True):
        if isinstance(leaf.data, np.ndarray):
            amend(leaf, "data", restrided(leaf.data, program.graph.lines[number]))
    made = Executable(program, leaves, skeleton, (), made_by)
    made._tensor = tensor
    return made
