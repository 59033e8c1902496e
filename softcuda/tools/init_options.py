"""The options of soft_init, checked."""

from __future__ import annotations

import argparse
import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from softcuda.dtype import REAL_DTYPES
from softcuda.errors import ArgumentError
from softcuda.graph.op import OPS, Kind
from softcuda.paths import CONFIG_NAME
from softcuda.profile.files import shipped_file
from softcuda.profile.vocabulary import why_no_row, work_ops
from softcuda.tools.workloads import accepted_dtypes
from softcuda.tools.workloads_inputs import Source

__all__ = ["InitOptions", "init_options", "op_words"]

_DEFAULT_DTYPES: Final = ("f32", "f64")
_HALVES: Final = ("f16", "bf16")
_MOST_DIGITS: Final = 18
_DEVICES: Final = ("auto", "cpu", "cuda")


@dataclass(frozen=True, slots=True)
class InitOptions:
    """What was asked for.

    Attributes:
        ops: the ops that were named, () for all.
        dtypes: the dtypes that were named, () for the usual ones.
        wanted: op -> names of the dtypes to measure.
        on_device: op -> names of the dtypes to measure beside those where a GPU is measured.
        max_size: no size above it, or None.
        sizes: these sizes only, ascending; () for powers of two.
        budget_s: seconds for everything; None for the usual bound.
        full: without bounds.
        device: "auto", "cpu" or "cuda".
        output: the file to write, or to look at.
        force: replace it.
        resume: go on from the samples of an interrupted run.
        check: measure some rows of the file again.
        diff: two files to compare, or None.
        explain: an op token and a size of the file to explain, or None.
        medians: print the medians of every size.
        quiet: print errors only.
    """

    ops: tuple[str, ...]
    dtypes: tuple[str, ...]
    wanted: dict[str, tuple[str, ...]]
    on_device: dict[str, tuple[str, ...]]
    max_size: int | None
    sizes: tuple[int, ...]
    budget_s: float | None
    full: bool
    device: str
    output: str
    force: bool
    resume: bool
    check: bool
    diff: tuple[str, str] | None
    explain: tuple[str, int] | None
    medians: bool
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
    ops = op_words(given.ops)
    dtypes = _words("--dtypes", given.dtypes, tuple(REAL_DTYPES))
    wanted, on_device = {}, {}
    for op in ops or work_ops():
        taken = [dtype.name for dtype in accepted_dtypes(op, source)]
        chosen = tuple(name for name in taken if name in (dtypes or _DEFAULT_DTYPES))
        if not chosen and not dtypes:
            chosen = (taken[-1],)  # an op of integers alone
        wanted[op] = chosen
        halves = OPS[op].kind in (Kind.CONTRACTION, Kind.REDUCTION) and not dtypes
        on_device[op] = tuple(name for name in taken if name in _HALVES and halves)
    if not any(wanted.values()):
        raise ArgumentError(
            f"--dtypes {given.dtypes}: none of the ops {', '.join(wanted)} takes these dtypes; "
            "name other dtypes, or leave one of the two options out"
        )
    sizes = (given.sizes or "").replace(",", " ").split()
    if given.sizes is not None and not sizes:
        raise ArgumentError("--sizes is empty; allowed are whole numbers, as in --sizes 64,4096")
    _check_questions(given)
    return InitOptions(
        ops=ops,
        dtypes=dtypes,
        wanted=wanted,
        on_device=on_device,
        max_size=None if given.max_size is None else _whole("--max-size", given.max_size),
        sizes=tuple(sorted({_whole("--sizes", text) for text in sizes})),
        budget_s=None if given.budget is None else _seconds("--budget", given.budget),
        full=given.full,
        device=_word("--device", given.device, _DEVICES),
        output=given.file or given.output or CONFIG_NAME,
        force=given.force,
        resume=given.resume,
        check=given.check,
        diff=None if given.diff is None else (given.diff[0], given.diff[1]),
        explain=None if given.explain is None else _explained(*given.explain),
        medians=given.medians,
        quiet=given.quiet,
    )


