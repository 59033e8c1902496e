"""One operation compiled: its recipe as a graph over leaves of declared layout, and its runtime."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from softcuda.backends import backends, registry_state
from softcuda.cache import CompileCache
from softcuda.compiler.compile import compile_graph
from softcuda.compiler.program import Program
from softcuda.compiler.select import Selector
from softcuda.compiler.settings import Settings
from softcuda.compiler.table import decision_table, format_bytes
from softcuda.dtype import DType
from softcuda.errors import NoDeviceError
from softcuda.executor.runtime import Runtime
from softcuda.graph.lines import Graph, LeafLayout, Line
from softcuda.graph.op import OPS, Kind
from softcuda.graph.params import Dims, Transfer
from softcuda.graph.places import named_device
from softcuda.graph.trace import Traced
from softcuda.named.descriptors import TensorDescriptor
from softcuda.named.einsums import within_memory
from softcuda.named.operation import OperationDescriptor
from softcuda.named.recipe import PathOptions, Recipe, Scalar
from softcuda.named.recipe_writer import recipe_of
from softcuda.running import Config, settings_of, tell_if_away

__all__ = ["Engine", "engine_of", "forget_plans", "retyped", "varied"]

_INPUT: Final = OPS["input"]
_TRANSFER: Final = OPS["transfer"]

_PLANS: Final = CompileCache[Runtime]()


class Engine(NamedTuple):
    """A compiled operation; equal ones share a runtime.

    Attributes:
        operation: what it computes.
        recipe: its graph, with places for operands and scalars.
        device: "cpu" or "cuda", where its operands and its result are.
        program: what the recipe was compiled to.
        runtime: runs the program.
        settings: what it was compiled with.
    """

    operation: OperationDescriptor
    recipe: Recipe
    device: str
    program: Program
    runtime: Runtime
    settings: Settings

    @property
    def workspace_bytes(self) -> int:
        """Bytes that a run takes beside its operands and its result."""
        return sum(size.nbytes for size in self.program.arenas.values())

    @property
    def backends(self) -> tuple[str, ...]:
        """The backend of each step of the path."""
        origin, choices = self.program.origin, self.program.choices
        found = [origin[line] for line in self.recipe.steps]
        return tuple("folded" if k < 0 else choices[k].backend_id for k in found)

    def describe(self) -> str:
        """Return what is computed, by which steps, on which backends, with how much memory."""
        rows = [
            str(self.operation),
            f"device {self.device}, workspace {format_bytes(self.workspace_bytes)}",
        ]
        path = self.recipe.path
        if path is not None:
            operands = self.operation.operands[: len(path.shapes)]
            strides = [x.tensor_descriptor.strides for x in operands]
            rows.append(path.describe(self.backends, strides))
        return "\n".join([*rows, decision_table(self.program)])


def engine_of(
    operation: OperationDescriptor, options: PathOptions, config: Config, device: str | None
) -> Engine:
    """Return the compiled form of an operation, its runtime from a cache of 256.

    Args:
        operation: what is computed.
        options: how the path of a contraction is found.
        config: the profile, as in `compile`.
        device: where operands and result are; None for where the row of the operation computes.

    Raises:
        ConfigError, NoDeviceError, BackendError: as `compile`.
        ArgumentError: there is no device of this name, or options that do not fit.
    """
    if device is not None:
        device = named_device("Plan", device)
    scalars = (Scalar.GIVEN,) * operation.scalar_count
    recipe = recipe_of(operation, scalars, options)
    place = device or _device_of(_graph(operation, recipe, "cpu"), config)
    bounded = within_memory(recipe, options, place)
    if bounded is not options:
        recipe = recipe_of(operation, scalars, bounded)
    graph = _graph(operation, recipe, place)
    settings = settings_of(config, None, False, Traced(graph, (), ()))
    if place == "cuda" and settings.target.type != "cuda":
        raise NoDeviceError(
            f"Plan: device='cuda' and no CUDA device can be used here: {settings.no_device}; leave "
            "device out, or say 'cpu'"
        )
    runtime = _runtime_of(graph, place, settings)
    tell_if_away(settings)
    return Engine(operation, recipe, place, runtime.program, runtime, settings)


def varied(engine: Engine, scalars: tuple[Scalar, ...]) -> Runtime:
    """Return a runtime of the operation with its scalars known to be of some kinds.

    Args:
        engine: of scalars that may be anything, on the host.
        scalars: how each of them enters.
    """
    path = engine.recipe.path
    options = PathOptions() if path is None else PathOptions(path)
    recipe = recipe_of(engine.operation, scalars, options)
    place = engine.device
    return _runtime_of(_graph(engine.operation, recipe, place), place, engine.settings)


def retyped(engine: Engine, dtype: DType) -> Runtime:
    """Return a runtime of an expression whose result is of another dtype, rounded once.

    Args:
        engine: of an operation without scalars, on the host.
        dtype: of the result.
    """
    operation, place = engine.operation, engine.device
    out = TensorDescriptor.contiguous(operation.out.extents, dtype)
    operation = replace(operation, out=out)
    recipe = recipe_of(operation, (), PathOptions(engine.recipe.path))
    return _runtime_of(_graph(operation, recipe, place), place, engine.settings)


def _runtime_of(graph: Graph, place: str, settings: Settings) -> Runtime:
    if place == "cuda" or settings.profile.names_cuda:
        graph = _returned(graph, place)
    key = (graph, settings.profile.cache_key, registry_state()[1])
    return _PLANS.get(key) or _PLANS.add(key, graph, Runtime(compile_graph(graph, settings)))


def forget_plans() -> None:
    """Forget the cached runtimes of plans; plans that users hold keep theirs."""
    _PLANS.clear()


def _graph(operation: OperationDescriptor, recipe: Recipe, device: str) -> Graph:
    """Return the recipe's lines with leaves of the operands' strides on a device."""
    strides: list[Dims] = [x.tensor_descriptor.canonical_strides for x in operation.operands]
    strides += [()] * operation.scalar_count
    lines = list(recipe.lines)
    for position, place in enumerate(recipe.places):
        lines[place] = lines[place]._replace(params=LeafLayout(position, strides[position], device))
    return Graph(tuple(lines), (recipe.result,))


def _returned(graph: Graph, device: str) -> Graph:
    """Return the graph with its result on a device, wherever it is computed."""
    [result] = graph.outputs
    line = graph.lines[result]
    moved = Line(_TRANSFER, (result,), line.dims, line.dtype, Transfer(device))
    return Graph((*graph.lines, moved), (len(graph.lines),))


def _device_of(graph: Graph, config: Config) -> str:
    """Return the device of the backend that the row of the operation names.

    The operation is the first contraction or reduction, else the last op that does work.
    """
    settings: Settings = settings_of(config, None, False, Traced(graph, (), ()))
    if not settings.profile.names_cuda:
        return "cpu"
    lines = graph.lines
    working = [line for line in lines if line.op.does_work]
    anchors = [x for x in working if x.op.kind in (Kind.CONTRACTION, Kind.REDUCTION)]
    if not working:
        return settings.profile.pool.device
    chosen = (anchors or working[-1:])[0]
    choice = Selector(settings).choose(chosen, [lines[k] for k in chosen.inputs])
    return str(backends()[choice.backend_id].DEVICE)
