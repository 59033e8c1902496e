"""What the environment says of compiled kernels: the folder they are kept in, extra options."""

from __future__ import annotations

from pathlib import Path

from softcuda import knobs
from softcuda.errors import ArgumentError
from softcuda.paths import user_cache_folder

__all__ = ["cache_place", "debug_options"]


def cache_place() -> Path | None:
    """Return the folder of compiled kernels: SOFTCUDA_CACHE_DIR, or one in the user's caches.

    None where the first is unset and the user has no home.

    Raises:
        ArgumentError: SOFTCUDA_CACHE_DIR begins with the home of a user who has none.
    """
    named = knobs.cache_folder()
    if named:
        try:
            return Path(named).expanduser().absolute()
        except RuntimeError as error:
            raise ArgumentError(
                f"SOFTCUDA_CACHE_DIR is {named!r}, and there is no such home ({error}); allowed is "
                "a folder, '~' for your own home before it; name it in full"
            ) from error
    folder = user_cache_folder()
    return None if folder is None else Path(folder)


def debug_options() -> tuple[str, ...]:
    """Return the options that SOFTCUDA_LINEINFO and SOFTCUDA_DEBUG ask for.

    Raises:
        ArgumentError: one of them is neither 0 nor 1 nor empty.
    """
    lines = ("--generate-line-info",) if knobs.compiles_with_lines() else ()
    return ("--device-debug",) if knobs.compiles_with_debug() else lines
