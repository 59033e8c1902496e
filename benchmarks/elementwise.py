"""The suite elementwise: chains over 64M elements against the copy rate of the device."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import softcuda as sc
from benchmarks.accuracy import tolerance
from benchmarks.cases import Bench, Case
from benchmarks.gpu_work import DeviceCase, run_device_case
from benchmarks.host_work import by_rows, random_array
from benchmarks.results import Row

__all__ = ["CASES", "COUNT"]

Array = np.ndarray[Any, Any]

GROUP = "Elementwise, f32, 64M elements"
LAYOUTS = "Elementwise, f32, operands that lie otherwise"
COUNT = 1 << 26
SIDE = 8192
LEAST = 0.95  # of the copy rate


def _chain(relu: Callable[[Any], Any], tanh: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda a, b, c, d: relu(a * b + c) * tanh(d) - a * 0.5


def _relu64(x: Array) -> Array:
    return np.maximum(x, 0.0)


def _measure(
    name: str,
    operands: int,
    define: Callable[..., Any],
    right: Callable[..., Array],
    torch: Callable[..., Callable[[], Any]],
    cupy: Callable[..., Callable[[], Any]],
    bench: Bench,
) -> Row:
    arrays = [random_array(seed, COUNT) for seed in range(operands)]
    case = DeviceCase(
        arrays,
        define,
        by_rows(right, *arrays),
        tolerance("f32", steps=6),
        (operands + 1) * arrays[0].nbytes,
        torch=torch,
        cupy=cupy,
        least=LEAST,
        label=f"{name}, 64M f32",
    )
    return run_device_case(bench, GROUP, name, case)


def _case(name: str, *rest: Any) -> Case:
    return Case(GROUP, name, partial(_measure, name, *rest))


def _turned(bench: Bench) -> Row:
    a, b = random_array(1, SIDE, SIDE), random_array(2, SIDE, SIDE)
    case = DeviceCase(
        [a, b],
        lambda a, b: a + sc.permute_dims(b, (1, 0)),
        by_rows(np.add, a, b.T),
        tolerance("f32", steps=1),
        3 * a.nbytes,
        torch=lambda torch, a, b: lambda: a + b.T,
        cupy=lambda cupy, a, b: lambda: a + b.T,
    )
    return run_device_case(bench, LAYOUTS, "a + b.T, 8192x8192", case)


def _bias(side: int, bench: Bench) -> Row:
    x, bias = random_array(1, side, side), random_array(2, side)
    case = DeviceCase(
        [x, bias],
        lambda x, bias: sc.relu(x + bias),
        by_rows(lambda rows: _relu64(rows + bias), x),
        tolerance("f32", steps=2),
        2 * x.nbytes,
        torch=lambda torch, x, bias: lambda: torch.relu(x + bias),
    )
    return run_device_case(bench, LAYOUTS, f"relu(x + bias), {side}x{side}", case)


CASES = (
    _case(
        "add",
        2,
        lambda a, b: a + b,
        lambda a, b: a + b,
        lambda torch, a, b: lambda: torch.add(a, b),
        lambda cupy, a, b: lambda: cupy.add(a, b),
    ),
    _case(
        "relu",
        1,
        sc.relu,
        _relu64,
        lambda torch, a: lambda: torch.relu(a),
        lambda cupy, a: lambda: cupy.maximum(a, np.float32(0)),
    ),
    _case(
        "relu(a*b + c) * tanh(d) - a*0.5",
        4,
        _chain(sc.relu, sc.tanh),
        _chain(_relu64, np.tanh),
        lambda torch, *x: lambda: _chain(torch.relu, torch.tanh)(*x),
        lambda cupy, *x: lambda: _chain(lambda v: cupy.maximum(v, np.float32(0)), cupy.tanh)(*x),
    ),
    Case(LAYOUTS, "a + b.T, 8192x8192", _turned),
    *(
        Case(LAYOUTS, f"relu(x + bias), {side}x{side}", partial(_bias, side))
        for side in (SIDE, SIDE - 1)
    ),
)
