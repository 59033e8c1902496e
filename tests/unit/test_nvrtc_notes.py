"""Notes of the compile cache: what a later process need not ask, and when they do not hold."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_nvrtc import FakeLibrary, entries, fake_nvrtc, make_unit, name_cache

from softcuda.errors import SoftCudaWarning
from softcuda.nvrtc import cache as cache_module
from softcuda.nvrtc.cache import KernelCache
from softcuda.nvrtc.headers import SystemHeaders, read_system_headers
from softcuda.nvrtc.notes import FILE, read_note, write_note
from softcuda.nvrtc.unit import CompileUnit

ARCH = "sm_90a"
HEADER = "cuda_fp16.h"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return name_cache(monkeypatch, tmp_path / "cache")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """Return the file of an NVRTC."""
    file = tmp_path / "libnvrtc.so"
    file.write_bytes(b"library")
    return file


class Includes:
    """NVIDIA's headers in a folder, and how often they were searched for."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.searches = 0
        self.write(HEADER, '#include "inner.hpp"\n#include <builtin>\n')
        self.write("inner.hpp", "one")

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def find(self, names: tuple[str, ...]) -> SystemHeaders:
        self.searches += 1
        return read_system_headers(names, str(self.folder))


@pytest.fixture
def includes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Includes:
    made = Includes(tmp_path / "include")
    monkeypatch.setattr(cache_module, "system_headers", made.find)
    return made


@pytest.fixture
def unit(tmp_path: Path) -> CompileUnit:
    return make_unit(tmp_path / "src", f"#include <{HEADER}>\ngood")


def process(library: Path, unit: CompileUnit) -> FakeLibrary:
    """Take a unit as a new process would, and return the NVRTC that it found."""
    nvrtc, found = fake_nvrtc((13, 0), str(library))
    KernelCache(nvrtc).get(unit, ARCH)
    return found


def test_a_warm_cache_asks_neither_nvrtc_nor_for_headers(
    place: Path, library: Path, includes: Includes, unit: CompileUnit
) -> None:
    assert process(library, unit).compiled == includes.searches == 1
    assert not process(library, unit).calls
    assert includes.searches == 1


def touch(includes: Includes) -> None:
    """Change nothing but a time."""
    file = includes.folder / "inner.hpp"
    os.utime(file, ns=(0, file.stat().st_mtime_ns + 1))


def grow(includes: Includes) -> None:
    includes.write("inner.hpp", "one more")


def appear(includes: Includes) -> None:
    """Bring what was included and not there."""
    includes.write("builtin", "new")


def vanish(includes: Includes) -> None:
    (includes.folder / "inner.hpp").unlink()


@pytest.mark.parametrize(("change", "compiled"), [(touch, 0), (grow, 1), (appear, 1), (vanish, 1)])
def test_headers_that_changed_are_read_again(
    place: Path,
    library: Path,
    includes: Includes,
    unit: CompileUnit,
    change: Callable[[Includes], None],
    compiled: int,
) -> None:
    process(library, unit)
    change(includes)
    assert process(library, unit).compiled == compiled
    assert includes.searches == 2
    assert len(entries(place)) == 1 + compiled
    assert not process(library, unit).calls
    assert includes.searches == 2


def test_headers_are_read_once_in_a_process(
    library: Path, place: Path, includes: Includes, unit: CompileUnit
) -> None:
    place.mkdir()
    cache = KernelCache(fake_nvrtc((13, 0), str(library))[0])
    for number in range(3):
        cache.get(unit._replace(variant=f"v{number}"), ARCH)
    assert includes.searches == 1


def test_a_library_of_another_time_is_asked_again(
    place: Path, library: Path, includes: Includes, unit: CompileUnit
) -> None:
    """An update may leave the size as it was."""
    process(library, unit)
    os.utime(library, ns=(0, library.stat().st_mtime_ns + 1))
    asked = process(library, unit)
    assert asked.calls["nvrtcVersion"] and not asked.compiled
    assert not process(library, unit).calls


@pytest.mark.parametrize("text", ["{ damaged", "[]", '{"x": 1}', "\udcff"])
def test_damaged_notes_are_made_again(
    place: Path, library: Path, includes: Includes, unit: CompileUnit, text: str
) -> None:
    process(library, unit)
    (place / FILE).write_bytes(text.encode(errors="surrogateescape"))
    assert not process(library, unit).compiled
    assert includes.searches == 2
    assert not process(library, unit).calls


def test_notes_of_another_form_do_not_hold(
    place: Path, library: Path, includes: Includes, unit: CompileUnit
) -> None:
    process(library, unit)
    notes = json.loads((place / FILE).read_text(encoding="utf-8"))
    ours = {topic: {**note, "facts": 1} for topic, note in next(iter(notes.values())).items()}
    (place / FILE).write_text(json.dumps(dict.fromkeys(notes, ours)), encoding="utf-8")
    assert process(library, unit).calls["nvrtcVersion"]
    assert includes.searches == 2


def test_an_installation_reads_its_own_notes(
    place: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_note(place, "topic", [1], [str(library)])
    monkeypatch.setenv("CUDA_PATH", "/opt/another")
    assert read_note(place, "topic") is None
    write_note(place, "topic", [2], [str(library)])
    monkeypatch.undo()
    assert read_note(place, "topic") == [1]


@pytest.mark.usefixtures("includes")
def test_a_place_where_no_note_can_be_written_costs_one_warning(
    place: Path, library: Path, unit: CompileUnit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, *arguments: object, **named: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.warns(SoftCudaWarning, match="cannot be written") as caught:
        assert process(library, unit).compiled == 1
    assert len(caught) == 1
