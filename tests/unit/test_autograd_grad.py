"""softcuda.grad: values that were reported wrong elsewhere, policies, structures, errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from reported_cases import pattern
from tolerance import assert_close

import softcuda as sc
from softcuda.dtype import DType, bf16, f16, f32, f64
from softcuda.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError

A = np.array([[1.0, 2.0], [3.0, 4.0]])


def slope(function: Callable[[sc.Tensor], sc.Tensor], x: Any, seed: Any = None) -> Any:
    """Return the gradient of a function at a point, in f64."""
    leaf = sc.tensor(np.asarray(x, np.float64))
    return sc.grad(function(leaf), leaf, seed).numpy()


# ---- values -------------------------------------------------------------------------------------


def test_a_root_without_seeds_is_seeded_with_ones() -> None:
    assert slope(sc.square, A).tolist() == [[2, 4], [6, 8]]
    assert slope(sc.square, A, 0.5).tolist() == [[1, 2], [3, 4]]
    assert slope(sc.square, A, [1, 0]).tolist() == [[2, 0], [6, 0]]


def test_a_mean_of_a_product_with_a_transpose() -> None:
    a, b = sc.tensor([[1.0, 2.0]]), sc.tensor([[5.0, 6.0], [7.0, 8.0]])
    assert sc.grad(sc.mean(a @ b.transpose()), a).numpy().tolist() == [[6.0, 7.0]]
    assert sc.grad(sc.mean(a @ b), a).numpy().tolist() == [[5.5, 7.5]]


def test_a_mean_of_a_product_that_is_not_square() -> None:
    a, b = sc.tensor([[1.0, 2.0]]), sc.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    da, db = sc.grad(sc.mean(a @ b), [a, b])
    assert da.numpy().tolist() == [[2, 5]]
    right = np.repeat([[1 / 3], [2 / 3]], 3, axis=1)
    assert_close(db.numpy(), right, f32, "mean")


def test_a_number_times_a_vector() -> None:
    s = sc.tensor(1.0)
    assert sc.grad(sc.mean(s * sc.tensor([1.0, 2.0])), s).item() == 1.5


def test_a_bias_that_is_a_column() -> None:
    bias = sc.tensor(np.ones((3, 1)))
    found = sc.grad(sc.tensor(np.ones((3, 5))) + bias, bias)
    assert found.numpy().tolist() == [[5], [5], [5]]


def test_a_broadcast_is_summed_back() -> None:  # pytorch-1787
    a, b = pattern((4, 1), 0) + 1.5, pattern((1, 3), 1)
    x, y = sc.tensor(a), sc.tensor(b)
    da, db = sc.grad(sc.sum(x * y), (x, y))
    assert da.numpy().tolist() == [[1.0]] * 4
    assert db.numpy().tolist() == [[6.0] * 3]
    one = sc.tensor(np.ones(1))
    assert sc.grad(sc.sum(one * np.ones((5, 4))), one).numpy().tolist() == [20]


def test_abs_has_slope_zero_at_zero() -> None:  # jax-37820
    assert slope(sc.abs, [0, -0.0, 1, -1]).tolist() == [0, 0, 1, -1]


def test_where_masks_its_branches() -> None:  # jax-5798
    assert slope(lambda x: sc.where(x < 1, x, sc.sqrt(x)), [0, 1e-9, 4]).tolist() == [1, 1, 0.25]
    assert slope(lambda x: sc.where(x > 0, sc.log(x), 0), [0, -1, 2]).tolist() == [0, 0, 0.5]


@pytest.mark.parametrize(
    ("function", "point", "right"),
    [
        (lambda x: sc.where(x > 0, sc.log(x) * x, 0), [2.0, 0], [math.log(2) + 1, 0]),
        (lambda x: sc.where(sc.isnan(x), 0, sc.tanh(x) * 2), [math.nan, 0], [0, 2]),
        (lambda x: sc.log(x)[1:], [0.0, 2], [0, 0.5]),
        (lambda x: sc.relu(sc.sqrt(x) - 1), [0.0, 4], [0, 0.25]),
        (lambda x: sc.maximum(1 / x, -1), [-0.25, 0.5], [0, -4]),
        (lambda x: sc.where(x > 1, sc.norm(sc.log(x), 2, 1, True), 0), [[0.0], [4]], [[0], [0.25]]),
    ],
)
def test_masked_zeros_stay_zeros_behind_infinite_slopes(
    function: Any, point: Any, right: Any
) -> None:
    assert_close(slope(function, point), np.array(right), f64, "log", k_extent=4)


@pytest.mark.parametrize(
    ("function", "point", "right"),
    [
        (sc.max, [3.0, 1, 3, 3], [1 / 3, 0, 1 / 3, 1 / 3]),
        (lambda x: sc.min(x, axis=1), [[2.0, 2], [0, 1]], [[0.5, 0.5], [1, 0]]),
        (lambda x: sc.maximum(x, 2), [1.0, 2, 3], [0, 0.5, 1]),
        (lambda x: sc.minimum(2, x), [1.0, 2, 3], [1, 0.5, 0]),
        (lambda x: sc.clip(x, 1, 3), [0.0, 1, 2, 3, 4], [0, 0.5, 1, 0.5, 0]),
        (lambda x: sc.clip(x, 3, 1), [0.0, 2, 4], [0, 0, 0]),
        (lambda x: sc.norm(x, math.inf), [-3.0, 3, 1], [-0.5, 0.5, 0]),
        (sc.relu, [-1.0, 0, 1], [0, 0, 1]),
    ],
)
def test_ties_share_equally(function: Any, point: Any, right: Any) -> None:
    assert_close(slope(function, point), np.array(right), f64, "div")


@pytest.mark.parametrize("zeros", [(), (0,), (3,), (1, 4)])
@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_prod_is_exact_at_zeros(count: int, zeros: tuple[int, ...]) -> None:
    x = np.arange(1.0, count + 1)
    x[[z for z in zeros if z < count]] = 0
    right = [np.prod(np.delete(x, k)) for k in range(count)]
    assert slope(sc.prod, x).tolist() == right


def test_prod_over_several_axes() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    found = slope(lambda t: sc.prod(t, axis=(0, 2), keepdims=True), x)
    right = [
        [[np.prod(np.delete(x[:, j].ravel(), i * 4 + k)) for k in range(4)] for j in range(3)]
        for i in range(2)
    ]
    assert_close(found, np.array(right), f64, "prod", k_extent=8)


def test_slopes_that_are_zero_at_zero() -> None:
    zeros = np.zeros(3)
    for function in (sc.norm, sc.std, lambda x: sc.norm(x, 3), lambda x: sc.norm(x, 0.5)):
        assert slope(function, zeros).tolist() == [0, 0, 0]
    assert slope(sc.logsumexp, [-math.inf] * 2).tolist() == [0, 0]
    assert slope(lambda x: x**0, zeros).tolist() == [0, 0, 0]
    assert slope(lambda x: x**2, zeros).tolist() == [0, 0, 0]


def test_powers_of_zero() -> None:
    x, y = sc.tensor(np.array([0.0, 0, 0, 2])), sc.tensor(np.array([0.0, 1, 2, 3]))
    dx, dy = sc.grad(x**y, [x, y])
    assert dx.numpy().tolist() == [0, 1, 0, 12]
    assert_close(dy.numpy(), np.array([0, 0, 0, 8 * math.log(2)]), f64, "pow")


def test_rows_taken_twice_are_added_up() -> None:
    table = sc.tensor(np.zeros((4, 2)))
    found = sc.grad(table[sc.tensor([1, 3, 1, -1])], table, np.arange(8.0).reshape(4, 2))
    assert found.numpy().tolist() == [[0, 0], [4, 6], [0, 0], [8, 10]]


# ---- dtypes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64], ids=str)
def test_a_gradient_has_the_dtype_of_its_tensor(dtype: DType) -> None:
    x = sc.tensor(pattern((3, 4), 0), dtype)
    for function in (sc.tanh, sc.softmax, sc.var, sc.mean, sc.square, sc.layer_norm):
        found = sc.grad(function(x), x)
        wide = sc.tensor(pattern((3, 4), 0))
        right = sc.grad(function(wide), wide)
        assert found.dtype is dtype
        assert_close(found.numpy(), right.numpy(), dtype, "layer_norm", scale=1.0)


def test_mixed_dtypes_give_each_tensor_its_own() -> None:
    a, b, n = sc.tensor([1.5, 2], f16), sc.tensor([2.0, 3], f64), sc.tensor([1, 2])
    da, db = sc.grad(sc.sum(a * b * n), [a, b])
    assert (da.dtype, db.dtype) == (f16, f64)
    assert da.numpy().tolist() == [2, 6]
    assert db.numpy().tolist() == [1.5, 4]


def test_a_mean_of_more_than_f16_counts() -> None:
    x = sc.tensor(np.zeros(100_000, np.float16))
    assert sc.grad(sc.mean(x) * 1024, x).numpy()[0] == np.float16(1024 / 100_000)


def test_conversions_carry_gradients_between_floats_alone() -> None:
    x = sc.tensor([1.5, 2.5])
    found = sc.grad(x.cast(f64) * 3, x)
    assert found.dtype is f32
    assert found.numpy().tolist() == [3, 3]
    assert sc.grad(x.cast("i32").cast(f32), x) is None


# ---- where there is no path, and structures -----------------------------------------------------


def test_no_path_gives_none_and_no_slope_zeros() -> None:
    x, y = sc.tensor([1.5, 2.5]), sc.tensor([1.0])
    assert sc.grad(x.sum(), [x, y])[1] is None
    assert sc.grad(sc.floor(x), x).numpy().tolist() == [0, 0]
    assert sc.grad(sc.where(x > y, 1.0, 2.0), x) is None
    assert sc.grad(sc.floor(x) + x, x).numpy().tolist() == [1, 1]


def test_structures_of_wrt_are_kept() -> None:
    w, b = sc.tensor([1.0, 2]), sc.tensor([3.0, 4])
    found = sc.grad((w * b).sum(), {"layer": [w, b], "same": (w,)})
    assert found["layer"][0].numpy().tolist() == [3, 4]
    assert found["layer"][1].numpy().tolist() == [1, 2]
    assert isinstance(found["same"], tuple)


def test_several_outputs_and_seeds() -> None:
    x = sc.tensor([1.0, 2.0])
    found = sc.grad([x * 2, sc.sum(x**2)], x, [[1.0, 10.0], None])
    assert found.numpy().tolist() == [4, 24]
    assert sc.grad((x, x), x).numpy().tolist() == [2, 2]


def test_tensors_in_the_middle() -> None:
    x = sc.tensor([1.0, 2.0])
    y = x * 3
    z = y**2 + x
    dx, dy = sc.grad(z, [x, y])
    assert dy.numpy().tolist() == [6, 12]
    assert dx.numpy().tolist() == [19, 37]
    assert sc.grad(y, y).numpy().tolist() == [1, 1]


def test_value_and_grad() -> None:
    function = sc.value_and_grad(lambda p, x: ((p["w"] * x) ** 2).sum())
    value, gradients = function({"w": sc.tensor([1.0, 2.0])}, sc.tensor([3.0, 1.0]))
    assert value.item() == 13
    assert gradients["w"].numpy().tolist() == [18, 4]
    both = sc.value_and_grad(lambda a, b: a * b, (0, -1))
    _, (da, db) = both(sc.tensor(2.0), sc.tensor(3.0))
    assert (da.item(), db.item()) == (3, 2)
    with pytest.raises(ArgumentError, match=r"argument 1 .* 1 positional"):
        sc.value_and_grad(sc.sum, 1)(sc.tensor(1.0))
    with pytest.raises(ArgumentTypeError, match="argnums 'x'"):
        sc.value_and_grad(sc.sum, "x")  # type: ignore[arg-type]


def test_gradients_compile_with_what_they_belong_to() -> None:
    w = sc.variable([1.0, 2.0], name="w")
    x = sc.input((2,), name="x")
    loss = ((w * x) ** 2).sum()
    step = sc.compile({"loss": loss}, updates={w: w - 0.5 * sc.grad(loss, w)})
    assert step.run(x=np.array([1.0, 0], np.float32))["loss"].item() == 1
    assert w.numpy().tolist() == [0, 2]


def test_gradients_of_gradients() -> None:
    x = sc.tensor(2.0)
    y = x**5
    for right in (80, 160, 240, 240, 120):
        y = sc.grad(y, x)
        assert sc.compile(y).run().item() == right
    assert sc.grad(y, x) is None  # a constant


# ---- errors -------------------------------------------------------------------------------------


def test_a_tensor_that_dropped_its_inputs_is_no_silent_constant() -> None:
    x = sc.tensor([1.0, 2.0])
    y = (x * 2).evaluate()
    with pytest.raises(ArgumentError, match=r"shape \[2\] made by mul was evaluated"):
        sc.grad(x + y, x)
    assert sc.grad(x + y.detach(), x).numpy().tolist() == [1, 1]
    marked = sc.tensor([1.0, 2.0], requires_grad=True)
    twice = (marked * 2).evaluate()
    assert sc.grad(marked + twice + y, marked).numpy().tolist() == [3, 3]
    assert sc.grad(y * 2, y).numpy().tolist() == [2, 2]


def test_what_cannot_be_differentiated() -> None:
    x, n = sc.tensor([1.0, 2.0]), sc.tensor([1, 2])
    with pytest.raises(DTypeError, match="the output has dtype bool"):
        sc.grad(x > 1, x)
    with pytest.raises(DTypeError, match=r"tensor 1 of wrt, shape \[2\], has dtype i64"):
        sc.grad(x * n, [x, n])
    with pytest.raises(ShapeError, match=r"seed has shape \[3\] and its output \[2\]"):
        sc.grad(x, x, np.ones((3, 2))[:, 0])
    with pytest.raises(ShapeError):
        sc.grad(x.sum(), x, [1.0, 2.0])
    with pytest.raises(ArgumentError, match="2 outputs and, as seeds, 1"):
        sc.grad([x, x], x, [1.0])
    with pytest.raises(ArgumentError, match="there are no outputs"):
        sc.grad([], x)
    with pytest.raises(ArgumentTypeError, match="outputs is 3"):
        sc.grad(3, x)
    with pytest.raises(ArgumentTypeError, match="wrt: 'x'"):
        sc.grad(x, "x")
    with pytest.raises(ArgumentError, match="a seed is of type object"):
        sc.grad(x, x, object())
