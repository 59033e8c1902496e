"""The compile cache where entries are damaged, or where nothing can be written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_nvrtc import entries, make_unit, name_cache, new_cache

from softcuda.errors import SoftCudaWarning
from softcuda.nvrtc.unit import CompileUnit

ARCH = "sm_90a"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Name a cache folder with a blank in its path that does not exist yet."""
    return name_cache(monkeypatch, tmp_path / "a cache")


@pytest.fixture
def unit(tmp_path: Path) -> CompileUnit:
    return make_unit(tmp_path, "good")


def truncate_to_nothing(entry: Path) -> None:
    (entry / "kernel.cubin").write_bytes(b"")


def truncate_to_half(entry: Path) -> None:
    content = (entry / "kernel.cubin").read_bytes()
    (entry / "kernel.cubin").write_bytes(content[: len(content) // 2])


def flip_a_byte(entry: Path) -> None:
    content = bytearray((entry / "kernel.cubin").read_bytes())
    content[7] ^= 1
    (entry / "kernel.cubin").write_bytes(content)


def cubin_to_folder(entry: Path) -> None:
    (entry / "kernel.cubin").unlink()
    (entry / "kernel.cubin").mkdir()


def meta_to_folder(entry: Path) -> None:
    (entry / "meta.json").unlink()
    (entry / "meta.json").mkdir()


def entry_to_file(entry: Path) -> None:
    shutil.rmtree(entry)
    entry.write_text("not a folder")


def entry_to_empty_folder(entry: Path) -> None:
    shutil.rmtree(entry)
    entry.mkdir()


def remove_the_cubin(entry: Path) -> None:
    (entry / "kernel.cubin").unlink()


def cut_meta(entry: Path) -> None:
    content = (entry / "meta.json").read_bytes()
    (entry / "meta.json").write_bytes(content[: len(content) // 2])


def meta_of_another_form(entry: Path) -> None:
    (entry / "meta.json").write_text('["a", "list"]')


def meta_with_another_key(entry: Path) -> None:
    meta = json.loads((entry / "meta.json").read_text())
    (entry / "meta.json").write_text(json.dumps({**meta, "key": "0" * 64}))


def meta_of_bytes(entry: Path) -> None:
    (entry / "meta.json").write_bytes(b"\xff\xfe\x00")


DAMAGE = (
    truncate_to_nothing,
    truncate_to_half,
    flip_a_byte,
    cubin_to_folder,
    meta_to_folder,
    entry_to_file,
    entry_to_empty_folder,
    remove_the_cubin,
    cut_meta,
    meta_of_another_form,
    meta_with_another_key,
    meta_of_bytes,
)


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda function: function.__name__)
def test_a_damaged_entry_is_made_again_with_one_warning(
    place: Path, unit: CompileUnit, damage: Callable[[Path], None]
) -> None:
    """No damage to an entry is fatal (openmm 2847)."""
    made = new_cache()[0].get(unit, ARCH)
    (entry,) = entries(place)
    damage(entry)
    cache, library = new_cache()
    with pytest.warns(SoftCudaWarning) as caught:
        again = cache.get(unit, ARCH)
    assert len(caught) == 1
    assert str(entry) in str(caught[0].message)
    assert again == made
    assert library.compiled == 1
    healed, other = new_cache()
    assert healed.get(unit, ARCH) == made
    assert other.compiled == 0


@pytest.fixture
def refusing(unit: CompileUnit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse to make folders, as a read-only file system does, whoever runs the test."""

    def refuse(self: Path, *arguments: object, **named: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)


@pytest.mark.usefixtures("refusing")
def test_a_read_only_place_costs_one_warning(place: Path, unit: CompileUnit) -> None:
    """A home that cannot be written (cupy 2296): kernels stay in memory."""
    cache, library = new_cache()
    others = [CompileUnit("k.cu", f"v{n}", "k<f32>", (), unit.headers, unit.folder) for n in (1, 2)]
    with pytest.warns(SoftCudaWarning, match="SOFTCUDA_CACHE_DIR") as caught:
        made = [cache.get(each, ARCH) for each in (unit, *others)]
    assert len(caught) == 1
    assert str(place) in str(caught[0].message)
    assert [cubin.folder for cubin in made] == [""] * 3
    assert cache.get(unit, ARCH) is made[0]
    assert library.compiled == 3


def test_a_read_only_place_is_still_read(
    place: Path, unit: CompileUnit, request: pytest.FixtureRequest
) -> None:
    made = new_cache()[0].get(unit, ARCH)
    request.getfixturevalue("refusing")
    cache, library = new_cache()
    assert cache.get(unit, ARCH) == made
    assert library.compiled == 0


def test_a_damaged_entry_in_a_read_only_place(
    place: Path, unit: CompileUnit, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_cache()[0].get(unit, ARCH)
    truncate_to_half(entries(place)[0])

    def refuse(self: Path, target: Path) -> None:
        raise OSError(30, "Read-only file system", str(self))

    monkeypatch.setattr(Path, "rename", refuse)
    cache, _ = new_cache()
    with pytest.warns(SoftCudaWarning) as caught:
        assert cache.get(unit, ARCH).image.startswith(b"13.0")
    assert len(caught) == 2  # that it is damaged; that nothing can be written


def test_no_home_costs_one_warning(
    unit: CompileUnit, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SOFTCUDA_CACHE_DIR", raising=False)
    monkeypatch.setattr("softcuda.nvrtc.place.user_cache_folder", lambda: None)
    cache, _ = new_cache()
    with pytest.warns(SoftCudaWarning, match="no home") as caught:
        cache.get(unit, ARCH)
        cache.get(unit, "sm_80")
    assert len(caught) == 1
