"""Which profile a compile obeys: argument, SOFTCUDA_CONFIG, ./CONFIG.soft, the user's, shipped."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Final

from softcuda.errors import ConfigError
from softcuda.forks import renew_in_child
from softcuda.knobs import config_path
from softcuda.paths import CONFIG_NAME, DEFAULT_NAME, packaged_folder, user_config_folder
from softcuda.profile.files import (
    DEFAULT,
    WAYS,
    content_of,
    name_of,
    shipped_file,
    shipped_names,
    shipped_path,
    unreadable,
)
from softcuda.profile.grammar import parse
from softcuda.profile.model import DeviceFacts, Profile
from softcuda.profile.notices import Notices
from softcuda.profile.vocabulary import known_backends, work_ops
from softcuda.profile.watch import Watch, watch_of

__all__ = [
    "DEFAULT",
    "ProfileStore",
    "default_profile",
    "read",
    "resolve",
    "warn_if_away",
    "warn_if_foreign",
]

_MOST_KEPT: Final = 64
# A file changed this shortly before it was read may change again with the same time stamp.
_SETTLED_NS: Final = 50_000_000


def read(path: str | os.PathLike[str], backends: Mapping[str, str] | None = None) -> Profile:
    """Return the profile in a file, checked; the machine is not compared.

    Args:
        path: the file, or the name of a shipped profile.
        backends: backend_id -> device type of backends beyond those that softcuda ships.

    Raises:
        ConfigError: it cannot be read, or holds something that is not allowed.
    """
    named = name_of(path)
    named = shipped_file(named) or named
    return parse(content_of(named, ""), named, work_ops(), known_backends(backends))


def resolve(
    config: str | os.PathLike[str] | Profile | None = None,
    backends: Mapping[str, str] | None = None,
    *,
    machine: DeviceFacts | None = None,
) -> Profile:
    """Return the profile that a compile obeys.

    The first that there is of: `config`, SOFTCUDA_CONFIG, ./CONFIG.soft, CONFIG.soft in the
    user's config folder, the shipped DEFAULT.soft. "default" names the shipped one everywhere,
    and "nvidia-h200" the other one that is shipped.
    A file is read again only when it changed. One made on another machine is used, with one
    warning that compares the two; so is one of a newer version, one that soft_init wrote and whose
    end is missing, and one whose device_hash is not that of its own facts, with one warning each.

    Args:
        config: a path, a Profile (which is returned), the name of a shipped one, or None.
        backends: backend_id -> device type of backends beyond those that softcuda ships.
        machine: the facts to compare with; default: those of this machine's CPU, with which a
            profile of a CUDA device is not compared.

    Raises:
        ConfigError: the named file is missing, cannot be read, or holds something that is not
            allowed.
        ArgumentTypeError: `config` is something else.
    """
    if not isinstance(config, Profile):
        return _store.find(config, backends, machine)
    _store.notices.cut(config)
    return config


def warn_if_foreign(profile: Profile, facts: Callable[[], DeviceFacts] | None = None) -> None:
    """Warn once where a Profile that is to be executed was made on another machine.

    One of a CPU that `resolve` found by its file was compared there.

    Args:
        profile: any; one without device_hash fits every machine.
        facts: gives what to compare with, and is called once; default: this machine's CPU.
    """
    _store.notices.compare(profile, facts)


def warn_if_away(profile: Profile, why: str) -> None:
    """Warn once where a profile of a CUDA device is to be executed without that device.

    Args:
        profile: any; one without device_hash fits every machine.
        why: why no device can be used here.
    """
    _store.notices.miss(profile, why)


def default_profile() -> Profile:
    """Return the shipped DEFAULT.soft, which has a row for every op that does work."""
    return _store.find(DEFAULT, None, None)


_Signature = tuple[int, int, int, int, int]
"""What changes when a file changes: its device, inode, both times [ns], and size [bytes]."""


_signature_of: Final[Callable[[os.stat_result], _Signature]] = attrgetter(
    "st_dev", "st_ino", "st_mtime_ns", "st_ctime_ns", "st_size"
)


class _Kept:
    """A profile that was read from a file, good until the signature of the file is another.

    Attributes:
        profile: the profile.
        signature: of the file, before it was read.
        is_settled: whether a later change of the file is certain to give another signature.
        is_told: whether all is said that speaks against it.
        watch: over the file since before it was compared last; None where that has to be done anew.
    """

    __slots__ = ("is_settled", "is_told", "profile", "signature", "watch")

    def __init__(self, profile: Profile, signature: _Signature, read_ns: int) -> None:
        mtime_ns = signature[2]
        self.profile = profile
        self.signature = signature
        self.is_settled = abs(read_ns - mtime_ns) >= _SETTLED_NS
        self.is_told = False
        self.watch: Watch | None = None


_Key = str | tuple[str, frozenset[tuple[str, str]]]


class ProfileStore:
    """The profiles that were loaded, each until its file changes. Safe in threads.

    Attributes:
        notices: what was said of them.
    """

    def __init__(self) -> None:
        self.notices = Notices()
        self._lock = threading.RLock()
        self._kept: dict[_Key, _Kept] = {}
        self._default = ""
        self._shipped: dict[str, Profile] = {}  # read once: part of the installation, as code is
        renew_in_child(self)

    def after_fork(self) -> None:
        """Make the locks anew in a forked child."""
        self._lock = threading.RLock()
        self.notices.after_fork()

    def find(
        self,
        config: str | os.PathLike[str] | None,
        backends: Mapping[str, str] | None,
        machine: DeviceFacts | None,
    ) -> Profile:
        """Return the profile as `resolve` describes it.

        Raises:
            ConfigError, ArgumentTypeError: as `resolve`.
        """
        if config is None:
            named, by = config_path(), "SOFTCUDA_CONFIG"
        else:
            named, by = name_of(config), "the argument config"
        if named is None:
            found = self._load(CONFIG_NAME, backends, machine)
            folder = None if found else user_config_folder()
            if folder is not None:
                found = self._load(f"{folder}{os.sep}{CONFIG_NAME}", backends, machine)
            if found is not None:
                return found
            named, by = DEFAULT, "the installation"
        known = self._shipped.get(named)
        if known is not None:
            return known
        shipped = None
        if named not in self._kept:  # else it is the path of a file that was read before
            shipped = self._default_path() if named == DEFAULT else shipped_path(named)
        path = shipped or named
        found = self._load(path, backends, machine, by)
        if found is None:
            raise ConfigError(
                path, None, f"there is no such file, named by {by}; {WAYS}; {shipped_names()}"
            )
        if shipped is not None:
            self._shipped[named] = found
        return found

    def _default_path(self) -> str:
        if not self._default:
            self._default = os.path.join(packaged_folder("configs"), DEFAULT_NAME)
        return self._default

    def _load(
        self,
        path: str,
        backends: Mapping[str, str] | None,
        machine: DeviceFacts | None,
        by: str = "",
    ) -> Profile | None:
        """Return the profile of a file, None where there is no such file.

        `by` says what named the file; "" for a place that is only looked at.
        """
        key = (path, frozenset(backends.items())) if backends else path
        kept = self._kept.get(key)
        watch = None if kept is None else kept.watch
        if kept is not None and watch is not None and watch.is_same():
            return kept.profile
        if kept is None and not by and not os.access(path, os.F_OK):
            return None  # without the price of an exception
        try:
            watch = watch_of(path)
            status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            if not by:
                return None  # a folder that may not be entered holds no profile for this user
            raise unreadable(path, error, by) from error
        signature = _signature_of(status)
        if kept is None or kept.signature != signature or not kept.is_settled:
            kept = self._read(key, path, signature, backends, by)
        if not kept.is_told:
            kept.is_told = self.notices.loaded(kept.profile, signature, machine)
        # The watch came first, so that no change is missed; it is over this file, as nothing moved.
        is_known = kept.is_settled and kept.is_told and watch is not None and watch.is_same()
        kept.watch = watch if is_known else None
        return kept.profile

    def _read(
        self,
        key: _Key,
        path: str,
        signature: _Signature,
        backends: Mapping[str, str] | None,
        by: str,
    ) -> _Kept:
        read_ns = time.time_ns()
        data = content_of(path, by)
        profile = parse(data, path, work_ops(), known_backends(backends))
        kept = _Kept(profile, signature, read_ns)
        with self._lock:
            while len(self._kept) >= _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = kept
        return kept


_store = ProfileStore()