def op_words(text: str | None) -> tuple[str, ...]:
    """Return the ops that --ops names, () where it was not given.

    Raises:
        ArgumentError: one is no op that does work, or there is none.
    """
    return _words("--ops", text, work_ops())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="soft_init",
        description="Measure every operation on every backend of this machine and write the "
        "profile by which softcuda chooses between them.",
        epilog="soft_init report [FILE] draws what a profile's samples say; see soft_init report "
        "--help.",
    )
    add = parser.add_argument
    add(
        "file",
        metavar="FILE",
        nargs="?",
        help=f"the profile that --check and --explain look at; default: ./{CONFIG_NAME}",
    )
    add("--ops", metavar="OP,...", help="measure these ops only; default: all")
    add(
        "--dtypes",
        metavar="DTYPE,...",
        help="default: f32,f64; where a GPU is measured also f16,bf16 of matmul and reductions",
    )
    add("--sizes", metavar="N,...", help="measure these sizes only; default: powers of two")
    add("--max-size", metavar="N", help="no size above N, in elements (matmul: its extent)")
    add(
        "--device",
        metavar="TYPE",
        default=_DEVICES[0],
        help="cpu, cuda, or auto (default): the GPU too, where one can be used",
    )
    add("--budget", metavar="SECONDS", help="end within this time; default: 170, with a GPU 285")
    add(
        "--full",
        action="store_true",
        help="no bounds of time: every backend at every power of two up to 2^22 elements and "
        "matmul 2048, with a GPU 2^24 and 4096; --sizes names larger ones",
    )
    add("--output", metavar="FILE", help=f"the profile to write; default: ./{CONFIG_NAME}")
    add(
        "--force",
        action="store_true",
        help="measure again and replace the file; where it fits this machine, its rows are kept "
        "for what is not measured again",
    )
    add("--resume", action="store_true", help="go on where an interrupted run ended")
    add(
        "--check",
        action="store_true",
        help="measure some rows of the file again and say which no longer hold; with --ops, "
        "--dtypes or --sizes all of those; writes nothing",
    )
    add(
        "--diff",
        nargs=2,
        metavar=("A", "B"),
        help="compare two profiles, of --ops only; measures nothing",
    )
    add(
        "--explain",
        nargs=2,
        metavar=("OP", "SIZE"),
        help="say which row of the file decides, and by which samples; OP may be op[dtype]",
    )
    add("--medians", action="store_true", help="print the medians of every size, not the largest")
    add("--quiet", action="store_true", help="print errors only")
    return parser


def _check_questions(given: argparse.Namespace) -> None:
    """Check that one question is asked at most, and that a file is named once, for a question."""
    asked = {"--check": given.check, "--diff": given.diff, "--explain": given.explain}
    named = [name for name, value in asked.items() if value]
    if len(named) > 1:
        raise ArgumentError(f"{' and '.join(named)} are given; allowed is one of them at a time")
    if given.file is not None and named not in (["--check"], ["--explain"]):
        raise ArgumentError(
            f"FILE is {given.file!r}; allowed is one with --check and --explain; --output names "
            "the file to write"
        )
    if given.file is not None and given.output is not None:
        raise ArgumentError(
            f"FILE is {given.file!r} and --output {given.output!r}; allowed is one of them"
        )
    if not named and given.output is not None and shipped_file(given.output) is not None:
        raise ArgumentError(
            f"--output is {given.output!r}, the name of a profile that is shipped; name another "
            "file, such as here.soft"
        )


def _explained(token: str, size: str) -> tuple[str, int]:
    op = token.split("[", maxsplit=1)[0]
    _words("--explain", op, work_ops())
    dtype = token[len(op) :]
    if dtype and dtype[1:-1] not in REAL_DTYPES:
        raise ArgumentError(
            f"--explain: {token!r} names no dtype; allowed are an op such as matmul, and "
            f"matmul[DTYPE] with one of {', '.join(REAL_DTYPES)}"
        )
    return token, _whole("--explain", size)


def _word(option: str, word: str, allowed: Sequence[str]) -> str:
    if word not in allowed:
        raise ArgumentError(f"{option} is {word!r}; allowed are {', '.join(allowed)}")
    return word


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
    reason = why_no_row(word) if option in ("--ops", "--explain") else ""
    if reason:
        return f" ({reason})"
    close = difflib.get_close_matches(word.lower(), allowed, n=1, cutoff=0.65)
    return f", the closest is {close[0]!r}" if close else ""


def _whole(option: str, text: str) -> int:
    if not text.isdecimal() or len(text) > _MOST_DIGITS or int(text) < 1:
        shown = text if len(text) <= 2 * _MOST_DIGITS else f"{text[:_MOST_DIGITS]}..."
        raise ArgumentError(f"{option} is {shown!r}; allowed is a whole number from 1 to 10^18")
    return int(text)


def _seconds(option: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ArgumentError(f"{option} is {text!r}; allowed is a number of seconds above 0")
    return value
