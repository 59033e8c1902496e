"""The key of a compiled kernel: all that changes the binary, and neither paths nor times."""

from __future__ import annotations

import re
from typing import Final

from softcuda.nvrtc.compiler import Job
from softcuda.nvrtc.digest import digest
from softcuda.nvrtc.unit import CompileUnit, Image
from softcuda.version import __version__

__all__ = ["SCHEMA", "entry_name", "key_parts", "unit_key"]

# The form of an entry and of its key; another number makes every older entry a miss.
SCHEMA: Final = 2


def key_parts(job: Job, nvrtc_version: str, driver_version: int | None) -> list[tuple[str, bytes]]:
    """Return the labelled parts of a job's key, in their order.

    Args:
        job: what is compiled.
        nvrtc_version: as `Nvrtc.version` gives it.
        driver_version: as cuDriverGetVersion gives it; a part of the key of PTX only, which the
            driver assembles; None where it is unknown.
    """
    parts = [
        ("schema", str(SCHEMA)),
        ("softcuda", __version__),
        ("nvrtc", nvrtc_version),
        ("arch", job.arch),
        ("kind", job.kind.value),
        *(("option", option) for option in job.options),
        ("name expression", job.unit.expression),
        ("file name", job.unit.file),
        ("file", job.source.text),
        *((f"header {header.name}", header.text) for header in job.source.headers),
        ("system headers", job.system.digest if job.system else ""),
    ]
    if job.kind is Image.PTX:
        parts.append(("driver", str(driver_version or "")))
    return [(label, text.encode()) for label, text in parts]


def unit_key(job: Job, nvrtc_version: str, driver_version: int | None = None) -> str:
    """Return the key of a job: SHA-256 in hexadecimal over `key_parts`."""
    return digest(key_parts(job, nvrtc_version, driver_version))


def entry_name(unit: CompileUnit, arch: str, key: str) -> str:
    """Return the name of a unit's folder in the cache, `<stem>.<variant>-<arch>-<key16>`.

    Example:
        >>> entry_name(CompileUnit("fill.cu", "f32", "fill<f32>"), "sm_90a", "0123456789abcdef01")
        'fill.f32-sm_90a-0123456789abcdef'
    """
    return f"{re.sub(r'[^A-Za-z0-9_.-]', '_', unit.id)[:100]}-{arch}-{key[:16]}"
