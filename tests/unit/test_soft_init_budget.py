"""What few measurements say of the sizes that time did not allow: a made-up GPU, no clock."""

from __future__ import annotations

import math

import pytest

from softcuda.profile.model import Row
from softcuda.profile.resolve import default_profile
from softcuda.tools.cells import Cell, Ledger, Outcome, State, scopes_of
from softcuda.tools.preferences import MARGIN, STABLE, handicaps, made_for
from softcuda.tools.profile_rows import profile_rows

SCOPES = scopes_of({"add": ("f32",), "mul": ("f32",)}, device="cuda")
CPU_US, GPU_US = 2.0, 8.0  # latencies
CPU_PACE_US, GPU_PACE_US = 2.0**-11, 2.0**-18  # an element
MEETING = (GPU_US - CPU_US) / (CPU_PACE_US - GPU_PACE_US)


def outcome(time_us: float, device: str, spread: float = 0.0) -> Outcome:
    times = tuple(time_us * (1 + share * spread) for share in (-1, -0.5, 0, 0.5, 1))
    return Outcome(State.MEASURED, time_us, "", device, times)


def rows_of(sizes: dict[str, tuple[int, ...]]) -> dict[str, list[Row]]:
    """Return op -> its rows of f32, where the sizes of each op were measured."""
    ledger = Ledger()
    for op, measured in sizes.items():
        for size in measured:
            found = {
                "cpu_fused": outcome(CPU_US + size * CPU_PACE_US, "cpu"),
                "cuda_elementwise": outcome(GPU_US + size * GPU_PACE_US, "cuda"),
            }
            ledger.note(Cell(op, "f32", size), found)
    rows = profile_rows(ledger, SCOPES, default_profile())
    return {op: [r for r in rows if (r.op, r.dtype) == (op, "f32")] for op in sizes}


@pytest.mark.parametrize("last", [512, 4096, 1 << 16, 1 << 20])
def test_two_sizes_place_the_crossing_within_one_power(last: int) -> None:
    first, second = rows_of({"add": (256, last)})["add"]
    assert (first.backend_id, second.backend_id) == ("cpu_fused", "cuda_elementwise")
    assert first.high is not None and second.high is None
    assert MEETING / 2 <= first.high <= 2 * MEETING
    assert ("modelled at" in second.comment) == (last < MEETING)


def test_one_size_goes_on_at_the_pace_of_the_other_ops() -> None:
    rows = rows_of({"add": (256, 1 << 16), "mul": (256,)})
    first, second = rows["mul"]
    assert second.backend_id == "cuda_elementwise" and second.comment.startswith("us modelled at")
    assert first.high is not None and MEETING / 2 <= first.high <= 2 * MEETING


def test_one_size_alone_leaves_the_rest_to_the_default() -> None:
    (row,) = rows_of({"add": (256,)})["add"]
    assert row.backend_id == "cpu_fused" and "not measured from 512 on" in row.comment


def test_a_near_tie_goes_to_the_backend_that_is_made_for_the_op() -> None:
    found = {
        name: outcome(1.0, name[:4].rstrip("_"))
        for name in ("cpu_fused", "cpu_fallback", "cuda_elementwise", "cuda_permute")
    }
    assert made_for("add") == "cuda_elementwise"
    assert handicaps(found, "cpu_fused", "add") == {
        "cpu_fused": 0.0,
        "cpu_fallback": STABLE,
        "cuda_elementwise": MARGIN,
        "cuda_permute": MARGIN + STABLE,
    }
    found["cpu_fallback"] = outcome(1.0, "cpu", spread=0.5)
    wide = handicaps(found, "cpu_fused", "add")["cpu_fallback"]
    assert wide == pytest.approx(math.hypot(0.25, 0.0))
    del found["cpu_fused"]
    assert handicaps(found, "cpu_fused", "add")["cpu_fallback"] == MARGIN
