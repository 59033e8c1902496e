"""Values computed again instead of kept: the same bits, a smaller arena, a bounded search."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import softcuda as sc
from softcuda import nn, optim
from softcuda.compiler import recompute as pass_
from softcuda.compiler.compile import compile_graph
from softcuda.compiler.program import Program
from softcuda.compiler.recompute_model import MOST_CUTS, Timeline
from softcuda.compiler.settings import Settings
from softcuda.compiler.verify import verify
from softcuda.graph.trace import trace
from softcuda.profile.model import DeviceFacts, PoolSettings, Profile, Row
from softcuda.profile.resolve import default_profile
from softcuda.profile.vocabulary import work_ops
from softcuda.target import Target

Array = np.ndarray[Any, Any]
BATCH, WIDTH = 256, 32


def trained(
    activation: Any, layers: int, *, dropout: float = 0.0, norms: bool = False, **options: Any
) -> Any:
    """Return a model, and the executable of its step of Adam."""
    generator = sc.Generator(3)
    modules: list[Any] = []
    for _ in range(layers):
        modules += [nn.Linear(WIDTH, WIDTH, generator=generator), activation]
        if dropout:
            modules.append(nn.Dropout(dropout, sc.Generator(5)))
        if norms:
            modules.append(nn.LayerNorm(WIDTH))
    model = nn.Sequential(*modules)
    x, t = (sc.input((BATCH, WIDTH), name=name) for name in "xt")
    loss = sc.mse_loss(model(x, is_training=True), t)
    updates = optim.Adam(model.parameters()).updates(loss)
    return model, sc.compile(loss, "default", updates=updates, **options)


def data(seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=(BATCH, WIDTH)).astype(np.float32) for name in "xt"}


def told(executable: Any) -> str:
    """Return what the table says of the pass."""
    return str(executable).splitlines()[-1]


def again(executable: Any) -> int:
    """Return how many rows of the table are marked."""
    return sum("computed again" in row for row in str(executable).splitlines()[:-1])


@pytest.mark.parametrize(
    ("activation", "dropout"),
    [(sc.gelu, 0.0), (sc.silu, 0.25), (sc.mish, 0.0)],
    ids=["gelu", "silu", "mish"],
)
def test_a_training_step_keeps_its_bits(activation: Any, dropout: float) -> None:
    plain, kept = trained(activation, 5, dropout=dropout)
    model, step = trained(activation, 5, dropout=dropout, recompute=True)
    assert step.arena_bytes < 0.9 * kept.arena_bytes
    count = again(step)
    assert count > 0
    stated = f"recompute: arena {kept.arena_bytes} -> {step.arena_bytes} bytes, {count} nodes"
    assert told(step).startswith(f"{stated} computed again, cost est. ")
    assert "recompute" not in str(kept)
    for seed in range(3):
        assert step.run(data(seed)).item() == kept.run(data(seed)).item()
    for name, variable in model.state().items():
        assert np.array_equal(variable.numpy(), plain.state()[name].numpy())


def test_what_is_read_late_alone_is_computed_late() -> None:
    """The gradient of a norm reads values that need not be made in the forward pass."""
    plain, kept = trained(sc.gelu, 4, norms=True)
    model, step = trained(sc.gelu, 4, norms=True, recompute=True)
    later = sum("computed later" in row for row in str(step).splitlines()[:-1])
    assert later > 0 and told(step).endswith(f", {later} computed later")
    assert step.arena_bytes < kept.arena_bytes
    for seed in range(2):
        assert step.run(data(seed)).item() == kept.run(data(seed)).item()
    for name, variable in model.state().items():
        assert np.array_equal(variable.numpy(), plain.state()[name].numpy())


def test_nothing_is_computed_again_for_nothing() -> None:
    """The gradient of tanh reads its result, which nothing that is alive gives back."""
    _, kept = trained(sc.tanh, 4)
    _, step = trained(sc.tanh, 4, recompute=True)
    assert step.arena_bytes == kept.arena_bytes and again(step) == 0
    assert told(step).startswith(f"recompute: arena {kept.arena_bytes} bytes, nothing")
    assert [s.kernel for s in step.program.steps] == [s.kernel for s in kept.program.steps]


def far_apart(device: str = "cpu") -> tuple[sc.Tensor, sc.Tensor, list[sc.Tensor]]:
    """Return a leaf, a wide value of it that is read early and late, and the graph's outputs."""
    x = sc.input((64, 256), sc.f64, name="x", device=device)
    wide = sc.exp(x) * 0.5
    return x, wide, [late_sum(wide)]


def late_sum(wide: sc.Tensor) -> sc.Tensor:
    """Return a number that reads a value early, and again when everything else is done."""
    middle = sc.cumsum(wide, axis=0)
    for _ in range(3):
        middle = sc.cumsum(middle, axis=1)
    return sc.sum(middle * wide)


def test_a_chain_is_made_again_from_a_leaf() -> None:
    _, wide, outputs = far_apart()
    kept, step = (sc.compile(outputs, "default", recompute=flag) for flag in (False, True))
    assert step.arena_bytes < kept.arena_bytes
    value = np.random.default_rng(0).normal(size=(64, 256))
    assert step.run(x=value)[0].item() == kept.run(x=value)[0].item()
    assert step.backend_id(wide) == kept.backend_id(wide)
    assert step.explain(wide).startswith("mul")


