"""The parts of inspect_kernels: occupancy, disassembly, comparisons, tables, progress."""

from __future__ import annotations

import io
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from softcuda.errors import CompileError
from softcuda.kernelspec import KernelSpec
from softcuda.nvrtc.unit import Cubin, Image, Resources
from softcuda.tools.inspect_compiled import KernelRow
from softcuda.tools.inspect_diff import compare, comparison_table, histogram_table
from softcuda.tools.inspect_disassembly import (
    Disassembler,
    find_disassembler,
    instructions,
    sass_of,
)
from softcuda.tools.inspect_display import Table, compile_progress, kernel_table, table_text
from softcuda.tools.inspect_occupancy import LIMITS, occupancy
from softcuda.tools.inspect_rows import KernelEntry

# Registers, static shared memory, barriers, threads, dynamic shared memory, architecture: blocks
# and what limits them, as the calculator of the CUDA toolkit (cuda_occupancy.h, 13.0) has them.
OCCUPANCIES = [
    ((32, 0, 1, 256, 0, "sm_90a"), (8, "warps")),
    ((255, 0, 1, 256, 0, "sm_90a"), (1, "registers")),
    ((255, 0, 1, 512, 0, "sm_90a"), (0, "registers")),
    ((40, 0, 1, 32, 0, "sm_75"), (16, "blocks")),
    ((64, 49152, 1, 128, 0, "sm_86"), (2, "shared memory")),
    ((64, 0, 1, 128, 232448, "sm_90a"), (1, "shared memory")),
    ((64, 0, 1, 128, 232449, "sm_90a"), (0, "shared memory")),
    ((16, 0, 4, 32, 0, "sm_120"), (6, "barriers")),
    ((33, 0, 0, 96, 0, "sm_80"), (16, "registers")),
]


@pytest.mark.parametrize(("given", "expected"), OCCUPANCIES)
def test_occupancy(given: tuple[Any, ...], expected: tuple[int, str]) -> None:
    registers, shared, barriers, threads, dynamic, arch = given
    found = occupancy(arch, Resources(registers, 0, 0, 0, shared, barriers), threads, dynamic)
    assert found is not None
    assert (found.blocks, found.limited_by) == expected
    assert found.warps == found.blocks * -(-threads // 32)
    assert found.share == found.warps / LIMITS[int(arch.strip("sm_a"))].warps


def test_limits_that_are_not_known() -> None:
    assert occupancy("sm_990", Resources(8, 0, 0, 0, 0, 0), 32) is None


SASS = """
        /*0000*/                   LDC R1, c[0x0][0x28] ;           /* 0x00000a00ff017b82 */
                                                                    /* 0x000ff00000000800 */
        /*0010*/               @P0 IMAD.MOV R6, R2, R3 ;
        /*0020*/              @!UP1 UIADD3 UR4, -UR13, UR4, URZ ;
        /*10030*/                  IMAD R6, R2, R3, RZ ;
.L_x_1:
        /*0040*/                   EXIT ;
"""


def test_instructions_are_counted() -> None:
    assert instructions(SASS) == {"LDC": 1, "IMAD": 2, "UIADD3": 1, "EXIT": 1}


@pytest.mark.skipif(sys.platform == "win32", reason="the fake tools are shell scripts")
def test_disassemblers_are_found_and_their_failures_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    for name, text in (
        ("nvdisasm", "/bin/cat $2"),
        ("cuobjdump", "echo no such image >&2; exit 3"),
    ):
        folder = tmp_path / name / "bin"
        folder.mkdir(parents=True)
        (folder / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    cubin = Cubin(SASS.encode(), Image.CUBIN, "k", "sm_90a", "", None)
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "nvdisasm"))
    found = find_disassembler()
    assert found is not None and found.path.startswith(str(tmp_path))
    assert sass_of(cubin, found) == SASS
    broken = Disassembler(str(tmp_path / "cuobjdump" / "bin" / "cuobjdump"), "--dump-sass")
    with pytest.raises(CompileError, match="status 3 on a cubin of sm_90a: no such image"):
        sass_of(cubin, broken)
    with pytest.raises(CompileError, match="cannot be run"):
        sass_of(cubin, Disassembler(str(tmp_path / "absent"), "-c"))
    with pytest.raises(CompileError, match="PTX"):
        sass_of(Cubin(b"", Image.PTX, "k", "sm_90a", "", None), found)


def row(arch: str, registers: int) -> KernelRow:
    spec = KernelSpec("k", "f32", "k.cu", "k<f32>", ("f32", "f32", "bool"), 128)
    resources = Resources(registers, 0, 0, 0, 0, 1)
    cubin = Cubin(b"x" * registers, Image.CUBIN, "k", arch, "", resources)
    return KernelRow(KernelEntry("cuda_mine", spec), arch, cubin)


def test_a_comparison_shows_what_changed() -> None:
    (pair,) = compare((row("sm_80", 32), row("sm_90a", 40)), None)
    table = comparison_table([pair])
    cells = dict(zip(table.headings, table.rows[0], strict=True))
    assert (cells["regs"], cells["spills"], cells["warps"]) == ("32 > 40", "0", "64 > 48")
    assert histogram_table([pair], ("sm_80", "sm_90a")) is None
    counted = type(pair)(pair.before, pair.after, (Counter(MOV=3), Counter(MOV=1, LDG=4)))
    histogram = histogram_table([counted], ("sm_80", "sm_90a"))
    assert histogram is not None
    assert histogram.rows == (("LDG", "0", "4", "+4"), ("MOV", "3", "1", "-2"))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_narrow_terminal_does_without_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    table = kernel_table([row("sm_90a", 32)])
    monkeypatch.setenv("COLUMNS", "240")
    wide = table_text(table, Terminal())
    assert "limited by" in wide and "f32*2,bool" in wide and "left out" not in wide
    monkeypatch.setenv("COLUMNS", "80")
    narrow = table_text(table, Terminal())
    assert "left out, the terminal is narrow: limited by, file" in narrow
    assert max(map(len, narrow.splitlines()[2:-1])) <= 80
    assert table_text(Table(("a",), (("[bold]x",),)), io.StringIO()) == "a\n-------\n[bold]x"


def test_progress_is_one_line_on_a_terminal_and_silent_where_it_is_short() -> None:
    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        with compile_progress(stream) as report:
            report(1, 2, "k.f32")
    assert "compiled 1 of 2  k.f32" in terminal.getvalue() and "\n" not in terminal.getvalue()
    assert pipe.getvalue() == ""
