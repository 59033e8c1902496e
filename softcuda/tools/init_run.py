"""A run of soft_init: what is there is looked at, the machine measured, the profile written."""

from __future__ import annotations

import dataclasses
import datetime
import os
import sys
import time
from collections.abc import Sequence

import numpy as np

from softcuda.backends import backends
from softcuda.errors import ConfigError, SoftCudaError
from softcuda.profile.machine import device_hash, mismatch, this_machine
from softcuda.profile.model import DeviceFacts, Profile, Row
from softcuda.profile.place import check_place
from softcuda.profile.resolve import default_profile, read
from softcuda.profile.vocabulary import SOFT_VERSION
from softcuda.profile.writer import write
from softcuda.tools.cells import Ledger, Scope, scopes_of
from softcuda.tools.choose import NOT_MEASURED, profile_rows
from softcuda.tools.display import medians_table, progress
from softcuda.tools.init_options import InitOptions
from softcuda.tools.init_output import Output
from softcuda.tools.init_stop import Stop
from softcuda.tools.measure import Meter
from softcuda.tools.samples import (
    forget_samples,
    keep_samples,
    kept_samples,
    refuse_to_lose_samples,
    samples_path,
)
from softcuda.tools.sweep import Moment, sweep

__all__ = ["run_init"]

_ADVICE = "it is kept; --force measures this machine and replaces it, --output names another"


def run_init(options: InitOptions, deadline_s: float, output: Output, stop: Stop) -> None:
    """Measure and write the profile; only look at it where one that fits is there.

    Args:
        options: what was asked for.
        deadline_s: when to end, on time.monotonic() [seconds].
        output: takes what there is to say.
        stop: what may end the run.

    Raises:
        ConfigError: a profile that is there does not fit, or the file cannot be written.
        KeyboardInterrupt: the run was ended; its samples are kept.
    """
    machine = this_machine()
    output.say(f"machine      {machine.cpu}, {machine.cpu_cores} logical processors")
    output.say(f"device_hash  {device_hash(machine)}")
    if os.path.exists(options.output) and not options.force:
        _check_existing(options.output, machine)
        output.say(f"{options.output} fits this machine; --force measures again")
        return
    check_place(options.output)
    _say_busy(output)
    if not options.resume:
        refuse_to_lose_samples(options.output)
    earlier = _earlier(options.output, machine, output)
    bench = Meter()
    scopes = scopes_of(options.wanted, options.max_size)
    output.say(f"backends     {', '.join(bench.backend_ids)}")
    owner = (device_hash(machine), *bench.backend_ids)
    ledger = kept_samples(options.output, owner) if options.resume else Ledger()
    begin = time.monotonic()
    try:
        _sweep(scopes, bench, deadline_s, output, stop, ledger)
        took = time.monotonic() - begin
        output.say(medians_table(ledger, scopes, bench.backend_ids))
        profile = _write(options, ledger, scopes, machine, earlier)
    except (KeyboardInterrupt, SoftCudaError):
        _keep(options.output, ledger, owner)
        raise
    forget_samples(options.output)
    cells = sum(len(sizes) for sizes in ledger.outcomes.values())
    output.say(
        f"wrote {options.output}: {len(profile.rows)} rows from {cells} measurements in "
        f"{took:.1f} s"
    )
    kept_rows = _carried(profile.rows, earlier)
    if kept_rows:
        output.say(
            f"{kept_rows} of them are the earlier profile's, which fits this machine; remove the "
            "file first to be rid of them"
        )


def _say_busy(output: Output) -> None:
    cores = os.cpu_count() or 1
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load > cores:
        output.say(
            f"note         {load:.1f} processes want to run on {cores} processors: what is "
            "measured now may not be the fastest when they rest"
        )


def _keep(path: str, ledger: Ledger, owner: Sequence[str]) -> None:
    """Keep what was measured, and say where."""
    if not ledger.outcomes:
        return
    try:
        kept = keep_samples(path, ledger, owner)
    except ConfigError as error:
        print(f"soft_init: {error}", file=sys.stderr)
        return
    where = samples_path(path)
    print(f"soft_init: {kept} measurements are kept for --resume in {where}", file=sys.stderr)


def _sweep(
    scopes: Sequence[Scope],
    bench: Meter,
    deadline_s: float,
    output: Output,
    stop: Stop,
    ledger: Ledger,
) -> None:
    with progress(sys.stdout, quiet=output.quiet) as tell:

        def report(moment: Moment) -> None:
            stop.check()
            with output.guarded():
                tell(moment)

        sweep(scopes, bench, deadline_s, report, ledger=ledger)
    stop.check()


def _write(
    options: InitOptions,
    ledger: Ledger,
    scopes: Sequence[Scope],
    machine: DeviceFacts,
    earlier: Profile | None,
) -> Profile:
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    meta = {
        "soft_version": SOFT_VERSION,
        "device_hash": device_hash(machine),
        "generated_at": now,
    }
    kept = earlier.rows if earlier else ()
    rows = tuple(profile_rows(ledger, scopes, default_profile(), kept))
    if earlier:
        profile = dataclasses.replace(earlier, meta=meta, device=machine, rows=rows)
    else:
        profile = Profile(options.output, meta, machine, rows)
    notes = (
        f"Written by soft_init: numpy {np.__version__}, Python {sys.version.split()[0]}.",
        "Behind a row: medians at its smallest and its largest measured size, the fastest first;",
        "skipped: a call would have taken too long, or it was far behind at smaller sizes.",
    )
    write(profile, options.output, options.force, notes)
    return profile


def _carried(rows: Sequence[Row], earlier: Profile | None) -> int:
    """Return how many of the rows were measured for an earlier profile."""
    if earlier is None:
        return 0
    known = {row._replace(line=0) for row in earlier.rows}
    return sum(row in known and row.comment != NOT_MEASURED for row in rows)


def _earlier(path: str, machine: DeviceFacts, output: Output) -> Profile | None:
    """Return the profile that is replaced, None where there is none or it does not fit."""
    if not os.path.exists(path):
        return None
    try:
        profile = read(path, _registered())
    except ConfigError as error:
        output.say(f"{error.path} is replaced whole, it cannot be read: {error.message}")
        return None
    why = _why_unfit(profile, machine)
    if why:
        output.say(f"{path} is replaced whole: {why}")
    return None if why else profile


def _registered() -> dict[str, str]:
    return {name: module.DEVICE for name, module in backends().items()}


def _check_existing(path: str, machine: DeviceFacts) -> None:
    """Return where the profile that is there fits this machine.

    Raises:
        ConfigError: it does not, cannot be read, or is no file.
    """
    if not os.path.isfile(path):
        check_place(path)
    try:
        profile = read(path, _registered())
    except ConfigError as error:
        raise ConfigError(error.path, error.line, f"{error.message}; {_ADVICE}") from error
    why = _why_unfit(profile, machine)
    if why:
        raise ConfigError(path, None, f"{why}; {_ADVICE}")


def _why_unfit(profile: Profile, machine: DeviceFacts) -> str:
    """Return why a profile does not fit a machine, "" where it does."""
    if profile.device.type != machine.type:
        return (
            f"the profile is one of a {profile.device.type} device "
            f"{profile.device.name or 'without a name'}, and this version measures the CPU"
        )
    differences = mismatch(profile, machine)
    if not differences:
        return ""
    text = "; ".join(
        f"{d.fact} is {d.profile or 'not written'!r} in the profile and {d.here!r} here"
        for d in differences
    )
    return f"the profile does not fit this machine: {text}"
