"""What a first user met in inspect_kernels: ids of launches, options, words, pipes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fake_nvrtc import FakeLibrary, name_cache, new_cache
from test_inspect_kernels import executable, run, spec_in

import softcuda as sc
from softcuda.compiler.program import Program
from softcuda.compiler.settings import Settings
from softcuda.dtype import DType
from softcuda.executor.structure import flatten
from softcuda.graph.node import Node
from softcuda.graph.trace import trace
from softcuda.kernelspec import KernelSpec
from softcuda.nvrtc.library import Nvrtc, find_nvrtc
from softcuda.profile.grammar import parse
from softcuda.profile.resolve import default_profile, read
from softcuda.profile.vocabulary import known_backends, work_ops
from softcuda.running import compile_traced
from softcuda.tools import inspect_kernels
from softcuda.tools.inspect_compiled import KernelRow
from softcuda.tools.inspect_display import kernel_table, problems, summary
from softcuda.tools.inspect_rows import KernelEntry, chosen_kernels
from softcuda.tools.workloads import accepted_dtypes, typical
from softcuda.tools.workloads_inputs import Source

ON_CUDA = read(Path(__file__).parents[2] / "benchmarks" / "cuda.soft")
CONTRACT = parse(
    b"[meta]\nsoft_version = 0.1.0\n[ops]\nmatmul | any = cuda_contract\n",
    "contract.soft",
    work_ops(),
    known_backends(None),
)
OF_A_CHAIN = re.compile(r"_[0-9a-f]{8}(_|$)")


def compiled(outputs: object, profile: object = ON_CUDA) -> Program:
    """Return the program of a graph for an H200; its kernels are not compiled."""
    nodes, skeleton = flatten(outputs)
    settings = Settings(profile, default_profile(), ON_CUDA.device.target)  # type: ignore[arg-type]
    return compile_traced(trace(nodes), skeleton, settings, Node).program


def products(dtype: DType, other: DType) -> list[sc.Tensor]:
    """Return products of many shapes: large and small, turned, of a few rows, of strided parts."""
    made = []
    for m, n, k in ((1000, 10, 64), (512, 512, 512), (3, 700, 900), (700, 1, 640), (33, 65, 17)):
        a, b = sc.input((m, k), dtype), sc.input((k, n), other)
        made += [a @ b, sc.input((k, m), dtype).T @ sc.input((n, k), other).T, a[:, ::2] @ b[::2]]
    made.append(
        sc.einsum("abij,cjb->aci", sc.input((5, 6, 7, 8), dtype), sc.input((9, 8, 6), other))
    )
    return made


def specs_of(program: Program) -> dict[str, KernelSpec]:
    launches = [launch for step in program.steps for launch in step.launches]
    return {launch.spec.id: launch.spec for launch in launches}


def test_the_id_of_every_launch_names_its_kernel() -> None:
    found: dict[str, KernelSpec] = {}
    source = Source(np.random.default_rng(0))
    for size in (16, 1000):
        for op in work_ops():
            taken = [dtype for dtype in accepted_dtypes(op, source) if not dtype.is_complex]
            for dtype in {taken[0], taken[-1], sc.f32} & set(taken):
                found |= specs_of(compiled(typical(op, size, dtype, source).node(Node)))
    for profile in (ON_CUDA, CONTRACT):
        for dtypes in ((sc.f32, sc.f32), (sc.f64, sc.f64), (sc.bf16, sc.f32), (sc.f16, sc.f16)):
            found |= specs_of(compiled(products(*dtypes), profile))
    generated = {name for name in found if OF_A_CHAIN.search(name)}
    alone = {name: spec for name, spec in found.items() if name not in generated}
    assert len(alone) > 80 and len(generated) > 20
    meant = {entry.spec.id: entry.spec for entry in chosen_kernels(tuple(alone), ())}
    assert meant == alone


@pytest.mark.parametrize(
    "name",
    [
        "gemm_tiled.f32_32x32x32_k4_r",
        "gemm_tiled.f32_32x32x32_r_r",
        "gemm_tiled.f32_64x64x16_r4_r4",
    ],
)
def test_a_whole_id_comes_before_a_regular_expression(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = run(capsys, "--source", name)
    assert (status, err) == (0, "") and out.startswith(f"{name}: gemm_tiled<f32")


def test_what_a_regular_expression_means_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, "--source", r"gemm_tiled\.f32_128x256x8_any$")
    assert status == 0 and err.endswith("is gemm_tiled.f32_128x256x8_any\n")


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["elementwise_dense.add_relu_5b927167_ds_4x2"], r"chain of one graph.*--step N FILE"),
        (["_k_r4$"], r"no kernel of the tables, and \d+ that are made when.*'gemm_tiled\.f32_"),
        (["--diff", "sm_80", "sm_80"], "two architectures"),
        (["--diff", "sm_80", "sm_90a", "--arch", "sm_75"], "--diff does not look at --arch sm_75"),
        (["--step", "0", "file", "--arch", "sm_75"], "--step does not look at --arch sm_75"),
        (["--source", "x", "--arch", "sm_75"], "--source does not look at --arch sm_75"),
        (
            ["x", "--sass", "y"],
            "--sass does not look at the PATTERN x; allowed beside it are --arch",
        ),
        (["--arch", "sm_91"], "'sm_91' is no architecture.*none of this number.*sm_90, sm_100"),
        (["--arch", "sm_80a"], "sm_80 has no variant a.*from sm_90"),
        (["--arch", "sm_900"], "'sm_900' is no architecture"),
    ],
)
def test_what_is_not_looked_at_is_refused(
    argv: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = run(capsys, *argv)
    assert (status, out) == (2, "")
    assert re.search(told, err), err


def test_the_help_names_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--help")
    words = " ".join(out.split())
    assert status == 0 and "--diff ARCH ARCH [NAME ...]" in words
    example = re.search(r"such as (gemm_tiled\.\w+)", words)
    assert example is not None
    assert chosen_kernels((example[1],), ())[0].spec.id == example[1]


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLibrary]:
    """A cache whose folder is a plain file, over a fake NVRTC of sm_75 to sm_120."""
    place = tmp_path / "a file"
    place.write_text("no folder", encoding="utf-8")
    name_cache(monkeypatch, place)
    cache, library = new_cache()
    monkeypatch.setattr(inspect_kernels, "KernelCache", lambda: cache)
    spec = spec_in(tmp_path / "unit", "f32")
    monkeypatch.setattr(
        inspect_kernels, "chosen_kernels", lambda *given: (KernelEntry("cuda_mine", spec),)
    )
    yield library


@pytest.mark.usefixtures("library")
def test_warnings_are_lines_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    """One where the cache is a file, and none that an entry of it is damaged."""
    status, out, err = run(capsys, "--arch", "sm_90a")
    warned = [line for line in err.splitlines() if "warning" in line]
    assert status == 0 and len(warned) == 1, err
    assert warned[0].startswith("inspect_kernels: warning: the compile cache ")
    assert "cannot be written" in warned[0] and ".py" not in err
    assert "1 kernel for sm_90a: 1 compiled now" in out


def test_a_missing_nvrtc_is_said_before_the_rows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pathfinder = pytest.importorskip("cuda.pathfinder", reason="cuda-python is for Linux, Windows")

    def refuse(name: str) -> None:
        raise RuntimeError(f'Failure finding "lib{name}.so": No such file: a, No such file: a')

    monkeypatch.setattr(pathfinder, "load_nvidia_dynamic_lib", refuse)
    name_cache(monkeypatch, tmp_path / "cache")
    cache = type(new_cache()[0])(Nvrtc(find_nvrtc))
    monkeypatch.setattr(inspect_kernels, "KernelCache", lambda: cache)
    status, out, err = run(capsys, "gemm_split_sum", "--arch", "sm_90a")
    assert status == 1 and err.count("libnvrtc, which compiles") == 1
    assert err.count("No such file: a") == 1
    assert "'softcuda[cuda13]'" in err and "'.[cuda13]'" in err
    assert "libnvrtc" not in out and "+0" not in out
    rows = [line for line in out.splitlines() if line.startswith("cuda_tiled")]
    assert len(rows) == 4 and all(line.endswith("not compiled") for line in rows)


def test_problems_are_told_apart_from_the_summary() -> None:
    entry = KernelEntry("cuda_mine", KernelSpec("k", "f32", "k.cu", "k<f32>", ("f32",), 128))
    rows = [KernelRow(entry, arch, problem="it is broken") for arch in ("sm_80", "sm_90a")]
    assert problems(rows) == "not compiled: k.f32 for sm_80 and 1 more: it is broken"
    assert "broken" not in summary(rows, 0, None)
    assert kernel_table(rows).optional[-2:] == ("dtypes", "backend_id")


def test_a_step_is_told_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name_cache(monkeypatch, tmp_path / "cache")
    monkeypatch.setattr("softcuda.nvrtc.cache.KernelCache", lambda: new_cache()[0])
    made = executable()
    number = next(k for k, step in enumerate(made.program.steps) if step.launches)
    made.save(tmp_path / "saved")
    status, out, _ = run(capsys, "--step", str(number), str(tmp_path / "saved"))
    assert status == 0
    assert "op 0: mul(input 0, input 0) -> 64x3 f32" in out
    assert "op 2: relu(op 1) -> 64x3 f32" in out
    assert re.search(r"input 0: 64x3 f32, strides \(3, 1\), value \d+\n", out)
    assert re.search(r"  8 registers, spills 0/0 bytes a thread, static shared \d+ bytes", out)
    assert "dynamic shared 0 bytes" in out and "--saved FILE --ptx ID" in out
    assert max(map(len, out.splitlines())) < 200


@pytest.mark.skipif(os.name != "posix", reason="a pipe that is closed is a signal of POSIX")
@pytest.mark.parametrize(
    "command",
    [
        ["-m", "softcuda.tools.inspect_kernels", "--source", "softmax_rows.f32"],
        ["-m", "softcuda.tools.inspect_kernels", "--help"],
        ["-m", "softcuda.tools.conformance", "--help"],
        ["-m", "softcuda.tools.soft_init", "--help"],
    ],
)
def test_a_pipe_that_ends_is_no_error(command: list[str]) -> None:
    """What `| head -n 0` does: nobody reads; of a short help argparse may not notice."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, *command], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    assert done.stderr == ""
    assert done.returncode in ((0, 141) if "--help" in command else (141,))


def test_launches_say_which_memory_they_count() -> None:
    x = sc.input((1000, 64), name="x")
    printed = str(compiled_executable(sc.softmax(x, axis=1)))
    assert re.search(
        r"^launch 1: softmax_held\S+ grid .* dynamic shared 0 B$", printed, re.MULTILINE
    )


def compiled_executable(outputs: object) -> object:
    nodes, skeleton = flatten(outputs)
    settings = Settings(ON_CUDA, default_profile(), ON_CUDA.device.target)
    return compile_traced(trace(nodes), skeleton, settings, Node)
