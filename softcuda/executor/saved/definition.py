"""graph.json: the graph as it was defined, the structure of its outputs, and its leaves.

This is what `recompile=True` needs, on any device and with any version that reads the format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from softcuda.compiler.definition import Definition
from softcuda.compiler.verify import verify
from softcuda.executor.saved.archive import Archive, json_bytes, json_value
from softcuda.executor.saved.arrays import array_bytes, array_of_bytes, span_of
from softcuda.executor.saved.codec import Coder
from softcuda.executor.saved.plain import Misfit
from softcuda.executor.structure import MAX_DEPTH
from softcuda.executor.variables import VARIABLE_LOCKS
from softcuda.graph.flow import Flow
from softcuda.graph.lines import Graph, LeafLayout, Line
from softcuda.graph.node import Node, amend, on_host
from softcuda.graph.op import OPS, Kind
from softcuda.graph.params import Constant, OnDevice, literal, value_of
from softcuda.graph.shapes import check_dims

__all__ = ["GRAPH_FILE", "Defined", "check_graph", "graph_members", "homed", "read_defined"]

GRAPH_FILE: Final = "graph.json"

_VARIABLE: Final = OPS["variable"]
_INPUT: Final = OPS["input"]
_KEYS: Final = (str, int, bool, type(None))
_REACH: Final = 1 << 62
_DEVICES: Final = ("cpu", "cuda")
# Params that are texts of numbers, whatever op they belong to.
_NUMBERS: Final = frozenset(
    ("value", "correction", "order", "start", "step", "stop", "low", "high", "eps")
)


class SavedLeaf(NamedTuple):
    """What a leaf is beside its line.

    Attributes:
        name: of an input or a variable.
        flow: whether gradients flow through it.
        value: the member that holds its value; None for an input.
    """

    name: str | None
    flow: Flow
    value: str | None


class Defined(NamedTuple):
    """What graph.json and the values of leaves say.

    Attributes:
        graph: as it was traced.
        skeleton: the structure of the outputs, with numbers for tensors.
        leaves: by position, with their values on the host.
        strict: as in `compile`.
        recompute: as in `compile`.
    """

    graph: Graph
    skeleton: Any
    leaves: tuple[Node, ...]
    strict: bool
    recompute: bool


def leaf_lines(graph: Graph) -> list[Line]:
    """Return the lines of a graph that have values of their own or are fed, in order."""
    return [
        line for line in graph.lines if line.op.kind is Kind.LEAF and line.op.name != "constant"
    ]


def graph_members(
    definition: Definition, leaves: Sequence[Node], skeleton: Any
) -> dict[str, bytes]:
    """Return the members of a definition: graph.json and an npy file for each value.

    Variables are read under their locks: all before, or all after, what another run changes.

    Raises:
        Misfit: the outputs are in another class than list, tuple and dict.
    """
    members: dict[str, bytes] = {}
    saved = []
    graph = definition.graph
    lines = {line.params.position: line for line in leaf_lines(graph)}
    with VARIABLE_LOCKS.held([leaf.data for leaf in leaves if leaf.op is _VARIABLE]):
        for position, leaf in enumerate(leaves):
            value = None
            if leaf.data is not None:
                value = f"leaves/{position}.npy"
                line = lines[position]
                members[value] = array_bytes(on_host(leaf.data), line.dtype, line.params.strides)
            saved.append(SavedLeaf(leaf.name, leaf.flow, value))
    coder = Coder()
    about = {
        "structure": _plain(skeleton),
        "strict": definition.strict,
        "recompute": definition.recompute,
        **coder.encode(Graph, graph),
        "leaves": coder.encode(tuple[SavedLeaf, ...], tuple(saved)),
    }
    return {GRAPH_FILE: json_bytes(about), **members}


def _plain(skeleton: Any) -> Any:
    """Return a structure of outputs as JSON has it."""
    if type(skeleton) is int:
        return skeleton
    if type(skeleton) in (list, tuple):
        return {type(skeleton).__name__: [_plain(part) for part in skeleton]}
    if type(skeleton) is dict and all(type(key) in _KEYS for key in skeleton):
        return {"dict": [[key, _plain(part)] for key, part in skeleton.items()]}
    found = type(skeleton).__name__
    if type(skeleton) is dict:
        found = f"a dict with the keys {list(skeleton)!r}"
    raise Misfit(
        found, "lists, tuples and dicts with keys of text, numbers, bool or None as outputs"
    )


def _skeleton(part: Any, depth: int = 0) -> Any:
    """Return the structure that JSON tells."""
    if type(part) is int:
        return part
    if depth > MAX_DEPTH or not isinstance(part, dict) or len(part) != 1:
        raise Misfit(part, f'a number, "list", "tuple" or "dict", up to {MAX_DEPTH} levels deep')
    ((kind, parts),) = part.items()
    if kind not in ("list", "tuple", "dict") or not isinstance(parts, list):
        raise Misfit(part, '"list", "tuple" or "dict" with a list')
    if kind != "dict":
        made = [_skeleton(inner, depth + 1) for inner in parts]
        return made if kind == "list" else tuple(made)
    pairs = {}
    for pair in parts:
        if not isinstance(pair, list) or len(pair) != 2 or type(pair[0]) not in _KEYS:
            raise Misfit(pair, "a pair of a key and a part")
        pairs[pair[0]] = _skeleton(pair[1], depth + 1)
    if len(pairs) < len(parts):
        raise Misfit(list(pairs), "keys that differ")
    return pairs


def _numbers(skeleton: Any) -> list[int]:
    if type(skeleton) is int:
        return [skeleton]
    parts = skeleton.values() if isinstance(skeleton, dict) else skeleton
    return [number for part in parts for number in _numbers(part)]


def read_defined(archive: Archive, kind: type[Node]) -> Defined:
    """Return what a file's graph.json and its values say.

    Args:
        archive: the file.
        kind: the class of the leaves.

    Raises:
        Misfit, SoftCudaError: it says something that cannot be.
    """
    about = json_value(archive.read(GRAPH_FILE))
    keys = ("structure", "strict", "recompute", *Graph._fields, "leaves")
    if not isinstance(about, dict) or about.keys() != set(keys):
        raise Misfit(about, f"an object with the keys {', '.join(keys)}")
    coder = Coder()
    graph = coder.decode(Graph, {name: about[name] for name in Graph._fields})
    saved = coder.decode(tuple[SavedLeaf, ...], about["leaves"])
    check_graph(graph)
    skeleton = _skeleton(about["structure"])
    if _numbers(skeleton) != list(range(len(graph.outputs))):
        raise Misfit(_numbers(skeleton), f"each of {len(graph.outputs)} outputs once, in order")
    lines = {line.params.position: line for line in leaf_lines(graph)}
    if lines.keys() != set(range(len(saved))):
        raise Misfit(sorted(lines), f"the positions of {len(saved)} leaves")
    leaves = [_leaf(archive, kind, lines[position], leaf) for position, leaf in enumerate(saved)]
    strict, recompute = (coder.decode(bool, about[name]) for name in ("strict", "recompute"))
    return Defined(graph, skeleton, tuple(leaves), strict, recompute)


def check_graph(graph: Graph) -> None:
    """Check that every line of a graph is what its op's rules say.

    Raises:
        Misfit, SoftCudaError: a line is not.
    """
    count = len(graph.lines)
    named = (*graph.outputs, *(number for pair in graph.updates for number in pair))
    for number in named:
        if not 0 <= number < count:
            raise Misfit(number, f"the number of a line, below {count}")
    for number, line in enumerate(graph.lines):
        check_dims(f"line {number}", line.dims)
        _check_texts(line)
        if line.op.kind is Kind.LEAF:
            _check_leaf_line(number, line)
    try:
        verify(graph)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise Misfit(str(error), "lines that agree with the rules of their ops") from error


def _check_texts(line: Line) -> None:
    """Check that params which are texts of numbers, or names of devices, are."""
    for name, text in getattr(line.params, "_asdict", dict)().items():
        if name == "device" and text not in _DEVICES:
            raise Misfit(text, f"one of {', '.join(_DEVICES)}")
        if name not in _NUMBERS:
            continue
        try:
            number = value_of(text)
            with np.errstate(all="ignore"):  # one too large for a float is infinite
                np.array(number, line.dtype.numpy if name == "value" else None)
        except (ValueError, TypeError, OverflowError):
            number = None
        if number is None or literal(number) != text:
            allowed = f"the text of a number that {line.dtype} takes, for {name} of {line.op.name}"
            raise Misfit(text, allowed)


def _check_leaf_line(number: int, line: Line) -> None:
    params = line.params
    if line.op.name == "constant":
        fits = isinstance(params, Constant) and not line.dims and params.dtype is line.dtype
    else:
        fits = isinstance(params, LeafLayout) and len(params.strides) == len(line.dims)
        fits = fits and sum(span_of(line.dims, params.strides)) < _REACH
    if not fits or line.inputs:
        raise Misfit(line, f"a leaf or a number as line {number}")


def _leaf(archive: Archive, kind: type[Node], line: Line, saved: SavedLeaf) -> Node:
    """Return a leaf; its value is on the host, whatever device it belongs to."""
    has_value = line.op is not _INPUT
    if (saved.value is not None) is not has_value:
        raise Misfit(saved, f"{'a' if has_value else 'no'} value for a leaf made by {line.op.name}")
    data = None
    if saved.value is not None:
        data = array_of_bytes(archive.read(saved.value), line.dims, line.dtype, line.params.strides)
    params = OnDevice(line.params.device) if not has_value and line.params.device != "cpu" else ()
    made = kind(line.op, (), line.dims, line.dtype, params, data, saved.name)
    amend(made, "flow", saved.flow)
    return made


def homed(graph: Graph) -> Graph:
    """Return a graph whose leaves are all on the host, for a machine without a device."""

    def at_home(line: Line) -> Line:
        if isinstance(line.params, LeafLayout):
            return line._replace(params=line.params._replace(device="cpu"))
        return line

    return graph._replace(lines=tuple(at_home(line) for line in graph.lines))
