"""Which includes a kernel may have, and what is read for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from softcuda.errors import CompileError
from softcuda.nvrtc.headers import read_system_headers
from softcuda.nvrtc.resources import code_names, entry_names, read_resources
from softcuda.nvrtc.source import read_source
from softcuda.nvrtc.unit import CompileUnit, Header, Resources, as_arch
from softcuda.paths import packaged_folder

KERNELS = sorted(Path(packaged_folder("kernels")).glob("*.cu*"))

# Files that may be longer than 300 lines: one struct an op, or one family whose variants share
# their helpers.
LONGER = {
    "ops.cuh": 720,
    "reductions.cuh": 340,
}


def unit_of(folder: Path, text: str, *headers: Header, **files: str) -> CompileUnit:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "k.cu").write_text(text, encoding="utf-8")
    for stem, content in files.items():
        (folder / f"{stem}.cuh").write_text(content, encoding="utf-8")
    return CompileUnit("k.cu", "f32", "k<f32>", headers=headers, folder=str(folder))


def test_closure_of_includes(tmp_path: Path) -> None:
    unit = unit_of(
        tmp_path,
        '#include "a.cuh"\n  #  include <cuda_fp16.h> // halves\n',
        a='#pragma once\n#include "b.cuh"\n',
        b='#pragma once\n#include "a.cuh"\n#include <cuda_bf16.h>\n',
        unused="never read",
    )
    source = read_source(unit)
    assert [header.name for header in source.headers] == ["a.cuh", "b.cuh"]
    assert source.system == ("cuda_bf16.h", "cuda_fp16.h")
    assert source.text == (tmp_path / "k.cu").read_text(encoding="utf-8")


def test_given_text_wins_over_the_folder_and_the_folder_over_the_package(tmp_path: Path) -> None:
    text = '#include "a.cuh"\n#include "common.cuh"\n#include "ptx.cuh"\n'
    unit = unit_of(tmp_path, text, Header("a.cuh", "given"), a="file", common="own")
    texts = {header.name: header.text for header in read_source(unit).headers}
    packaged = Path(packaged_folder("kernels"), "ptx.cuh").read_text(encoding="utf-8")
    assert texts == {"a.cuh": "given", "common.cuh": "own", "ptx.cuh": packaged}


@pytest.mark.parametrize(
    "line",
    [
        "#include <cuda_runtime.h>",
        '#include "../secret.cuh"',
        '#include "a.h"',
        '#include "sub/a.cuh"',
        "#include MACRO",
        "#include_next <cuda_fp16.h>",
        '#import "a.cuh"',
        '%:include "a.cuh"',
        '#include "a.cuh" int x;',
        "#include \\",
    ],
)
def test_other_includes_are_refused_by_file_and_line(tmp_path: Path, line: str) -> None:
    unit = unit_of(tmp_path, '#include "a.cuh"\n', a=f"#pragma once\n\n{line}\n")
    with pytest.raises(CompileError, match=r"a\.cuh:3: .*allowed are .*name\.cuh.*cuda_fp16"):
        read_source(unit)


def test_missing_files_are_named(tmp_path: Path) -> None:
    unit = unit_of(tmp_path, '\n#include "nowhere.cuh"\n', Header("chain.cuh", ""))
    with pytest.raises(CompileError, match=r'k\.cu:2: there is no header "nowhere.cuh".*chain'):
        read_source(unit)
    with pytest.raises(CompileError, match=r"kernel gone\.f32 cannot be read: .*gone\.cu"):
        read_source(CompileUnit("gone.cu", "f32", "gone<f32>"))


def test_system_headers_are_digested_with_what_they_include(tmp_path: Path) -> None:
    (tmp_path / "cuda_fp16.h").write_text('#include "inner.hpp"\n#include <builtin>\n')
    (tmp_path / "inner.hpp").write_text("one")
    before = read_system_headers(("cuda_fp16.h",), str(tmp_path))
    (tmp_path / "inner.hpp").write_text("two")
    after = read_system_headers(("cuda_fp16.h",), str(tmp_path))
    assert before.folder == after.folder == str(tmp_path)
    assert before.digest != after.digest


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.name)
def test_packaged_kernels_keep_the_rules(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    generated = (Header("chain.cuh", "#pragma once\n"),)
    read_source(CompileUnit(path.name, "f32", "", headers=generated))
    directives = [line.split()[0] for line in text.splitlines() if line.lstrip().startswith("#")]
    assert set(directives) <= {"#include", "#pragma"}
    assert text.startswith("// "), "a file begins with a sentence on what it does"
    if path.suffix == ".cuh":
        assert "\n#pragma once\n" in text
    long = [n for n, line in enumerate(text.splitlines(), 1) if len(line) > 100]
    assert not long and len(text.splitlines()) <= LONGER.get(path.name, 300)


@pytest.mark.parametrize("name", ["sm_70", "sm_61"])
def test_old_architectures_are_refused_by_name(name: str) -> None:
    with pytest.raises(CompileError, match=f"{name} is not supported; the oldest .* sm_75"):
        as_arch(name)


@pytest.mark.parametrize("name", ["90", "sm90", "compute_90", "sm_9", "sm_90b", "", "sm_90a "])
def test_other_names_are_no_architecture(name: str) -> None:
    with pytest.raises(CompileError, match="is no architecture"):
        as_arch(name)


LOG = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z1kIfEvPT_' for 'sm_75'
ptxas info    : Function properties for _Z6helperf
ptxas         .     16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Function properties for _Z1kIfEvPT_
ptxas         .     40 bytes stack frame, 36 bytes spill stores, 28 bytes spill loads
ptxas info    : Used 255 registers, used 2 barriers, 1024 bytes smem, 372 bytes cmem[0]
ptxas info    : Compiling entry function '_Z1lIfEvPT_' for 'sm_75'
ptxas info    : Used 16 registers, 4096+0 bytes smem
"""


def test_resources_are_read_from_the_log() -> None:
    assert entry_names(LOG) == ("_Z1kIfEvPT_", "_Z1lIfEvPT_")
    assert read_resources(LOG, "_Z1kIfEvPT_") == Resources(255, 40, 36, 28, 1024, 2)
    assert read_resources(LOG, "_Z1lIfEvPT_") == Resources(16, 0, 0, 0, 4096, 0)
    assert read_resources(LOG, "_Z1mIfEvPT_") is None
    assert read_resources("", "_Z1kIfEvPT_") is None


def test_what_is_no_machine_code_names_nothing() -> None:
    """An NVRTC with a cache of its own says nothing in its log: then sections are asked."""
    for image in (b"", b"\x7fELF", b"\x7fELF" + bytes(60), b"\xff" * 200):
        assert code_names(image) == ()
