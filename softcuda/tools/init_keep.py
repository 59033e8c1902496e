"""Samples that outlive a run: what an interrupted one keeps, and what an earlier one had."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from softcuda.errors import ConfigError
from softcuda.tools.cells import Ledger, Scope
from softcuda.tools.samples import keep_samples, read_samples, samples_path

__all__ = ["Keeper", "with_earlier"]

_EVERY_S: Final = 5.0
_SHARE: Final = 0.02  # of the time of a run, at most, goes into writing


class Keeper:
    """Writes down on the way what was measured, so that nothing but the last seconds can be lost.

    Args:
        path: the profile that the samples are for.
        ledger: the samples; grows meanwhile.
        owner: what they belong to: the device_hash and the backends.
        option: what goes on from them, such as "--resume".
    """

    def __init__(self, path: str, ledger: Ledger, owner: Sequence[str], option: str) -> None:
        self._path = path
        self._ledger = ledger
        self._owner = owner
        self._option = option
        self._next_s = time.monotonic() + _EVERY_S
        self._works = True

    def now_and_then(self) -> None:
        """Write where enough time has passed; where it cannot be written the run goes on."""
        begin = time.monotonic()
        if begin < self._next_s or not self._works or not self._ledger.outcomes:
            return
        try:
            keep_samples(self._path, self._ledger, self._owner)
        except ConfigError:
            self._works = False  # the end says why
        now = time.monotonic()
        self._next_s = now + max(_EVERY_S, (now - begin) / _SHARE)

    def at_last(self) -> None:
        """Write once more, and say where; what cannot be written is said, too."""
        if not self._ledger.outcomes:
            return
        try:
            kept = keep_samples(self._path, self._ledger, self._owner)
        except ConfigError as error:
            print(f"soft_init: {error}", file=sys.stderr)
            return
        print(
            f"soft_init: {kept} measurements are kept for {self._option} in "
            f"{samples_path(self._path)}",
            file=sys.stderr,
        )


def with_earlier(
    ledger: Ledger, path: Path, owner: Sequence[str], scopes: Sequence[Scope] = ()
) -> tuple[Ledger, int]:
    """Return samples with those of an earlier run, and how many ops and dtypes these add.

    Those of an op and a dtype that was measured at every size are replaced whole; where only some
    sizes were asked for, the others' samples stay.

    Args:
        ledger: what was measured.
        path: the file of the earlier samples; those of other backends or machines do not join.
        owner: whose samples join.
        scopes: what was asked for.
    """
    if not path.is_file():
        return ledger, 0
    try:
        earlier, theirs = read_samples(path)
    except ConfigError:
        return ledger, 0  # it is replaced
    if theirs != list(owner):
        return ledger, 0
    outcomes = {**earlier.outcomes, **ledger.outcomes}
    for scope in scopes:
        key = (scope.op, scope.dtype)
        if not scope.whole and key in earlier.outcomes:
            outcomes[key] = {**earlier.outcomes[key], **ledger.outcomes.get(key, {})}
    added = len(outcomes) - len(ledger.outcomes)
    copies = ledger.copies or earlier.copies
    return Ledger(outcomes, copies, ledger.load), added
