"""Real NVRTC, no device: architectures, errors, options, the disk cache of a second process."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from softcuda.errors import CompileError
from softcuda.kernelspec import Rounding
from softcuda.nvrtc.cache import KernelCache
from softcuda.nvrtc.compiler import compile_job, compile_unit, make_job
from softcuda.nvrtc.headers import find_system_headers, read_system_headers
from softcuda.nvrtc.library import NVRTC
from softcuda.nvrtc.unit import CompileUnit, Header, Image

PROBES = Path(__file__).parent / "kernels"
ARCHITECTURES = (
    "sm_75",
    "sm_80",
    "sm_86",
    "sm_89",
    "sm_90",
    "sm_90a",
    "sm_100",
    "sm_103",
    "sm_120",
)
EXACT = Rounding.EXACT.value

TEXT = """#include "scale.cuh"

template <typename T>
__global__ void __launch_bounds__(128) scale(T* __restrict__ out, const T* __restrict__ in) {
    out[threadIdx.x] = scaled(in[threadIdx.x]);
}
"""
SCALED = Header(
    "scale.cuh",
    "#pragma once\n"
    "template <typename T>\n"
    "__device__ T scaled(T value) { return value * T(3) + T(1); }\n",
)


@pytest.fixture
def unit(tmp_path: Path) -> CompileUnit:
    return unit_in(tmp_path / "src")


def unit_in(folder: Path, text: str = TEXT, header: Header = SCALED, **more: str) -> CompileUnit:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scale.cu").write_text(text, encoding="utf-8")
    expression = more.get("expression", "scale<float>")
    return CompileUnit("scale.cu", "f32", expression, EXACT, (header,), str(folder))


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_cubin_is_made_for_the_exact_architecture(unit: CompileUnit, arch: str) -> None:
    made = compile_unit(unit, arch)
    assert (made.kind, made.arch, made.name) == (Image.CUBIN, arch, "_Z5scaleIfEvPT_PKS0_")
    assert made.image.startswith(b"\x7fELF")
    assert made.resources is not None
    assert 0 < made.resources.registers <= 255
    assert made.resources.spill_store_bytes == made.resources.stack_bytes == 0
    assert compile_unit(unit, arch).image == made.image


def test_an_architecture_of_the_future_gets_ptx_of_the_newest_known(unit: CompileUnit) -> None:
    made = compile_unit(unit, "sm_990a")
    newest = max(NVRTC.architectures())
    assert (made.kind, made.arch, made.resources) == (Image.PTX, f"sm_{newest}", None)
    assert f".target sm_{newest}".encode() in made.image
    assert made.image.endswith(b"\0")


def test_options_decide_on_fused_operations(unit: CompileUnit) -> None:
    """A PTX text shows what rounding a spec asks for."""
    exact = compile_unit(unit, "sm_990").image
    assert b"fma." not in exact and b"mul.rn.f32" in exact and b".ftz" not in exact
    fused = CompileUnit(
        "scale.cu", "f32", "scale<float>", Rounding.FMA.value, (SCALED,), unit.folder
    )
    assert b"fma.rn.f32" in compile_unit(fused, "sm_990").image


def test_an_error_shows_lines_options_expression_and_source(tmp_path: Path) -> None:
    broken = Header("scale.cuh", SCALED.text.replace("T(3)", "three"))
    unit = unit_in(tmp_path / "src", header=broken)
    job = make_job(unit, "sm_90a", NVRTC.architectures())
    with pytest.raises(CompileError) as caught:
        compile_job(job, failed=tmp_path / "failed")
    text = str(caught.value)
    for part in (
        "scale.f32 does not compile",
        'scale.cuh:3: identifier "three" is undefined',
        "      2 | template <typename T>",
        ">     3 | __device__ T scaled(T value) { return value * three + T(1); }",
        "'--fmad=false'",
        "'--gpu-architecture=sm_90a'",
        "name expression: scale<float>",
    ):
        assert part in text
    saved = Path(text.partition("source saved: ")[2].splitlines()[0])
    assert saved.is_relative_to(tmp_path / "failed")
    assert saved.read_text(encoding="utf-8") == TEXT
    assert (saved.parent / "scale.cuh").read_text(encoding="utf-8") == broken.text


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("scale<flot>", r"name expression 'scale<flot>': identifier \"flot\" is undefined"),
        ("nowhere<float>", r"name expression 'nowhere<float>': .*nowhere"),
    ],
)
def test_a_wrong_name_expression_is_named(tmp_path: Path, expression: str, told: str) -> None:
    with pytest.raises(CompileError, match=told):
        compile_unit(unit_in(tmp_path, expression=expression), "sm_80")


def test_an_option_that_nvrtc_does_not_know_is_named(unit: CompileUnit) -> None:
    with pytest.raises(CompileError, match=r"unrecognized option --nonsense[\s\S]*'--nonsense'"):
        compile_unit(unit, "sm_80", options=("--nonsense",))


def test_a_failure_of_the_assembler_is_told(tmp_path: Path) -> None:
    header = Header("scale.cuh", SCALED.text.replace("return", 'asm("nonsense;"); return'))
    with pytest.raises(CompileError, match=r"scale\.cu: ptxas .*nonsense"):
        compile_unit(unit_in(tmp_path, header=header), "sm_80")


def test_a_second_global_function_is_refused(tmp_path: Path) -> None:
    text = f"{TEXT}\n__global__ void other(int* out) {{ *out = 1; }}\n"
    with pytest.raises(CompileError, match=r"global functions .*_Z5otherPi.*a template"):
        compile_unit(unit_in(tmp_path, text=text), "sm_80")


def test_system_headers_in_a_folder_with_a_blank(tmp_path: Path) -> None:
    """One entry an option: a blank in the include path splits nothing (hashcat 279)."""
    folder = tmp_path / "a b" / "inc"
    folder.mkdir(parents=True)
    (folder / "cuda_fp16.h").write_text('#pragma once\n#include "inner.h"\n')
    (folder / "inner.h").write_text("#pragma once\n__device__ float inner() { return 2.0f; }\n")
    text = TEXT.replace('#include "scale', '#include <cuda_fp16.h>\n#include "scale')
    text = text.replace("out[threadIdx.x] =", "out[threadIdx.x] = inner() *")
    unit = unit_in(tmp_path / "c d", text=text)
    job = make_job(
        unit,
        "sm_80",
        NVRTC.architectures(),
        headers=lambda names: read_system_headers(names, str(folder)),
    )
    assert job.system is not None
    assert compile_job(job).kind is Image.CUBIN


def test_the_headers_of_the_runtime(tmp_path: Path) -> None:
    """The two headers that a kernel may include are found, and compile."""
    lines = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
    unit = unit_in(tmp_path, text=lines + TEXT, expression="scale<__half>")
    job = make_job(unit, "sm_80", NVRTC.architectures())
    assert job.system is not None
    assert job.system.folder == find_system_headers()
    assert "half" in compile_job(job).name


def test_threads_give_what_one_thread_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    units = [
        unit_in(tmp_path / "src", expression=f"scale<{name}>")
        for name in ("float", "double", "int", "long long", "unsigned", "short")
    ]
    monkeypatch.setenv("SOFTCUDA_CACHE_DIR", str(tmp_path / "one"))
    one = KernelCache().get_all(units, "sm_90a", threads=1)
    monkeypatch.setenv("SOFTCUDA_CACHE_DIR", str(tmp_path / "many"))
    many = KernelCache().get_all(units, "sm_90a", threads=4)
    assert [cubin.image for cubin in many] == [cubin.image for cubin in one]
    assert [cubin.name for cubin in many] == [cubin.name for cubin in one]


def test_python_runs_while_nvrtc_compiles(unit: CompileUnit) -> None:
    """NVRTC is called without the interpreter's lock."""
    turns = 0
    with ThreadPoolExecutor(1) as pool:
        compiling = pool.submit(compile_unit, unit, "sm_90a")
        while not wait([compiling], 0.001).done:
            turns += 1
        compiling.result()
    assert turns >= 3


