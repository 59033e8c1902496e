"""The rule of permuted copies: what makes tiles dear, and what the replay says of its choices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.sweeps import permute_replay
from benchmarks.sweeps.permute import copy_of, shown
from benchmarks.sweeps.permute_cases import Case
from softcuda.backends.cuda.permute import Choice, Copy, Side, choice_of
from softcuda.backends.cuda.permute_costs import cost
from softcuda.backends.cuda.permute_kinds import KINDS, TileKind
from softcuda.backends.cuda.tiles import MovedAxis, TiledCopy, Walk
from softcuda.graph.shapes import contiguous_strides
from softcuda.target import Target

H200 = Target("cuda", "sm_90a", 132, 227, 60)
SMALL = Target("cuda", "sm_86", 20, 99, 2)
VECTORS = next(kind for kind in KINDS if kind[:4] == (4, 4, 4, 1))


def us(axes: list[tuple[int, int, int]], parts: tuple[int, ...], walk: Walk = Walk.PARTS) -> float:
    moved = tuple(MovedAxis(*axis) for axis in axes)
    return cost(VECTORS, TiledCopy(moved, parts, len(parts) - 1, VECTORS.access, walk), H200)


MATRIX = [(8192, 8192, 1), (8192, 1, 8192)]


def test_squares_are_best_and_small_tiles_take_time() -> None:
    best = us(MATRIX, (64, 64))
    assert us(MATRIX, (512, 8)) > best < us(MATRIX, (8, 512))
    assert us(MATRIX, (4, 64)) > 2 * best
    assert 0.95 < best / (8 * 8192**2 / 4.2e6) < 1.2  # microseconds, not only an order


def test_runs_that_begin_amid_sectors_are_dear() -> None:
    odd = [(8191, 8192, 1), (8192, 1, 8191)]
    assert us(odd, (64, 64)) > 1.1 * us(MATRIX, (64, 64))
    assert us(odd, (256, 16)) < us(odd, (64, 64))  # longer runs have fewer ends


def test_tiles_that_continue_a_run_come_soon() -> None:
    """48 of 384 bytes are read at once: what is left of the lines is read soon, or read again."""
    axes = [(96, 540_000, 1), (75, 7200, 96), (75, 96, 7200), (96, 1, 540_000)]
    parts = (96, 3, 1, 12)
    assert us(axes, parts, Walk.INPUT) < 0.85 * us(axes, parts, Walk.OUTPUT)


def test_the_choice_is_the_least_of_all_and_fits_the_target() -> None:
    dims = (2100, 2048)
    copy = Copy.of(dims, Side(0, (1, 2100)), Side(0, contiguous_strides(dims)), 4)
    for target in (H200, SMALL, Target("cuda")):
        kind, tiled = choice_of(copy, target)
        every = [(k, t) for k in KINDS if k.lane_bytes == 4 for t in copy.tiled(k)]
        assert cost(kind, tiled, target) <= min(cost(k, t, target) for k, t in every)
        assert kind.shared_bytes <= (target.shared_memory_kib or 99) << 10


def test_grids() -> None:
    kind = TileKind(4, 4, 4, 1, 4, turns=1)
    assert [kind._replace(turns=turns).grid(1001, H200) for turns in (1, 2, 0)] == [1001, 501, 528]
    assert kind._replace(turns=0).grid(7, H200) == 7


def test_the_replay_looks_the_rules_choices_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known = Case("plain", ((512, 520), (1, 0)), 4), Case("plain", ((40, 520), (1, 0)), 4)
    monkeypatch.setattr(permute_replay, "cases", lambda: known)
    choice: Choice = choice_of(copy_of(known[0]), H200)
    row = {"group": "plain 32", "nbytes": 2_000_000, "best_us": 9.0}
    rows = [
        {**row, "case": known[0].name, "all": {shown(choice): 10.0}},
        {**row, "case": known[1].name, "all": {"another": 9.0}},
    ]
    path = tmp_path / "sweep.json"
    path.write_text(json.dumps(rows))
    permute_replay.main([str(path)])
    unknown, group = capsys.readouterr().out.splitlines()
    assert unknown.startswith(known[1].name) and unknown.endswith("?")
    assert group.endswith(" 1 cases: 0.900 of the best, least 0.900, 0.200 TB/s")
