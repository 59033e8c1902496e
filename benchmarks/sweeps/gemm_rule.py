"""The rule of gemm_tiles.py beside what a sweep of matrix products measured; needs no device.

    python -m benchmarks.sweeps.gemm_rule FOLDER/gemm_sweep.json [--units 132] [--mhz 1980] [--fit]

Printed are, for each case, how far what the rule would take among the measured candidates lies from
the fastest of them, and the worst of these. --fit changes the numbers of the rule and of the tiles
one by one, as long as expected times come closer to measured ones, and prints them.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.sweeps.gemm_cases import shown
from softcuda.backends.cuda.gemm_narrow import MAX_FEW
from softcuda.backends.cuda.gemm_tiles import (
    GEMM_TILES,
    RULE,
    GemmSize,
    GemmTile,
    GemmVariant,
    Rule,
    cut_variant,
    gemm_cycles,
)
from softcuda.dtype import f32

STEPS: Final = (1.3, 1.1, 1.03, 1.01)  # factors that a number is multiplied with or divided by
FLAT: Final = 0.1  # of a logarithm; beyond it an error counts linearly


class Measured(NamedTuple):
    """A candidate of the rule that was timed."""

    case: str
    size: GemmSize
    variant: GemmVariant[GemmTile]
    us: float


class Model(NamedTuple):
    """The numbers that are fitted."""

    rule: Rule
    tiles: tuple[GemmTile, ...]

    def us(self, one: Measured, units: int, mhz: float) -> float:
        """Return the expected time [microseconds]."""
        tile = next(tile for tile in self.tiles if tile.name == one.variant.tile.name)
        variant = one.variant._replace(tile=tile)
        return gemm_cycles(one.size, variant, units, 4, self.rule) / mhz


def measured(rows: Sequence[dict[str, Any]]) -> list[Measured]:
    """Return what was timed of the rule's tiles, read as planned; not of a few rows or columns."""
    tiles = {shown(tile): tile for tile in GEMM_TILES[f32]}
    found = []
    for row in rows:
        size = GemmSize(*(int(extent) for extent in row["case"].split()[0].split("x")))
        if min(size.m, size.n) <= MAX_FEW:
            continue
        for one in row["times"]:
            tile = tiles.get(one["tile"])
            if tile is None or not math.isfinite(one["us"]):
                continue
            if one["splits"] == 1:
                variant = GemmVariant(tile, one["tiles"], 1, tile.k)
            else:
                variant = cut_variant(size, tile, one["whole"], one["splits"])
            found.append(Measured(row["case"], size, variant, one["us"]))
    return found


def losses(
    found: Sequence[Measured], time: Callable[[Measured], float]
) -> dict[str, tuple[float, Measured, Measured]]:
    """Return how far the choice is from the fastest, the choice, and the fastest, by case."""
    made = {}
    for case in dict.fromkeys(one.case for one in found):
        own = [one for one in found if one.case == case]
        choice, best = min(own, key=time), min(own, key=lambda one: one.us)
        made[case] = choice.us / best.us, choice, best
    return made


def distance(found: Sequence[Measured], time: Callable[[Measured], float]) -> float:
    """Return how far expected times are from measured ones; fast candidates weigh most."""
    best = {case: pair[2].us for case, pair in losses(found, time).items()}
    total = 0.0
    for one in found:
        error = abs(math.log(time(one) / one.us))
        cost = error * error if error < FLAT else FLAT * (2 * error - FLAT)
        total += cost * (best[one.case] / one.us) ** 2
    return total


def changes(model: Model, step: float) -> list[Model]:
    """Return the models in which one number is larger or smaller by a factor."""
    made = []
    for factor in (step, 1 / step):
        for field in fields(Rule):
            value = getattr(model.rule, field.name) * factor
            made.append(model._replace(rule=replace(model.rule, **{field.name: value})))
        for number, tile in enumerate(model.tiles):
            for name in ("full", "alone"):
                changed = replace(tile, **{name: getattr(tile, name) * factor})
                tiles = (*model.tiles[:number], changed, *model.tiles[number + 1 :])
                if changed.alone <= changed.full:
                    made.append(model._replace(tiles=tiles))
    return made


def fitted(found: Sequence[Measured], model: Model, units: int, mhz: float) -> Model:
    """Return the model from which no change of one number leads closer to what was measured."""

    def far(one: Model) -> float:
        return distance(found, lambda each: one.us(each, units, mhz))

    best = far(model)
    for step in STEPS:
        while True:
            far_off, nearest = min(((far(one), one) for one in changes(model, step)), key=_first)
            if far_off >= best:
                break
            best, model = far_off, nearest
    return model


def _first(pair: tuple[float, Model]) -> float:
    return pair[0]


def main() -> None:
    """Compare the rule with a sweep."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sweep", type=Path)
    parser.add_argument("--units", type=int, default=132, help="multiprocessors of its device")
    parser.add_argument(
        "--mhz", type=float, default=1980.0, help="clock that cycles are counted in"
    )
    parser.add_argument("--fit", action="store_true")
    options = parser.parse_args()
    found = measured(json.loads(options.sweep.read_text(encoding="utf-8")))
    model = Model(RULE, GEMM_TILES[f32])
    if options.fit:
        model = fitted(found, model, options.units, options.mhz)
        print(model.rule)
        for tile in model.tiles:
            print(f"{tile.name}: full {tile.full:.3f}, alone {tile.alone:.3f}")
    made = losses(found, lambda one: model.us(one, options.units, options.mhz))
    for case, (loss, choice, best) in sorted(made.items(), key=lambda item: -item[1][0]):
        said = [
            f"{one.variant.tile.name} {one.variant.whole}+{one.variant.splits} {one.us:.1f} us"
            for one in (choice, best)
        ]
        expected = model.us(choice, options.units, options.mhz)
        print(f"{loss:6.3f}  {case:28} {said[0]:36} expected {expected:9.1f}   best {said[1]}")
    print(f"worst {max(loss for loss, _, _ in made.values()):.3f}")


if __name__ == "__main__":
    main()
