"""Lookups in a profile, its identity, and the shipped DEFAULT.soft."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import math
import pickle
import random

import pytest
from profile_text import HEAD, WHOLE, profile_of

from softcuda.dtype import REAL_DTYPES
from softcuda.graph.op import OPS, Kind
from softcuda.profile.model import DeviceFacts, Profile, Row
from softcuda.profile.resolve import default_profile
from softcuda.profile.vocabulary import KNOWN_BACKENDS, work_ops
from softcuda.target import CPU, Target


def scan(profile: Profile, op: str, dtype: str, size: int) -> Row | None:
    """Return what `lookup` must, by reading every row."""
    for wanted in (dtype, None):
        for row in profile.rows:
            inside = row.low <= size and (row.high is None or size < row.high)
            if row.op == op and row.dtype == wanted and inside:
                return row
    return None


def test_lookup_is_a_scan() -> None:
    rng = random.Random(7)
    rows: list[Row] = []
    for op in ("matmul", "relu", "sum"):
        for dtype in (None, "f16", "i64"):
            if op == "sum" and dtype is None:
                continue
            bounds = sorted(rng.sample(range(1, 2000), rng.randrange(0, 6)))
            ends: list[int | None] = [*bounds, None]
            for low, high in zip([0, *bounds], ends, strict=True):
                rows.append(Row(op, dtype, low, high, rng.choice(list(KNOWN_BACKENDS))))
    rng.shuffle(rows)
    profile = Profile("p", {"soft_version": "0.1.0"}, DeviceFacts(), tuple(rows))
    edges = {row.low + step for row in rows for step in (-1, 0, 1)} | {0, 10**18}
    for op, dtype, size in itertools.product(("matmul", "relu", "sum", "add"), REAL_DTYPES, edges):
        assert profile.lookup(op, dtype, max(size, 0)) is scan(profile, op, dtype, max(size, 0))


def test_a_narrower_row_wins() -> None:
    profile = profile_of(WHOLE)
    assert profile.lookup("matmul", "f16", 3) == profile.rows[3]
    assert profile.lookup("matmul", "f32", 3) == profile.rows[0]
    assert profile.lookup("add", "f32", 3) is None


def test_labels_name_file_and_line() -> None:
    profile = profile_of(WHOLE, "far/away/CONFIG.soft")
    assert profile.label(profile.rows[0]) == "CONFIG.soft:20"
    assert profile_of(WHOLE, "h200.soft").label(profile.rows[4]) == "h200.soft:24"


def test_equal_content_is_equal() -> None:
    profile = profile_of(WHOLE)
    moved = profile_of("# one line more\n" + WHOLE.replace("# small", ""), "elsewhere.soft")
    assert moved == profile
    assert hash(moved) == hash(profile)
    assert moved.cache_key != profile.cache_key  # its decision table reads differently
    assert profile_of(WHOLE, "other/CONFIG.soft").cache_key == profile.cache_key
    others = [
        WHOLE.replace("8192", "8193"),
        WHOLE.replace("128 ", "129 "),
        WHOLE.replace("min_cut", "table"),
        WHOLE.replace("cuda_naive", "cpu_blas"),
        WHOLE.replace("9.8", "9.9"),
        WHOLE.replace("± 20", "± 21"),
        WHOLE.replace("53.6", "53.5"),
        WHOLE.replace("2097152", "4194304"),
        WHOLE.replace("ab%cd", "abcd"),
    ]
    assert len({profile_of(text) for text in others} | {profile}) == len(others) + 1
    assert profile != WHOLE


def test_profiles_are_frozen_and_travel() -> None:
    profile = profile_of(WHOLE)
    with pytest.raises(dataclasses.FrozenInstanceError):
        profile.policy = "table"  # type: ignore[misc]
    with pytest.raises(TypeError):
        profile.meta["soft_version"] = "2"  # type: ignore[index]
    for twin in (pickle.loads(pickle.dumps(profile)), copy.deepcopy(profile)):
        assert twin == profile
        assert twin.cache_key == profile.cache_key
        assert twin.lookup("matmul", "f32", 300) == profile.rows[1]


def test_device_facts_as_a_target() -> None:
    device = profile_of(WHOLE).device
    assert device.capability == (8, 6)
    assert device.number("vram_mb") == 8192
    assert device.number("cpu_cores") == 4
    assert device.target == Target("cuda", "sm_86", 20, 99, 2)
    assert device._replace(compute_capability="9.0").target.arch == "sm_90a"
    assert DeviceFacts().target == CPU
    assert DeviceFacts().number("vram_mb") == 0
    assert DeviceFacts("cuda").target == Target("cuda")


def test_costs_are_straight_on_log_axes() -> None:
    profile = profile_of(
        HEAD + "add | any = cpu_fused\n[costs]\n"
        "add | size = 100 = cpu 2\nadd | size = 10000 = cpu 32, cuda 5\n"
        "add[f16] | size = 100 = cpu 7\n"
        "matmul | size = 128 = cpu 10\nmatmul | size = 256 = cpu 1000\n"
        "relu | size = 16 = cpu 5\nrelu | size = 256 = cpu 4\n"
    )

    def cost(op: str, dtype: str, size: int, device: str = "cpu") -> float:
        found = profile.cost_us(op, dtype, size, device)
        assert found is not None
        return found

    assert math.isclose(cost("add", "f32", 100), 2)
    assert math.isclose(cost("add", "f32", 1000), 8)
    assert math.isclose(cost("add", "f32", 10000), 32)
    assert math.isclose(cost("add", "f32", 0), 2)  # below: the overhead
    assert math.isclose(cost("add", "f32", 1), 2)
    assert math.isclose(cost("add", "f32", 1_000_000), 512)  # beyond: the last slope, 0.6
    assert math.isclose(cost("add", "f16", 200), 14)  # one point: linear in its arithmetic
    assert math.isclose(cost("add", "f16", 100, "cuda"), 5)  # nothing for f16: that of add
    assert math.isclose(cost("matmul", "f64", 512), 8000)  # never steeper than size^3
    assert math.isclose(cost("relu", "f32", 10**6), 4)  # never falling
    assert math.isfinite(cost("matmul", "f64", 2**62))
    assert profile.cost_us("matmul", "f32", 128, "cuda") is None
    assert profile.cost_us("sum", "f32", 128, "cpu") is None


def test_costs_of_another_dtype_stand_in_except_for_products() -> None:
    profile = profile_of(
        HEAD + "add | any = cpu_fused\n[costs]\n"
        "one_hot[i64] | size = 100 = cpu 2, cuda 3\n"
        "add[f64] | size = 100 = cpu 5, cuda 6\nadd[f32] | size = 100 = cpu 4\n"
        "matmul[f32] | size = 128 = cpu 10\n"
    )
    assert profile.cost_us("one_hot", "i32", 100, "cpu") == pytest.approx(2)
    assert profile.cost_us("add", "i32", 100, "cpu") == pytest.approx(4)  # f32 before f64
    assert profile.cost_us("add", "i32", 100, "cuda") == pytest.approx(6)
    assert profile.cost_us("add", "f32", 100, "cuda") is None  # it has points of its own
    assert profile.cost_us("matmul", "i32", 128, "cpu") is None  # nothing like BLAS for those


def test_transfers_are_latency_and_rate() -> None:
    profile = profile_of(WHOLE)
    assert profile.transfer_us("h2d", 0) == 8.1
    assert profile.transfer_us("h2d", 53_600_000) == pytest.approx(1008.1)
    assert profile.transfer_us("d2h", 25_000) == pytest.approx(10)
    assert profile_of(HEAD + "add | any = cpu_fused").transfer_us("h2d", 8) is None


def test_default_has_a_row_for_every_op_that_works() -> None:
    profile = default_profile()
    assert profile.name == "DEFAULT.soft"
    assert profile.device.type == "cpu"
    assert "device_hash" not in profile.meta
    assert {row.op for row in profile.rows} == set(work_ops())
    for op, dtype in itertools.product(work_ops(), REAL_DTYPES):
        for size in (0, 1, 16383, 16384, 10**12):
            row = profile.lookup(op, dtype, size)
            assert row is not None
            assert KNOWN_BACKENDS[row.backend_id] == "cpu"


def test_default_sends_work_where_it_belongs() -> None:
    profile = default_profile()

    def backend(op: str, dtype: str, size: int) -> str:
        row = profile.lookup(op, dtype, size)
        assert row is not None
        return row.backend_id

    for dtype in ("f16", "bf16", "f32", "f64"):
        assert backend("matmul", dtype, 8) == "cpu_blas"
    for dtype in ("i32", "i64"):
        assert backend("matmul", dtype, 512) == "cpu_fallback"
    for op in OPS.values():
        if op.kind is Kind.ELEMENTWISE:
            assert backend(op.name, "f32", 8) == backend(op.name, "f32", 1 << 24) == "cpu_fused"
        if op.kind in (Kind.REDUCTION, Kind.COMPOSITE):
            assert backend(op.name, "f32", 8) == backend(op.name, "f32", 1 << 24) == "cpu_fused"


def test_the_words_of_a_profile_are_the_ops_that_work() -> None:
    assert set(work_ops()) == {op.name for op in OPS.values() if op.does_work}
    assert not {"none", "input", "reshape", "permute", "slice"} & set(work_ops())
