"""Running: compile a graph for keeps, or evaluate nodes through the compile cache."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from softcuda.backends import added_devices, registry_changes
from softcuda.cache import CompileCache
from softcuda.compiler.compile import compile_graph
from softcuda.compiler.settings import Settings
from softcuda.errors import ArgumentTypeError, FeedError
from softcuda.executor.arenas import HOST_ARENAS
from softcuda.executor.executable import Executable
from softcuda.executor.on_demand import compile_kernels, cuda_facts, cuda_target
from softcuda.executor.runtime import Runtime
from softcuda.executor.structure import flatten
from softcuda.executor.variables import VARIABLE_LOCKS
from softcuda.graph.lines import Graph
from softcuda.graph.node import Node, amend
from softcuda.graph.op import OPS, Kind
from softcuda.graph.trace import Traced, trace
from softcuda.profile.model import Profile
from softcuda.profile.resolve import default_profile, resolve, warn_if_foreign
from softcuda.target import CPU, Target, named_arch

__all__ = ["Config", "clear_cache", "compile", "evaluate_nodes", "explain", "settings_of"]

N = TypeVar("N", bound=Node)

Config = str | os.PathLike[str] | Profile | None

_CACHE: Final = CompileCache[Runtime]()

_VARIABLE: Final = OPS["variable"]
_UNMADE: Final = (OPS["none"], None)  # what made the value of a leaf: nothing


class _CacheKey(NamedTuple):
    """What a cached runtime depends on beside the graph."""

    profile: str
    registered: int


def settings_of(
    config: Config,
    asked: str | Profile | Target | None,
    strict: bool,
    traced: Traced,
) -> Settings:
    """Return what a graph is compiled with: the profile, the target, why it has no device.

    Args:
        config: as in `compile`.
        asked: the target, as in `compile`.
        strict: as in `compile`.
        traced: the graph.

    Raises:
        ConfigError: the profile cannot be used.
        ArgumentTypeError: a target of another type.
    """
    profile = resolve(config, added_devices())
    wants_cuda = profile.names_cuda or traced.is_on_device
    target, why_not = _target(profile, asked, wants_cuda, traced.graph)
    if asked is None:  # it may run here
        if target.type == profile.device.type == "cuda":
            warn_if_foreign(profile, cuda_facts)
        elif isinstance(config, Profile):
            warn_if_foreign(profile)
    return Settings(profile, default_profile(), target, strict, why_not)


def _target(
    profile: Profile, asked: str | Profile | Target | None, wants_cuda: bool, graph: Graph
) -> tuple[Target, str]:
    """Return what to compile for, and why it is no CUDA device where it is none.

    A process whose profile names no CUDA backend, and whose values are all on the host, never
    asks the driver.
    """
    if isinstance(asked, Target):
        return asked, ""
    if isinstance(asked, Profile):
        return asked.device.target, f"{asked.name} describes a machine without one"
    if asked == "cpu":
        return CPU, "it is compiled for the CPU, by target='cpu'"
    if isinstance(asked, str):
        here = profile.device.target
        known = here if here.type == "cuda" else Target("cuda", "", 0, 48, 0)
        return known._replace(arch=named_arch(asked)), ""
    if asked is not None:
        raise ArgumentTypeError(
            f"compile: target is {asked!r} of type {type(asked).__name__}; allowed are 'cpu', the "
            "name of an architecture such as 'sm_90a', a Profile, and None for this machine"
        )
    if not wants_cuda:
        return CPU, "the profile names no CUDA backend"
    found = cuda_target(backend_ids=_named(profile, graph))
    return (found, "") if isinstance(found, Target) else (CPU, found)


def _named(profile: Profile, graph: Graph) -> Iterator[str]:
    """Yield the backends that rows name for the ops of a graph."""
    ops = {line.op.name for line in graph.lines}
    yield from {row.backend_id for row in profile.rows if row.op in ops}


def compile(
    outputs: Any,
    config: Config = None,
    *,
    target: str | Profile | Target | None = None,
    updates: Mapping[N, N] | None = None,
    strict: bool = False,
) -> Executable:
    """Return an Executable of the graph that `outputs` depend on; nothing is computed yet.

    The profile is consulted once, here; what it decides is frozen into the executable and shown
    by `print(executable)`.

    Args:
        outputs: a tensor, or a list, tuple or dict of tensors, nested as you like.
        config: path of a profile, a Profile, or "default" for the shipped DEFAULT.soft; None
            looks at SOFTCUDA_CONFIG, ./CONFIG.soft, the user's config folder, DEFAULT.soft.
        target: the machine to compile for: "cpu", an architecture such as "sm_90a", a profile
            whose [device] section describes it, or None for this one. A graph that is compiled
            for another machine can be printed and not run.
        updates: variable -> tensor of its new value [its shape and dtype]; written at the end of
            each run, after the last read.
        strict: a backend that refuses a node, or a missing row, is an error instead of a
            printed stand-in.

    Returns:
        The executable; `run` evaluates it.

    Raises:
        ConfigError: the profile cannot be used.
        ShapeError, DTypeError, ArgumentError: the graph or the updates do not fit.
        ArgumentTypeError: an argument is of a type that is not allowed.
        BackendError, BackendRefused, NoDeviceError: no backend can run a node.
    """
    nodes, skeleton = flatten(outputs)
    if not isinstance(strict, bool):
        raise ArgumentTypeError(
            f"compile: strict is {strict!r} of type {type(strict).__name__}; allowed are True and "
            "False"
        )
    if updates is not None and not isinstance(updates, Mapping):
        raise ArgumentTypeError(
            f"compile: updates is of type {type(updates).__name__}; allowed is a mapping "
            "{variable: tensor of its new value}"
        )
    pairs: dict[Node, Node] = {}
    pairs.update((updates or {}).items())
    for variable, new in pairs.items():
        if not isinstance(variable, Node) or not isinstance(new, Node):
            raise ArgumentTypeError(
                f"compile: updates maps variables to tensors, got {type(variable).__name__} -> "
                f"{type(new).__name__}; wrap the value with softcuda.tensor"
            )
    traced = trace(nodes, pairs)
    program = compile_graph(traced.graph, settings_of(config, target, strict, traced))
    if target is not None:
        compile_kernels(program)
    _freeze(traced, program.origin, program.choices)
    made_by = [_UNMADE if node.is_leaf else (node.op, node.backend_id) for node in nodes]
    return Executable(program, traced.leaves, skeleton, traced.nodes, made_by)


def evaluate_nodes(nodes: Sequence[Node]) -> None:
    """Give every node its value: compile through the cache, run, settle.

    The random nodes that they depend on get their values too.

    Raises:
        FeedError: the graph has an input, which only `compile` and `run(feeds)` can give a value.
    """
    roots = [node for node in {id(node): node for node in nodes}.values() if node.data is None]
    if not roots:
        return
    traced = trace(roots)
    drawn = [node for node in traced.nodes if _is_drawn(node)]
    if not drawn:
        _evaluate(roots, traced)
        return
    # A random node is drawn once: it gets its value with what depends on it, and no other thread
    # draws from its generator meanwhile.
    with VARIABLE_LOCKS.held([x.data for x in traced.leaves if x.op is _VARIABLE]):
        settled = any(node.data is not None for node in (*roots, *drawn))
        if settled:  # by another thread, while this one waited
            evaluate_nodes(roots)
            return
        every = list(dict.fromkeys((*roots, *drawn)))
        _evaluate(every, traced if len(every) == len(roots) else trace(every))


def _is_drawn(node: Node) -> bool:
    """Return whether evaluating a node draws random numbers."""
    return node.op.kind is Kind.RANDOM and node.data is None


def _evaluate(roots: Sequence[Node], traced: Traced) -> None:
    """Run what was traced and settle the roots."""
    settings = settings_of(None, None, False, traced)
    key = _CacheKey(settings.profile.cache_key, registry_changes())
    runtime = _CACHE.get(
        traced.graph,
        key,
        lambda: Runtime(compile_graph(traced.graph, settings)),
    )
    for leaf in traced.leaves:
        if leaf.data is None:
            name = f" {leaf.name!r}" if leaf.name is not None else ""
            raise FeedError(
                f"evaluate: the graph reads the input{name} {list(leaf.dims)} {leaf.dtype}, which "
                "has no value; use softcuda.compile(...).run({...}) and feed it"
            )
    program = runtime.program
    arrays = [leaf.data for leaf in traced.leaves]
    # The cache outlives what it is given: it keeps no array but the state of a generator.
    transient = {position for position in range(len(arrays)) if position not in program.updated}
    variables = {position: arrays[position] for position in program.updated}
    results = runtime.run(arrays, variables, transient)
    _freeze(traced, program.origin, program.choices)
    for node, index in zip(roots, program.outputs, strict=True):
        node.settle(results[index])


def explain(tensor: Node, config: Config = None) -> str:
    """Return what compiling the tensor's graph decides for it, and by which profile line.

    Nothing runs. An evaluated tensor is a leaf and has nothing to decide: of it the backend that
    computed it is named.

    Raises:
        ArgumentTypeError: it is no tensor.
        ConfigError, BackendError: as `compile`.
    """
    if not isinstance(tensor, Node):
        raise ArgumentTypeError(
            f"explain: a value of type {type(tensor).__name__} is no tensor; allowed is one "
            "tensor; print(softcuda.compile(outputs)) shows what was decided for all of a graph"
        )
    if not tensor.is_leaf:
        return compile(tensor, config).explain(tensor)
    about = f"{tensor.op.name} {list(tensor.dims)} {tensor.dtype}"
    if tensor.backend_id is None:
        return f"{about}: a leaf, nothing runs for it"
    made = f"computed by {tensor.backend_id} as op {tensor.op.name}"
    if tensor.backend_id == "folded":
        made = f"op {tensor.op.name} was folded away by simplify"
    elif tensor.backend_id == "view":
        made = f"a view, made by op {tensor.op.name}"
    return f"{about}: {made}; its value is there, nothing runs"


def clear_cache() -> None:
    """Forget the cached executables of `evaluate` and give their memory back."""
    _CACHE.clear()
    HOST_ARENAS.trim()


def _freeze(traced: Traced, origin: Sequence[int], choices: Sequence[Any]) -> None:
    """Write the frozen backend into every node, for `tensor.backend_id` to show."""
    for node, line in zip(traced.nodes, origin, strict=False):
        if node.op.kind is not Kind.LEAF and node.data is None:
            amend(node, "backend_id", "folded" if line < 0 else choices[line].backend_id)
