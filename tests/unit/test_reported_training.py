"""What a trial of training found: loss scales, tied weights, names, files, and what is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import softcuda as sc
from softcuda import nn, optim
from softcuda.errors import ArgumentError, ArgumentTypeError, DTypeError, SavedFileError
from softcuda.executor.saved.arrays import array_bytes, array_of_bytes
from softcuda.executor.saved.plain import Misfit

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
    with pytest.raises(ArgumentError, match="^LossScale: initial is"):
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
    with pytest.raises(ArgumentError, match=r"first\.weight and last\.weight are one variable"):
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


# ---- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "error"),
    [("__metadata__", ArgumentError), ("\ud800", ArgumentError), (1, ArgumentTypeError)],
)
def test_names_that_no_file_gives_back(tmp_path: Path, name: Any, error: type[Exception]) -> None:
    path = tmp_path / "t"
    nn.save_tensors(path, {"w": [1.0]})
    with pytest.raises(error, match="^save_tensors: the name"):
        nn.save_tensors(path, {"1": [2.0], name: [3.0]})
    assert nn.load_tensors(path)["w"].tolist() == [1]
    assert os.listdir(tmp_path) == ["t"]
    with pytest.raises(ArgumentTypeError, match="tensors are of type list"):
        nn.save_tensors(path, [1.0])  # type: ignore[arg-type]


def _file(header: str, data: bytes = b"") -> bytes:
    text = header.encode()
    return len(text).to_bytes(8, "little") + text + data


def _entries(*shapes: list[int], end: int = 0) -> str:
    """Return a header that names "w" once for every shape."""
    given = [{"dtype": "F32", "shape": shape, "data_offsets": [0, end]} for shape in shapes]
    return "{" + ", ".join(f'"w": {json.dumps(entry)}' for entry in given) + "}"


@pytest.mark.parametrize(
    "content",
    [
        _file(_entries([1] * 102, end=4), b"1234"),
        _file(_entries([0, 2**70])),
        _file(_entries([0], [0, 1])),
        _file('{"__metadata__": []}'),
        _file('{"__metadata__": {"a": 1}}'),
    ],
)
def test_headers_that_the_format_forbids(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(ArgumentError, match="is no whole file of safetensors"):
        nn.load_tensors(tmp_path / "t")


def test_every_flipped_bit_of_an_npy_head_is_told() -> None:
    dtype = sc.f32
    whole = array_bytes(np.arange(6, dtype=np.float32), dtype, (1,))
    for place in range(8 * 128):
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        try:
            found = array_of_bytes(memoryview(damaged), (6,), dtype, (1,))
        except Misfit:
            continue
        assert np.array_equal(found, np.arange(6))  # a space of the head


def test_both_kinds_of_files_are_written_alike(tmp_path: Path) -> None:
    step = sc.compile(-sc.input((2,), name="x"))
    writers: dict[str, Callable[[Path], None]] = {
        "tensors": lambda path: nn.save_tensors(path, {"w": [1.0]}),
        "module": nn.Linear(1, 1).save,
        "step": step.save,
    }
    before = os.umask(0o027)
    try:
        for name, write in writers.items():
            real, link = tmp_path / name, tmp_path / f"{name}.link"
            link.symlink_to(real)
            write(link)
            write(link)
            assert link.is_symlink()
            assert real.stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(before)
    assert len(os.listdir(tmp_path)) == 2 * len(writers)
    absent = tmp_path / "absent" / "file"
    with pytest.raises(FileNotFoundError) as caught:
        writers["tensors"](absent)
    assert caught.value.filename == str(absent)
    with pytest.raises(SavedFileError, match=f"^save: {absent} cannot be written"):
        writers["step"](absent)


def test_saved_tensors_are_those_of_one_moment(tmp_path: Path) -> None:
    u, v = (sc.variable(np.zeros(20000), name) for name in "uv")
    step = sc.compile([], updates={u: u + 1, v: v + 1})
    stop = threading.Event()

    def train() -> None:
        while not stop.is_set():
            step.run()

    thread = threading.Thread(target=train)
    thread.start()
    try:
        for number in range(20):
            lazy = {"sum": u + v} if number % 2 else {}
            nn.save_tensors(tmp_path / "t", {"u": u, "v": v, **lazy})
            found = nn.load_tensors(tmp_path / "t")
            assert np.array_equal(found["u"], found["v"])
            assert np.array_equal(found.get("sum", 2 * found["u"]), 2 * found["u"])
    finally:
        stop.set()
        thread.join()


def test_an_interrupt_waits_until_a_file_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, other = (nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)) for _ in range(2))
    model.save(tmp_path / "t")
    assign = sc.Tensor.assign

    def interrupted(self: sc.Tensor, value: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        assign(self, value)

    monkeypatch.setattr(sc.Tensor, "assign", interrupted)
    with pytest.raises(KeyboardInterrupt):
        other.load(tmp_path / "t")
    for name, variable in model.state().items():
        assert np.array_equal(other.state()[name].numpy(), variable.numpy())


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
