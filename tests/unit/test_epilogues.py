"""Chains behind contractions: what stays there, what is taken back, what products are alive."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest
from computed_lines import check_lines
from op_cases import fast_profile

import softcuda as sc
from softcuda.backends import cuda_contract, cuda_tiled
from softcuda.backends.cuda.contraction_limits import MAX_EXTRAS
from softcuda.compiler.epilogues import held_behind
from softcuda.compiler.program import Program
from softcuda.dtype import DType, bf16, f16, f32, f64
from softcuda.graph.lines import Line
from softcuda.graph.op import OPS, Kind
from softcuda.graph.params import Cast


def leaf(*shape: int, dtype: DType = f32) -> sc.Tensor:
    return sc.input(shape, dtype, device="cuda")


def program_of(*outputs: sc.Tensor, **chosen: str) -> Program:
    made = fast_profile(matmul="cuda_contract", **chosen)
    return sc.compile(list(outputs), made, target="sm_90a").program


def check(program: Program) -> None:
    """Every line is computed once, after what it reads; no unit holds more than its kernel."""
    check_lines(program)
    lines = program.graph.lines
    for step in program.steps:
        if lines[step.lines[0]].op.kind is Kind.CONTRACTION:
            assert len(step.inputs) <= 2 + MAX_EXTRAS


def most_alive(program: Program) -> int:
    """Return how many results are there at once, those that steps read and write."""
    last = {x.value: k for k, step in enumerate(program.steps) for x in step.inputs}
    made = {step.outputs[0].value: k for k, step in enumerate(program.steps)}
    return max(
        sum(made[value] <= k <= last.get(value, made[value]) for value in made)
        for k in range(len(program.steps))
    )


@pytest.mark.parametrize(
    ("dtype", "count"), [(bf16, 24), (f16, 24), (f64, 40), (f32, 62), (f32, 70)], ids=str
)
def test_sums_of_products_are_accumulated(dtype: DType, count: int) -> None:
    made = [leaf(256, 256, dtype=dtype) @ leaf(256, 256, dtype=dtype) for _ in range(count)]
    program = program_of(reduce(lambda p, q: p + q, made))
    check(program)
    assert len(program.steps) == count
    assert all(len(step.inputs) <= 4 for step in program.steps)
    assert most_alive(program) <= 4


def test_two_products_share_a_unit() -> None:
    """A recurrent cell is as it was: the second product takes the first one and the bias."""
    x, h, w, u, b = leaf(8, 16), leaf(8, 32), leaf(16, 32), leaf(32, 32), leaf(32)
    program = program_of(sc.tanh(x @ w + h @ u + b))
    check(program)
    assert [len(step.lines) for step in program.steps] == [1, 4]


@pytest.mark.parametrize("dtype", [bf16, f32, f64], ids=str)
def test_the_gradient_of_a_recurrent_net(dtype: DType) -> None:
    w = sc.variable(np.zeros((64, 64), np.float32), "w")
    used = sc.cast(w, dtype) if dtype is not f32 else w
    x = leaf(40, 16, 64, dtype=dtype)
    h = sc.tanh(x[0])
    for step in range(1, 40):
        h = sc.tanh(h @ used + x[step])
    loss = sc.sum(sc.cast(h, f32) ** 2)
    check(program_of(loss, *sc.grad(loss, [w])))


@pytest.mark.parametrize("lies", ["permuted", "broadcast"])
@pytest.mark.parametrize("count", [1, 5, 12, 16, 24, 40, 70])
def test_operands_of_many_axes(count: int, lies: str) -> None:
    rng = random.Random(count)
    y = sc.einsum("abcdef,feghai->adgbhci", leaf(3, 4, 5, 6, 7, 8), leaf(8, 7, 9, 10, 3, 2))
    for _ in range(count):
        axes = list(range(y.ndim))
        rng.shuffle(axes)
        if lies == "permuted":
            other = leaf(*[y.shape[axis] for axis in axes])
            x = sc.permute_dims(other, tuple(axes.index(axis) for axis in range(y.ndim)))
        else:
            x = leaf(*[extent if rng.random() < 0.5 else 1 for extent in y.shape])
        y = y * x + 1
    check(program_of(y))


def test_long_chains_are_taken_back() -> None:
    """Their code is bounded: a kernel of a product is compiled in seconds."""
    x, y = leaf(40, 36, 24), sc.einsum("adb,cd->cba", leaf(24, 32, 40), leaf(36, 32))
    y = sc.permute_dims(y, (1, 0, 2))
    for number in range(80):
        y = (sc.tanh(y) * x, sc.atan2(y, x), sc.pow(sc.abs(y), x))[number % 3]
    program = program_of(y)
    check(program)
    assert len(program.steps) > 1


# ---- the cut ------------------------------------------------------------------------------------


class Narrow:
    """A backend whose kernels hold chains of a few ops."""

    def __init__(self, most: int) -> None:
        self.most = most

    def carries(self, chain: Any, reads: Any, registers: int) -> bool:
        return len(chain) <= self.most


def chain_of(*links: Any) -> list[Line]:
    """Return a product of two leaves, and links: (op, sources) or a dtype, a cast of the last."""
    lines = [Line(OPS["input"], (), (8, 8), f32, ()) for _ in range(3)]
    lines.append(Line(OPS["matmul"], (0, 1), (8, 8), f32, ()))
    for link in links:
        if isinstance(link, DType):
            lines.append(Line(OPS["cast"], (len(lines) - 1,), (8, 8), link, Cast(link)))
        else:
            op, sources = link
            lines.append(Line(OPS[op], sources, (8, 8), lines[sources[0]].dtype, ()))
    return lines


@pytest.mark.parametrize(
    ("links", "most", "held"),
    [
        ([("exp", (3,)), ("exp", (4,)), ("exp", (5,))], 3, [4, 5, 6]),
        ([("exp", (3,)), ("exp", (4,)), ("exp", (5,))], 2, [4, 5]),
        ([("exp", (3,)), f16, f32, ("exp", (6,)), ("exp", (7,))], 4, [4, 5]),
        ([("exp", (3,)), ("exp", (4,)), ("mul", (5, 3))], 2, []),
        ([("exp", (2,)), ("mul", (4, 3)), ("mul", (4, 5))], 2, []),
        ([("exp", (2,)), ("mul", (4, 3)), ("exp", (5,))], 2, [4, 5]),
    ],
)
def test_where_chains_are_cut(links: list[Any], most: int, held: list[int]) -> None:
    lines = chain_of(*links)
    chain = range(4, len(lines))
    assert list(held_behind(lines, 3, chain, Narrow(most))) == held
    assert list(held_behind(lines, 3, chain, object())) == list(chain)


@pytest.mark.parametrize("carries", [cuda_contract.carries, cuda_tiled.carries])
def test_what_kernels_carry(carries: Callable[..., Any]) -> None:
    x = Line(OPS["input"], (), (8,), f32, ())
    add, tanh = Line(OPS["add"], (0, 1), (8,), f32, ()), Line(OPS["tanh"], (0,), (8,), f32, ())
    assert carries([add], [x] * MAX_EXTRAS, 16)
    assert "9 operands" in carries([add], [x] * (MAX_EXTRAS + 1), 16).reason
    assert "17 registers" in carries([add], [x], 17).reason
    assert carries([tanh] * 10, [], 2)
    assert "264 instructions" in carries([tanh] * 11, [], 2).reason
