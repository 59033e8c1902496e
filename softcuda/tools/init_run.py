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
from softcuda.profile.machine import device_hash
from softcuda.profile.model import DeviceFacts, Profile
from softcuda.profile.place import check_place, place_file
from softcuda.profile.writer import write
from softcuda.tools.cells import Ledger, Scope, scopes_of
from softcuda.tools.copying import measure_copies
from softcuda.tools.device_bench import DeviceBench, device_here, machine_facts
from softcuda.tools.display import medians_table, progress, thresholds_table
from softcuda.tools.estimates import full_cost_s
from softcuda.tools.init_busy import Busy, worse_load
from softcuda.tools.init_existing import carried_rows, check_existing, earlier_profile
from softcuda.tools.init_keep import Keeper, with_earlier
from softcuda.tools.init_options import InitOptions
from softcuda.tools.init_output import Output
from softcuda.tools.init_profile import Origin, made_profile, profile_notes
from softcuda.tools.init_said import (
    say_busy,
    say_disturbed,
    say_left_out,
    say_machine,
    say_missing,
    say_next,
)
from softcuda.tools.init_stop import Stop
from softcuda.tools.measure import Meter
from softcuda.tools.samples import (
    forget_samples,
    kept_samples,
    measured_path,
    refuse_to_lose_samples,
    refuse_to_replace,
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
    say_machine(machine, why, output)
    if os.path.exists(options.output) and not options.force:
        check_existing(options.output, machine)
        _say_fits(options.output, output)
        return
    _check_places(options)
    say_busy(output)
    earlier = earlier_profile(options.output, machine, output)
    scopes = _scopes(options, device)
    say_left_out(scopes, output)
    bench = Meter(DeviceBench() if device == "cuda" else None)
    output.fact("backends", ", ".join(bench.backend_ids))
    owner = (device_hash(machine), *bench.backend_ids)
    ledger = kept_samples(options.output, owner) if options.resume else Ledger()
    deadline_s = _deadline(options, begin_s, device, scopes, bench, output)
    option = "--force --resume" if options.force and earlier else "--resume"
    keeper = Keeper(options.output, ledger, owner, option)
    begin, busy, before = time.monotonic(), Busy(), dict(ledger.load)
    try:
        if bench.device is not None and not ledger.copies and begin < deadline_s:
            measure_copies(bench.device, ledger)
        _sweep(scopes, bench, deadline_s, output, stop, ledger, keeper)
        took = time.monotonic() - begin
        ledger.load.update(worse_load(before, busy.load()))
        if not ledger.outcomes:
            raise ConfigError(
                options.output, None, "nothing was measured in time; give a larger --budget"
            )
        output.say(medians_table(ledger, scopes, bench.backend_ids, is_whole=options.medians))
        whole, added = ledger, 0
        if earlier is not None:
            whole, added = with_earlier(ledger, measured_path(options.output), owner, scopes)
        text = samples_text(whole, owner).encode()
        place_file(str(measured_path(options.output)), text, True, "the file of samples")
        with stop.delayed():  # from here on the profile is there
            known = _own(whole, ledger)
            profile = _write(options, known, _every(ledger, scopes, device), machine, earlier)
            forget_samples(options.output)
    except (KeyboardInterrupt, SoftCudaError):
        keeper.at_last()
        raise
    _say_end(options.output, ledger, profile, took, output)
    _say_kept(profile, earlier, added, output)
    say_missing(ledger, scopes, output)
    say_disturbed(ledger, output)
    say_next(options.output, output)


def _say_fits(path: str, output: Output) -> None:
    """Say that a profile fits, and what may be done."""
    interrupted = os.path.lexists(samples_path(path))
    again = "--force --resume goes on from the samples of an interrupted run"
    output.say(f"{path} fits this machine; {again if interrupted else '--force measures again'}")


def _check_places(options: InitOptions) -> None:
    """Check that the files can be written, and replace nothing that was not asked for."""
    check_place(options.output)
    if not options.force:
        refuse_to_replace(measured_path(options.output))
    if not options.resume:
        refuse_to_lose_samples(options.output)


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


def _say_kept(profile: Profile, earlier: Profile | None, added: int, output: Output) -> None:
    """Say what stands on an earlier run."""
    kept = carried_rows(profile.rows, earlier)
    if kept:
        samples = f", and so are the samples of {added} ops and dtypes" if added else ""
        output.say(
            f"{kept} of them are the earlier profile's, which fits this machine{samples}; remove "
            "the file first to be rid of them"
        )


def _sweep(
    scopes: Sequence[Scope],
    bench: Meter,
    deadline_s: float,
    output: Output,
    stop: Stop,
    ledger: Ledger,
    keeper: Keeper,
) -> None:
    with progress(sys.stdout, quiet=output.quiet) as tell:

        def report(moment: Moment) -> None:
            stop.check()
            keeper.now_and_then()
            with output.guarded():
                tell(moment)

        sweep(scopes, bench, deadline_s, report, ledger=ledger)
    stop.check()


def _own(whole: Ledger, ledger: Ledger) -> Ledger:
    """Return of all samples those of the ops and dtypes that were measured now."""
    outcomes = {key: whole.outcomes[key] for key in ledger.outcomes}
    return Ledger(outcomes, whole.copies, whole.load)


def _every(ledger: Ledger, scopes: Sequence[Scope], device: str) -> tuple[Scope, ...]:
    """Return the scopes, and those of what an interrupted run with other options measured."""
    there = {(scope.op, scope.dtype) for scope in scopes}
    others: dict[str, tuple[str, ...]] = {}
    for op, dtype in ledger.outcomes:
        if (op, dtype) not in there:
            others[op] = (*others.get(op, ()), dtype)
    return (*scopes, *scopes_of(others, device=device))


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
