"""Training steps on the device: the curve of the CPU, one launch a step, what is saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from op_cases import fast_profile
from tolerance import assert_close

import softcuda as sc
from softcuda import nn, optim
from softcuda.dtype import f32

STEPS = 40
BATCH = 64
DATA = np.random.default_rng(0).normal(size=(BATCH, 20)).astype(np.float32)
LABELS = (DATA[:, 0] > 0).astype(np.int64) + (DATA[:, 1] > 0)


def model_on(device: str) -> nn.Sequential:
    generator = sc.Generator(4)
    return nn.Sequential(
        nn.Linear(20, 48, generator=generator, device=device),
        nn.LayerNorm(48, device=device),
        sc.gelu,
        nn.Dropout(0.25, sc.Generator(9)),
        nn.Linear(48, 3, generator=generator, device=device),
    )


def trained(device: str, profile: Any, make: Any) -> tuple[nn.Module, list[float], str]:
    model = model_on(device)
    x, labels = sc.input((BATCH, 20), name="x"), sc.input((BATCH,), sc.i64, name="labels")
    loss = sc.cross_entropy(model(x, is_training=True), labels)
    optimizer = make(model.parameters())
    step = sc.compile(loss, profile, updates=optimizer.updates(loss, clip=1.0))
    losses = [step.run(x=DATA, labels=LABELS).item() for _ in range(STEPS)]
    return model, losses, str(step)


@pytest.mark.parametrize(
    "make",
    [
        lambda p: optim.SGD(p, 0.1, 0.9, nesterov=True),
        lambda p: optim.AdamW(p, 5e-2),
    ],
    ids=["sgd", "adamw"],
)
def test_training_curves_of_cpu_and_device_are_equal(make: Any) -> None:
    model, losses, _ = trained("cuda", fast_profile(), make)
    other, right, _ = trained("cpu", "default", make)
    assert losses[-1] < losses[0] / 2
    # Rounding errors of a step are carried into all later ones.
    grown = 1 << STEPS // 2
    found, expected = np.array(losses, np.float32), np.array(right)
    assert_close(found, expected, f32, "matmul", k_extent=grown, scale=1.0)
    for name, variable in model.parameters().items():
        assert str(variable.device) == "cuda:0"
        reference = other.parameters()[name].numpy().astype(float)
        assert_close(variable.numpy(), reference, f32, "matmul", k_extent=grown, scale=1.0)


def test_a_step_has_no_transfer_but_its_feeds() -> None:
    _, _, table = trained("cuda", fast_profile(), optim.Adam)
    lines = [line.split() for line in table.splitlines() if " transfer " in line]
    brought = [words for words in lines if "h2d" in words or "d2h" in words]
    # The batch, its labels, and the generator's state, which the host advances.
    assert len(brought) <= 3, brought
    assert not [line for line in table.splitlines() if " update " in line], table
    assert table.count(", in place") == 3 * 6 + 2, table  # Adam's count and the generator too


def test_trained_values_of_the_device_are_what_is_saved(tmp_path: Path) -> None:
    model, _, _ = trained("cuda", fast_profile(), optim.Adam)
    start = model_on("cpu")
    model.save(tmp_path / "model.safetensors")
    loaded = model_on("cuda")
    loaded.load(tmp_path / "model.safetensors")
    for name, variable in model.state().items():
        saved = nn.load_tensors(tmp_path / "model.safetensors")[name]
        assert np.array_equal(saved, variable.numpy())
        assert np.array_equal(loaded.state()[name].numpy(), variable.numpy())
        assert not np.array_equal(saved, start.state()[name].numpy())


def test_loss_scaling_on_the_device() -> None:
    w = sc.variable(np.ones(4), dtype=f32, device="cuda")
    factor = sc.input((), name="factor")
    loss = sc.mean((w.astype(sc.f16) * 2.0**-14) * 2.0**-10) * factor
    scale = optim.LossScale(2.0**15, interval=2, device="cuda")
    updates = optim.SGD([w], 2.0**24, 0.5).updates(loss, scale=scale)
    step = sc.compile(loss, fast_profile(), updates=updates)
    for value, left in ((1.0, 0.75), (np.inf, 0.75), (1.0, 0.375)):
        step.run(factor=np.float32(value))
        assert w.numpy().tolist() == [left] * 4
    assert scale.value.item() == 2.0**14


def test_backward_on_the_device() -> None:
    w = sc.variable(np.arange(4.0), device="cuda", requires_grad=True)
    loss = (w**2).sum()
    loss.backward()
    loss.backward()
    assert w.grad.numpy().tolist() == [0, 4, 8, 12]
