"""The machine at hand, as a profile describes it; nothing here touches libcuda."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from softcuda.profile.model import DeviceFacts, Profile
from softcuda.warn import warn

__all__ = [
    "HASHED",
    "Difference",
    "contradiction",
    "device_hash",
    "mismatch",
    "this_machine",
    "warn_of_absence",
    "warn_of_mismatch",
]

# Device type -> the facts that device_hash is made of, in order.
HASHED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"cpu": ("cpu", "cpu_cores"), "cuda": ("name", "compute_capability", "vram_mb", "driver")}
)

_COMMENT_MARK: Final = re.compile(r"(?:^|(?<= ))[#;]+")


class Difference(NamedTuple):
    """A fact that a profile and this machine do not share."""

    fact: str
    profile: str
    here: str


def this_machine() -> DeviceFacts:
    """Return the facts of this machine's CPU."""
    return DeviceFacts(
        type="cpu", cpu=_plain(_cpu_name(sys.platform)), cpu_cores=str(os.cpu_count() or 1)
    )


def device_hash(facts: DeviceFacts) -> str:
    """Return the hash that ties a profile to a machine.

    SHA-256 [hex] of `name|compute_capability|vram_mb|driver` as written for a CUDA device, of
    `cpu|cpu_cores` for a CPU.

    Example:
        >>> device_hash(DeviceFacts(type="cpu", cpu="Abacus", cpu_cores="4"))[:16]
        '03c60a2a4b97fa56'
    """
    written = "|".join(getattr(facts, name) for name in HASHED[facts.type])
    return hashlib.sha256(written.encode("utf-8", "surrogateescape")).hexdigest()


def contradiction(profile: Profile) -> str:
    """Return how the device_hash of a profile contradicts its own facts, "" where it does not."""
    wanted = profile.meta.get("device_hash")
    if wanted is None or wanted.lower() == (found := device_hash(profile.device)):
        return ""
    facts = profile.device
    told = ", ".join(f"{name} {getattr(facts, name)!r}" for name in HASHED[facts.type])
    return (
        f"its device_hash is {wanted!r}, and the facts in its [device] ({told}) give {found!r}: "
        "it was edited by hand, or is damaged"
    )


def mismatch(profile: Profile, machine: DeviceFacts) -> list[Difference]:
    """Return the facts in which a machine is not the one of a profile; [] for a fit.

    Args:
        profile: a profile; one without device_hash fits every machine.
        machine: the machine at hand. A profile of a CUDA device is only compared with facts of
            a CUDA device; one of a CPU with any.
    """
    kind = profile.device.type
    if "device_hash" not in profile.meta or (kind == "cuda" and machine.type != "cuda"):
        return []
    pairs = (
        Difference(name, getattr(profile.device, name), getattr(machine, name))
        for name in HASHED[kind]
    )
    return [pair for pair in pairs if pair.profile != pair.here]


def warn_of_mismatch(profile: Profile, machine: DeviceFacts, doubt: str = "") -> None:
    """Warn where a profile was made on another machine; the warning compares fact by fact.

    Args:
        profile: a profile.
        machine: the machine at hand.
        doubt: how the profile contradicts itself (`contradiction`), which the warning says too.
    """
    differences = mismatch(profile, machine)
    if not differences and not doubt:
        return
    told = "; ".join(
        f"{fact} is {said or 'not written'!r} in the profile and {here!r} here"
        for fact, said, here in differences
    )
    what = f" was made on another machine: {told}" if differences else f": {doubt}"
    if differences and doubt:
        what += f"; and {doubt}"
    warn(
        f"{profile.path}{what}. Its rows are obeyed, and may not be the fastest here; run "
        "soft_init again to measure this machine"
    )


def warn_of_absence(profile: Profile, why: str) -> None:
    """Warn where a profile of a CUDA device is used on a machine without one.

    Args:
        profile: one of a CUDA device.
        why: why no device can be used here.
    """
    warn(
        f"{profile.path} was made on another machine: it is of "
        f"{profile.device.name or 'a CUDA device without a name'}, and here is "
        f"{why.partition('; ')[0]}. Its rows are obeyed as far as they can be, and may not be the "
        "fastest here; run soft_init to measure this machine, set SOFTCUDA_CONFIG=default, or name "
        "the target to softcuda.compile"
    )


def _plain(text: str) -> str:
    """Return a name that a profile can hold: one line, no comment marks."""
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return " ".join(_COMMENT_MARK.sub("", words).split()) or "unknown"


def _cpu_name(system: str) -> str:
    if system == "linux":
        return _name_in_cpuinfo("/proc/cpuinfo") or os.uname().machine
    if system == "darwin":
        return _sysctl(b"machdep.cpu.brand_string") or os.uname().machine
    return platform.processor() or platform.machine()


def _name_in_cpuinfo(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return _first_name(file)
    except OSError:
        return ""


def _first_name(lines: Iterable[str]) -> str:
    """Return the first model name of /proc/cpuinfo, else what ARM machines write there."""
    others: dict[str, str] = {}
    for line in lines:
        key, _, value = (part.strip() for part in line.partition(":"))
        if key == "model name" and value:
            return value
        others.setdefault(key, value)
    board = others.get("Model") or others.get("Hardware") or others.get("cpu", "")
    part = [others[key] for key in ("CPU implementer", "CPU part") if others.get(key)]
    return board or " ".join(part)


def _sysctl(name: bytes) -> str:
    """Return a text of the macOS kernel's table, "" where it has none."""
    read = ctypes.CDLL(None).sysctlbyname
    size = ctypes.c_size_t(0)
    if read(name, None, ctypes.byref(size), None, ctypes.c_size_t(0)) or not size.value:
        return ""
    buffer = ctypes.create_string_buffer(size.value)
    if read(name, buffer, ctypes.byref(size), None, ctypes.c_size_t(0)):
        return ""
    return buffer.value.decode("utf-8", "replace")
