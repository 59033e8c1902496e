"""inspect_kernels without NVRTC: rows, filters, sources, steps; a fake compiler."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_nvrtc import FakeLibrary, make_unit, name_cache, new_cache

import softcuda
from softcuda.backends import register, unregister
from softcuda.compiler.settings import Settings
from softcuda.executor.executable import Executable
from softcuda.executor.structure import flatten
from softcuda.graph.trace import trace
from softcuda.kernelspec import KernelSpec
from softcuda.nvrtc.unit import Header
from softcuda.profile.resolve import default_profile, read
from softcuda.running import compile_traced
from softcuda.target import Target
from softcuda.tools import inspect_kernels
from softcuda.tools.inspect_kernels import main
from softcuda.tools.inspect_rows import cuda_backends

ON_CUDA = Path(__file__).parents[2] / "benchmarks" / "cuda.soft"
MINE = ["--backend", "cuda_mine"]


def spec_in(folder: Path, variant: str, **more: Any) -> KernelSpec:
    make_unit(folder, more.pop("text", "plain"))
    header = Header("chain.cuh", f"chain of {variant}")
    return KernelSpec(
        "k", variant, "k.cu", f"k<{variant}>", (variant,), 128, (64, 2),
        shared_bytes=512, headers=(header,), folder=str(folder), **more,
    )  # fmt: skip


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLibrary]:
    """A registered backend of three kernels, one of which does not compile; a fake NVRTC."""
    name_cache(monkeypatch, tmp_path / "cache")
    cache, library = new_cache()
    monkeypatch.setattr(inspect_kernels, "KernelCache", lambda: cache)
    kernels = (
        spec_in(tmp_path / "a", "f32"),
        spec_in(tmp_path / "a", "f64", min_arch=80),
        spec_in(tmp_path / "b", "i32", text="broken"),
    )
    module = SimpleNamespace(
        BACKEND_ID="cuda_mine", DEVICE="cuda", FUSES=frozenset(), KERNELS=kernels,
        supports=print, prepare=print, bind=print,
    )  # fmt: skip
    register(module)
    yield library
    unregister("cuda_mine")


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    status = main(list(argv))
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_every_shipped_backend_has_a_table_of_distinct_kernels() -> None:
    tables = cuda_backends()
    assert {"cuda_naive", "cuda_tiled", "cuda_elementwise"} <= set(tables)
    for backend_id, specs in tables.items():
        assert specs, backend_id
        assert len({spec.id for spec in specs}) == len(specs), backend_id


@pytest.mark.usefixtures("library")
def test_a_users_backend_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, *MINE, "k.f", "--arch", "sm_75", "--arch", "sm_90a")
    assert status == 0, err
    rows = [line.split() for line in out.splitlines()]
    assert rows[0][:6] == ["backend_id", "family", "variant", "file", "dtypes", "arch"]
    assert rows[2][:12] == [
        *("cuda_mine", "k", "f32", "k.cu", "f32", "sm_75", "64x2", "128", "8", "0/0", "0"),
        "0+512",
    ]
    assert ["sm_75" in line and "not for this architecture" in line for line in out.splitlines()][4]
    assert "k.f64 needs sm_80 or newer, this is sm_75" in out
    assert "2 kernels for sm_75, sm_90a: 3 compiled now, 0 from the cache" in out


@pytest.mark.usefixtures("library")
def test_what_does_not_compile_keeps_its_row(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, *MINE, "--arch", "sm_90a", "--json")
    assert status == 1
    records = json.loads(out)["kernels"]
    assert [record["id"] for record in records] == ["k.f32", "k.f64", "k.i32"]
    good, _, bad = records
    assert good["occupancy"] == {"blocks": 16, "warps": 64, "share": 1.0, "limited_by": "warps"}
    assert (good["registers"], good["dynamic_shared_bytes"], good["tile"]) == (8, 512, [64, 2])
    assert bad["registers"] is None and '"broken" is broken' in bad["problem"]
    assert "not compiled: k.i32 for sm_90a" in err


def test_a_warm_cache_compiles_nothing(
    capsys: pytest.CaptureFixture[str], library: FakeLibrary
) -> None:
    run(capsys, *MINE, "k.f32", "--arch", "sm_90a")
    count = library.compiled
    assert run(capsys, *MINE, "k.f32", "--arch", "sm_90a")[0] == 0
    assert library.compiled == count


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["nothing_of_that_name"], r"matches no kernel; allowed are ids .* k \(cuda_mine\)"),
        (["("], "no regular expression: .*; allowed are ids"),
        (["--backend", "cpu_blas"], "no registered CUDA backend, .*; allowed are .*cuda_naive, "),
        (["--arch", "sm_60"], "allowed are sm_75, sm_80"),
        (["--arch", "hopper"], "allowed are sm_75, sm_80"),
        ([*MINE, "--ptx", "k"], "matches 3 kernels; allowed is one; name one of k.f32, k.f64"),
        ([*MINE, "--ptx", "k.f64", "--arch", "sm_75"], "needs sm_80 or newer"),
        (["--diff", "sm_80"], "--diff takes two architectures"),
        (["--diff", "sm_80", "nonsense"], "allowed are sm_75, sm_80"),
        (["--step", "0", "absent"], "cannot be read: .*; allowed is what Executable.save wrote"),
        (["--saved", "absent"], "cannot be read: .*; allowed is what Executable.save wrote"),
        (["--step", "0"], "--step: expected 2 arguments"),
        (["--ptx", "a", "--sass", "b"], "not allowed with argument"),
    ],
)
@pytest.mark.usefixtures("library")
def test_what_is_not_allowed_is_status_2(
    capsys: pytest.CaptureFixture[str], argv: list[str], told: str
) -> None:
    status, out, err = run(capsys, *argv)
    assert (status, out) == (2, "")
    assert re.search(told, err), err


@pytest.mark.usefixtures("library")
def test_ptx_and_source(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, *MINE, "--source", "k.f32")
    assert status == 0
    assert "chain.cuh  1 line, generated, shown below" in out
    assert "---- chain.cuh\nchain of f32" in out and "---- k.cu\n#include" in out
    status, out, _ = run(capsys, *MINE, "--source", "k.f32", "--json")
    (record,) = json.loads(out)["kernels"]
    assert record["headers"] == [
        {"name": "chain.cuh", "text": "chain of f32", "is_generated": True}
    ]


def executable() -> Executable:
    """Return an executable for an H200; its kernel is not compiled yet."""
    x = softcuda.input((64, 3), softcuda.f32, name="x")
    nodes, skeleton = flatten(softcuda.relu(x * x + 1.0))
    traced = trace(nodes)
    target = Target("cuda", "sm_90a", 132, 227, 60)
    settings = Settings(read(ON_CUDA), default_profile(), target)
    return compile_traced(traced, skeleton, settings, softcuda.Tensor)


def test_a_fused_step_of_a_saved_executable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name_cache(monkeypatch, tmp_path / "cache")
    monkeypatch.setattr("softcuda.nvrtc.cache.KernelCache", lambda: new_cache()[0])
    made = executable()
    number = next(k for k, step in enumerate(made.program.steps) if step.launches)
    file = tmp_path / "saved"
    made.save(file)
    status, out, err = run(capsys, "--step", str(number), str(file))
    assert status == 0, err
    (header,) = made.program.steps[number].launches[0].spec.headers
    assert header.text.rstrip() in out and "---- chain.cuh" in out
    assert "launch 0: elementwise_dense." in out and "arguments: write 0" in out
    status, out, _ = run(capsys, "--step", str(number), str(file), "--json")
    (record,) = json.loads(out)["kernels"]
    assert record["sources"] == [{"name": "chain.cuh", "text": header.text}]
    assert record["launches"][0]["grid"] == list(made.program.steps[number].launches[0].grid)
    status, _, err = run(capsys, "--step", "99", str(file))
    assert status == 2 and f"{number}: cuda_elementwise elementwise_dense." in err
    status, out, _ = run(capsys, "--step", "0", str(file))
    assert status == 0 and "no launches: this step runs no CUDA kernel" in out


@pytest.mark.parametrize("content", [b"", b"no pickle", pickle.dumps([1, 2])])
def test_a_file_that_holds_no_executable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    status, _, err = run(capsys, "--step", "0", str(file))
    assert status == 2 and "allowed is what Executable.save wrote" in err
