"""The comparison of the rule of matrix products with a sweep."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.sweeps.gemm_cases import shown
from benchmarks.sweeps.gemm_rule import Model, distance, fitted, losses, measured
from softcuda.backends.cuda.gemm_tiles import (
    GEMM_TILES,
    RULE,
    GemmSize,
    gemm_cycles,
    tile_count,
    variants,
)
from softcuda.dtype import f32

UNITS, MHZ = 132, 1980.0
MODEL = Model(RULE, GEMM_TILES[f32])


def sweep(model: Model) -> list[dict[str, Any]]:
    """Return what a device that follows a model would have measured."""
    rows = []
    for side in (256, 1031, 3000):
        size = GemmSize(1, side, side, side)
        times = [
            {
                "tile": shown(tile),
                "whole": variant.whole,
                "splits": variant.splits,
                "tiles": tile_count(size, tile),
                "us": gemm_cycles(size, variant, UNITS, 4, model.rule) / MHZ,
            }
            for tile in model.tiles
            for variant in variants(size, tile, UNITS, 4)
        ]
        rows.append({"case": f"1x{side}x{side}x{side} nn", "times": times})
    return rows


def test_a_rule_that_is_right_loses_nothing() -> None:
    found = measured(sweep(MODEL))
    made = losses(found, lambda one: MODEL.us(one, UNITS, MHZ))
    assert len(made) == 3
    assert all(loss == 1 for loss, _, _ in made.values())


def test_a_slow_choice_is_told() -> None:
    rows = sweep(MODEL)
    for row in rows:
        best = min(row["times"], key=lambda one: float(one["us"]))
        best["us"] *= 3
    made = losses(measured(rows), lambda one: MODEL.us(one, UNITS, MHZ))
    assert all(loss > 1 and choice is not best for loss, choice, best in made.values())


def test_fitting_comes_closer() -> None:
    known = MODEL._replace(tiles=MODEL.tiles[2:4])
    slower = tuple(replace(x, full=x.full * 0.9, alone=x.alone * 0.9) for x in known.tiles)
    found = measured(sweep(Model(replace(RULE, start=RULE.start * 2), slower))[:2])

    def far(model: Model) -> float:
        return distance(found, lambda one: model.us(one, UNITS, MHZ))

    assert far(fitted(found, known, UNITS, MHZ)) < far(known) / 10
