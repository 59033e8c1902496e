"""What is said, once, of a profile that is used although something speaks against it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable

from softcuda.profile.machine import (
    contradiction,
    this_machine,
    warn_of_absence,
    warn_of_mismatch,
)
from softcuda.profile.model import DeviceFacts, Profile
from softcuda.profile.vocabulary import SOFT_VERSION
from softcuda.warn import warn

__all__ = ["END", "Notices"]

# How a profile that lacks its end is told; softcuda.profile.writer puts [pool] last.
END = (
    "the file was cut short: its generated_at says that soft_init wrote it, which ends a profile "
    "with the line block_size of [pool], and that line is missing or broken off"
)


class Notices:
    """What was said of profiles, so that it is said once. Safe in threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._seen: dict[str, Hashable] = {}
        self._compared: dict[Hashable, Hashable] = {}
        self._contradicted: dict[str, str] = {}
        self._shortened: dict[str, str] = {}
        self._here: DeviceFacts | None = None

    def after_fork(self) -> None:
        """Make the lock anew in a forked child."""
        self._lock = threading.RLock()

    def loaded(self, profile: Profile, mark: Hashable, machine: DeviceFacts | None) -> bool:
        """Warn where a file is of a newer version, cut short, damaged, or of another machine.

        Args:
            profile: of the file.
            mark: changes when the file does: then it is looked at again.
            machine: the facts to compare with; None for this machine's CPU.

        Returns:
            Whether nothing is left to be said of it until it changes.
        """
        path = profile.path
        doubt = "" if self._seen.get(path) == mark else self._look(profile, mark)
        if doubt or ("device_hash" in profile.meta and self._compared.get(path) != mark):
            self._compare(path, mark, profile, machine, doubt)
        return "device_hash" not in profile.meta or self._compared.get(path) == mark

    def cut(self, profile: Profile) -> None:
        """Warn where soft_init wrote a profile and its end is missing; of the same one once."""
        if not profile.is_cut:
            return
        with self._lock:
            if self._shortened.get(profile.path) == profile.digest:
                return
            self._shortened[profile.path] = profile.digest
        warn(
            f"{profile.path}: {END}. What is there is obeyed, and ops whose rows are lost take "
            "those of DEFAULT.soft; copy the file again, or run soft_init again; if it was "
            "shortened on purpose, take out generated_at"
        )

    def compare(self, profile: Profile, facts: Callable[[], DeviceFacts] | None) -> None:
        """Warn where a profile was made on another machine; the same one once.

        Args:
            profile: any; one without device_hash fits every machine.
            facts: gives what to compare with, and is called once; None for this machine's CPU.
        """
        wanted = profile.meta.get("device_hash")
        key = (profile.path, wanted)
        if wanted is not None and key not in self._compared:
            machine = None if facts is None else facts()
            self._compare(key, wanted, profile, machine, self._doubt(profile))

    def miss(self, profile: Profile, why: str) -> None:
        """Warn where a profile's CUDA device is not here; of the same one once.

        Args:
            profile: any; one without device_hash fits every machine.
            why: why no device can be used here.
        """
        wanted = profile.meta.get("device_hash")
        key = (profile.path, wanted, "away")
        if wanted is None or profile.device.type != "cuda" or key in self._compared:
            return
        with self._lock:
            if key in self._compared:
                return
            self._compared[key] = wanted
        warn_of_absence(profile, why)

    def _look(self, profile: Profile, mark: Hashable) -> str:
        """Warn of what a file says of itself; return how it contradicts itself, "" where not."""
        path, version = profile.path, profile.meta["soft_version"]
        with self._lock:
            if self._seen.get(path) == mark:
                return ""
            self._seen[path] = mark
        if _release(version) > _release(SOFT_VERSION):
            warn(
                f"{path} was written by a newer version: its soft_version is {version}, and this "
                f"softcuda reads {SOFT_VERSION}. It is obeyed as this version understands it; "
                "install a newer softcuda, or run soft_init again"
            )
        self.cut(profile)
        return self._doubt(profile)

    def _doubt(self, profile: Profile) -> str:
        """Return how a profile contradicts itself, "" where it does not or it was said."""
        doubt = contradiction(profile)
        with self._lock:
            if self._contradicted.get(profile.path, "") == doubt:
                return ""
            self._contradicted[profile.path] = doubt
        return doubt

    def _compare(
        self,
        key: Hashable,
        mark: Hashable,
        profile: Profile,
        machine: DeviceFacts | None,
        doubt: str,
    ) -> None:
        """Warn of another machine, once for a key until its mark changes, and of a contradiction.

        A profile of a CUDA device is compared again until the facts are those of one.
        """
        if machine is None:
            machine = self._here = self._here or this_machine()
        with self._lock:
            if self._compared.get(key) == mark and not doubt:
                return
            if profile.device.type in (machine.type, "cpu"):
                self._compared[key] = mark
        warn_of_mismatch(profile, machine, doubt)


def _release(version: str) -> tuple[int, int]:
    """Return (major, minor) of a version such as 0.1.0 or 9."""
    major, minor, *_ = (*map(int, version.split(".")), 0)
    return major, minor
