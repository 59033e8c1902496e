"""Samples in files: all of a profile's in a CSV beside it, those of an interrupted sweep too.

The first line is a comment that says what they belong to; a line follows for every backend at
every size, and for every size that was copied.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from softcuda.dtype import REAL_DTYPES
from softcuda.errors import ConfigError
from softcuda.graph.op import OPS
from softcuda.profile.vocabulary import DEVICE_TYPES, DIRECTIONS
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
_MOST_DIGITS: Final = 18
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
    times = tuple(map(float, text.split()))
    if not all(0 < time < math.inf for time in times):
        raise ValueError(f"a time is {text!r}; allowed are numbers above 0")
    return times


def read_samples(path: Path) -> tuple[Ledger, list[str]]:
    """Return the samples in a file, and what they belong to.

    Raises:
        ConfigError: the file is missing, cannot be read, or holds what is no sample; names the
            line.
    """
    line = 1
    try:
        text = path.read_text(encoding="utf-8")
        if not text.endswith("\n"):
            line = text.count("\n") + 1
            raise ValueError("the file ends in the middle of a line")
        first, _, rest = text.partition("\n")
        ledger, owner = _head(first)
        rows = csv.DictReader(io.StringIO(rest, newline=""), strict=True)
        if rest and tuple(rows.fieldnames or ()) != _COLUMNS:
            line = 2
            raise ValueError(f"the columns are {rows.fieldnames}; allowed are {list(_COLUMNS)}")
        for row in rows:
            line = rows.line_num + 1
            _take(ledger, row)
        return ledger, owner
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError,
            csv.Error) as error:  # fmt: skip
        found = error.strerror if isinstance(error, OSError) else error
        at = "" if isinstance(error, OSError) else f", line {line}"
        raise ConfigError(
            str(path),
            None,
            f"the samples cannot be read{at}: {found}; measure anew with soft_init",
        ) from error


def _head(first: str) -> tuple[Ledger, list[str]]:
    """Return an empty ledger with the load of the first line, and the owner."""
    head: Any = json.loads(first.removeprefix(_MARK))
    if head["format"] != _FORMAT:
        raise ValueError(f"its format is {head['format']!r}, allowed is {_FORMAT!r}")
    load = {str(key): float(value) for key, value in head.get("load", {}).items()}
    if load and set(load) != {"others", "processors"}:
        raise ValueError(f"load is of {', '.join(load)}; allowed are others and processors")
    return Ledger(load=load), [str(word) for word in head["owner"]]


def _size(text: str) -> int:
    size = int(text) if len(text) <= _MOST_DIGITS else 0
    if size < 1:
        raise ValueError(f"size is {text[:40]!r}; allowed is a whole number from 1 to 10^18")
    return size


def _take(ledger: Ledger, row: dict[str, str]) -> None:
    if None in row.values() or None in row:
        raise ValueError(f"the line has another number of columns than {len(_COLUMNS)}")
    size = _size(row["size"])
    resident, host = _times(row["resident"]), _times(row["host"])
    if row["op"] in _TRANSFERS and row["dtype"] in _MEMORIES:
        if row["backend"] not in DIRECTIONS or not resident:
            raise ValueError(f"a copy is {row['backend']!r}; allowed are h2d and d2h, with times")
        ledger.copies.setdefault((row["backend"], row["dtype"]), {})[size] = resident
        return
    for word, found, allowed in (
        ("op", row["op"], OPS),
        ("dtype", row["dtype"], REAL_DTYPES),
        ("device", row["device"], DEVICE_TYPES),
    ):
        if found not in allowed:
            raise ValueError(f"{word} is {found[:40]!r}, which is unknown")
    state = State(row["state"])
    time_us = float(row["microseconds"] or 0.0)
    if state is State.MEASURED:
        time_us = median_of(resident) if resident else _times(row["microseconds"])[0]
    outcome = Outcome(state, time_us, row["reason"], row["device"], resident, host)
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
