"""inspect_kernels and compiling for another machine, with real NVRTC and without a device."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from shown_blocks import WITH_NVRTC, check_blocks

import softcuda as sc
from softcuda.dtype import REAL_DTYPES
from softcuda.graph.node import Node
from softcuda.nvrtc.cache import KernelCache
from softcuda.profile.resolve import read
from softcuda.profile.vocabulary import work_ops
from softcuda.running import compile as compile_nodes
from softcuda.tools.inspect_disassembly import find_disassembler
from softcuda.tools.inspect_kernels import main
from softcuda.tools.inspect_rows import chosen_kernels
from softcuda.tools.workloads import accepted_dtypes, typical
from softcuda.tools.workloads_inputs import Source

ON_CUDA = str(Path(__file__).parents[2] / "benchmarks" / "cuda.soft")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SOFTCUDA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    status = main(list(argv))
    printed = capsys.readouterr()
    assert status == 0, printed.err
    return printed.out


def layer() -> sc.Tensor:
    x, w = sc.input((1000, 64), sc.f32, name="x"), sc.input((64, 256), sc.f32, name="w")
    return sc.softmax(sc.relu(x @ w + sc.input((256,), sc.f32, name="b")), axis=1)


def test_compiling_without_a_device() -> None:
    """Kernels are compiled; decisions, launches and the memory plan are printed."""
    made = sc.compile(layer(), config=ON_CUDA, target="sm_90a")
    printed = str(made)
    assert "profile cuda.soft, target sm_90a" in printed
    assert re.search(r"matmul .* cuda_contract +cuda\.soft:\d+ ", printed)
    assert re.search(r"softmax .* cuda_reduce +cuda\.soft:\d+ ", printed)
    assert re.search(r"^cuda arena \S+ \w+, most alive at once ", printed, re.MULTILINE)
    launches = [launch for step in made.program.steps for launch in step.launches]
    shown = re.findall(
        r"^launch \d+: (\S+) grid \d+x\d+x\d+ block \d+x1x1 dynamic shared", printed, re.MULTILINE
    )
    assert shown == [launch.spec.id for launch in launches] and launches
    cache = KernelCache()
    for launch in launches:
        assert cache.get(launch.spec.unit, "sm_90a").image.startswith(b"\x7fELF")
    assert cache.compiled == 0


def test_what_the_readme_shows_of_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTCUDA_CONFIG", "default")
    page = Path(__file__).parents[2] / "README.md"
    assert check_blocks(page, WITH_NVRTC) > check_blocks(page)


def test_a_kernel_outside_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    made = sc.compile(layer(), config=ON_CUDA, target="sm_90a")
    name = next(s.kernel for s in made.program.steps if s.backend_id == "cuda_reduce")
    (record,) = json.loads(run(capsys, name, "--arch", "sm_90a", "--json"))["kernels"]
    assert record["id"] == name and record["registers"]
    ptx = run(capsys, "--ptx", "gemm_tiled.f32_32x32x32_r_r", "--arch", "sm_90a")
    assert ptx.count(".entry") == 1


def test_the_example_profile_has_a_row_for_every_op() -> None:
    profile = read(ON_CUDA)
    assert {row.op for row in profile.rows} == set(work_ops())
    assert {row.backend_id.partition("_")[0] for row in profile.rows} == {"cuda"}
    target = profile.device.target
    assert (target.arch, target.multiprocessors, target.shared_memory_kib) == ("sm_90a", 132, 227)


def test_every_op_compiles_for_a_device() -> None:
    nodes = {}
    for op in work_ops():
        source = Source(np.random.default_rng(0))
        taken = accepted_dtypes(op, source)
        dtype = REAL_DTYPES["f32"] if REAL_DTYPES["f32"] in taken else taken[-1]
        nodes[op] = typical(op, 64, dtype, source).node(Node)
    made = compile_nodes(nodes, ON_CUDA, target="sm_90a")
    refused = [line for line in str(made).splitlines() if "refused" in line]
    assert not refused
    assert made.program.uses_cuda


def test_kernels_are_listed_for_two_architectures(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ("elementwise_dense", "--arch", "sm_80", "--arch", "sm_90a")
    records = json.loads(run(capsys, *argv, "--json"))["kernels"]
    assert len(records) >= 2 * len(REAL_DTYPES)
    assert {record["arch"] for record in records} == {"sm_80", "sm_90a"}
    for record in records:
        assert record["backend_id"] == "cuda_elementwise" and record["file"] == "elementwise.cu"
        assert 0 < record["registers"] <= 255 and record["spill_store_bytes"] == 0
        assert 0 < record["occupancy"]["share"] <= 1
        assert Path(record["folder"], "kernel.cubin").is_file()
    table = run(capsys, *argv)
    assert "0 compiled now" in table
    assert sum("elementwise.cu" in line for line in table.splitlines()) == len(records)


def test_ptx_of_the_architecture(capsys: pytest.CaptureFixture[str]) -> None:
    entry = chosen_kernels(("elementwise_dense",), ())[0]
    ptx = run(capsys, "--ptx", entry.spec.id, "--arch", "sm_90a")
    assert ".target sm_90a" in ptx and ptx.count(".entry") == 1


def test_two_architectures_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    table = run(capsys, "--diff", "sm_75", "sm_90a", "elementwise_dense.copy")
    assert table.startswith("sm_75 > sm_90a\n")
    assert ("pip install" in table) == (find_disassembler() is None)
    if find_disassembler() is not None:
        assert re.search(r"^EXIT +\d+ +\d+ ", table, re.MULTILINE)
        sass = run(capsys, "--sass", "elementwise_strided.*rank64", "--arch", "sm_120")
        assert re.search(r"\bEXIT ;", sass)


def test_a_step_of_a_saved_executable(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = sc.compile(layer(), config=ON_CUDA, target="sm_90a")
    made.save(folder / "layer")
    number = next(k for k, s in enumerate(made.program.steps) if s.backend_id == "cuda_contract")
    printed = run(capsys, "--step", str(number), "layer")
    assert "struct Chain" in printed and "Relu<f32>::apply" in printed
    listed = json.loads(run(capsys, "--saved", "layer", "--json"))["kernels"]
    launches = {launch.spec.id for step in made.program.steps for launch in step.launches}
    assert {record["id"] for record in listed} == launches
    assert all(record["image"] == "cubin" and record["registers"] for record in listed)
    ptx = run(capsys, "--saved", "layer", "--ptx", "gemm_tiled")
    assert ".target sm_90a" in ptx and ptx.count(".entry") == 1
    if find_disassembler() is not None:
        assert re.search(r"\bEXIT ;", run(capsys, "--saved", "layer", "--sass", "gemm_tiled"))
