"""libnvrtc: loaded on first use, and an error that helps where it is missing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from fake_nvrtc import fake_nvrtc

from softcuda.errors import CompileError, NvrtcNotFound
from softcuda.kernelspec import KernelSpec, Rounding, fast_divisor
from softcuda.nvrtc.api import NVRTC_RESULTS
from softcuda.nvrtc.library import LoadedNvrtc, Nvrtc, extra_for_driver, find_nvrtc


class Empty:
    """A library that exports nothing."""

    def __getitem__(self, name: str) -> Any:
        raise AttributeError(name)


def hide_nvrtc(monkeypatch: pytest.MonkeyPatch) -> None:
    pathfinder = pytest.importorskip("cuda.pathfinder", reason="cuda-python is for Linux, Windows")

    def refuse(name: str) -> None:
        raise RuntimeError(f"no lib{name} in\n  /somewhere/lib")

    monkeypatch.setattr(pathfinder, "load_nvidia_dynamic_lib", refuse)


def test_a_missing_nvrtc_is_named_with_what_was_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """First compile without libnvrtc (tinygrad 3606): the error names it and the places."""
    hide_nvrtc(monkeypatch)
    monkeypatch.setenv("CUDA_PATH", "/opt/cuda of mine")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    with pytest.raises(NvrtcNotFound) as caught:
        Nvrtc(find_nvrtc).version()
    text = str(caught.value)
    for part in (
        "libnvrtc",
        "/somewhere/lib",
        "CUDA_PATH is '/opt/cuda of mine'",
        "CUDA_HOME is unset",
        "LD_LIBRARY_PATH",
        "softcuda[cuda13]",
        "softcuda[cuda12]",
    ):
        assert part in text
    assert isinstance(caught.value, RuntimeError)
    assert not isinstance(caught.value, AttributeError)


def test_a_library_without_a_function_is_named() -> None:
    nvrtc = Nvrtc(lambda: LoadedNvrtc(Empty(), "/old/libnvrtc.so", True))
    with pytest.raises(NvrtcNotFound, match=r"/old/libnvrtc\.so has no function nvrtcVersion.*12"):
        nvrtc.version()
    with pytest.raises(AttributeError, match="NVRTC_PROTOTYPES"):
        _ = nvrtc.nvrtcNonsense


def test_results_are_checked() -> None:
    def fail(*arguments: object) -> int:
        return 3

    nvrtc, library = fake_nvrtc()
    library.nvrtcVersion = fail  # type: ignore[assignment,method-assign]
    bound: Callable[..., int] = nvrtc.nvrtcVersion
    check = bound.errcheck  # type: ignore[attr-defined]
    with pytest.raises(CompileError, match=r"nvrtcVersion failed: NVRTC_ERROR_INVALID_INPUT \(3\)"):
        check(3, bound, ())
    assert check(0, bound, ()) == 0
    compile_check = nvrtc.nvrtcCompileProgram.errcheck  # type: ignore[attr-defined]
    assert compile_check(6, None, ()) == 6
    with pytest.raises(CompileError, match="OUT_OF_MEMORY"):
        compile_check(1, None, ())


def test_results_are_those_of_the_bindings() -> None:
    bindings = pytest.importorskip("cuda.bindings.nvrtc", reason="for Linux and Windows only")
    theirs = {member.value: member.name for member in bindings.nvrtcResult}
    assert {code: NVRTC_RESULTS.get(code) for code in theirs} == theirs


def test_import_loads_no_library() -> None:
    code = (
        "import softcuda.nvrtc.cache, softcuda.kernelspec, sys, pathlib; "
        "maps = pathlib.Path('/proc/self/maps'); "
        "text = maps.read_text() if maps.exists() else ''; "
        "print('nvrtc' in text, 'cuda.pathfinder' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_the_extra_fits_the_driver() -> None:
    assert [extra_for_driver(v) for v in (12000, 12090, 13000, 13020, None)] == [
        "cuda12",
        "cuda12",
        "cuda13",
        "cuda13",
        "cuda13",
    ]


def test_a_spec_says_which_architectures_it_refuses() -> None:
    spec = KernelSpec("mma", "f16", "mma.cu", "mma<f16>", ("f16",), 128, min_arch=80)
    assert spec.refusal("sm_80") == spec.refusal("sm_120") == ""
    assert "sm_80 or newer, this is sm_75" in spec.refusal("sm_75")
    only = KernelSpec("wgmma", "f16", "wgmma.cu", "w<f16>", ("f16",), 128, only_arch="sm_90a")
    assert only.refusal("sm_90a") == ""
    assert "needs sm_90a, this is sm_90" in only.refusal("sm_90")


def test_the_unit_of_a_spec() -> None:
    spec = KernelSpec("sum", "f32", "reduce.cu", "sum<f32>", ("f32",), 256, rounding=Rounding.FMA)
    assert (spec.id, spec.unit.id) == ("sum.f32", "reduce.sum_f32")
    assert "--fmad=true" in spec.unit.options
    exact = KernelSpec("fill", "f32", "fill.cu", "fill<f32>", ("f32",), 256)
    assert exact.unit.id == exact.id == "fill.f32"
    assert set(exact.unit.options) == {
        "--fmad=false",
        "--ftz=false",
        "--prec-div=true",
        "--prec-sqrt=true",
    }


def test_fast_division_is_exact() -> None:
    top = 2**31 - 1
    divisors = {1, 2, 3, 5, 7, 10, 641, 65535, 65536, 65537, 10**9, 2**30, 2**30 + 1, top - 1, top}
    for divisor in sorted(divisors):
        made = fast_divisor(divisor)
        near = {0, 1, divisor - 1, divisor, divisor + 1, top - 1, top}
        near |= {top // divisor * divisor + step for step in (-1, 0, 1)}
        for n in (n for n in near if 0 <= n <= top):
            high = (n * made.multiplier) >> 32
            assert made.multiplier < 2**32 and high + n < 2**32
            assert (high + n) >> made.shift == n // divisor
