"""Evaluation: the values of nodes, by programs that are compiled once for each structure."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

from softcuda.backends import registry_state
from softcuda.cache import CompileCache
from softcuda.compiler.compile import compile_graph
from softcuda.compiler.program import Program
from softcuda.errors import FeedError
from softcuda.executor.arenas import HOST_ARENAS
from softcuda.executor.runtime import Runtime
from softcuda.executor.variables import VARIABLE_LOCKS
from softcuda.graph.node import Node
from softcuda.graph.op import OPS, Kind
from softcuda.graph.trace import Outline, Traced, outline, traced
from softcuda.profile.model import Profile
from softcuda.profile.resolve import resolve
from softcuda.running import freeze, frozen_ids, settings_under, tell_if_away

__all__ = ["clear_cache", "evaluate_nodes"]

_INPUT: Final = OPS["input"]
_VARIABLE: Final = OPS["variable"]


class _Evaluation:
    """The runtime of a structure that was evaluated, and what its nodes are told each time.

    Attributes:
        runtime: runs its program.
        backend_ids: number of a node in the outline, and the backend that was frozen for it.
        outputs: for each root its index among the results.
        changed: positions of the leaves that a run changes: the state of generators.
        passing: positions of all others.
        has_inputs: whether a leaf has no value.
    """

    __slots__ = ("backend_ids", "changed", "has_inputs", "outputs", "passing", "runtime")

    def __init__(self, whole: Traced, program: Program) -> None:
        self.runtime = Runtime(program)
        self.backend_ids = frozen_ids(whole, program)
        self.outputs = program.outputs
        self.changed = program.updated
        self.passing = frozenset(range(len(whole.leaves))).difference(program.updated)
        self.has_inputs = any(leaf.op is _INPUT for leaf in whole.leaves)

    @property
    def held_bytes(self) -> int:
        """As of its runtime."""
        return self.runtime.held_bytes

    def release_idle(self) -> None:
        """As its runtime."""
        self.runtime.release_idle()


_CACHE: Final = CompileCache[_Evaluation]()


def evaluate_nodes(nodes: Sequence[Node]) -> None:
    """Give every node its value: compile through the cache, run, settle.

    The random nodes that they depend on get their values too.

    Raises:
        FeedError: the graph has an input, which only `compile` and `run(feeds)` can give a value.
    """
    roots = nodes
    if len(nodes) != 1 or nodes[0].data is not None:
        roots = list(dict.fromkeys(node for node in nodes if node.data is None))
        if not roots:
            return
    found = outline(roots)
    if found[0][-1]:
        _evaluate_drawn(roots, found)
    else:
        _evaluate(roots, found)


def _evaluate_drawn(roots: Sequence[Node], found: Outline) -> None:
    """Evaluate what draws from generators."""
    _, nodes, leaves = found
    drawn = [node for node in nodes if _is_drawn(node)]
    # A random node is drawn once: it gets its value with what depends on it, and no other thread
    # draws from its generator meanwhile.
    with VARIABLE_LOCKS.held([x.data for x in leaves if x.op is _VARIABLE]):
        settled = any(node.data is not None for node in (*roots, *drawn))
        if settled:  # by another thread, while this one waited
            evaluate_nodes(roots)
            return
        every = list(dict.fromkeys((*roots, *drawn)))
        _evaluate(every, found if len(every) == len(roots) else outline(every))


def _is_drawn(node: Node) -> bool:
    """Return whether evaluating a node draws random numbers."""
    return node.op.kind is Kind.RANDOM and node.data is None


def _evaluate(roots: Sequence[Node], found: Outline) -> None:
    """Run what was outlined and settle the roots."""
    added, changes = registry_state()
    profile = resolve(None, added)
    graph, nodes, leaves = found
    key = (graph, profile.cache_key, changes)
    known = _CACHE.get(key) or _compiled(key, found, profile)
    arrays = [leaf.data for leaf in leaves]
    if known.has_inputs:
        raise _lacking(leaves)
    # The cache outlives what it is given: it keeps no array but the state of a generator.
    changed = known.changed
    states = {position: arrays[position] for position in changed} if changed else ()
    results = known.runtime.run(arrays, states, known.passing)
    freeze(nodes, known.backend_ids)
    for at, index in enumerate(known.outputs):
        roots[at].settle(results[index])


def _compiled(key: Hashable, found: Outline, profile: Profile) -> _Evaluation:
    whole = traced(found)
    settings = settings_under(profile, None, False, whole)
    program = compile_graph(whole.graph, settings)
    tell_if_away(settings)
    return _CACHE.add(key, whole.graph, _Evaluation(whole, program))


def _lacking(leaves: Sequence[Node]) -> FeedError:
    leaf = next(leaf for leaf in leaves if leaf.op is _INPUT)
    name = f" {leaf.name!r}" if leaf.name is not None else ""
    return FeedError(
        f"evaluate: the graph reads the input{name} {list(leaf.dims)} {leaf.dtype}, which "
        "has no value; use softcuda.compile(...).run({...}) and feed it"
    )


def clear_cache() -> None:
    """Forget the cached programs of `evaluate` and give their memory back."""
    _CACHE.clear()
    HOST_ARENAS.trim()
