"""The compile cache over a fake NVRTC: hits, damage, folders that cannot be written, races."""

from __future__ import annotations

import json
import os
import threading
import warnings
from pathlib import Path

import pytest
from fake_nvrtc import entries, fake_nvrtc, make_unit, name_cache, new_cache

from softcuda.errors import CacheMiss, CompileError, NvrtcNotFound, SoftCudaWarning
from softcuda.nvrtc import store
from softcuda.nvrtc.cache import KernelCache
from softcuda.nvrtc.library import LoadedNvrtc, Nvrtc
from softcuda.nvrtc.place import cache_place
from softcuda.nvrtc.unit import CompileUnit, Cubin, Image

ARCH = "sm_90a"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Name a cache folder with a blank in its path that does not exist yet."""
    return name_cache(monkeypatch, tmp_path / "a cache")


@pytest.fixture
def unit(tmp_path: Path) -> CompileUnit:
    return make_unit(tmp_path, "good")


def test_a_unit_is_compiled_once_and_found_by_the_next_process(
    place: Path, unit: CompileUnit
) -> None:
    first, library = new_cache()
    made = first.get(unit, ARCH)
    assert first.get(unit, ARCH) is made
    assert library.compiled == first.compiled == 1
    second, other = new_cache()
    assert second.get(unit, ARCH) == made
    assert other.compiled == second.compiled == 0
    (entry,) = entries(place)
    assert made.folder == str(entry)
    assert entry.name.startswith(f"k.f32-{ARCH}-")
    assert sorted(path.name for path in entry.iterdir()) == [
        "chain.cuh",
        "kernel.cu",
        "kernel.cubin",
        "meta.json",
    ]
    assert (entry / "kernel.cu").read_bytes() == (Path(unit.folder) / "k.cu").read_bytes()
    assert (entry / "kernel.cubin").read_bytes() == made.image
    meta = json.loads((entry / "meta.json").read_text(encoding="utf-8"))
    assert meta["key"][:16] == entry.name[-16:]
    assert ["name expression", "k<f32>"] in meta["parts"]
    assert meta["resources"]["registers"] == 8
    assert not [path for path in place.iterdir() if path.name.startswith(".")]


def test_another_nvrtc_does_not_use_foreign_code(place: Path, unit: CompileUnit) -> None:
    new_cache((13, 0))[0].get(unit, ARCH)
    cache, library = new_cache((12, 4))
    assert cache.get(unit, ARCH).image.startswith(b"12.4")
    assert library.compiled == 1
    assert len(entries(place)) == 2


@pytest.mark.skipif(os.name != "posix", reason="the folders of Linux")
def test_the_place_of_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SOFTCUDA_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_place() == tmp_path / ".cache" / "softcuda"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert cache_place() == tmp_path / "x" / "softcuda"
    monkeypatch.setenv("SOFTCUDA_CACHE_DIR", str(tmp_path / "named"))
    assert cache_place() == tmp_path / "named"


def test_without_jit_a_miss_lists_the_specs(
    place: Path, unit: CompileUnit, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = new_cache()[0].get(unit, ARCH)
    monkeypatch.setenv("SOFTCUDA_JIT", "off")
    cache, library = new_cache()
    assert cache.get(unit, ARCH) == made
    others = [CompileUnit("k.cu", f"v{n}", f"k<{n}>", (), unit.headers, unit.folder) for n in "ab"]
    with pytest.raises(CacheMiss) as caught:
        cache.get_all([unit, *others], ARCH)
    text = str(caught.value)
    for part in ("k.va", "k<a>", "k.vb", "k<b>", "SOFTCUDA_JIT=off", str(place), ARCH):
        assert part in text
    assert library.compiled == 0


def test_without_jit_and_nvrtc_the_spec_is_listed(
    place: Path, unit: CompileUnit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> LoadedNvrtc:
        raise NvrtcNotFound("no libnvrtc here")

    with pytest.raises(NvrtcNotFound):
        KernelCache(Nvrtc(missing)).get(unit, ARCH)
    monkeypatch.setenv("SOFTCUDA_JIT", "off")
    with pytest.raises(CacheMiss, match=r"k\.f32 for sm_90a .*no libnvrtc here"):
        KernelCache(Nvrtc(missing)).get(unit, ARCH)


@pytest.mark.parametrize(
    ("knob", "option"),
    [("SOFTCUDA_LINEINFO", "--generate-line-info"), ("SOFTCUDA_DEBUG", "--device-debug")],
)
def test_knobs_that_change_the_code_change_the_entry(
    place: Path, unit: CompileUnit, monkeypatch: pytest.MonkeyPatch, knob: str, option: str
) -> None:
    new_cache()[0].get(unit, ARCH)
    monkeypatch.setenv(knob, "1")
    cache, library = new_cache()
    cache.get(unit, ARCH)
    assert option in library.options[0]
    assert len(entries(place)) == 2


def test_ptx_for_an_unknown_architecture_is_said_once(place: Path, unit: CompileUnit) -> None:
    cache, library = new_cache()
    other = CompileUnit("k.cu", "other", "k<f32>", (), unit.headers, unit.folder)
    with pytest.warns(SoftCudaWarning, match=r"sm_130 is newer than NVRTC 13\.0.*compute_120") as c:
        made = cache.get_all([unit, other], "sm_130")
    assert len(c) == 1
    assert [cubin.kind for cubin in made] == [Image.PTX] * 2
    assert library.options[0][0] == "--gpu-architecture=compute_120"
    assert made[0].name in made[0].image.decode()


def test_errors_of_threads_reach_the_caller(place: Path, tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    good, bad = make_unit(tmp_path, "good"), make_unit(tmp_path / "bad", "broken")
    cache, library = new_cache()
    with pytest.raises(CompileError, match=r'k\.cu:1: "broken" is broken') as caught:
        cache.get_all([good, bad, good], ARCH, threads=3)
    assert library.compiled == 2
    saved = str(caught.value).partition("source saved: ")[2].splitlines()[0]
    assert Path(saved).read_text(encoding="utf-8").endswith("broken\n")
    assert Path(saved).is_relative_to(place / "failed")


def test_many_threads_compile_a_unit_once(place: Path, unit: CompileUnit) -> None:
    cache, library = new_cache()
    made = cache.get_all([unit] * 64, ARCH, threads=8)
    assert library.compiled == 1
    assert len({id(cubin) for cubin in made}) == 1


def test_the_loser_of_a_race_takes_the_winners_entry(place: Path, unit: CompileUnit) -> None:
    caches = [new_cache() for _ in range(6)]
    barrier = threading.Barrier(len(caches))
    made: list[Cubin] = []

    def work(cache: KernelCache) -> None:
        barrier.wait()
        made.append(cache.get(unit, ARCH))

    threads = [threading.Thread(target=work, args=(cache,)) for cache, _ in caches]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(made) == len(caches)
    assert len(set(made)) == 1
    assert len(entries(place)) == 1
    assert not [path for path in place.iterdir() if path.name.startswith(".")]


def test_an_entry_appears_whole_or_not_at_all(tmp_path: Path) -> None:

    entry = tmp_path / "cache" / "k"
    with pytest.raises(TypeError):
        store.write_entry(entry, {"kernel.cu": b"x", "kernel.cubin": None})  # type: ignore[dict-item]
    assert list((tmp_path / "cache").iterdir()) == []


def test_the_note_of_the_toolchain_spares_loading_nvrtc(
    place: Path, unit: CompileUnit, tmp_path: Path
) -> None:
    file = tmp_path / "libnvrtc.so"
    file.write_bytes(b"library")
    nvrtc, _ = fake_nvrtc((13, 0), str(file))
    made = KernelCache(nvrtc).get(unit, ARCH)
    warm, library = fake_nvrtc((13, 0), str(file))
    assert KernelCache(warm).get(unit, ARCH) == made
    assert not warm.is_loaded and not library.calls
    file.write_bytes(b"another library")
    newer, library = fake_nvrtc((13, 1), str(file))
    assert KernelCache(newer).get(unit, ARCH).image.startswith(b"13.1")
    assert library.compiled == 1


def test_a_note_that_no_longer_holds_costs_no_wrong_key(
    place: Path, unit: CompileUnit, tmp_path: Path
) -> None:
    """The noted file is unchanged, but another NVRTC is loaded when a kernel is compiled."""
    file = tmp_path / "libnvrtc.so"
    file.write_bytes(b"library")
    nvrtc, _ = fake_nvrtc((13, 0), str(file))
    KernelCache(nvrtc).get(unit, ARCH)
    changed, library = fake_nvrtc((12, 4), str(file))
    cache = KernelCache(changed)
    assert cache.get(unit, "sm_80").image.startswith(b"12.4")
    assert library.compiled == 1
    version = "12.4 (7 bytes)"
    metas = [json.loads((entry / "meta.json").read_text()) for entry in entries(place)]
    assert sum(["nvrtc", version] in meta["parts"] for meta in metas) == 1
    (place / "toolchain.json").write_text("{ damaged")
    assert KernelCache(fake_nvrtc((12, 4), str(file))[0]).get(unit, "sm_80").folder
