"""A run of soft_init: what is there is looked at, the machine measured, the profile written."""

from __future__ import annotations

import datetime
import math
import os
import sys
import time
from collections.abc import Sequence
from typing import Final

from softcuda.errors import ConfigError, SoftCudaError
from softcuda.paths import CONFIG_NAME
from softcuda.profile.check import token_text
from softcuda.profile.machine import device_hash
from softcuda.profile.model import DeviceFacts, Profile
from softcuda.profile.place import check_place, place_file
from softcuda.profile.writer import write
from softcuda.tools.cells import Cell, Ledger, Scope, scopes_of
from softcuda.tools.copying import measure_copies
from softcuda.tools.device_bench import DeviceBench, device_here, machine_facts
from softcuda.tools.display import medians_table, progress, thresholds_table
from softcuda.tools.estimates import full_cost_s
from softcuda.tools.init_busy import Busy, busy_text, worse_load
from softcuda.tools.init_existing import carried_rows, check_existing, earlier_profile
from softcuda.tools.init_options import InitOptions
from softcuda.tools.init_output import Output
from softcuda.tools.init_profile import Origin, made_profile, profile_notes
from softcuda.tools.init_stop import Stop
from softcuda.tools.measure import Meter
from softcuda.tools.plausible import DISTURBED, disturbances
from softcuda.tools.samples import (
    forget_samples,
    keep_samples,
    kept_samples,
    measured_path,
    refuse_to_lose_samples,
    samples_path,
    samples_text,
)
from softcuda.tools.spread import OUTLIER_RULE
from softcuda.tools.sweep import Moment, sweep

__all__ = ["run_init"]

_BUDGETS_S: Final = {"cpu": 170.0, "cuda": 285.0}  # within 3 and 5 minutes
_WRITING: Final = 0.02  # of the budget, kept back for tables and files


def run_init(options: InitOptions, begin_s: float, output: Output, stop: Stop) -> None:
    """Measure and write the profile; only look at it where one that fits is there.

    Args:
        options: what was asked for.
        begin_s: when the run began, on time.monotonic() [seconds].
        output: takes what there is to say.
        stop: what may end the run.

    Raises:
        ConfigError: a profile that is there does not fit, or the file cannot be written.
        NoDeviceError: a GPU is asked for and cannot be used.
        KeyboardInterrupt: the run was ended; its samples are kept.
    """
    device, why = device_here(options.device)
    machine = machine_facts(device)
    _say_machine(machine, why, output)
    if os.path.exists(options.output) and not options.force:
        check_existing(options.output, machine)
        output.say(f"{options.output} fits this machine; --force measures again")
        return
    check_place(options.output)
    _say_busy(output)
    if not options.resume:
        refuse_to_lose_samples(options.output)
    earlier = earlier_profile(options.output, machine, output)
    bench = Meter(DeviceBench() if device == "cuda" else None)
    scopes = _scopes(options, device)
    output.fact("backends", ", ".join(bench.backend_ids))
    owner = (device_hash(machine), *bench.backend_ids)
    ledger = kept_samples(options.output, owner) if options.resume else Ledger()
    deadline_s = _deadline(options, begin_s, device, scopes, bench, output)
    begin, busy, before = time.monotonic(), Busy(), dict(ledger.load)
    try:
        if bench.device is not None and not ledger.copies and begin < deadline_s:
            measure_copies(bench.device, ledger)
        _sweep(scopes, bench, deadline_s, output, stop, ledger)
        took = time.monotonic() - begin
        ledger.load.update(worse_load(before, busy.load()))
        output.say(medians_table(ledger, scopes, bench.backend_ids, is_whole=options.medians))
        profile = _write(options, ledger, scopes, machine, earlier)
        place_file(
            str(measured_path(options.output)), samples_text(ledger, owner).encode(), force=True
        )
    except (KeyboardInterrupt, SoftCudaError):
        _keep(options.output, ledger, owner)
        raise
    forget_samples(options.output)
    _say_end(options.output, ledger, profile, earlier, took, output)
    _say_missing(ledger, scopes, output)
    _say_disturbed(ledger, output)
    _say_next(options.output, output)