SECOND = """
import sys, pathlib
from softcuda.nvrtc.cache import KernelCache
from softcuda.nvrtc.library import NVRTC
from softcuda.nvrtc.unit import CompileUnit, Header
text = pathlib.Path(sys.argv[2]).read_text()
unit = CompileUnit("scale.cu", "f32", "scale<float>", tuple(sys.argv[3:]),
                   (Header("scale.cuh", text),), sys.argv[1])
cache = KernelCache()
made = cache.get(unit, "sm_90a")
maps = pathlib.Path("/proc/self/maps")
mapped = "libnvrtc" in maps.read_text() if maps.exists() else NVRTC.is_loaded
print(len(made.image), cache.compiled, NVRTC.is_loaded, mapped, "cuda.pathfinder" in sys.modules)
"""


@pytest.mark.parametrize("include", ["", "#include <cuda_fp16.h>\n"], ids=["own", "system"])
def test_a_second_process_calls_no_nvrtc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, include: str
) -> None:
    """Nor does it search for NVRTC or for NVIDIA's headers."""
    monkeypatch.setenv("SOFTCUDA_CACHE_DIR", str(tmp_path / "a cache"))
    unit = unit_in(tmp_path / "src", text=include + TEXT)
    header = tmp_path / "scale.cuh"
    header.write_text(SCALED.text, encoding="utf-8")
    command = [sys.executable, "-c", SECOND, unit.folder, str(header), *EXACT]
    told = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    ]
    assert told[0][1:] == ["1", "True", "True", "True"]
    assert told[1] == [told[0][0], "0", "False", "False", "False"]


def test_a_damaged_cubin_is_made_again(
    tmp_path: Path, unit: CompileUnit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOFTCUDA_CACHE_DIR", str(tmp_path / "cache"))
    made = KernelCache().get(unit, "sm_80")
    file = Path(made.folder) / "kernel.cubin"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="damaged"):
        assert KernelCache().get(unit, "sm_80").image == made.image
