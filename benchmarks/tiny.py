"""Graphs of tiny nodes, and the same work as straight lines of NumPy calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import softcuda as sc

__all__ = [
    "MIX",
    "NODES",
    "TinyCall",
    "TinyGraph",
    "straight_line",
    "tiny_chain",
    "tiny_fan",
    "tiny_leaf",
    "tiny_tree",
]

Array = np.ndarray[Any, Any]

NODES = 1000


class TinyCall(NamedTuple):
    """One NumPy call of a straight-line program: function, names of operands, name of out."""

    function: str
    operands: tuple[str, ...]
    out: str


class TinyGraph(NamedTuple):
    """A graph of tiny nodes, and the same as NumPy calls.

    Attributes:
        outputs: a tensor, or a list of them.
        calls: the same work, one NumPy call with out= a node.
        arrays: the arrays that the calls name.
        last: names of the results.
    """

    outputs: Any
    calls: list[TinyCall]
    arrays: dict[str, Array]
    last: list[str]


MIX: tuple[tuple[Callable[[Any, Any], Any], str, bool], ...] = (
    (lambda t, y: t + y, "add", True),
    (lambda t, y: t * y, "multiply", True),
    (sc.maximum, "maximum", True),
    (lambda t, y: t - y, "subtract", True),
    (lambda t, y: -t, "negative", False),
    (sc.minimum, "minimum", True),
    (lambda t, y: abs(t), "absolute", False),
    (lambda t, y: sc.tanh(t), "tanh", False),
)


def tiny_leaf(seed: int) -> Array:
    """Return random numbers from 0.5 to 1 [8], f32."""
    return np.random.default_rng(seed).uniform(0.5, 1.0, 8).astype(np.float32)


def tiny_chain(mixed: bool) -> TinyGraph:
    """Return 1000 nodes in a row: add alone, or eight ops by turns."""
    arrays = {"v": tiny_leaf(1), "y": tiny_leaf(2)}
    node, y = sc.tensor(arrays["v"]), sc.tensor(arrays["y"])
    calls, last = [], "v"
    for number in range(NODES):
        define, function, binary = MIX[number % len(MIX) if mixed else 0]
        node = define(node, y)
        calls.append(TinyCall(function, (last, "y") if binary else (last,), f"o{number % 2}"))
        last = f"o{number % 2}"
    return TinyGraph(node, calls, arrays, [last])


def tiny_tree() -> TinyGraph:
    """Return 500 sums of a leaf and y, added up pairwise by 499 more."""
    arrays = {f"v{k}": tiny_leaf(k) for k in range(NODES // 2)} | {"y": tiny_leaf(7)}
    y = sc.tensor(arrays["y"])
    level = [(sc.tensor(arrays[f"v{k}"]) + y, f"o{k}") for k in range(NODES // 2)]
    calls = [TinyCall("add", (f"v{k}", "y"), f"o{k}") for k in range(NODES // 2)]
    while len(level) > 1:
        above = []
        for (left, a), (right, b) in zip(level[::2], level[1::2], strict=False):
            out = f"o{len(calls)}"
            calls.append(TinyCall("add", (a, b), out))
            above.append((left + right, out))
        level = above + (level[-1:] if len(level) % 2 else [])
    return TinyGraph(level[0][0], calls, arrays, [level[0][1]])


def tiny_fan() -> TinyGraph:
    """Return 1000 sums, each an output of its own."""
    arrays = {f"v{k}": tiny_leaf(k) for k in range(NODES)} | {"y": tiny_leaf(7)}
    y = sc.tensor(arrays["y"])
    outputs = [sc.tensor(arrays[f"v{k}"]) + y for k in range(NODES)]
    calls = [TinyCall("add", (f"v{k}", "y"), f"o{k}") for k in range(NODES)]
    return TinyGraph(outputs, calls, arrays, [call.out for call in calls])


def straight_line(tiny: TinyGraph, dtype: Any) -> tuple[Callable[[], None], dict[str, Any]]:
    """Return a function that makes the NumPy calls one after the other, and its buffers."""
    names: dict[str, Any] = {k: v.astype(dtype) for k, v in tiny.arrays.items()}
    names |= {call.out: np.empty(8, dtype) for call in tiny.calls}
    names |= {call.function: getattr(np, call.function) for call in tiny.calls}
    body = "\n ".join(f"{c.function}({', '.join(c.operands)}, out={c.out})" for c in tiny.calls)
    # Parameters with defaults: local variables, the fastest that Python has.
    head = ", ".join(f"{name}={name}" for name in names)
    scope: dict[str, Any] = dict(names)
    exec(f"def program({head}):\n {body}", scope)
    return scope["program"], names