def test_a_variable_is_read_as_it_was() -> None:
    """What is computed again from a variable comes before the variable changes."""
    x = sc.input((64, 256), sc.f64, name="x")
    w = sc.variable(np.random.default_rng(1).normal(size=(64, 256)), "w")
    outputs = [late_sum(sc.exp(w + x))]
    value = np.random.default_rng(0).normal(size=(64, 256))
    kept, step = (
        sc.compile(outputs, "default", updates={w: w * 0.5 + x}, recompute=flag)
        for flag in (False, True)
    )
    assert again(step) > 0
    start, results = w.numpy().copy(), []
    for executable in (kept, step):
        w.assign(start)
        results.append([executable.run(x=value)[0].item() for _ in range(3)])
        results[-1].append(w.numpy().tobytes())
    assert results[0] == results[1]


def chained(rng: np.random.Generator) -> list[sc.Tensor]:
    """Return outputs of a random graph of elementwise ops, reductions, views and products."""
    x, w = sc.input((48, 48), sc.f64, name="x"), sc.variable(np.eye(48), "w")
    made: list[sc.Tensor] = [x, w]
    makers = (
        lambda a, b: a + b,
        lambda a, b: sc.tanh(a) * b,
        lambda a, b: a.T - 0.5,
        lambda a, b: sc.where(a > b, a, b),
        lambda a, b: a @ b.T / 48,
        lambda a, b: a - sc.mean(b, axis=1, keepdims=True),
        lambda a, b: sc.cumsum(a, axis=0) / 48,
    )
    for _ in range(24):
        a, b = (made[k] for k in rng.integers(len(made), size=2))
        made.append(makers[rng.integers(len(makers))](a, b))
    return [sc.sum(made[k]) for k in rng.integers(2, len(made), size=2)] + [made[-1]]


@pytest.mark.parametrize("seed", range(10))
def test_random_graphs_keep_their_bits(seed: int) -> None:
    outputs = chained(np.random.default_rng(seed))
    kept, step = (sc.compile(outputs, "default", recompute=flag) for flag in (False, True))
    assert verify(step.program.graph) is step.program.graph
    assert step.arena_bytes <= kept.arena_bytes
    assert (step.arena_bytes < kept.arena_bytes) == (", nothing " not in told(step))
    value = np.random.default_rng(seed).normal(size=(48, 48))
    for a, b in zip(kept.run(x=value), step.run(x=value), strict=True):
        assert np.array_equal(a.numpy(), b.numpy(), equal_nan=True)


def test_compiling_is_deterministic() -> None:
    outputs = chained(np.random.default_rng(3))
    first, second = (sc.compile(outputs, "default", recompute=True) for _ in range(2))
    assert str(first) == str(second)


def test_launch_lists_of_a_target_show_it_too() -> None:
    """The passes are pure: what a device would run is planned without one."""
    _, _, outputs = far_apart("cuda")
    rows = tuple(Row(op, None, 0, None, "cuda_elementwise") for op in work_ops())
    pool = PoolSettings("cuda")
    profile = Profile("fast", {"soft_version": sc.__version__}, DeviceFacts(), rows, pool=pool)
    kept, step = (settled(outputs, profile, recompute=flag) for flag in (False, True))
    assert step.arenas["cuda"].nbytes < kept.arenas["cuda"].nbytes
    assert step.footer[-1].startswith("recompute: arena") and "computed again" in step.footer[-1]


def settled(outputs: list[sc.Tensor], profile: Profile, *, recompute: bool) -> Program:
    target = Target("cuda", "sm_90a", 132, 227, 50)
    settings = Settings(profile, default_profile(), target, recompute=recompute)
    return compile_graph(trace(outputs).graph, settings)


def test_deep_graphs_do_not_explode(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bounded number of cuts and of graphs that are planned, whatever the depth."""
    h = x = sc.input((4, 16), name="x")
    for number in range(300):
        h = sc.gelu(h) + h * 0.5
        if number % 5 == 0:
            h = sc.cumsum(h, axis=0)
    loss = sc.sum(h * h)
    outputs, planned, cuts = [loss, sc.grad(loss, x)], [], []
    plan, search = pass_._planned, Timeline.cuts
    monkeypatch.setattr(pass_, "_planned", lambda *given: planned.append(1) or plan(*given))
    monkeypatch.setattr(
        Timeline, "cuts", lambda self: cuts.append(len(found := search(self))) or found
    )
    begin = time.perf_counter()
    kept = sc.compile(outputs, "default")
    plain_s = time.perf_counter() - begin
    step = sc.compile(outputs, "default", recompute=True)
    assert step.arena_bytes < 0.7 * kept.arena_bytes
    assert len(planned) <= 1 + pass_.MOST_TRIALS and max(cuts) <= MOST_CUTS
    assert time.perf_counter() - begin < 30 * plain_s + 1


def test_the_option_is_a_flag() -> None:
    with pytest.raises(sc.errors.ArgumentTypeError, match="recompute is 1 of type int"):
        sc.compile(sc.input((2,)) + 1.0, recompute=1)  # type: ignore[arg-type]
