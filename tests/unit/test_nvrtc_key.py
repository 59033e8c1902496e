"""The key of a compiled kernel: it changes with all that changes the binary, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from softcuda.errors import CompileError
from softcuda.nvrtc.compiler import make_job
from softcuda.nvrtc.digest import digest
from softcuda.nvrtc.key import entry_name, key_parts, unit_key
from softcuda.nvrtc.unit import CompileUnit, Header, Image

OLD, NEW = (75, 80, 90), (75, 80, 90, 100, 120)


def unit_in(folder: Path, text: str = '#include "a.cuh"\n', header: str = "one") -> CompileUnit:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "k.cu").write_text(text, encoding="utf-8")
    headers = (Header("a.cuh", header),)
    return CompileUnit("k.cu", "f32", "k<f32>", ("--fmad=false",), headers, str(folder))


def key_of(unit: CompileUnit, arch: str = "sm_80", version: str = "13.0") -> str:
    return unit_key(make_job(unit, arch, NEW), version)


def test_compiler_architecture_and_options_make_other_keys(tmp_path: Path) -> None:
    """Two NVRTCs, two architectures, two option lists, of one source (tinygrad 15709)."""
    unit = unit_in(tmp_path)
    keys = [
        key_of(unit._replace(options=options), arch, version)
        for options in (("--fmad=false",), ("--fmad=false", "--generate-line-info"))
        for arch in ("sm_80", "sm_90", "sm_90a")
        for version in ("12.4", "13.0")
    ]
    assert len(set(keys)) == len(keys)


def test_the_driver_is_a_part_of_the_key_of_ptx_alone(tmp_path: Path) -> None:
    unit = unit_in(tmp_path)
    ptx, cubin = make_job(unit, "sm_120", OLD), make_job(unit, "sm_90", OLD)
    assert (ptx.kind, ptx.arch) == (Image.PTX, "compute_90")
    assert unit_key(ptx, "12.4", 12040) != unit_key(ptx, "12.4", 13000)
    assert unit_key(cubin, "12.4", 12040) == unit_key(cubin, "12.4", 13000)


def test_source_header_expression_and_version_make_other_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unit = unit_in(tmp_path / "a")
    keys = {
        key_of(unit),
        key_of(unit_in(tmp_path / "b", header="two")),
        key_of(unit_in(tmp_path / "c", text='#include "a.cuh"\n\n')),
        key_of(unit._replace(expression="k<f64>")),
        key_of(unit._replace(options=())),
    }
    monkeypatch.setattr("softcuda.nvrtc.key.__version__", "9.9.9")
    keys.add(key_of(unit))
    assert len(keys) == 6


def test_paths_and_times_are_no_part_of_the_key(tmp_path: Path) -> None:
    first, second = unit_in(tmp_path / "a"), unit_in(tmp_path / "b c")
    assert key_of(first) == key_of(second)
    parts = key_parts(make_job(second, "sm_80", NEW), "13.0", None)
    assert not any(str(tmp_path).encode() in content for _, content in parts)


def test_parts_cannot_be_shifted_into_each_other() -> None:
    lists = [
        [("a", b"bc")],
        [("ab", b"c")],
        [("a", b"b"), ("c", b"")],
        [("a", b""), ("b", b"c")],
        [("a", b"bc"), ("", b"")],
    ]
    assert len({digest(parts) for parts in lists}) == len(lists)


def test_the_folder_of_an_entry_is_a_plain_name() -> None:
    unit = CompileUnit("k.cu", "f32/../<x> y", "k")
    assert entry_name(unit, "sm_90a", "f" * 64) == f"k.f32_.._x__y-sm_90a-{'f' * 16}".replace(
        "_x__y", "__x__y"
    )


def test_architectures(tmp_path: Path) -> None:
    unit = unit_in(tmp_path)
    made = {name: make_job(unit, name, NEW) for name in ("sm_75", "sm_90a", "sm_100", "sm_103")}
    assert {name: job.arch for name, job in made.items()} == {
        "sm_75": "sm_75",
        "sm_90a": "sm_90a",
        "sm_100": "sm_100",
        "sm_103": "compute_100",
    }
    assert made["sm_103"].kind is Image.PTX
    with pytest.raises(CompileError, match="older than every architecture of this NVRTC, sm_90"):
        make_job(unit, "sm_80", (90,))
