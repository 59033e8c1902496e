"""The console script soft_init: measures this machine and writes its profile, CONFIG.soft."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import math
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from softcuda.backends import backends
from softcuda.dtype import DTYPES
from softcuda.errors import ArgumentError, ConfigError, SoftCudaError
from softcuda.paths import CONFIG_NAME
from softcuda.profile.machine import device_hash, mismatch, this_machine
from softcuda.profile.model import DeviceFacts, Profile
from softcuda.profile.resolve import default_profile, read
from softcuda.profile.vocabulary import SOFT_VERSION, why_no_row, work_ops
from softcuda.profile.writer import write
from softcuda.tools.cells import Ledger, Scope, scopes_of
from softcuda.tools.choose import profile_rows
from softcuda.tools.display import medians_table, progress
from softcuda.tools.measure import Meter
from softcuda.tools.samples import forget_samples, keep_samples, kept_samples, samples_path
from softcuda.tools.sweep import sweep
from softcuda.tools.workloads import accepted_dtypes
from softcuda.tools.workloads_inputs import Source

__all__ = ["main"]

_DEFAULT_DTYPES = ("f32", "f64")
_INTERRUPTED = 130  # 128 + SIGINT, as shells report it


@dataclass(frozen=True, slots=True)
class _Options:
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


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the registered CPU backends and write a profile; return the exit status.

    0: written, or the profile that is there fits this machine. 1: a profile that is there does
    not fit, or the file cannot be written. 2: an option is not allowed. 130: interrupted; no
    profile was written, and the samples are kept for --resume.

    Args:
        argv: the options; None for those of the command line.
    """
    begin = time.monotonic()
    try:
        options = _options(argv)
    except ArgumentError as error:
        print(f"soft_init: {error}", file=sys.stderr)
        return 2
    except SystemExit as stop:  # argparse has said why, or shown the help
        return int(stop.code or 0)
    try:
        return _run(options, begin + options.budget_s)
    except SoftCudaError as error:
        print(f"soft_init: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("soft_init: interrupted; no profile was written", file=sys.stderr)
        return _INTERRUPTED


def _options(argv: Sequence[str] | None) -> _Options:
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
    add("--force", action="store_true", help="measure again and replace the file")
    add("--resume", action="store_true", help="go on where an interrupted run ended")
    add("--quiet", action="store_true", help="print errors only")
    given = parser.parse_args(argv)
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
    return _Options(
        wanted=wanted,
        max_size=None if given.max_size is None else _whole("--max-size", given.max_size),
        budget_s=math.inf if given.budget is None else _seconds("--budget", given.budget),
        output=given.output,
        force=given.force,
        resume=given.resume,
        quiet=given.quiet,
    )


def _words(option: str, text: str | None, allowed: Sequence[str]) -> tuple[str, ...]:
    """Return the words of an option, () where it was not given."""
    if text is None:
        return ()
    words = tuple(dict.fromkeys(text.replace(",", " ").split()))
    for word in words:
        if word not in allowed:
            hint = f" ({why_no_row(word)})" if option == "--ops" and why_no_row(word) else ""
            raise ArgumentError(
                f"{option}: {word!r} is unknown{hint}; allowed are {', '.join(allowed)}"
            )
    if not words:
        raise ArgumentError(f"{option} is empty; allowed are {', '.join(allowed)}")
    return words


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


def _run(options: _Options, deadline_s: float) -> int:
    say = (lambda text: None) if options.quiet else print
    machine = this_machine()
    say(f"machine      {machine.cpu}, {machine.cpu_cores} logical processors")
    say(f"device_hash  {device_hash(machine)}")
    if os.path.lexists(options.output) and not options.force:
        _check_existing(options.output, machine)
        say(f"{options.output} fits this machine; --force measures again")
        return 0
    _check_folder(options.output)
    bench = Meter()
    scopes = scopes_of(options.wanted, options.max_size)
    say(f"backends     {', '.join(bench.backend_ids)}")
    owner = (device_hash(machine), *bench.backend_ids)
    ledger = kept_samples(options.output, owner) if options.resume else Ledger()
    begin = time.monotonic()
    try:
        with progress(sys.stdout, quiet=options.quiet) as report:
            sweep(scopes, bench, deadline_s, report, ledger=ledger)
    except KeyboardInterrupt:
        kept = keep_samples(options.output, ledger, owner)
        said = f"{kept} measurements are kept for --resume in {samples_path(options.output)}"
        print(f"soft_init: interrupted; no profile was written; {said}", file=sys.stderr)
        return _INTERRUPTED
    took = time.monotonic() - begin
    say(medians_table(ledger, scopes, bench.backend_ids))
    profile = _profile(options.output, ledger, scopes, machine)
    notes = (
        f"Written by soft_init: numpy {np.__version__}, Python {sys.version.split()[0]}.",
        "Behind a row: medians at its smallest and its largest measured size, the fastest first.",
    )
    write(profile, options.output, options.force, notes)
    forget_samples(options.output)
    cells = sum(len(sizes) for sizes in ledger.outcomes.values())
    say(
        f"wrote {options.output}: {len(profile.rows)} rows from {cells} measurements in "
        f"{took:.1f} s"
    )
    return 0


def _profile(path: str, ledger: Ledger, scopes: Sequence[Scope], machine: DeviceFacts) -> Profile:
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    meta = {
        "soft_version": SOFT_VERSION,
        "device_hash": device_hash(machine),
        "generated_at": now,
    }
    rows = tuple(profile_rows(ledger, scopes, default_profile()))
    return Profile(path, meta, machine, rows)


def _check_existing(path: str, machine: DeviceFacts) -> None:
    """Return where the profile that is there fits this machine.

    Raises:
        ConfigError: it does not, or cannot be read.
    """
    advice = "it is kept; --force measures this machine and replaces it, --output names another"
    registered = {name: module.DEVICE for name, module in backends().items()}
    try:
        profile = read(path, registered)
    except ConfigError as error:
        raise ConfigError(error.path, error.line, f"{error.message}; {advice}") from error
    if profile.device.type != machine.type:
        raise ConfigError(
            path,
            None,
            f"the profile is one of a {profile.device.type} device "
            f"{profile.device.name or 'without a name'}, and this version measures the CPU; "
            f"{advice}",
        )
    differences = mismatch(profile, machine)
    if differences:
        text = "; ".join(
            f"{d.fact} is {d.profile or 'not written'!r} in the profile and {d.here!r} here"
            for d in differences
        )
        raise ConfigError(path, None, f"the profile does not fit this machine: {text}; {advice}")


def _check_folder(path: str) -> None:
    """Check, before anything is measured, that the file can be written.

    Raises:
        ConfigError: its folder is missing or may not be written to, or it is a folder.
    """
    target = Path(os.path.realpath(path))
    why = ""
    if target.is_dir():
        why = "this is a folder; allowed is the name of a file in it"
    elif not target.parent.is_dir():
        why = f"the folder {target.parent} is missing; make it, or choose another with --output"
    elif not os.access(target.parent, os.W_OK):
        why = f"the folder {target.parent} may not be written to; choose another with --output"
    if why:
        raise ConfigError(path, None, f"the profile cannot be written: {why}")


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
