"""Samples of an interrupted sweep: kept in a file beside the profile, for --resume."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from softcuda.errors import ConfigError
from softcuda.tools.cells import Cell, Ledger, Outcome, State

__all__ = [
    "forget_samples",
    "keep_samples",
    "kept_samples",
    "refuse_to_lose_samples",
    "samples_path",
]

_FORMAT: Final = "softcuda samples 1"


def samples_path(output: str) -> Path:
    """Return the file of the samples of a profile, such as CONFIG.soft.samples."""
    return Path(f"{os.path.realpath(output)}.samples")


def keep_samples(output: str, ledger: Ledger, owner: Sequence[str]) -> int:
    """Write the samples, whole or not at all; return how many cells they are.

    Args:
        output: the profile they are for.
        ledger: the samples.
        owner: what they belong to: the device_hash and the backends.

    Raises:
        ConfigError: they cannot be written.
    """
    cells = [
        [
            op,
            dtype,
            size,
            {name: [o.state.value, o.microseconds, o.reason] for name, o in c.items()},
        ]
        for (op, dtype), sizes in ledger.outcomes.items()
        for size, c in sizes.items()
    ]
    target = samples_path(output)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    text = json.dumps({"format": _FORMAT, "owner": list(owner), "cells": cells})
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, target)
    except OSError as error:
        raise ConfigError(
            str(target), None, f"the samples cannot be kept: {error.strerror or error}"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    return len(cells)


def kept_samples(output: str, owner: Sequence[str]) -> Ledger:
    """Return the samples that an interrupted sweep kept.

    Raises:
        ConfigError: there are none, they cannot be read, or they are of another machine or of
            other backends.
    """
    path = samples_path(output)
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != _FORMAT:
            raise ValueError(f"its format is {data['format']!r}")
        ledger = Ledger()
        for op, dtype, size, outcomes in data["cells"]:
            found = {n: Outcome(State(s), float(t), str(r)) for n, (s, t, r) in outcomes.items()}
            ledger.note(Cell(str(op), str(dtype), int(size)), found)
        written = list(data["owner"])
    except FileNotFoundError:
        raise ConfigError(
            str(path), None, "there are no samples to resume from; leave --resume out"
        ) from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ConfigError(
            str(path), None, f"the samples cannot be read: {error}; remove the file"
        ) from error
    if written != list(owner):
        raise ConfigError(
            str(path),
            None,
            f"the samples are of {', '.join(map(str, written))}, and this is {', '.join(owner)}; "
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


def forget_samples(output: str) -> None:
    """Remove the samples of a profile, if there are any."""
    samples_path(output).unlink(missing_ok=True)
