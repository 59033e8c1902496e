"""The runs of soft_init that write nothing: --diff, --explain, --check."""

from __future__ import annotations

from softcuda.errors import ArgumentError, ConfigError
from softcuda.profile.resolve import read
from softcuda.tools.device_bench import DeviceBench, device_here, machine_facts
from softcuda.tools.init_check import Asked, checked_rows
from softcuda.tools.init_existing import read_profile, registered_devices, why_unfit
from softcuda.tools.init_options import InitOptions
from softcuda.tools.init_output import Output
from softcuda.tools.init_questions import difference_lines, explanation_lines
from softcuda.tools.measure import Meter
from softcuda.tools.samples import measured_path, read_samples

__all__ = ["answer"]


def answer(options: InitOptions, output: Output) -> int:
    """Answer --diff, --explain or --check; return the exit status: 1 where a row does not hold.

    Raises:
        ConfigError: a file cannot be read, or is no profile of this machine.
        ArgumentError: there is no such row.
    """
    if options.diff is not None:
        one, other = (read_profile(path, output) for path in options.diff)
        output.say("\n".join(difference_lines(one, other, options.ops)))
        return 0
    if options.explain is not None:
        profile = read_profile(options.output, output)
        path = measured_path(profile.path)
        ledger = read_samples(path)[0] if path.is_file() else None
        output.say("\n".join(explanation_lines(profile, ledger, *options.explain, str(path))))
        return 0
    profile = read(options.output, registered_devices())
    device, _ = device_here(options.device if options.device != "auto" else profile.device.type)
    why = why_unfit(profile, machine_facts(device))
    if why:
        raise ConfigError(profile.path, None, f"{why}; there is nothing to check")
    bench = Meter(DeviceBench() if device == "cuda" else None)
    asked = Asked(options.ops, options.dtypes, options.sizes)
    checks = checked_rows(
        profile,
        bench,
        lambda cell: output.say(f"measuring {cell.op}[{cell.dtype}] {cell.size}"),
        asked,
    )
    if not checks:
        raise ArgumentError(
            f"--check: {profile.path} has no measured row of what --ops, --dtypes and --sizes name"
        )
    broken = [check.text for check in checks if not check.holds]
    for text in broken:
        output.say(f"no longer holds: {text}")
    rows = "rows hold" if any(asked) else "rows hold, of a sample; --ops looks at all of some ops"
    output.say(f"{len(checks) - len(broken)} of {len(checks)} {rows}")
    return 1 if broken else 0
