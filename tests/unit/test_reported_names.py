"""Names and errors that a first user met: the error says who was called and what to write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import softcuda as sc
from softcuda.errors import DTypeError, IndexOutOfRange, PoolExhausted

# ---- errors name what was called ----------------------------------------------------------------


@pytest.mark.parametrize("label", [-1, -5, 3, 7])
def test_cross_entropy_names_the_label_as_given(label: int) -> None:
    with pytest.raises(IndexOutOfRange, match=rf"^cross_entropy: label {label} .*0 to 2$"):
        sc.cross_entropy(sc.zeros((2, 3)), [label, 0]).item()


SIX, NONE = sc.zeros((2, 3)), sc.zeros((0, 3))


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("zeros", ((2, -1),)),
        ("ones", ((2, -1),)),
        ("full", ((2, -1), 0)),
        ("full", ((2,), NONE)),
        ("zeros_like", (object(),)),
        ("ones_like", (object(),)),
        ("full_like", (SIX, NONE)),
        ("clip", (SIX, NONE)),
        ("clip", (SIX, None, NONE)),
        ("divide", (SIX, NONE)),
        ("subtract", (SIX, NONE)),
        ("multiply", (SIX, NONE)),
        ("equal", (SIX, NONE)),
        ("less_equal", (SIX, NONE)),
        ("negative", ([True],)),
        ("subtract", ([True], [True])),
        ("take_along_axis", (SIX, SIX)),
        ("layer_norm", (SIX, None, None, "x")),
    ],
)
def test_the_error_begins_with_the_function_that_was_called(
    name: str, arguments: tuple[Any, ...]
) -> None:
    with pytest.raises(sc.errors.SoftCudaError, match=f"^{name}: "):
        getattr(sc, name)(*arguments)


def test_take_along_axis_is_named_at_run() -> None:
    with pytest.raises(IndexOutOfRange, match=r"^take_along_axis: index 3"):
        sc.take_along_axis(SIX, [[3]], 1).numpy()


@pytest.mark.parametrize("name", ["zeros", "ones", "input"])
def test_a_shape_in_several_arguments(name: str) -> None:
    with pytest.raises(DTypeError, match=rf"{name}: .*as in {name}\(\(2, 3\)\)"):
        getattr(sc, name)(2, 3)


def test_memory_that_cannot_be_had() -> None:
    with pytest.raises(PoolExhausted, match=r"^run: host memory exhausted") as caught:
        sc.compile(sc.sum(sc.zeros((2**38,)))).run()
    text = str(caught.value)
    assert text.count("1099511627776") == 1
    assert "reset" not in text
    assert "smaller" in text


# ---- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, own",
    [
        *(("sub", "subtract"), ("neg", "negative"), ("eq", "equal")),
        *(("concatenate", "concat"), ("cat", "concat"), ("power", "pow"), ("arcsin", "asin")),
        *(("float32", "f32"), ("bool", "bool_"), ("flatten", "reshape"), ("array", "tensor")),
    ],
)
def test_other_names_say_the_one_that_is_meant(name: str, own: str) -> None:
    assert not hasattr(sc, name)
    with pytest.raises(AttributeError, match=rf"'{name}'.*softcuda\.{own}"):
        getattr(sc, name)
    assert hasattr(sc, own)


@pytest.mark.parametrize(
    "name, use",
    [
        *(("permute", r"tensor\.permute_dims\("), ("view", r"tensor\.reshape\(")),
        *(("flatten", r"tensor\.reshape\(-1\)"), ("ravel", r"tensor\.reshape\(-1\)")),
        *(("neg", r"tensor\.negative\("), ("softmax", r"softcuda\.softmax\(tensor")),
        *(("add", r"softcuda\.add\(tensor"), ("unsqueeze", r"tensor\.expand_dims\(")),
    ],
)
def test_methods_that_are_called_otherwise(name: str, use: str) -> None:
    for owner in (SIX, sc.Tensor):
        assert not hasattr(owner, name)
        with pytest.raises(AttributeError, match=use):
            getattr(owner, name)


def test_unknown_names_are_plain_errors() -> None:
    with pytest.raises(AttributeError, match="'nonsense'"):
        sc.nonsense  # noqa: B018
    with pytest.raises(AttributeError, match="nonsense"):
        SIX.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_public_classes_and_listing() -> None:
    assert isinstance(sc.compile(SIX + 1), sc.Executable)
    assert issubclass(sc.SoftCudaWarning, UserWarning)
    assert isinstance(sc.profile.resolve.default_profile(), sc.Profile)
    assert set(dir(sc)) == {*sc.__all__, "__version__"}


def test_bitwise_functions_are_those_of_bools() -> None:
    with pytest.raises(AttributeError, match=r"of bools it is softcuda\.logical_and; integers"):
        sc.bitwise_and  # noqa: B018


def test_explain_names_the_target() -> None:
    product = sc.einsum("ij,jk->ik", np.ones((64, 64), "f4"), np.ones((64, 64), "f4"))
    for target in ("sm_75", "sm_90a"):
        told = str(sc.explain(product, config="nvidia-h200", target=target))
        assert f"profile nvidia-h200.soft, target {target}" in told


def test_the_shipped_profile_is_not_recommended_to_its_user() -> None:
    product = sc.einsum("ij,jk->ik", np.ones((30, 40), "f4"), np.ones((40, 5), "f4"))
    other = str(sc.compile(product, "default", target="sm_90a"))
    assert "a profile with CUDA rows, such as config='nvidia-h200'" in other
    small = str(sc.compile(product, "nvidia-h200", target="sm_90a"))
    assert "for these sizes; it gives larger ones to the device" in small
