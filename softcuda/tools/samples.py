"""Samples in files: all of a profile's in a CSV beside it, those of an interrupted sweep too.

The first line is a comment that says what they belong to; a line follows for every backend at
every size, and for every size that was copied.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from softcuda.errors import ConfigError
from softcuda.tools.cells import Ledger, Outcome, State
from softcuda.tools.spread import median_of

__all__ = [
    "forget_samples",
    "keep_samples",
    "kept_samples",
    "measured_path",
    "read_samples",
    "refuse_to_lose_samples",
    "refuse_to_replace",
    "samples_path",
    "samples_text",
]

_FORMAT: Final = "softcuda samples 2"
_MARK: Final = "# "
_LONGEST_HEAD: Final = 1 << 16
_TRANSFER: Final = "transfer"  # stands in the column op of a copy between host and device
_TRANSFERS: Final = (_TRANSFER, "copy")  # and in files of before
_MEMORIES: Final = ("pageable", "pinned")  # stand in its column dtype
_COLUMNS: Final = (
    *("op", "dtype", "size", "backend", "device", "state"),
    *("microseconds", "reason", "resident", "host"),
)


def samples_path(output: str) -> Path:
    """Return the file of the samples of an interrupted sweep, such as CONFIG.soft.samples."""
    return Path(f"{os.path.realpath(output)}.samples")


def measured_path(output: str) -> Path:
    """Return the file of the samples that a profile is made of, such as CONFIG.csv."""
    path = Path(os.path.realpath(output))
    return path.with_name(f"{path.name.removesuffix('.soft')}.csv")


def samples_text(ledger: Ledger, owner: Sequence[str]) -> str:
    """Return samples as text; the same samples give the same text.

    Args:
        ledger: the samples.
        owner: what they belong to: the device_hash and the backends.
    """
    text = io.StringIO()
    head = {
        "format": _FORMAT,
        "owner": list(owner),
        **({"load": ledger.load} if ledger.load else {}),
    }
    text.write(_MARK + json.dumps(head) + "\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows(_rows(ledger))
    return text.getvalue()


def _rows(ledger: Ledger) -> Iterator[Sequence[Any]]:
    for (direction, memory), sizes in sorted(ledger.copies.items()):
        for nbytes, times in sorted(sizes.items()):
            yield (
                _TRANSFER,
                memory,
                nbytes,
                direction,
                "cuda",
                "measured",
                "",
                "",
                _words(times),
                "",
            )
    for (op, dtype), cells in sorted(ledger.outcomes.items()):
        for size, outcomes in sorted(cells.items()):
            for name, found in outcomes.items():
                state, time, reason, device, resident, host = found
                measured = repr(time) if state is State.MEASURED else ""
                yield (
                    *(op, dtype, size, name, device, state.value, measured, reason),
                    *(_words(resident), _words(host)),
                )


def _words(times: Iterable[float]) -> str:
    return " ".join(f"{time:.5g}" for time in times)


def _times(text: str) -> tuple[float, ...]:
    return tuple(map(float, text.split()))


def read_samples(path: Path) -> tuple[Ledger, list[str]]:
    """Return the samples in a file, and what they belong to.

    Raises:
        ConfigError: the file is missing or cannot be read.
    """
    try:
        with open(path, encoding="utf-8", newline="") as file:
            head: Any = json.loads(file.readline().removeprefix(_MARK))
            if head["format"] != _FORMAT:
                raise ValueError(f"its format is {head['format']!r}, allowed is {_FORMAT!r}")
            ledger = Ledger(load={str(k): float(v) for k, v in head.get("load", {}).items()})
            for row in csv.DictReader(file):
                _take(ledger, row)
            return ledger, [str(word) for word in head["owner"]]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(
            str(path), None, f"the samples cannot be read: {reason}; measure anew with soft_init"
        ) from error


def _take(ledger: Ledger, row: dict[str, str]) -> None:
    size = int(row["size"])
    if row["op"] in _TRANSFERS and row["dtype"] in _MEMORIES:
        times = _times(row["resident"])
        ledger.copies.setdefault((row["backend"], row["dtype"]), {})[size] = times
        return
    resident = _times(row["resident"])
    outcome = Outcome(
        State(row["state"]),
        median_of(resident) if resident else float(row["microseconds"] or 0.0),
        row["reason"],
        row["device"],
        resident,
        _times(row["host"]),
    )
    cells = ledger.outcomes.setdefault((row["op"], row["dtype"]), {})
    cells.setdefault(size, {})[row["backend"]] = outcome


def keep_samples(output: str, ledger: Ledger, owner: Sequence[str]) -> int:
    """Write the samples of an interrupted sweep, whole or not at all; return how many cells.

    Args:
        output: the profile they are for.
        ledger: the samples.
        owner: what they belong to: the device_hash and the backends.

    Raises:
        ConfigError: they cannot be written.
    """
    target = samples_path(output)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(samples_text(ledger, owner), encoding="utf-8")
        os.replace(temporary, target)
    except OSError as error:
        raise ConfigError(
            str(target), None, f"the samples cannot be kept: {error.strerror or error}"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    return sum(len(cells) for cells in ledger.outcomes.values())


def kept_samples(output: str, owner: Sequence[str]) -> Ledger:
    """Return the samples that an interrupted sweep kept.

    Raises:
        ConfigError: there are none, they cannot be read, or they are of another machine or of
            other backends.
    """
    path = samples_path(output)
    if not os.path.lexists(path):
        raise ConfigError(
            str(path), None, "there are no samples to resume from; leave --resume out"
        )
    ledger, written = read_samples(path)
    if written != list(owner):
        raise ConfigError(
            str(path),
            None,
            f"the samples are of {', '.join(written)}, and this is {', '.join(owner)}; "
            "remove the file to measure anew",
        )
    return ledger


def refuse_to_lose_samples(output: str) -> None:
    """Check that there are no samples which a new sweep would replace.

    Raises:
        ConfigError: there are.
    """
    path = samples_path(output)
    if os.path.lexists(path):
        raise ConfigError(
            str(path),
            None,
            "these are the samples of an interrupted run; --resume goes on from them; remove the "
            "file to measure anew",
        )


def refuse_to_replace(path: Path) -> None:
    """Check that a file of samples replaces nothing else of its name.

    Raises:
        ConfigError: there is a file that holds no samples.
    """
    if not os.path.lexists(path):
        return
    try:
        with open(path, encoding="utf-8", newline="") as file:
            known = _FORMAT in file.readline(_LONGEST_HEAD)
    except (OSError, ValueError):
        known = False
    if not known:
        raise ConfigError(
            str(path),
            None,
            "this file holds no samples, and those of the profile would replace it; allowed is "
            "another --output, or --force",
        )


def forget_samples(output: str) -> None:
    """Remove the samples of an interrupted sweep, if there are any."""
    samples_path(output).unlink(missing_ok=True)
