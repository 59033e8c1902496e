"""Files that were cut, changed, or made up: each is an error, and none does anything else."""

from __future__ import annotations

import copy
import io
import json
import pickle
import re
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import softcuda as sc
from softcuda.errors import SavedFileError, SoftCudaError
from softcuda.executor.saved import archive
from softcuda.executor.saved.archive import json_bytes, write_archive

VALUES: tuple[Any, ...] = (-1, 1 << 40, 1 << 70, True, None, "", "cuda", [], {}, [-1], 0.5)


def made() -> sc.Executable:
    """Return an executable with a chain, a product, a view, a number, an update, a generator."""
    x = sc.input((4, 6), name="x")
    w = sc.variable(np.ones((4, 6), np.float32), "w")
    noise = sc.normal((6,), generator=sc.Generator(1))
    y = sc.relu((x * w).transpose()[1:] @ w) * 0.5
    return sc.compile({"y": sc.sum(y, axis=0), "n": [noise]}, updates={w: w + x})


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "file"
    made().save(path)
    return path


def members_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def rewritten(path: Path, members: dict[str, bytes], **facts: Any) -> None:
    """Write members anew, with a seal and a list that fit them."""
    meta = json.loads(members["meta.json"])
    kept = {name: meta[name] for name in meta if name not in ("format", "members")}
    others = {name: data for name, data in members.items() if name != "meta.json"}
    write_archive(str(path), {**kept, **facts}, others)


def refusal(path: Path) -> str:
    """Return the error of loading a file, frozen and to compile it again: the same one."""
    with pytest.raises(SavedFileError) as frozen:
        sc.load(path)
    assert str(path) in str(frozen.value)
    return str(frozen.value)


def test_every_changed_byte_is_an_error(saved: Path, tmp_path: Path) -> None:
    content = bytearray(saved.read_bytes())
    path = tmp_path / "file"
    ends = (*range(60), *range(len(content) - 150, len(content)))
    for place in (*ends, *range(60, len(content) - 150, 61)):
        content[place] ^= 1 << place % 8
        path.write_bytes(content)
        with pytest.raises(SavedFileError):
            sc.load(path)
        content[place] ^= 1 << place % 8
    assert bytes(content) == saved.read_bytes()


def test_every_cut_and_every_addition_is_an_error(saved: Path, tmp_path: Path) -> None:
    content = saved.read_bytes()
    path = tmp_path / "file"
    for length in (*range(0, len(content), 101), *range(len(content) - 90, len(content))):
        path.write_bytes(content[:length])
        assert "cut off" in refusal(path)
        path.write_bytes(content[length + 1 :])
        refusal(path)
    for other in (content + b"\0", content[:100] + b"\0" + content[100:], b"\0" + content):
        path.write_bytes(other)
        refusal(path)


def test_the_damaged_member_is_named(saved: Path, tmp_path: Path) -> None:
    content = saved.read_bytes()
    for member in ("program.json", "graph.json", "leaves/1.npy"):
        at = content.index(members_of(saved)[member]) + 9
        (tmp_path / "file").write_bytes(content[:at] + b"~" + content[at + 1 :])
        assert f"file, {member}: its SHA-256 is" in refusal(tmp_path / "file")


@pytest.mark.parametrize(
    "content", [b"", b"PK", b"PK\x05\x06" + bytes(18), pickle.dumps([1]), bytes(4096)]
)
def test_something_else_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    assert "something else; allowed is what Executable.save wrote" in refusal(tmp_path / "file")


def test_another_zip_is_an_error(saved: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "file", "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members_of(saved).items():
            file.writestr(name, data)
    assert "without the seal" in refusal(tmp_path / "file")


def test_a_newer_format_is_an_error(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "FORMAT", 2)
    rewritten(tmp_path / "file", members_of(saved))
    monkeypatch.setattr(archive, "FORMAT", 1)
    told = refusal(tmp_path / "file")
    assert "it has format 2" in told and "reads format 1; install a softcuda that" in told


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"versions": {"softcuda": "9.0"}}, "softcuda is '9.0' in the file and"),
        ({"versions": {"softcuda": sc.__version__, "numpy": "1.0"}}, "numpy is '1.0' in the file"),
        (
            {"cpu": {"cpu": "Abacus", "cpu_cores": "3"}},
            "cpu is 'Abacus' in the file and .*; cpu_cores is '3' in the file",
        ),
        ({"cuda": {"arch": "sm_90a", "name": "H"}}, r"needs a CUDA device \(arch sm_90a, name H\)"),
    ],
)
def test_another_machine_is_an_error_fact_by_fact(
    saved: Path, tmp_path: Path, facts: dict[str, Any], told: str
) -> None:
    path = tmp_path / "file"
    rewritten(path, members_of(saved), **facts)
    with pytest.raises(SavedFileError, match=f"{told}.*; load it with recompile=True"):
        sc.load(path)
    value = np.ones((4, 6), np.float32)
    result = sc.load(path, recompile=True).run(x=value)["y"]
    np.testing.assert_array_equal(result.numpy(), made().run(x=value)["y"].numpy())


