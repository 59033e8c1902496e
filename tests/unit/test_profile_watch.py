"""Watches over files: every change is seen, and a machine without them reads as before."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from softcuda.profile import resolve as resolving
from softcuda.profile import watch as watching
from softcuda.profile.resolve import ProfileStore
from softcuda.profile.watch import Watch, watch_of

PROFILE = "[meta]\nsoft_version = 0.1.0\n[ops]\nadd | any = {}\n"
LONG_AGO = 10**18  # ns: of a file that was not changed just now

on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="watches are of Linux")


def written(path: Path, text: str, ns: int = LONG_AGO) -> Path:
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(ns, ns))
    return path


def watched(path: Path | str) -> Watch:
    watch = watch_of(str(path))
    if watch is None:
        pytest.skip("this C library has no function of the name stat")
    return watch


@on_linux
def test_every_change_is_seen(tmp_path: Path) -> None:
    path = written(tmp_path / "a", "one")
    watch = watched(path)
    assert watch.is_same() and watch.is_same()
    written(path, "two", LONG_AGO + 1000)
    assert not watch.is_same()
    watch = watched(path)
    written(path, "longer", LONG_AGO + 1000)
    assert not watch.is_same()
    watch = watched(path)
    os.replace(written(tmp_path / "b", "two"), path)
    assert not watch.is_same()
    watch = watched(path)
    path.unlink()
    assert not watch.is_same() and not watched(path).is_same()


@on_linux
def test_a_relative_path_is_another_file_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        written(tmp_path / folder / "a", "same")
    monkeypatch.chdir(tmp_path / "one")
    watch = watched("a")
    assert watch.is_same()
    monkeypatch.chdir(tmp_path / "two")
    assert not watch.is_same()


@pytest.mark.parametrize("has_watches", [True, False])
def test_a_store_reads_what_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_watches: bool
) -> None:
    if not has_watches:
        monkeypatch.setattr(watching, "_stat", lambda: None)
    path, store = tmp_path / "a.soft", ProfileStore()
    for backend_id in ("cpu_fused", "cpu_fallback", "cpu_fused"):
        written(path, PROFILE.format(backend_id))
        found = [store.find(str(path), None, None) for _ in range(4)]
        assert all(profile is found[-1] for profile in found)
        row = found[0].lookup("add", "f32", 8)
        assert row is not None and row.backend_id == backend_id


@on_linux
def test_a_profile_that_is_known_is_not_looked_at_by_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, store = written(tmp_path / "a.soft", PROFILE.format("cpu_fused")), ProfileStore()
    watched(path)
    _, known = (store.find(str(path), None, None) for _ in range(2))
    monkeypatch.setattr(resolving.os, "stat", lambda path: pytest.fail("asked again"))
    assert store.find(str(path), None, None) is known


@pytest.mark.parametrize("name", ["a\0b", "\udcff\ud800"])
def test_names_that_no_file_has_are_told(name: str) -> None:
    with pytest.raises(resolving.ConfigError):
        ProfileStore().find(name, None, None)


@on_linux
def test_a_watch_over_another_file_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread may change the folder between the watch and the reading."""
    for folder, backend_id in (("one", "cpu_fused"), ("two", "cpu_fallback")):
        (tmp_path / folder).mkdir()
        written(tmp_path / folder / "a.soft", PROFILE.format(backend_id))
    store, real = ProfileStore(), watch_of

    def moved(path: str) -> Watch | None:
        made = real(path)
        os.chdir(tmp_path / "two")
        return made

    monkeypatch.chdir(tmp_path / "one")
    with monkeypatch.context() as patch:
        patch.setattr(resolving, "watch_of", moved)
        store.find("a.soft", None, None)
    os.chdir(tmp_path / "one")
    row = store.find("a.soft", None, None).lookup("add", "f32", 8)
    assert row is not None and row.backend_id == "cpu_fused"
