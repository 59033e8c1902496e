"""Where the packaged files and the user's folders are; paths are text, for the sake of `import`.

Loading pathlib takes 4 ms, a tenth of `import softcuda`.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from softcuda.errors import ConfigError
from softcuda.knobs import user_home

__all__ = [
    "CONFIG_NAME",
    "DEFAULT_NAME",
    "packaged_folder",
    "user_cache_folder",
    "user_config_folder",
]

CONFIG_NAME: Final = "CONFIG.soft"
DEFAULT_NAME: Final = "DEFAULT.soft"

_HERE: Final = os.path.dirname(os.path.realpath(__file__))


def packaged_folder(name: str) -> str:
    """Return the folder `configs` or `kernels`, of a wheel or of a checkout.

    Raises:
        ConfigError: neither place has it; the installation is incomplete.
    """
    candidates = (os.path.join(_HERE, name), os.path.join(os.path.dirname(_HERE), name))
    for folder in candidates:
        if os.path.isdir(folder):
            return folder
    raise ConfigError(
        candidates[0],
        None,
        f"the folder {name!r} is missing, looked in {candidates[0]} and {candidates[1]}; "
        "the installation is incomplete, install softcuda again",
    )


def user_config_folder() -> str | None:
    """Return the folder of the user's own profile, or None where there is no home."""
    if sys.platform == "win32":
        roaming = user_home("APPDATA")
        return os.path.join(roaming, "softcuda") if roaming else None
    # Asked for at every evaluation: expanduser and os.path.join take one to two microseconds.
    home = (user_home("HOME") or os.path.expanduser("~")).rstrip("/") or "/"
    if home == "~":
        return None
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Application Support", "softcuda")
    base = user_home("XDG_CONFIG_HOME")
    return os.path.join(base, "softcuda") if base else f"{home}/.config/softcuda"


def user_cache_folder() -> str | None:
    """Return the user's folder of compiled kernels, or None where there is no home."""
    if sys.platform == "win32":
        local = user_home("LOCALAPPDATA")
        return os.path.join(local, "softcuda", "cache") if local else None
    home = os.path.expanduser("~")
    base = user_home("XDG_CACHE_HOME")
    if sys.platform != "darwin" and base:
        return os.path.join(base, "softcuda")
    if home == "~":
        return None
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Caches", "softcuda")
    return os.path.join(home, ".cache", "softcuda")
