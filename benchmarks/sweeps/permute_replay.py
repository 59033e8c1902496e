"""How far the rule of cuda_permute is from the best of each case of a sweep; needs no device.

    python -m benchmarks.sweeps.permute_replay FOLDER/permute_sweep.json

The rule chooses again for the device of the sweep, an H200; what it chooses is looked up among the
times that were measured. A choice that was not measured is named and does not count.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.sweeps.permute import copy_of, shown
from benchmarks.sweeps.permute_cases import Case, cases
from softcuda.backends.cuda.permute import Choice, choice_of
from softcuda.backends.cuda.tiles import Walk
from softcuda.target import Target

__all__ = ["replayed"]

DEVICE: Final = Target("cuda", "sm_90a", 132, 227, 60)


def replayed(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return a line for each group of cases: mean, least and rate of the rule's choices.

    Args:
        rows: of permute_sweep.json.
    """
    known = {case.name: case for case in cases()}
    groups: dict[str, list[tuple[float, float]]] = {}
    said = []
    for row in rows:
        us = _time(row, known[row["case"]])
        found = groups.setdefault(row["group"], [])
        if us is None:
            said.append(f"{row['case']}: {shown(choice_of(copy_of(known[row['case']]), DEVICE))} ?")
        elif math.isfinite(us):
            found.append((row["best_us"] / us, row["nbytes"] / us * 1e-6))
    for group, pairs in groups.items():
        if pairs:
            shares, rates = zip(*pairs, strict=True)
            rate = math.exp(sum(map(math.log, rates)) / len(rates))
            said.append(
                f"{group:10} {len(pairs):3} cases: {sum(shares) / len(shares):5.3f} of the best, "
                f"least {min(shares):5.3f}, {rate:5.3f} TB/s"
            )
    return said


def _time(row: dict[str, Any], case: Case) -> float | None:
    """Return the time of the rule's choice, in any of the walks that are the same order."""
    kind, tiled = choice_of(copy_of(case), DEVICE)
    for walk in Walk:
        same = tiled.in_walk(walk)
        us: float | None = row["all"].get(shown(Choice(kind, same)))
        if same.grid() == tiled.grid() and us is not None:
            return us
    return None


def main(arguments: Sequence[str] | None = None) -> None:
    """Print how far the rule is from the best.

    Args:
        arguments: of the command line; those of the process if not given.
    """
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sweep", type=Path)
    options = parser.parse_args(arguments)
    print("\n".join(replayed(json.loads(options.sweep.read_text(encoding="utf-8")))))


if __name__ == "__main__":
    main()
