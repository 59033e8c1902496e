"""Every op that does work, those of gradients included, has rows, a sweep and costs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import softcuda as sc
from benchmarks.large_profile import large_profile
from softcuda.autograd.table import RULES
from softcuda.backends import REFERENCE, backends
from softcuda.dtype import REAL_DTYPES
from softcuda.graph.lines import row_dtype
from softcuda.graph.op import OPS
from softcuda.graph.trace import trace
from softcuda.profile.model import Profile
from softcuda.profile.resolve import read
from softcuda.profile.vocabulary import KNOWN_BACKENDS, work_ops
from softcuda.tensor import Tensor
from softcuda.tools.cells import Ledger, Scope, scopes_of
from softcuda.tools.estimates import cell_cost_s, full_cost_s
from softcuda.tools.init_options import init_options
from softcuda.tools.profile_rows import was_measured
from softcuda.tools.workloads import accepted_dtypes, typical
from softcuda.tools.workloads_inputs import Source

ROOT = Path(__file__).parents[2]
SHIPPED = [*sorted((ROOT / "configs").glob("*.soft")), ROOT / "benchmarks" / "cuda.soft"]
SIZES = (0, 1, 4096, 1 << 30)


def default_scopes(device: str) -> tuple[Scope, ...]:
    """Return what soft_init measures when nothing is asked for."""
    options = init_options([])
    wanted = options.wanted
    if device == "cuda":
        wanted = {op: (*wanted[op], *more) for op, more in options.on_device.items()}
    return scopes_of(wanted, device=device)


@pytest.fixture(scope="module")
def measured() -> Profile:
    """Return what a sweep of every op on a GPU writes."""
    return large_profile("cuda")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_sweep_measures_every_op(device: str) -> None:
    scopes = default_scopes(device)
    assert not set(work_ops()) - {scope.op for scope in scopes}, "ops that are not measured"
    names, nothing = tuple(REFERENCE.values()), Ledger()
    for scope in scopes:
        assert scope.coarse and scope.sizes and full_cost_s(scope, names) > 0
        assert cell_cost_s(scope, scope.sizes[-1], names, nothing) > 0


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_profile_names_every_op(path: Path) -> None:
    profile = read(path)
    missing = sorted(set(work_ops()) - {row.op for row in profile.rows})
    assert not missing, f"{path.name}: add rows such as '{missing[0]} | any = ...  # not measured'"
    for op in work_ops():
        for dtype in REAL_DTYPES:
            assert all(profile.lookup(op, dtype, size) for size in SIZES), (op, dtype)


def used_by_gradients() -> set[tuple[str, str]]:
    """Return (op, row dtype) of all nodes of the gradients of every op, of f32 and f64."""
    used = set()
    for name in RULES:
        if not OPS[name].does_work:
            continue
        taken = {dtype.name for dtype in accepted_dtypes(name, Source(np.random.default_rng(0)))}
        for dtype in sorted({"f32", "f64"} & taken):
            work = typical(name, 64, REAL_DTYPES[dtype], Source(np.random.default_rng(0)))
            leaves = work.leaves(Tensor)
            floats = [leaf for leaf in leaves if leaf.dtype.is_float]
            found = sc.grad(work.build(Tensor, leaves), floats)
            graph = trace([node for node in found if node is not None]).graph
            for line in graph.lines:
                if line.op.does_work:
                    operands = [graph.lines[number] for number in line.inputs]
                    used.add((line.op.name, row_dtype(line, operands).name))
    return used


def test_what_gradients_use_is_measured() -> None:
    used = used_by_gradients()
    assert {"scatter_add", "index_add"} <= {op for op, _ in used}
    swept = {(scope.op, scope.dtype) for scope in default_scopes("cpu")}
    floats = {(op, dtype) for op, dtype in used if REAL_DTYPES[dtype].is_float}
    assert not floats - swept, "nodes of gradients that no sweep measures"
    assert {op for op, _ in used} <= {op for op, _ in swept}


def test_a_measured_profile_has_rows_and_costs_of_every_op(measured: Profile) -> None:
    for op in work_ops():
        assert any(was_measured(row) for row in measured.rows if row.op == op), op
        for device in ("cpu", "cuda"):
            assert (measured.cost_us(op, "f32", 1000, device) or 0) > 0, op


def test_masks_and_counts_stay_on_the_device_of_their_floats(measured: Profile) -> None:
    """A dtype that was not measured goes where f32 goes, which on a CPU is the default's place."""
    for op in work_ops():
        for size in SIZES[1:]:
            floats = measured.lookup(op, "f32", size)
            assert floats is not None
            for dtype in ("bool", "i64", "bf16"):
                row = measured.lookup(op, dtype, size)
                assert row is not None and row.dtype is None and not was_measured(row)
                assert row.backend_id == floats.backend_id, (op, dtype, size)
    alone = large_profile("cpu")
    assert {KNOWN_BACKENDS[row.backend_id] for row in alone.rows} == {"cpu"}
    assert {row.backend_id for row in measured.rows} <= set(backends())
