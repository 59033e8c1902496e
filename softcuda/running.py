"""Running: compile a graph for keeps, under the profile and for the machine that count here."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from softcuda.backends import added_devices
from softcuda.compiler.compile import compile_graph
from softcuda.compiler.definition import Definition
from softcuda.compiler.program import Program
from softcuda.compiler.settings import Settings
from softcuda.errors import ArgumentTypeError
from softcuda.executor.executable import Executable
from softcuda.executor.on_demand import (
    compile_kernels,
    cuda_facts,
    cuda_target,
    nvrtc_architectures,
)
from softcuda.executor.structure import flatten
from softcuda.graph.lines import Graph
from softcuda.graph.node import Node
from softcuda.graph.op import Kind
from softcuda.graph.trace import Traced, trace
from softcuda.profile.model import Profile
from softcuda.profile.resolve import default_profile, resolve, warn_if_away, warn_if_foreign
from softcuda.target import CPU, Target, named_arch

__all__ = [
    "Config",
    "compile",
    "compile_traced",
    "explain",
    "freeze",
    "frozen_ids",
    "settings_of",
    "settings_under",
    "tell_if_away",
]

N = TypeVar("N", bound=Node)

_set_backend_id: Final = vars(Node)["backend_id"].__set__  # `amend` in half of the time

# Where the argument names the profile, which SOFTCUDA_CONFIG does not change.
_INSTEAD: Final = (
    "pass config='default', or target='sm_90a' or another to softcuda.compile, which then needs no "
    "device"
)

Config = str | os.PathLike[str] | Profile | None


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
    found = settings_under(profile, asked, strict, traced)
    if config is not None:
        found = found._replace(instead=_INSTEAD)
    if asked is None and isinstance(config, Profile) and not _is_cuda(found):
        warn_if_foreign(profile)
    return found


def settings_under(
    profile: Profile, asked: str | Profile | Target | None, strict: bool, traced: Traced
) -> Settings:
    """Return what a graph is compiled with under a profile that was resolved already.

    Args:
        profile: from `resolve`, which compared it with the CPU of this machine.
        asked: the target, as in `compile`.
        strict: as in `compile`.
        traced: the graph.

    Raises:
        ArgumentTypeError: a target of another type.
    """
    wants_cuda = profile.names_cuda or traced.is_on_device
    target, why_not = _target(profile, asked, wants_cuda, traced.graph)
    made = Settings(profile, default_profile(), target, strict, why_not)
    if asked is None and _is_cuda(made):  # it may run here
        warn_if_foreign(profile, cuda_facts)
    return made


def tell_if_away(settings: Settings) -> None:
    """Warn once where what was compiled may run here, under a profile whose device is not here.

    It is said after compiling, which fails by itself where a row names a device that is needed.
    """
    profile = settings.profile
    if profile.device.type == "cuda" and settings.target.type == "cpu":
        warn_if_away(profile, settings.no_device)


def _is_cuda(settings: Settings) -> bool:
    return settings.target.type == settings.profile.device.type == "cuda"


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
        return known._replace(arch=named_arch(asked, nvrtc_architectures)), ""
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
    recompute: bool = False,
) -> Executable:
    """Return an Executable of the graph that `outputs` depend on; nothing is computed yet.

    The profile is consulted once, here; what it decides is frozen into the executable and shown
    by `print(executable)`.

    Args:
        outputs: a tensor, or a list, tuple or dict of tensors, nested as you like.
        config: path of a profile, a Profile, "default" for the shipped DEFAULT.soft, or
            "nvidia-h200" for the other one that is shipped; None looks at SOFTCUDA_CONFIG,
            ./CONFIG.soft, the user's config folder, DEFAULT.soft.
        target: the machine to compile for: "cpu", an architecture such as "sm_90a", a profile
            whose [device] section describes it, or None for this one. A graph that is compiled
            for another machine can be printed and not run.
        updates: variable -> tensor of its new value [its shape and dtype]; written at the end of
            each run, after the last read.
        strict: a backend that refuses a node, or a missing row, is an error instead of a
            printed stand-in.
        recompute: cheap elementwise values that are read again much later are computed again
            there instead of kept, where that makes the arena smaller; values never change, and
            the printed table says what it saves and costs.

    Returns:
        The executable; `run` evaluates it.

    Raises:
        ConfigError: the profile cannot be used.
        ShapeError, DTypeError, ArgumentError: the graph or the updates do not fit.
        ArgumentTypeError: an argument is of a type that is not allowed.
        BackendError, BackendRefused, NoDeviceError: no backend can run a node.
    """
    nodes, skeleton = flatten(outputs)
    for name, option in (("strict", strict), ("recompute", recompute)):
        if not isinstance(option, bool):
            raise ArgumentTypeError(
                f"compile: {name} is {option!r} of type {type(option).__name__}; allowed are True "
                "and False"
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
    settings = settings_of(config, target, strict, traced)._replace(recompute=recompute)
    made = compile_traced(traced, skeleton, settings, type(traced.nodes[0]) if nodes else Node)
    if target is None:
        tell_if_away(settings)
    else:
        compile_kernels(made.program)
    return made


def compile_traced(
    traced: Traced, skeleton: Any, settings: Settings, tensor: type[Node]
) -> Executable:
    """Return the executable of a graph that was traced, or read from a file.

    Args:
        traced: the graph; without nodes where it was read.
        skeleton: the structure of its outputs, with numbers for tensors.
        settings: what it is compiled with.
        tensor: the class of the tensors that its runs return.

    Raises:
        ShapeError, DTypeError, ArgumentError: the graph or the updates do not fit.
        BackendError, BackendRefused, NoDeviceError: no backend can run a node.
    """
    program = compile_graph(traced.graph, settings)
    freeze(traced.nodes, frozen_ids(traced, program))
    profiles = (settings.profile, settings.default)
    definition = Definition(traced.graph, profiles, settings.strict, settings.recompute)
    return Executable(
        program, traced.leaves, skeleton, definition, nodes=traced.nodes, tensor=tensor
    )


def explain(
    tensor: Node, config: Config = None, *, target: str | Profile | Target | None = None
) -> str:
    """Return what compiling the tensor's graph decides for it, and by which profile line.

    Nothing runs. Of an evaluated tensor, a leaf, the backend that computed it is named.

    Args:
        tensor: what is explained.
        config: the profile, as in `compile`.
        target: as in `compile`: of a device that is not here.

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
        return compile(tensor, config, target=target).explain(tensor)
    name, backend_id = tensor.op.name, tensor.backend_id
    about = f"{name} {list(tensor.dims)} {tensor.dtype}"
    if backend_id is None:
        return f"{about}: a leaf, nothing runs for it"
    folded, view = f"op {name} was folded away by simplify", f"a view, made by op {name}"
    made = f"computed by {backend_id} as op {name}"
    made = {"folded": folded, "view": view}.get(backend_id, made)
    return f"{about}: {made}; its value is there, nothing runs"


def frozen_ids(traced: Traced, program: Program) -> list[tuple[int, str]]:
    """Return the number of each traced node that is computed, and the backend frozen for it."""
    lines = traced.graph.lines[: len(traced.nodes)]  # those behind were made by the trace itself
    return [
        (number, "folded" if origin < 0 else program.choices[origin].backend_id)
        for number, (line, origin) in enumerate(zip(lines, program.origin, strict=False))
        if line.op.kind is not Kind.LEAF
    ]


def freeze(nodes: Sequence[Node], ids: Sequence[tuple[int, str]]) -> None:
    """Write frozen backends into nodes without a value, for `tensor.backend_id` to show.

    Args:
        nodes: by number.
        ids: from `frozen_ids`.
    """
    for number, backend_id in ids:
        node = nodes[number]
        if node.data is None:
            _set_backend_id(node, backend_id)
