"""Random tensors and generators: reproducible, advancing, within their bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import softcuda as sc
from softcuda import errors
from softcuda.graph.params import Random


def test_a_random_node_reads_its_generator() -> None:
    generator = sc.Generator(7)
    x = sc.uniform((2, 3), -1, 1, sc.f64, generator)
    assert x.inputs == (generator.variable,)
    assert x.params == Random((2, 3), sc.f64, "-1.0", "1.0", 0)
    assert generator.variable.dtype is sc.i64
    assert sc.normal((2,), 1, 2).params == Random((2,), sc.f32, "1.0", "2.0", 0)
    assert sc.uniform().shape == ()


@pytest.mark.parametrize("draw", [sc.uniform, sc.normal])
@pytest.mark.parametrize("dtype", [sc.f16, sc.bf16, sc.f32, sc.f64], ids=str)
def test_the_same_seed_gives_the_same_bits(draw: Any, dtype: Any) -> None:
    first, second = sc.Generator(11), sc.Generator(11)
    a = draw((5, 3), dtype=dtype, generator=first).numpy()
    b = draw((5, 3), dtype=dtype, generator=second).numpy()
    np.testing.assert_array_equal(a, b)
    assert len(np.unique(a.astype(float))) > 5


def test_evaluation_advances_the_generator() -> None:
    generator = sc.Generator(1)
    assert generator.state == (1, 0)
    a = sc.uniform((6,), generator=generator)
    b = sc.uniform((6,), generator=generator)
    a.evaluate()
    moved = generator.state.counter
    assert moved > 0
    assert a.tolist() == a.tolist()
    assert a.tolist() != b.tolist()
    assert generator.state.counter > moved
    generator.reseed(1)
    assert generator.state == (1, 0)
    assert sc.uniform((6,), generator=generator).tolist() == a.tolist()
    assert "seed=1" in repr(generator)


def test_two_nodes_of_one_run_differ() -> None:
    generator = sc.Generator(2)
    a, b = sc.uniform((4,), generator=generator), sc.uniform((4,), generator=generator)
    sc.evaluate(a, b)
    assert a.tolist() != b.tolist()


def test_the_default_generator() -> None:
    sc.seed(5)
    first = sc.uniform((3,)).tolist()
    sc.seed(5)
    assert sc.uniform((3,)).tolist() == first
    assert sc.default_generator() is sc.default_generator()
    assert sc.default_generator().state.seed == 5


def test_bounds_and_moments() -> None:
    u = sc.uniform((20_000,), 2, 3, generator=sc.Generator(3)).numpy()
    assert (u.min() >= 2, u.max() < 3) == (True, True)
    assert abs(u.mean() - 2.5) < 5 / math.sqrt(12 * u.size)
    z = sc.normal((20_000,), 1, 2, sc.f64, sc.Generator(4)).numpy()
    assert abs(z.mean() - 1) < 5 * 2 / math.sqrt(z.size)
    assert abs(z.std() - 2) < 5 * 2 / math.sqrt(2 * z.size)


def test_seeds_are_checked() -> None:
    for wrong in (-1, 2**63):
        with pytest.raises(errors.ArgumentError, match=str(wrong)):
            sc.Generator(wrong)
    with pytest.raises(errors.ArgumentTypeError, match=r"1\.5"):
        sc.Generator(1.5)  # type: ignore[arg-type]
    assert sc.Generator().state.seed != sc.Generator().state.seed


def test_wrong_arguments() -> None:
    with pytest.raises(errors.ArgumentError, match="below low"):
        sc.uniform((2,), 1, 0)
    with pytest.raises(errors.ArgumentError, match="std is -1"):
        sc.normal((2,), 0, -1)
    with pytest.raises(errors.ArgumentError, match="nan"):
        sc.normal((2,), math.nan)
    with pytest.raises(errors.DTypeError, match="i32"):
        sc.uniform((2,), dtype=sc.i32)
    with pytest.raises(errors.ShapeError, match="-1"):
        sc.uniform((-1,))
    with pytest.raises(errors.ArgumentTypeError, match="Generator"):
        sc.uniform((2,), generator=3)  # type: ignore[arg-type]


def test_dropout_drops_a_share_and_scales_the_rest() -> None:
    x = sc.tensor(np.arange(1.0, 10_001))
    y = sc.dropout(x, 0.25, sc.Generator(3)).numpy()
    kept = y != 0
    assert abs(kept.mean() - 0.75) < 5 * math.sqrt(0.75 * 0.25 / 10_000)
    np.testing.assert_array_equal(y[kept], (x.numpy() * (1 / 0.75))[kept])
    again = sc.dropout(x, 0.25, sc.Generator(3)).numpy()
    np.testing.assert_array_equal(y, again)
    assert sc.dropout(x, 0).tolist() == x.tolist()
    assert not sc.dropout(x, 1).any()


@pytest.mark.parametrize("probability", [0.0, 0.5, 1.0])
def test_the_gradient_of_dropout_has_the_mask_of_its_value(probability: float) -> None:
    x = sc.tensor(np.ones(100), requires_grad=True)
    y = sc.dropout(x, probability)
    y.evaluate()
    y.backward()
    np.testing.assert_array_equal(x.grad.numpy(), y.numpy())


def test_dropout_draws_anew_in_every_run() -> None:
    executable = sc.compile(sc.dropout(sc.input((64,), name="x"), 0.5, sc.Generator(0)))
    ones = np.ones(64, np.float32)
    assert executable.run(x=ones).tolist() != executable.run(x=ones).tolist()


def test_wrong_dropouts() -> None:
    with pytest.raises(errors.ArgumentError, match=r"probability is 1\.5"):
        sc.dropout([1.0], 1.5)
    with pytest.raises(errors.DTypeError, match="dropout: dtype i64"):
        sc.dropout([1])
