"""Files of profiles: how one is named, which are read, and what is said of the others."""

from __future__ import annotations

import os
import stat
from typing import Final

from softcuda.errors import ArgumentTypeError, ConfigError
from softcuda.paths import CONFIG_NAME, DEFAULT_NAME, packaged_folder

__all__ = [
    "DEFAULT",
    "WAYS",
    "content_of",
    "name_of",
    "shipped_file",
    "shipped_names",
    "shipped_path",
    "unreadable",
]

DEFAULT: Final = "default"

WAYS: Final = (
    "a profile is named by the argument config=, then by SOFTCUDA_CONFIG, then it is "
    f"./{CONFIG_NAME}, then {CONFIG_NAME} in the user's config folder, then the shipped one, "
    f"which {DEFAULT!r} names; soft_init writes one"
)

_LARGEST_BYTES: Final = 16 * 1024 * 1024


def name_of(path: object) -> str:
    """Return the name of the file that an argument names.

    Raises:
        ArgumentTypeError: it is no path.
        ConfigError: it is empty.
    """
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise ArgumentTypeError(
            f"config is {path!r} of type {type(path).__name__}; allowed are a path, a Profile, "
            f"{DEFAULT!r} and None"
        )
    name = os.fsdecode(path)
    if not name:
        raise ConfigError("''", None, f"config is an empty name; {WAYS}")
    return name


def shipped_path(named: str) -> str | None:
    """Return the file of a shipped profile by its name, such as "nvidia-h200"; None for a path."""
    if not named.replace("-", "").replace("_", "").isalnum():
        return None
    path = os.path.join(packaged_folder("configs"), f"{named}.soft")
    return path if os.access(path, os.R_OK) else None


def shipped_file(named: str) -> str | None:
    """Return the file of any shipped profile by its name, "default" too; None for a path."""
    if named == DEFAULT:
        return os.path.join(packaged_folder("configs"), DEFAULT_NAME)
    return shipped_path(named)


def shipped_names() -> str:
    """Return what an error says of the profiles that are shipped beside the default one."""
    names = sorted(set(os.listdir(packaged_folder("configs"))) - {DEFAULT_NAME})
    stems = [repr(name.removesuffix(".soft")) for name in names if name.endswith(".soft")]
    return f"another that is shipped goes by its name: {', '.join(stems)}"


def content_of(path: str, by: str) -> bytes:
    """Return the bytes of a profile's file.

    Args:
        path: the file.
        by: what named it; "" where nothing did.

    Raises:
        ConfigError: it is no regular file, larger than a profile is, or cannot be read.
    """
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "no regular file"
            raise ConfigError(path, None, f"this is {kind}{_by(by)}; {WAYS}")
        if status.st_size > _LARGEST_BYTES:
            raise ConfigError(
                path,
                None,
                f"the file holds {status.st_size} bytes{_by(by)}; allowed are "
                f"{_LARGEST_BYTES}, a profile is a short text; {WAYS}",
            )
        with open(path, "rb") as file:
            return file.read()
    except ConfigError:
        raise
    except (OSError, ValueError) as error:
        raise unreadable(path, error, by) from error


def unreadable(path: str, error: OSError | ValueError, by: str) -> ConfigError:
    """Return the error for a file that cannot be read; `by` as in `content_of`."""
    reason = getattr(error, "strerror", None) or error
    return ConfigError(path, None, f"the file cannot be read{_by(by)}: {reason}; {WAYS}")


def _by(by: str) -> str:
    return f", named by {by}" if by else ""