def _say_machine(machine: DeviceFacts, why: str, output: Output) -> None:
    if machine.type == "cuda":
        output.fact(
            "device",
            f"{machine.name}, compute capability {machine.compute_capability}, "
            f"{machine.vram_mb} MiB, driver {machine.driver}",
        )
    output.fact("machine", f"{machine.cpu}, {machine.cpu_cores} logical processors")
    output.fact("device_hash", device_hash(machine))
    if why:
        output.fact("note", why)


def _scopes(options: InitOptions, device: str) -> tuple[Scope, ...]:
    wanted = options.wanted
    if device == "cuda":
        wanted = {op: (*wanted[op], *more) for op, more in options.on_device.items()}
    sizes = options.sizes
    return scopes_of(wanted, options.max_size, sizes, device, exhaustive=options.full)


def _deadline(
    options: InitOptions,
    begin_s: float,
    device: str,
    scopes: Sequence[Scope],
    bench: Meter,
    output: Output,
) -> float:
    """Return when to end, on time.monotonic() [seconds], and say how long it may take."""
    output.fact("outliers", OUTLIER_RULE)
    budget_s = _BUDGETS_S[device] if options.budget_s is None else options.budget_s
    if options.full and options.budget_s is None:
        seconds = sum(full_cost_s(scope, bench.backend_ids) for scope in scopes)
        text = f"{seconds / 60:.0f} minutes" if seconds >= 100 else f"{seconds:.0f} s"
        output.fact("time", f"about {text}, without bounds")
        return math.inf
    output.fact("time", f"{budget_s:g} s at most; --budget changes it, --full lifts it")
    return begin_s + (1 - _WRITING) * budget_s


def _say_end(
    path: str,
    ledger: Ledger,
    profile: Profile,
    earlier: Profile | None,
    took_s: float,
    output: Output,
) -> None:
    if profile.thresholds:
        output.say(thresholds_table(profile.thresholds))
    cells = sum(len(sizes) for sizes in ledger.outcomes.values())
    output.say(
        f"wrote {path}: {len(profile.rows)} rows from {cells} measurements in {took_s:.1f} s; "
        f"every sample is in {measured_path(path).name}"
    )
    kept_rows = carried_rows(profile.rows, earlier)
    if kept_rows:
        output.say(
            f"{kept_rows} of them are the earlier profile's, which fits this machine; remove the "
            "file first to be rid of them"
        )


def _say_missing(ledger: Ledger, scopes: Sequence[Scope], output: Output) -> None:
    """Say how many sizes there was no time for."""
    cells = [Cell(scope.op, scope.dtype, size) for scope in scopes for size in scope.sizes]
    missing = sum(not ledger.has(cell) for cell in cells)
    if missing:
        output.say(
            f"{missing} of {len(cells)} sizes were not reached in time: between measured ones\n"
            "they go with their neighbours, beyond with DEFAULT.soft; a larger --budget does more"
        )


def _say_disturbed(ledger: Ledger, output: Output) -> None:
    """Say what may be wrong with the times, and that they should be taken again."""
    said = busy_text(ledger.load)
    if said:
        output.fact("note", said)
    tokens = {token_text(each.cell.op, each.cell.dtype): None for each in disturbances(ledger)}
    if tokens:
        first = ", ".join(list(tokens)[:6])
        more = f" and {len(tokens) - 6} more" if len(tokens) > 6 else ""
        output.fact(
            "disturbed",
            f"{first}{more}: some calls took more than {DISTURBED:g} times as long as those of a "
            "larger size, whose times count instead; the head of the profile names them",
        )


def _say_next(path: str, output: Output) -> None:
    """Say who obeys the profile, and what draws it."""
    if path == CONFIG_NAME:
        output.say("programs that start in this folder obey it; soft_init report draws it")
    else:
        output.say(f"SOFTCUDA_CONFIG={path} has it obeyed; soft_init report {path} draws it")


def _say_busy(output: Output) -> None:
    cores = os.cpu_count() or 1
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load > cores:
        output.fact(
            "note",
            f"{load:.1f} processes want to run on {cores} processors: what is "
            "measured now may not be the fastest when they rest",
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
    profile = made_profile(ledger, scopes, Origin(options.output, machine, now), earlier)
    write(profile, options.output, options.force, profile_notes(ledger))
    return profile
