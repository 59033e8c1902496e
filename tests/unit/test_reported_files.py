"""What a trial of saved tensors and executables found: names, damage, links, moments, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import softcuda as sc
from softcuda import nn
from softcuda.errors import ArgumentError, ArgumentTypeError, SavedFileError
from softcuda.executor.saved.arrays import array_bytes, array_of_bytes
from softcuda.executor.saved.plain import Misfit


@pytest.mark.parametrize(
    ("name", "error"),
    [("__metadata__", ArgumentError), ("\ud800", ArgumentError), (1, ArgumentTypeError)],
)
def test_names_that_no_file_gives_back(tmp_path: Path, name: Any, error: type[Exception]) -> None:
    path = tmp_path / "t"
    nn.save_tensors(path, {"w": [1.0]})
    with pytest.raises(error, match=r"^save_tensors: the name"):
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


def test_every_path_is_taken_or_refused(tmp_path: Path) -> None:
    calls: dict[str, Callable[[Any], Any]] = {
        "save_tensors": lambda path: nn.save_tensors(path, {"w": [1.0]}),
        "load_tensors": nn.load_tensors,
        "save": sc.compile(-sc.tensor([1.0])).save,
        "load": sc.load,
    }
    for name, call in calls.items():
        call(os.fsencode(tmp_path / name.replace("load", "save")))
        with pytest.raises(ArgumentTypeError, match=rf"^{name}: the path is 3 of type int"):
            call(3)
        with pytest.raises(ArgumentError, match=rf"^{name}: the path .* holds a null character"):
            call("a\0b")
