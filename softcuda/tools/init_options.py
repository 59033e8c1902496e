"""The options of soft_init, checked."""

from __future__ import annotations

import argparse
import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from softcuda.dtype import DTYPES
from softcuda.errors import ArgumentError
from softcuda.paths import CONFIG_NAME
from softcuda.profile.vocabulary import why_no_row, work_ops
from softcuda.tools.workloads import accepted_dtypes
from softcuda.tools.workloads_inputs import Source

__all__ = ["InitOptions", "init_options"]

_DEFAULT_DTYPES = ("f32", "f64")


@dataclass(frozen=True, slots=True)
class InitOptions:
    """What was asked for.

    Attributes:
        wanted: op -> names of the dtypes to measure.
        max_size: no size above it, or None.
        budget_s: seconds for everything; inf for no bound.
        output: the file to write.
        force: replace it.
        resume: go on from the samples of an interrupted run.
        quiet: print errors only.
    """

    wanted: dict[str, tuple[str, ...]]
    max_size: int | None
    budget_s: float
    output: str
    force: bool
    resume: bool
    quiet: bool


def init_options(argv: Sequence[str] | None) -> InitOptions:
    """Return the options of a command line.

    Args:
        argv: the words; None for those of this process.

    Raises:
        ArgumentError: a value is not allowed.
        SystemExit: argparse has said what is wrong, or shown the help.
    """
    given = _parser().parse_args(argv)
    source = Source(np.random.default_rng(0))
    ops = _words("--ops", given.ops, work_ops())
    dtypes = _words("--dtypes", given.dtypes, tuple(DTYPES))
    wanted = {}
    for op in ops or work_ops():
        taken = [dtype.name for dtype in accepted_dtypes(op, source)]
        chosen = tuple(name for name in taken if name in (dtypes or _DEFAULT_DTYPES))
        if not chosen and not dtypes:
            chosen = (taken[-1],)  # an op of integers alone
        wanted[op] = chosen
    if not any(wanted.values()):
        raise ArgumentError(
            f"--dtypes {given.dtypes}: none of the ops {', '.join(wanted)} takes these dtypes; "
            "name other dtypes, or leave one of the two options out"
        )
    return InitOptions(
        wanted=wanted,
        max_size=None if given.max_size is None else _whole("--max-size", given.max_size),
        budget_s=math.inf if given.budget is None else _seconds("--budget", given.budget),
        output=given.output,
        force=given.force,
        resume=given.resume,
        quiet=given.quiet,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="soft_init",
        description="Measure every operation on every backend of this machine and write the "
        "profile by which softcuda chooses between them.",
    )
    add = parser.add_argument
    add("--ops", metavar="OP,...", help="measure these ops only; default: all")
    add("--dtypes", metavar="DTYPE,...", help="default: f32,f64")
    add("--max-size", metavar="N", help="no size above N, in elements (matmul: its extent)")
    add("--budget", metavar="SECONDS", help="end within this time; default: until all is measured")
    add("--output", metavar="FILE", default=CONFIG_NAME, help="default: ./CONFIG.soft")
    add(
        "--force",
        action="store_true",
        help="measure again and replace the file; where it fits this machine, its rows are kept "
        "for what is not measured again",
    )
    add("--resume", action="store_true", help="go on where an interrupted run ended")
    add("--quiet", action="store_true", help="print errors only")
    return parser


def _words(option: str, text: str | None, allowed: Sequence[str]) -> tuple[str, ...]:
    """Return the words of an option, () where it was not given."""
    if text is None:
        return ()
    words = tuple(dict.fromkeys(text.replace(",", " ").split()))
    for word in words:
        if word not in allowed:
            raise ArgumentError(
                f"{option}: {word!r} is unknown{_hint(option, word, allowed)}; allowed are "
                f"{', '.join(allowed)}"
            )
    if not words:
        raise ArgumentError(f"{option} is empty; allowed are {', '.join(allowed)}")
    return words


def _hint(option: str, word: str, allowed: Sequence[str]) -> str:
    reason = why_no_row(word) if option == "--ops" else ""
    if reason:
        return f" ({reason})"
    close = difflib.get_close_matches(word.lower(), allowed, n=1, cutoff=0.65)
    return f", the closest is {close[0]!r}" if close else ""


def _whole(option: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentError(f"{option} is {text!r}; allowed is a whole number of at least 1")
    return int(text)


def _seconds(option: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value >= 0:
        raise ArgumentError(f"{option} is {text!r}; allowed is a number of seconds from 0")
    return value
