"""What a run of soft_init says of the machine, of its end, and of what it could not do."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import Final

from softcuda.paths import CONFIG_NAME
from softcuda.profile.check import token_text
from softcuda.profile.machine import device_hash
from softcuda.profile.model import DeviceFacts
from softcuda.tools.cells import Cell, Ledger, Scope
from softcuda.tools.init_busy import busy_text
from softcuda.tools.init_output import Output
from softcuda.tools.plausible import DISTURBED, disturbances

__all__ = [
    "say_busy",
    "say_disturbed",
    "say_left_out",
    "say_machine",
    "say_missing",
    "say_next",
]

_NAMED: Final = 6  # ops in a line


def say_machine(machine: DeviceFacts, why: str, output: Output) -> None:
    """Say what is measured."""
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


def say_busy(output: Output) -> None:
    """Say that other processes want to run, before anything is measured."""
    cores = os.cpu_count() or 1
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load > cores:
        output.fact(
            "note",
            f"{load:.1f} processes want to run on {cores} processors: what is "
            "measured now may not be the fastest when they rest",
        )


def say_left_out(scopes: Sequence[Scope], output: Output) -> None:
    """Say which sizes no machine measures."""
    for scope in scopes:
        if scope.too_large:
            sizes = ", ".join(map(str, scope.too_large))
            output.fact(
                "note",
                f"{token_text(scope.op, scope.dtype)} is not measured at {sizes}: an operand would "
                "be too large; the size of a product is its extent",
            )


def say_missing(ledger: Ledger, scopes: Sequence[Scope], output: Output) -> None:
    """Say how many sizes there was no time for."""
    cells = [Cell(scope.op, scope.dtype, size) for scope in scopes for size in scope.sizes]
    missing = sum(not ledger.has(cell) for cell in cells)
    if missing:
        output.say(
            f"{missing} of {len(cells)} sizes were not reached in time: between measured ones\n"
            "they go with their neighbours, beyond with DEFAULT.soft; a larger --budget does more"
        )


def say_disturbed(ledger: Ledger, output: Output) -> None:
    """Say what may be wrong with the times, and that they should be taken again."""
    said = busy_text(ledger.load)
    if said:
        output.fact("note", said)
    tokens = {token_text(each.cell.op, each.cell.dtype): None for each in disturbances(ledger)}
    if tokens:
        more = f" and {len(tokens) - _NAMED} more" if len(tokens) > _NAMED else ""
        output.fact(
            "disturbed",
            f"{', '.join(list(tokens)[:_NAMED])}{more}: some calls took more than {DISTURBED:g} "
            "times as long as those of a larger size, whose times count instead; the head of the "
            "profile names them",
        )


def say_next(path: str, output: Output) -> None:
    """Say who obeys the profile, and what draws it."""
    if path == CONFIG_NAME:
        output.say("programs that start in this folder obey it; soft_init report draws it")
    else:
        named = shlex.quote(path)
        output.say(f"SOFTCUDA_CONFIG={named} has it obeyed; soft_init report {named} draws it")
