"""The profile that is there already: whether it fits the machine, and what of it is kept."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from softcuda.backends import backends
from softcuda.errors import ConfigError
from softcuda.profile.machine import contradiction, mismatch
from softcuda.profile.model import DeviceFacts, Profile, Row
from softcuda.profile.notices import END
from softcuda.profile.place import check_place
from softcuda.profile.resolve import read
from softcuda.tools.init_output import Output
from softcuda.tools.profile_rows import was_measured

__all__ = [
    "carried_rows",
    "check_existing",
    "earlier_profile",
    "read_profile",
    "registered_devices",
    "why_unfit",
]

_ADVICE: Final = "it is kept; --force measures this machine and replaces it, --output names another"


def carried_rows(rows: Sequence[Row], earlier: Profile | None) -> int:
    """Return how many of the rows were measured for an earlier profile."""
    if earlier is None:
        return 0
    known = {row._replace(line=0) for row in earlier.rows}
    return sum(row in known and was_measured(row) for row in rows)


def earlier_profile(path: str, machine: DeviceFacts, output: Output) -> Profile | None:
    """Return the profile that is replaced, None where there is none or it does not fit."""
    if not os.path.exists(path):
        return None
    try:
        profile = read(path, registered_devices())
    except ConfigError as error:
        output.say(f"{error.path} is replaced whole, it cannot be read: {error.message}")
        return None
    why = why_unfit(profile, machine)
    if why:
        output.say(f"{path} is replaced whole: {why}")
    return None if why else profile


def read_profile(path: str, output: Output) -> Profile:
    """Return the profile in a file; where its end is missing, that is said.

    Raises:
        ConfigError: it cannot be read.
    """
    profile = read(path, registered_devices())
    if profile.is_cut:
        output.say(f"{profile.path}: {END}")
    return profile


def registered_devices() -> dict[str, str]:
    """Return backend_id -> device type of every backend."""
    return {name: module.DEVICE for name, module in backends().items()}


def check_existing(path: str, machine: DeviceFacts) -> None:
    """Return where the profile that is there fits this machine.

    Raises:
        ConfigError: it does not, cannot be read, or is no file.
    """
    if not os.path.isfile(path):
        check_place(path)
    try:
        profile = read(path, registered_devices())
    except ConfigError as error:
        raise ConfigError(error.path, error.line, f"{error.message}; {_ADVICE}") from error
    why = why_unfit(profile, machine)
    if why:
        raise ConfigError(path, None, f"{why}; {_ADVICE}")


def why_unfit(profile: Profile, machine: DeviceFacts) -> str:
    """Return why a profile does not fit a machine, "" where it does and is sound."""
    if profile.is_cut:
        return END
    if profile.device.type != machine.type:
        measured = "the GPU" if machine.type == "cuda" else "the CPU alone"
        return (
            f"the profile is one of a {profile.device.type} device "
            f"{profile.device.name or 'without a name'}, and {measured} is measured here"
        )
    told = [
        f"{fact} is {said or 'not written'!r} in the profile and {here!r} here"
        for fact, said, here in mismatch(profile, machine)
    ]
    told += filter(None, [contradiction(profile)])
    return f"the profile does not fit this machine: {'; '.join(told)}" if told else ""
