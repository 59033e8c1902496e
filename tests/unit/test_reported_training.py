"""What a trial of training found: loss scales, tied weights, names, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import softcuda as sc
from softcuda import nn, optim
from softcuda.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError

EXAMPLES = Path(sc.__file__).parents[1] / "examples"

# ---- loss scales ---------------------------------------------------------------------------------


def _scaled_step(scale: optim.LossScale) -> Callable[[float], tuple[float, float]]:
    """Return a function that makes a step with a gradient, and returns the factor and the rest."""
    w, x = sc.variable(np.ones(1, np.float32), "w"), sc.input((1,), name="x")
    loss = sc.sum(w * x)
    step = sc.compile(loss, updates=optim.SGD([w], 0.5).updates(loss, scale=scale))

    def run(slope: float) -> tuple[float, float]:
        step.run(x=np.full(1, slope, np.float32))
        return scale.value.item(), w.item()

    return run


def test_a_loss_scale_stops_at_the_last_factor_that_f32_holds() -> None:
    run = _scaled_step(optim.LossScale(2.0**126, interval=1))
    assert run(0.0) == (2.0**127, 1.0)
    assert run(0.0) == (2.0**127, 1.0)
    assert run(8.0) == (2.0**126, 1.0)  # which overflows
    assert run(1.0) == (2.0**127, 0.5)


def test_a_loss_scale_below_one_never_rises_by_a_fault() -> None:
    run = _scaled_step(optim.LossScale(0.5))
    assert run(float("nan"))[0] == 0.5
    run = _scaled_step(optim.LossScale(1.5))
    assert [run(float("inf"))[0] for _ in range(2)] == [1.0, 1.0]


@pytest.mark.parametrize("initial", [0.0, -1.0, float("nan"), float("inf"), 1e39, 1e-60])
def test_a_first_factor_that_f32_does_not_hold(initial: float) -> None:
    with pytest.raises(ArgumentError, match=r"^LossScale: initial is"):
        optim.LossScale(initial)


# ---- tied weights, and modules that have no state ------------------------------------------------


class Tied(nn.Module):
    """An autoencoder whose halves share a layer and a weight."""

    def __init__(self) -> None:
        self.first = nn.Linear(3, 3, generator=sc.Generator(0))
        self.again = self.first
        self.last = nn.Linear(3, 3, bias=False, generator=sc.Generator(1))
        self.last.weight = self.first.weight

    def forward(self, x: sc.Tensor, *, is_training: bool = False) -> sc.Tensor:
        return self.last(self.again(self.first(x)))


def test_tied_weights_are_trained_once(tmp_path: Path) -> None:
    model = Tied()
    assert list(model.parameters()) == ["first.weight", "first.bias"]
    assert list(model.state()) == [
        *("first.weight", "first.bias", "again.weight", "again.bias", "last.weight"),
    ]
    x = sc.tensor(np.eye(3, dtype=np.float32))
    loss = sc.mse_loss(model(x), x)
    step = sc.compile(loss, updates=optim.SGD(model.parameters(), 0.1).updates(loss))
    losses = [step.run().item() for _ in range(20)]
    assert losses[-1] < losses[0]
    model.save(tmp_path / "t")
    other = Tied()
    other.load(tmp_path / "t")
    assert np.array_equal(other.last.weight.numpy(), model.first.weight.numpy())
    found = nn.load_tensors(tmp_path / "t")
    found["last.weight"] = found["last.weight"] + 1
    nn.save_tensors(tmp_path / "t", found)
    with pytest.raises(ArgumentError, match=r"first\.weight and last\.weight have different"):
        other.load(tmp_path / "t")
    with pytest.raises(ArgumentError, match=r"first\.weight and again\.weight are one variable"):
        optim.SGD(model.state(), 0.1)


def test_modules_that_cannot_be_told() -> None:
    class Part(nn.Module):
        pass

    part, w = Part(), sc.variable([1.0])
    part.inside = {"a.b": w, "a": {"b": sc.variable([2.0])}}  # type: ignore[attr-defined]
    with pytest.raises(ArgumentError, match=r"two variables have the name 'inside\.a\.b'"):
        part.state()
    part.inside["a"]["b"] = w  # type: ignore[attr-defined]
    assert list(part.state()) == ["inside.a.b"]
    part.parents = [part]  # type: ignore[attr-defined]
    with pytest.raises(ArgumentError, match=r"parents\.0 is the Part that it lies in"):
        part.parameters()


# ---- names ---------------------------------------------------------------------------------------


def test_the_leaves_of_a_loaded_step_are_found_by_name(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2, generator=sc.Generator(0)), nn.LayerNorm(2))
    model.name_variables("net.")
    x = sc.input((4, 2), name="x")
    loss = sc.sum(model(x) ** 2)
    optimizer = optim.Adam(model.parameters(), 0.1)
    scale = optim.LossScale(4.0, name="scale")
    step = sc.compile(loss, updates=optimizer.updates(loss, scale=scale))
    feed = np.arange(8, dtype=np.float32).reshape(4, 2)
    step.run(x=feed)
    step.save(tmp_path / "step")
    leaves = {leaf.name: leaf for leaf in sc.load(tmp_path / "step").leaves}
    known = {f"net.{name}": variable for name, variable in model.state().items()}
    known |= {
        f"net.layers.0.weight.{name}" if name == "count" else f"net.{name}": variable
        for name, variable in optimizer.state.items()
    }
    known |= {f"scale.{name}": variable for name, variable in scale.state.items()}
    assert set(leaves) == {"x", *known}
    for name, variable in known.items():
        assert np.array_equal(leaves[name].numpy(), variable.numpy())
    with pytest.raises(ArgumentTypeError, match="the prefix is 3"):
        model.name_variables(3)  # type: ignore[arg-type]


# ---- what is refused, and examples ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda w: optim.Adam([w], betas=0.9), ArgumentTypeError, "^Adam: betas is 0.9 of type"),
        (lambda w: optim.AdamW([w], betas="ab"), ArgumentTypeError, "^AdamW: betas is 'ab'"),
        (lambda w: optim.Adam([w], eps=float("inf")), ArgumentError, "eps inf"),
        (lambda w: optim.SGD([w], float("nan")), ArgumentError, "the rate is nan"),
        (lambda w: optim.SGD([w], float("inf")), ArgumentError, "the rate is inf"),
        (lambda w: optim.SGD([w], -1), ArgumentError, "the rate is -1"),
        (lambda w: optim.SGD([w], 1, weight_decay=float("nan")), ArgumentError, "weight_decay nan"),
        (lambda w: optim.SGD([w], sc.tensor(1)), DTypeError, "the rate is a tensor of i64"),
        (lambda w: optim.SGD([w], 1).updates(3.0), ArgumentTypeError, "the loss is of type float"),
        (
            lambda w: optim.SGD([w], 1).updates(w, scale=3.0),
            ArgumentTypeError,
            "scale of type float",
        ),
        (lambda w: optim.SGD([w], 1).step([w]), ArgumentTypeError, "gradients are of type list"),
        (lambda w: optim.SGD([w], 1).step({"w": 3.0}), ArgumentTypeError, "of w is of float"),
        (lambda w: optim.SGD([w], 1).step({"w": sc.zeros((2,))}), ShapeError, "w has shape .2."),
        (lambda w: optim.cosine(float("nan"), 4), ArgumentError, "^cosine: the rates, .* are nan"),
        (lambda w: optim.linear(-1.0, 4), ArgumentError, "are -1.0 and 0.0"),
        (lambda w: optim.staircase(1.0, -1.0, 2), ArgumentError, "are 1.0 and -1.0"),
        (lambda w: optim.cosine(1.0, 4)("a"), ArgumentTypeError, "^cosine: step is 'a'"),
        (lambda w: optim.staircase(1.0, 0.5, 2)(-1), ArgumentError, "^staircase: the step is -1"),
        (lambda w: optim.SGD([w, w], 1), ArgumentError, "w and w are one variable"),
        (lambda w: optim.SGD([w, sc.variable(1.0, "w")], 1), ArgumentError, "have the name w"),
    ],
)
def test_what_optimisers_refuse(
    make: Callable[[sc.Tensor], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make(sc.variable([1.0], "w"))


def test_an_example_names_the_extra_that_it_lacks(tmp_path: Path) -> None:
    script = EXAMPLES / "digits.py"
    code = (
        "import runpy, sys; sys.modules['sklearn'] = None; "
        f"runpy.run_path({str(script)!r}, run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(EXAMPLES.parent), "SOFTCUDA_CONFIG": "default"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("digits.py: ")
    assert "pip install '.[examples]'" in done.stderr
    assert "Traceback" not in done.stderr
