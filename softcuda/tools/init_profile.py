"""From a ledger to a profile: a pure function; the same samples, the same bytes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

import numpy as np

from softcuda.profile.check import token_text
from softcuda.profile.machine import device_hash
from softcuda.profile.model import CostPoint, DeviceFacts, PoolSettings, Profile, Threshold
from softcuda.profile.resolve import default_profile
from softcuda.profile.vocabulary import SOFT_VERSION
from softcuda.tools.cells import Ledger, Scope
from softcuda.tools.costs import cost_points, transfers
from softcuda.tools.plausible import DISTURBED, disturbances, plausible
from softcuda.tools.preferences import TIE_RULE
from softcuda.tools.profile_rows import profile_rows
from softcuda.tools.spread import OUTLIER_RULE
from softcuda.tools.thresholds import thresholds

__all__ = ["Origin", "made_profile", "profile_notes"]

_NAMED: Final = 12  # disturbed times in the head of a profile

Of = TypeVar("Of", Threshold, CostPoint)


class Origin(NamedTuple):
    """What a profile says of itself.

    Attributes:
        path: its file.
        machine: what was measured.
        generated_at: when, as ISO 8601 has it.
    """

    path: str
    machine: DeviceFacts
    generated_at: str


def made_profile(
    ledger: Ledger, scopes: Sequence[Scope], origin: Origin, earlier: Profile | None = None
) -> Profile:
    """Return the profile that measurements give.

    Args:
        ledger: what was measured.
        scopes: what was asked for.
        origin: what the profile says of itself.
        earlier: a profile of this machine, which stands where nothing was measured.
    """
    ledger = plausible(ledger)
    machine = origin.machine
    meta = {
        "soft_version": SOFT_VERSION,
        "device_hash": device_hash(machine),
        "generated_at": origin.generated_at,
    }
    kept = earlier.rows if earlier else ()
    on_device = machine.type == "cuda"
    found = thresholds(ledger, scopes) if on_device else []
    return Profile(
        path=origin.path,
        meta=meta,
        device=machine,
        rows=tuple(profile_rows(ledger, scopes, default_profile(), kept)),
        thresholds=_with(found, earlier.thresholds if earlier else ()),
        costs=_with(cost_points(ledger, scopes), earlier.costs if earlier else ()),
        transfer=tuple(transfers(ledger)) or (earlier.transfer if earlier else ()),
        policy=earlier.policy if earlier else "table",
        pool=earlier.pool if earlier else PoolSettings(machine.type),
    )


def _with(found: Sequence[Of], earlier: Iterable[Of]) -> tuple[Of, ...]:
    """Return what was found, and of the earlier lines those of ops and dtypes it lacks."""
    there = {(line.op, line.dtype) for line in found}
    both: list[Of] = list(found)
    both += [line for line in earlier if (line.op, line.dtype) not in there]
    return tuple(sorted(both, key=lambda line: (line.op, line.dtype or "")))


def profile_notes(ledger: Ledger) -> tuple[str, ...]:
    """Return the comments for the head of the file."""
    notes = [
        f"Written by soft_init: numpy {np.__version__}, Python {sys.version.split()[0]}.",
        "Behind a row: medians at its smallest and its largest measured size, the fastest first;",
        "skipped: a call would have taken too long, or it was far behind at smaller sizes.",
        f"Outliers: {OUTLIER_RULE}.",
        f"Near ties: {TIE_RULE}.",
    ]
    notes += _disturbed(ledger)
    if ledger.copies:
        notes.append(
            "modelled: beyond the last size that was measured, as latency + work / rate goes on."
        )
    if ledger.copies:
        notes += [
            "A time on a GPU is that of a call whose data is there, many in a row and one wait at",
            "the end; [transfer] is of pageable memory.",
        ]
    pinned = transfers(ledger, "pinned")
    if pinned:
        said = (f"{t.direction} {t.latency_us:g} us + {t.gb_per_s:g} GB/s" for t in pinned)
        notes.append(f"Pinned memory: {', '.join(said)}.")
    return tuple(notes)


def _disturbed(ledger: Ledger) -> Iterator[str]:
    """Yield what other processes did, and which times do not count since they disturbed them."""
    if ledger.load:
        yield (
            f"Load: other processes kept {ledger.load['others']:.1f} of "
            f"{ledger.load['processors']:.0f} processors busy meanwhile."
        )
    found = disturbances(ledger)
    if found:
        said = [
            f"{token_text(e.cell.op, e.cell.dtype)} {e.cell.size} {e.backend_id}" for e in found
        ]
        more = f" and {len(said) - _NAMED} more" if len(said) > _NAMED else ""
        yield (
            f"Disturbed: {', '.join(said[:_NAMED])}{more}: more than {DISTURBED:g} times what a "
            "larger size takes; that one's time counts instead."
        )
