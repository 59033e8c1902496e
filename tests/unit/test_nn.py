"""Layers, training of small models, and what is saved and loaded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tolerance import assert_close

import softcuda as sc
from softcuda import nn, optim
from softcuda.dtype import REAL_DTYPES, DType, bf16, f16, f32, f64
from softcuda.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError


def model_of(generator: sc.Generator | None = None) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(2, 8, dtype=f64, generator=generator),
        sc.tanh,
        nn.LayerNorm(8, dtype=f64),
        nn.Dropout(0.25, generator),
        nn.Linear(8, 1, dtype=f64, generator=generator),
    )


# ---- layers -------------------------------------------------------------------------------------


def test_linear() -> None:
    layer = nn.Linear(3, 4, dtype=f64, generator=sc.Generator(0))
    w = layer.weight.numpy()
    assert w.shape == (3, 4)
    assert np.abs(w).max() <= 1 / np.sqrt(3)
    layer.bias.assign(np.arange(4.0))
    x = np.arange(30.0).reshape(2, 5, 3)
    found = layer(sc.tensor(x)).numpy()
    assert_close(found, x @ w + np.arange(4), f64, "matmul", k_extent=4, scale=60.0)
    plain = nn.Linear(3, 4, bias=False)
    assert set(plain.parameters()) == {"weight"}


def test_embedding() -> None:
    layer = nn.Embedding(5, 2)
    table = layer.weight.numpy()
    found = layer(sc.tensor([[1, 1], [4, 0]])).numpy()
    assert np.array_equal(found, table[[[1, 1], [4, 0]]])


@pytest.mark.parametrize("shape", [5, (4, 5)])
def test_layer_norm(shape: Any) -> None:
    x = np.random.default_rng(0).normal(size=(3, 4, 5))
    found = nn.LayerNorm(shape, 0.5, dtype=f64)(sc.tensor(x))
    axes = (2,) if shape == 5 else (1, 2)
    right = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 0.5)
    assert_close(found.numpy(), right, f64, "layer_norm", k_extent=20, scale=4.0)


def test_dropout_acts_in_training_alone() -> None:
    layer, x = nn.Dropout(0.5, sc.Generator(0)), sc.tensor(np.ones(100))
    assert layer(x) is x
    assert set(layer(x, is_training=True).tolist()) == {0, 2}
    inside = nn.Sequential(layer)
    assert inside(x) is x
    assert set(inside(x, is_training=True).tolist()) == {0, 2}


@pytest.mark.parametrize("is_causal", [False, True])
def test_self_attention(is_causal: bool) -> None:
    layer = nn.SelfAttention(6, 2, is_causal, dtype=f64, generator=sc.Generator(0))
    x = np.random.default_rng(0).normal(size=(2, 5, 6))
    inside, outside = layer.inside.weight.numpy(), layer.outside.weight.numpy()
    q, k, v = np.moveaxis((x @ inside).reshape(2, 5, 3, 2, 3), 2, 0)
    scores = np.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(3)
    if is_causal:
        scores = np.where(np.tri(5, dtype=bool), scores, -np.inf)
    shares = np.exp(scores)
    shares /= shares.sum(axis=-1, keepdims=True)
    right = np.einsum("bhij,bjhd->bihd", shares, v).reshape(2, 5, 6) @ outside
    found = layer(sc.tensor(x))
    assert_close(found.numpy(), right, f64, "softmax", k_extent=36, scale=1.0)
    loss = layer(sc.tensor(x, requires_grad=True))[:, 0].sum()
    gradients = sc.grad(loss, layer.parameters())
    assert all(np.isfinite(g.numpy()).all() for g in gradients.values())
    moved = sc.tensor(x)
    seen = sc.grad(layer(moved)[:, 0].sum(), moved).numpy()[:, 1:]
    assert bool(seen.any()) is not is_causal
    with pytest.raises(ArgumentError, match="4 heads share a width of 6"):
        nn.SelfAttention(6, 4)


def test_names_of_parameters() -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            self.heads = {"left": nn.Linear(1, 1), "right": nn.Linear(1, 1, bias=False)}
            self.steps = sc.variable(0, "steps")
            self.width = 3

        def forward(self, x: sc.Tensor, *, is_training: bool = False) -> sc.Tensor:
            return self.heads["left"](x) + self.heads["right"](x)

    pair = Pair()
    trained = ["heads.left.weight", "heads.left.bias", "heads.right.weight"]
    assert list(pair.parameters()) == trained
    assert list(pair.state()) == [*trained, "steps"]
    names = list(model_of().parameters())
    assert names[:3] == ["layers.0.weight", "layers.0.bias", "layers.2.weight"]
    with pytest.raises(ArgumentTypeError, match="layer 1 is 3"):
        nn.Sequential(sc.relu, 3)


@pytest.mark.parametrize(
    ("initialiser", "spread"),
    [
        (nn.uniform_by_fan_in, np.sqrt(1 / 300 / 3)),
        (nn.glorot_uniform, np.sqrt(6 / 500 / 3)),
        (nn.he_normal, np.sqrt(2 / 300)),
    ],
)
def test_initialisers(initialiser: Callable[..., sc.Tensor], spread: float) -> None:
    found = initialiser((30, 10, 200), f64, sc.Generator(1)).numpy()
    count = found.size
    assert abs(found.std() / spread - 1) < 5 / np.sqrt(count)
    assert abs(found.mean()) < 5 * spread / np.sqrt(count)
    with pytest.raises(ShapeError, match=r"shape \[3\] has no axes"):
        initialiser((3,))


# ---- training -----------------------------------------------------------------------------------


def test_a_model_learns_xor() -> None:
    model = nn.Sequential(
        nn.Linear(2, 8, generator=sc.Generator(1)),
        sc.tanh,
        nn.Linear(8, 1, generator=sc.Generator(2)),
    )
    x, t = sc.input((4, 2), name="x"), sc.input((4, 1), name="t")
    loss = sc.mse_loss(model(x), t)
    optimizer = optim.Adam(model.parameters(), 0.05)
    step = sc.compile(loss, updates=optimizer.updates(loss))
    data = {
        "x": np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32),
        "t": np.array([[0], [1], [1], [0]], np.float32),
    }
    losses = [step.run(data).item() for _ in range(300)]
    assert losses[-1] < 0.01 < losses[0]
    found = sc.compile(model(x)).run({"x": data["x"]})
    assert np.array_equal(found.numpy().round(), data["t"])


def test_the_same_start_trains_to_the_same_bits() -> None:
    def trained() -> list[np.ndarray[Any, Any]]:
        generator = sc.Generator(5)
        model = model_of(generator)
        x = sc.tensor(np.arange(12.0).reshape(6, 2) / 12)
        loss = sc.mean(model(x, is_training=True) ** 2)
        optimizer = optim.SGD(model.parameters(), 0.1, 0.9)
        step = sc.compile(loss, updates=optimizer.updates(loss, clip=1.0))
        for _ in range(20):
            step.run()
        return [x.numpy() for x in model.parameters().values()]

    for one, two in zip(trained(), trained(), strict=True):
        assert np.array_equal(one, two)


# ---- files --------------------------------------------------------------------------------------


def test_what_is_saved_is_what_is_trained(tmp_path: Path) -> None:
    model, other = model_of(), model_of()
    for variable in model.state().values():
        variable.assign(np.random.default_rng(0).normal(size=variable.dims))
    model.save(tmp_path / "model.safetensors")
    other.load(tmp_path / "model.safetensors")
    for name, variable in model.state().items():
        assert np.array_equal(other.state()[name].numpy(), variable.numpy())
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]


@pytest.mark.parametrize("dtype", REAL_DTYPES.values(), ids=str)
def test_every_dtype_and_shape_is_kept(tmp_path: Path, dtype: DType) -> None:
    tensors = {
        name: np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype.numpy)
        for name, shape in (("a", (3, 2)), ("é", ()), ("none", (0, 4)), ("z", (5,)))
    }
    tensors["turned"] = tensors["a"].T
    nn.save_tensors(tmp_path / "t", tensors)
    found = nn.load_tensors(tmp_path / "t")
    assert list(found) == list(tensors)
    for name, array in tensors.items():
        assert found[name].dtype == dtype.numpy
        assert np.array_equal(found[name], array)


def test_the_bytes_are_those_of_the_format(tmp_path: Path) -> None:
    nn.save_tensors(tmp_path / "t", {"w": np.array([[1.0, -2.0]], np.float32)})
    content = (tmp_path / "t").read_bytes()
    length = int.from_bytes(content[:8], "little")
    assert length % 8 == 0
    header = json.loads(content[8 : 8 + length])
    assert header == {"w": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}}
    assert content[8 + length :] == np.array([1, -2], "<f4").tobytes()


def _header(entries: dict[str, Any], data: bytes) -> bytes:
    text = json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text + data


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"short",
        b"\x00" * 8,
        b"\xff" * 64,
        b"PK\x03\x04 a zip archive of another library, and more",
        _header({"w": ENTRY}, b"\0" * 7),
        _header({"w": ENTRY}, b"\0" * 9),
        _header({"w": {**ENTRY, "dtype": "F8"}}, b"\0" * 8),
        _header({"w": {**ENTRY, "shape": [-2]}}, b"\0" * 8),
        _header({"w": {**ENTRY, "shape": [2.0]}}, b"\0" * 8),
        _header({"w": {**ENTRY, "data_offsets": [4, 12]}}, b"\0" * 12),
        _header({"w": {**ENTRY, "data_offsets": [0]}}, b"\0" * 8),
        _header({"w": ENTRY, "v": {**ENTRY, "data_offsets": [4, 12]}}, b"\0" * 12),
        _header({"w": 3}, b""),
        (2).to_bytes(8, "little") + b"[]",
        (4).to_bytes(8, "little") + b"[[[[",
    ],
)
def test_foreign_and_short_files(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(ArgumentError, match="is no whole file of safetensors"):
        nn.load_tensors(tmp_path / "t")


def test_metadata_of_other_writers_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(_header({"__metadata__": {"by": "x"}, "w": ENTRY}, b"\0" * 8))
    assert nn.load_tensors(tmp_path / "t")["w"].tolist() == [0, 0]


def test_a_file_that_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    model = nn.Linear(2, 3)
    before = {name: x.numpy() for name, x in model.state().items()}
    fitting = {name: np.zeros_like(x) for name, x in before.items()}
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"weight": fitting["weight"]}, ArgumentError, "lacks bias and has"),
        ({**fitting, "extra": np.zeros(1)}, ArgumentError, "beside the module's, extra"),
        ({**fitting, "bias": np.zeros(4, np.float32)}, ShapeError, r"bias has shape \[4\]"),
        ({**fitting, "bias": np.zeros(3)}, DTypeError, "bias has dtype f64"),
    ]
    for tensors, error, message in cases:
        nn.save_tensors(tmp_path / "t", tensors)
        with pytest.raises(error, match=message):
            model.load(tmp_path / "t")
        for name, array in before.items():
            assert np.array_equal(model.state()[name].numpy(), array)
    with pytest.raises(FileNotFoundError):
        model.load(tmp_path / "absent")


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    nn.save_tensors(path, {"w": [1.0]})

    def fails(self: Path, target: Path) -> Path:
        raise OSError("the disk is full")

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(OSError, match="the disk is full"):
        nn.save_tensors(path, {"w": [2.0]})
    assert nn.load_tensors(path)["w"].tolist() == [1]
    assert [found.name for found in tmp_path.iterdir()] == ["t"]


@pytest.mark.parametrize("dtype", [f16, bf16, f32], ids=str)
def test_dtypes_of_models(dtype: DType) -> None:
    model = nn.Sequential(nn.Embedding(4, 6, dtype=dtype), nn.Linear(6, 2, dtype=dtype))
    loss = sc.cross_entropy(model(sc.tensor([0, 3, 3])), [0, 1, 1])
    for name, gradient in sc.grad(loss, model.parameters()).items():
        assert gradient.dtype is dtype, name
    step = sc.compile(loss, updates=optim.AdamW(model.parameters(), 0.05).updates(loss))
    losses = [step.run().item() for _ in range(30)]
    assert losses[-1] < losses[0] / 2
