"""Softmax and layer_norm with elementwise ops around them: graphs, their values in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

import softcuda as sc
from softcuda.dtype import DType

__all__ = ["CASES", "Named", "RowCase", "leaves_of"]

Array = np.ndarray[Any, Any]
EPS = 1e-5


class Named(dict[str, Any]):
    """Values by name, as attributes too."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


@dataclass(frozen=True)
class RowCase:
    """One graph.

    Attributes:
        name: of the case.
        build: leaves -> the graph's output.
        right: arrays in float64 -> the output in float64.
        dims: rows and row of each leaf, by name; "n" stands for the length of a row.
        op: whose tolerance holds.
        masks: leaves of bool.
    """

    name: str
    build: Callable[[Any], sc.Tensor]
    right: Callable[[Any], Array]
    dims: Mapping[str, tuple[Any, ...]]
    op: str = "softmax"
    masks: tuple[str, ...] = ()

    def extents(self, length: int) -> dict[str, tuple[int, ...]]:
        """Return the extents of the leaves for rows of a length."""
        return {k: tuple(length if d == "n" else d for d in v) for k, v in self.dims.items()}


def leaves_of(case: RowCase, length: int, dtype: DType) -> Named:
    """Return leaves on the device without values."""
    made = Named()
    for name, dims in case.extents(length).items():
        held = "bool" if name in case.masks else dtype
        made[name] = sc.input(dims, held, name=name, device="cuda")
    return made


def softmax(x: Array) -> Array:
    with np.errstate(all="ignore"):
        powers = np.exp(x - np.max(x, -1, keepdims=True))
        return np.asarray(powers / np.sum(powers, -1, keepdims=True))


def log_softmax(x: Array) -> Array:
    with np.errstate(all="ignore"):
        away = x - np.max(x, -1, keepdims=True)
        return np.asarray(away - np.log(np.sum(np.exp(away), -1, keepdims=True)))


def standardised(x: Array, count: int = 1) -> Array:
    axes = tuple(range(x.ndim - count, x.ndim))
    mean = np.mean(x, axes, keepdims=True)
    return np.asarray((x - mean) / np.sqrt(np.var(x, axes, keepdims=True) + EPS))


CASES = (
    RowCase(
        "scores",
        lambda t: sc.softmax(t.x * 0.125 + t.mask, -1),
        lambda t: softmax(t.x * 0.125 + t.mask),
        {"x": (3, 4, 7, "n"), "mask": (3, 1, 1, "n")},
    ),
    RowCase(
        "masked",
        lambda t: sc.softmax(sc.where(t.seen, t.x, -1e4), -1) * t.kept,
        lambda t: softmax(np.where(t.seen, t.x, -1e4)) * t.kept,
        {"x": (3, 9, "n"), "seen": (9, "n"), "kept": (3, 9, "n")},
        masks=("seen",),
    ),
    RowCase(
        "logarithm",
        lambda t: sc.log_softmax(t.x + t.y, -1) * t.weight,
        lambda t: log_softmax(t.x + t.y) * t.weight,
        {"x": (21, "n"), "y": (21, "n"), "weight": (21, 1)},
        op="log_softmax",
    ),
    RowCase(
        "residual",
        lambda t: t.x + sc.softmax(t.x, -1),
        lambda t: t.x + softmax(t.x),
        {"x": (37, "n")},
    ),
    RowCase(
        "narrowed",
        lambda t: sc.cast(sc.softmax(sc.abs(t.x), -1) * 2.0, "bf16"),
        lambda t: softmax(np.abs(t.x)) * 2.0,
        {"x": (5, 3, "n")},
    ),
    RowCase(
        "block",
        lambda t: sc.relu(sc.layer_norm(t.x + t.r, t.weight, t.bias)) * t.gate,
        lambda t: np.maximum(standardised(t.x + t.r) * t.weight + t.bias, 0) * t.gate,
        {"x": (4, 9, "n"), "r": (4, 9, "n"), "weight": ("n",), "bias": ("n",), "gate": (4, 1, 1)},
        op="layer_norm",
    ),
    RowCase(
        "two_axes",
        lambda t: sc.layer_norm(-t.x, None, t.bias, 2) + t.r,
        lambda t: standardised(-t.x, 2) + t.bias + t.r,
        {"x": (6, 2, "n"), "bias": (2, "n"), "r": (6, 2, "n")},
        op="layer_norm",
    ),
    RowCase(
        "turned",
        lambda t: sc.softmax(t.x.T + t.y, -1),
        lambda t: softmax(t.x.T + t.y),
        {"x": ("n", 11), "y": (11, "n")},
    ),
    RowCase(
        "wide",
        lambda t: sc.softmax(reduce(lambda a, k: a + t[f"x{k}"], range(1, 7), t.x0), -1),
        lambda t: softmax(sum(t[f"x{k}"] for k in range(7))),
        {f"x{k}": (3, 5, "n") for k in range(7)},
    ),
    RowCase(
        "middle",
        lambda t: sc.softmax(t.x * 0.5, 1) + t.y,
        lambda t: np.moveaxis(softmax(np.moveaxis(t.x * 0.5, 1, -1)), -1, 1) + t.y,
        {"x": (3, "n", 5), "y": (3, "n", 5)},
    ),
)
