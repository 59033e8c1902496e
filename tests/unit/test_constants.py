"""Ops on numbers alone are computed at compile time: the same bits, and one launch less."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import softcuda as sc
from softcuda.dtype import DType, as_dtype

ON_CUDA = str(Path(__file__).parents[2] / "benchmarks" / "cuda.soft")
NUMBERS = {
    "f16": (1.0, 3.0, 65504.0, 6e-8),
    "bf16": (1.0, 3.0, 3.3e38, 1e-40),
    "f32": (1.0, 640.0, 3.4e38, 1e-45),
    "f64": (1.0, 640.0, 1.7e308, 5e-324),
    "i32": (7, -3, 2**31 - 1, 0),
    "i64": (7, -3, 2**63 - 1, 0),
}
EXPRESSIONS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a, b: sc.negative(a),
    "abs": lambda a, b: sc.abs(b),
    "sqrt": lambda a, b: sc.sqrt(a),
    "cast": lambda a, b: sc.cast(a, "f16"),
    "several": lambda a, b: (a * b - a) / (b + b) + 0.1,
}


def bits_of(value: sc.Tensor) -> bytes:
    return np.asarray(value.numpy()).tobytes()


def ops_of(executable: Any) -> list[str]:
    program = executable.program
    return [program.graph.lines[k].op.name for step in program.steps for k in step.lines]


def compiled(*outputs: sc.Tensor) -> Any:
    return sc.compile(list(outputs), config="default")


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_folded_numbers_have_the_bits_of_a_run(expression: str, name: str) -> None:
    make, dtype = EXPRESSIONS[expression], as_dtype(name)
    for first in NUMBERS[name]:
        for second in NUMBERS[name]:
            fed = make(*[sc.tensor(np.array(k, dtype.numpy)) for k in (first, second)])
            known = make(sc.full((), first, dtype), sc.full((), second, dtype))
            shown = compiled(sc.where(sc.input((2,), sc.bool_, "c"), known, known))
            (wanted,) = compiled(sc.copy(fed)).run()
            (found,) = shown.run(c=np.array([True, False]))
            assert bits_of(found) == 2 * bits_of(wanted)
            is_number = not np.isnan(np.float64(wanted.numpy()))
            assert (ops_of(shown) == ["where"]) is is_number


def test_infinities_are_known_and_a_nan_stays_with_its_backend() -> None:
    x, zero = sc.input((3,), name="x"), sc.full((), 0.0)
    ends = compiled(x * (1 / zero), x * (1 / sc.negative(zero)))
    assert ops_of(ends) == ["mul", "mul"]
    assert [float(v.numpy()[0]) for v in ends.run(x=np.ones(3, np.float32))] == [np.inf, -np.inf]
    assert sorted(ops_of(compiled(x * (zero / zero)))) == ["div", "mul"]
    assert "sqrt" in ops_of(compiled(x + sc.sqrt(zero - 1)))


def test_what_backends_round_in_their_own_way_is_not_folded() -> None:
    x, one = sc.input((3,), name="x"), sc.full((), 1.0)
    for op in (sc.exp, sc.log, sc.sin, sc.tanh):
        assert len(ops_of(compiled(x * op(one)))) == 2
    complex_one = sc.full((), 1 + 1j)
    assert "mul" in ops_of(compiled(sc.cast(x, "complex64") + complex_one * complex_one))


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_the_seed_of_a_mean_is_a_number(dtype: str) -> None:
    x = sc.variable(np.linspace(-2, 2, 21).reshape(3, 7).astype(as_dtype(dtype).numpy))
    seed = sc.input((), as_dtype(dtype), "seed")
    (gradient,) = sc.grad(sc.mean(x * x), [x])
    (seeded,) = sc.grad(sc.mean(x * x), [x], seeds=seed)
    made = compiled(gradient)
    assert not {"full", "div"} & set(ops_of(made))
    (wanted,) = compiled(seeded).run(seed=np.array(1, as_dtype(dtype).numpy))
    assert bits_of(made.run()[0]) == bits_of(wanted)


def test_the_seed_of_a_mean_launches_nothing_on_a_device() -> None:
    x = sc.input((8, 10), name="x", device="cuda")
    (gradient,) = sc.grad(sc.mean(x * x), [x])
    program = sc.compile([gradient], ON_CUDA, target="sm_90a").program
    assert sum(len(step.launches) for step in program.steps) == 1


def test_filled_operands_of_elementwise_ops_are_broadcast_numbers() -> None:
    x = sc.input((4, 5), name="x")
    made = compiled(x * sc.full((4, 5), 2.0), sc.maximum(x, sc.zeros((5,))), x * sc.ones((4, 5)))
    assert ops_of(made) == ["mul", "maximum", "copy"]
    value = np.arange(20, dtype=np.float32).reshape(4, 5) - 9
    found = [tensor.numpy() for tensor in made.run(x=value)]
    for array, wanted in zip(found, (2 * value, np.maximum(value, 0), value), strict=True):
        np.testing.assert_array_equal(array, wanted)


def test_what_is_asked_for_or_read_as_a_buffer_is_filled() -> None:
    ones, x = sc.ones((3, 3)), sc.input((3, 3), name="x")
    assert ops_of(compiled(ones)) == ["full"]
    assert ops_of(compiled(ones, ones + x)) == ["full", "add"]
    assert sorted(ops_of(compiled(ones @ x))) == ["full", "matmul"]
    value = sc.full((), 2.0, sc.f64) / 3
    made = compiled(value, value * x)
    assert sorted(ops_of(made)) == ["div", "mul"]
    assert made.run(x=np.zeros((3, 3), np.float32))[0].item() == 2 / 3


def test_views_of_numbers_are_numbers() -> None:
    x = sc.input((2, 6), name="x")
    half = sc.full((1, 3), 1.0) / 2
    wide = sc.broadcast_to(sc.reshape(sc.permute_dims(half, (1, 0)), (3, 1)), (3, 4))
    made = compiled(x + sc.reshape(wide, (2, 6)))
    assert ops_of(made) == ["add"]
    np.testing.assert_array_equal(made.run(x=np.zeros((2, 6), np.float32))[0].numpy(), 0.5)


def test_the_table_and_explain_show_the_number() -> None:
    x = sc.input((4, 5), name="x")
    eighth = sc.full((), 1.0) / 8
    wide = sc.broadcast_to(eighth, (4, 5))
    made = compiled(x + wide, x - 2.0)
    assert "4x5, 4x5 = 0.125 -> 4x5" in str(made)
    assert "4x5, () = 2 -> 4x5" in str(made)
    assert made.explain(eighth).startswith("constant -> () = 0.125 f32")
    assert made.explain(wide).startswith("broadcast_to -> 4x5 = 0.125 f32")
    assert made.backend_id(eighth) == "leaf"
    assert made.backend_id(eighth.a) == "folded"


def test_a_filled_value_is_rounded_once_to_its_dtype() -> None:
    value = 1 + 2.0**-9 + 2.0**-40  # above the middle of two bf16, where f32 lies on it
    x = sc.input((1,), sc.bf16, "x")
    known, dtype = compiled(x + sc.full((1,), value, sc.bf16)), sc.bf16.numpy
    (wanted,) = compiled(sc.full((1,), value, sc.bf16)).run()
    assert bits_of(known.run(x=np.zeros(1, dtype))[0]) == bits_of(wanted)


def test_numbers_of_every_kind_read_back() -> None:
    kinds: dict[DType, Any] = {sc.bool_: True, sc.i32: -5, sc.i64: 2**62, sc.f32: 0.1}
    for dtype, value in kinds.items():
        x = sc.input((2,), dtype, "x")
        made = compiled(sc.where(sc.input((2,), sc.bool_, "c"), sc.full((2,), value, dtype), x))
        fed = {"x": np.zeros(2, dtype.numpy), "c": np.array([True, False])}
        (found,) = made.run(**fed)
        assert ops_of(made) == ["where"]
        np.testing.assert_array_equal(found.numpy(), np.array([value, 0], dtype.numpy))
