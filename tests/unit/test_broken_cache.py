"""What lies in the cache folder is never trusted: notes that lie, pipes, edits, other users'."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_nvrtc import entries, fake_nvrtc, make_unit, name_cache, new_cache

from softcuda.errors import ArgumentError, CompileError, SoftCudaWarning
from softcuda.nvrtc import store
from softcuda.nvrtc.cache import KernelCache
from softcuda.nvrtc.notes import FILE
from softcuda.nvrtc.unit import CompileUnit, as_arch

ARCH = "sm_90a"
DEEP = b"[" * 200_000

needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return name_cache(monkeypatch, tmp_path / "cache")


@pytest.fixture
def unit(tmp_path: Path) -> CompileUnit:
    return make_unit(tmp_path, "good")


def to_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def note_with(**facts: Any) -> Callable[[Path], None]:
    """Return what changes the noted facts of NVRTC."""

    def change(path: Path) -> None:
        notes = json.loads(path.read_text())
        for topics in notes.values():
            topics["nvrtc"]["facts"].update(facts)
        path.write_text(json.dumps(notes))

    return change


NOTES = {
    "no architectures": note_with(architectures=[]),
    "a newer one alone": note_with(architectures=[100]),
    "an older one alone": note_with(architectures=[75]),
    "infinity": note_with(architectures=[float("inf")]),
    "text": note_with(architectures="90"),
    "another version": note_with(version=9),
    "deep": lambda path: path.write_bytes(DEEP),
    "pipe": pytest.param(to_pipe, marks=needs_pipes),
}


@pytest.mark.parametrize("change", NOTES.values(), ids=NOTES)
def test_a_note_that_lies_is_made_right(
    place: Path, tmp_path: Path, unit: CompileUnit, change: Callable[[Path], None]
) -> None:
    """NVRTC itself is asked before a kernel is refused or made, and the note is written again."""
    library = tmp_path / "libnvrtc.so"
    library.write_bytes(b"library")
    made = KernelCache(fake_nvrtc((13, 0), str(library))[0]).get(unit, ARCH)
    right = (place / FILE).read_text()
    change(place / FILE)
    assert KernelCache(fake_nvrtc((13, 0), str(library))[0]).get(unit, ARCH) == made
    assert (place / FILE).read_text() == right


@needs_pipes
@pytest.mark.parametrize("name", ["meta.json", "kernel.cubin"])
def test_a_pipe_in_an_entry_is_damage(place: Path, unit: CompileUnit, name: str) -> None:
    made = new_cache()[0].get(unit, ARCH)
    to_pipe(entries(place)[0] / name)
    with pytest.warns(SoftCudaWarning, match="damaged and is made again.*no regular file"):
        assert new_cache()[0].get(unit, ARCH) == made


def test_an_entry_that_appears_while_it_is_looked_for_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process renames the whole folder between the look for a file and for the folder."""
    folder = tmp_path / "entry"
    cubin = store.Cubin(b"code", store.Image.CUBIN, "k", "sm_90a", "", None, str(folder))
    files = store.entry_files(cubin, "source", "key", [])
    exists = os.path.lexists

    def appears(path: Any) -> bool:
        if not exists(path):
            store.write_entry(folder, files)
        return exists(path)

    monkeypatch.setattr(os.path, "lexists", appears)
    assert store.read_entry(folder, "key").cubin == cubin
    (folder / "meta.json").unlink()
    assert store.read_entry(folder, "key").damage == "meta.json is missing"


def test_a_deeply_nested_meta_is_damage(place: Path, unit: CompileUnit) -> None:
    made = new_cache()[0].get(unit, ARCH)
    (entries(place)[0] / "meta.json").write_bytes(DEEP)
    with pytest.warns(SoftCudaWarning, match="nested too deeply"):
        assert new_cache()[0].get(unit, ARCH) == made


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "other"),
        ("name", None),
        ("arch", "sm_75"),
        ("log", 5),
        ("kind", "ptx"),
        ("parts", []),
        ("resources", None),
    ],
)
def test_what_meta_says_is_covered_by_its_checksum(
    place: Path, unit: CompileUnit, field: str, value: object
) -> None:
    made = new_cache()[0].get(unit, ARCH)
    meta = entries(place)[0] / "meta.json"
    meta.write_text(json.dumps({**json.loads(meta.read_text()), field: value}))
    cache, library = new_cache()
    with pytest.warns(SoftCudaWarning, match="damaged") as caught:
        assert cache.get(unit, ARCH) == made
    assert len(caught) == library.compiled == 1


def test_a_cache_that_may_not_be_read_costs_one_warning(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user's entries are left as they are, and are not called damaged."""
    units = [make_unit(tmp_path / name, name) for name in ("one", "two", "three")]
    new_cache()[0].get_all(units, ARCH)
    before = entries(place)

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(store, "read_json", refuse)
    cache, library = new_cache()
    with pytest.warns(SoftCudaWarning, match="SOFTCUDA_CACHE_DIR") as caught:
        made = cache.get_all(units, ARCH)
    assert len(caught) == 1
    assert "cannot be read" in str(caught[0].message)
    assert library.compiled == 3
    assert [cubin.folder for cubin in made] == [""] * 3
    assert entries(place) == before


def test_a_home_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTCUDA_CACHE_DIR", "~nosuchuser/x")
    with pytest.raises(ArgumentError, match=r"SOFTCUDA_CACHE_DIR is '~nosuchuser/x'"):
        new_cache()


def test_digits_of_other_scripts_are_no_architecture() -> None:
    with pytest.raises(CompileError, match="no architecture"):
        as_arch("sm_\N{ARABIC-INDIC DIGIT NINE}\N{ARABIC-INDIC DIGIT ZERO}")
