"""Programs of many branches on the device: the same bits in every run, and NumPy's values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_cases import fast_profile
from tolerance import assert_close

import softcuda as sc
from softcuda import nn, optim
from softcuda.dtype import f32
from softcuda.executor.on_demand import session
from softcuda.tools.conformance_bench import Bench

Array = np.ndarray[Any, Any]

RUNS = 60


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("extent", [8, 96, 700])
@pytest.mark.parametrize("reuse", [False, True], ids=["parted", "reused"])
def test_wide_programs(monkeypatch: pytest.MonkeyPatch, extent: int, reuse: bool) -> None:
    """Branches of products, chains and sums that meet by pairs, with memory used again or not."""
    if reuse:
        monkeypatch.setattr("softcuda.compiler.allocate._PARTED_BYTES", 0)
    a, b = normal(0, extent, extent) / extent**0.5, normal(1, extent, extent) / extent**0.5
    x = sc.input((extent, extent), name="x", device="cuda")
    w = sc.tensor(b).to("cuda").evaluate()
    branches: list[Any] = []
    for number in range(12):
        product = (x * (number + 1.0)) @ w
        branches.append(sc.relu(product - number) + sc.sum(x, axis=0) * 0.25)
    outputs = [sc.max(branch) for branch in branches]
    while len(branches) > 1:
        left, right = branches.pop(0), branches.pop(0)
        branches.append((left + right) * 0.5)
    step = sc.compile([*outputs, branches[0]], fast_profile())
    fed = [sc.tensor(a * scale).to("cuda").evaluate() for scale in (1.0, -0.5)]
    first = [[each.numpy().tobytes() for each in step.run(x=each)] for each in fed]
    for run in range(RUNS):
        found = step.run(x=fed[run % 2])
        assert [each.numpy().tobytes() for each in found] == first[run % 2]
    wide, scale = a.astype(np.float64), np.abs(a.astype(np.float64)) @ np.abs(b)
    for number, most in enumerate(step.run(x=fed[0])[:-1]):
        right = np.maximum((wide * (number + 1.0)) @ b - number, 0) + wide.sum(axis=0) * 0.25
        bound = (number + 1.0) * scale.max() + number + np.abs(wide).sum(axis=0).max()
        assert_close(most.numpy(), right.max(), f32, "matmul", k_extent=2 * extent, scale=bound)


def test_graphs_launched_as_soon_as_they_are_made() -> None:
    """A launch right behind the making of a graph has its arguments.

    One graph runs nine branches side by side and takes 34 kilobytes of arguments; small graphs
    between its launches are let go of as they run.
    """
    profile = Bench("cuda_contract", "cuda").profile
    rng = np.random.default_rng(0)
    text = "ps,tu,stq,urp->qr"
    arrays = [rng.normal(size=shape) for shape in ((3, 3), (3, 3), (3, 3, 3), (3, 3, 3))]
    right = np.einsum(text, *arrays, optimize=True)
    for _ in range(300):
        there = [sc.tensor(array).to("cuda").evaluate() for array in arrays]
        sliced = sc.compile(sc.einsum(text, *there, memory_limit=64), profile)
        np.testing.assert_allclose(sliced.run().numpy(), right, rtol=1e-13, atol=1e-13)
        small = sc.compile(there[0] @ there[1], profile).run()
        np.testing.assert_allclose(small.numpy(), arrays[0] @ arrays[1], rtol=1e-13, atol=1e-13)


# batch, features in, features out: tiles and their edges, few rows, a sum long enough to be cut.
PRODUCTS = ((1, 1, 1), (32, 64, 64), (33, 65, 63), (7, 300, 2), (4096, 64, 48), (5000, 3, 129))


@pytest.mark.sanitize
@pytest.mark.parametrize(("batch", "height", "width"), PRODUCTS)
def test_products_and_sums_over_the_variables_that_they_read(
    batch: int, height: int, width: int
) -> None:
    """The bits are those of the same kernels that write elsewhere."""
    start = {"w": normal(0, height, width), "b": normal(1, width)}
    w, b = (sc.variable(value, name, device="cuda") for name, value in start.items())
    x, g = (sc.tensor(normal(k, batch, n)).to("cuda") for k, n in ((2, height), (3, width)))
    x, g = x.evaluate(), g.evaluate()
    new = {w: w - 0.125 * (x.T @ g), b: b - 0.125 * sc.sum(g, axis=0)}
    step = sc.compile(sc.max(w), fast_profile(), updates=new)
    assert str(step).count(", in place") == 2, str(step)
    apart = sc.compile(list(new.values()), fast_profile())
    for _ in range(RUNS):
        right = [each.numpy().tobytes() for each in apart.run()]
        step.run()
        assert [each.numpy().tobytes() for each in new] == right


@pytest.mark.parametrize("shape", [(32, 64, 4), (100, 257, 3)], ids=str)
def test_training_steps_give_the_same_bits(shape: tuple[int, int, int]) -> None:
    """Without a wait between the runs, and with one behind each."""
    batch, width, depth = shape
    values: list[list[bytes]] = []
    for waits in (False, True, False):
        layers: list[Any] = []
        for number in range(depth):
            layers += [sc.relu] if number else []
            generator = sc.Generator(number)
            layers.append(nn.Linear(width, width, generator=generator, device="cuda"))
        model = nn.Sequential(*layers)
        x, t = (sc.tensor(normal(k, batch, width)).to("cuda").evaluate() for k in range(2))
        loss = sc.mse_loss(model(x), t)
        parameters = model.parameters()
        step = sc.compile(loss, fast_profile(), updates=optim.SGD(parameters, 0.05).updates(loss))
        losses = []
        for _ in range(RUNS):
            losses.append(step.run())
            if waits:
                session().synchronize()
        values.append([each.numpy().tobytes() for each in (*losses, *parameters.values())])
    assert values[1] == values[0] and values[2] == values[0]