@pytest.mark.parametrize(
    "facts",
    [{"cpu": 3}, {"cpu": {"color": "red"}}, {"dtypes": ["f8"]}, {"dtypes": 3}, {"color": "red"}],
)
def test_facts_that_cannot_be(saved: Path, tmp_path: Path, facts: dict[str, Any]) -> None:
    rewritten(tmp_path / "file", members_of(saved), **facts)
    assert re.search(r"file, meta\.json: it is [{\[]", refusal(tmp_path / "file"))


def test_members_that_are_missing_or_too_many(saved: Path, tmp_path: Path) -> None:
    path = tmp_path / "file"
    for name in members_of(saved).keys() - {"meta.json"}:
        members = members_of(saved)
        del members[name]
        rewritten(path, members)
        assert "the member is missing" in refusal(path)
    whole = members_of(saved)
    rewritten(path, {**whole, "more": b"more"})
    assert "file, more: nothing in the file names this member" in refusal(path)


@pytest.mark.parametrize(
    ("member", "content", "told"),
    [
        ("program.json", b"[1, 2", "program.json: Expecting"),
        ("graph.json", b"[" * 100000, "graph.json: "),
        ("graph.json", b'{"a": 1, "a": 2}', "graph.json: a key stands twice among"),
        ("profile.json", b'{"profiles": NaN}', "profile.json: NaN is no number of JSON"),
        ("profile.json", b'{"profiles": [1' + b"0" * 5000 + b"]}", "profile.json: Exceeds"),
        ("kernels.json", b"\xff", "kernels.json: .*can't decode byte"),
        (
            "leaves/1.npy",
            b"\x93NUMPY",
            "graph.json: .*an npy file of 24 elements of <f4",
        ),
    ],
)
def test_members_that_say_something_else(
    saved: Path, tmp_path: Path, member: str, content: bytes, told: str
) -> None:
    path = tmp_path / "file"
    rewritten(path, {**members_of(saved), member: content})
    assert re.search(f"file, {told}", refusal(path))


@pytest.mark.parametrize("dtype", ["<f8", "|O", ">f4"])
def test_values_of_another_dtype(saved: Path, tmp_path: Path, dtype: str) -> None:
    """An array of objects would be a pickle; none is ever read."""
    file = io.BytesIO()
    np.save(file, np.zeros(24, np.dtype(dtype)), allow_pickle=True)
    rewritten(tmp_path / "file", {**members_of(saved), "leaves/1.npy": file.getvalue()})
    assert f"(24,) of {dtype} with" in refusal(tmp_path / "file")


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (container, key) of everything in a value of JSON."""
    for key in value if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from places(value[key])


@pytest.mark.parametrize("member", ["graph.json", "program.json", "profile.json"])
def test_values_that_fit_their_seal_but_not_their_place(
    saved: Path, tmp_path: Path, member: str
) -> None:
    """What is loaded in spite of a change computes something; no error but softcuda's comes."""
    members, path = members_of(saved), tmp_path / "file"
    whole = json.loads(members[member])
    rng = np.random.default_rng(0)
    count = sum(1 for _ in places(whole))
    feed = np.ones((4, 6), np.float32)
    refused = 0
    for number in rng.permutation(count)[:60]:
        changed = copy.deepcopy(whole)
        container, key = list(places(changed))[number]
        if rng.integers(4):
            container[key] = VALUES[rng.integers(len(VALUES))]
        else:
            del container[key]
        rewritten(path, {**members, member: json_bytes(changed)})
        try:
            sc.load(path).run(x=feed)
        except SoftCudaError:
            refused += 1
    assert refused >= 25


def test_nothing_of_a_bad_file_stays(saved: Path, tmp_path: Path) -> None:
    """A file that replaces a good one is whole, or the good one stays."""
    path = tmp_path / "file"
    shutil.copy(saved, path)
    bad = sc.compile(sc.input((2,), name="x") + 1.0)
    bad._skeleton = {(): 0}
    with pytest.raises(SavedFileError, match="holds what a file cannot"):
        bad.save(path)
    assert path.read_bytes() == saved.read_bytes()
    assert [place.name for place in tmp_path.iterdir()] == ["file"]
