"""Kernels compiled for architectures: what inspect_kernels knows of each of them.

A kernel that cannot be compiled keeps its row, which says why.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from softcuda.errors import CacheMiss, CompileError, NvrtcNotFound
from softcuda.kernelspec import KernelSpec
from softcuda.knobs import thread_count
from softcuda.nvrtc.cache import KernelCache
from softcuda.nvrtc.parallel import run_all
from softcuda.nvrtc.unit import Cubin, Resources
from softcuda.tools.inspect_occupancy import Occupancy, occupancy
from softcuda.tools.inspect_rows import KernelEntry

__all__ = ["KernelRow", "compile_rows", "cubin_of"]

Report = Callable[[int, int, str], None]

_PROBLEMS: Final = (CompileError, CacheMiss, NvrtcNotFound)


@dataclass(frozen=True, slots=True)
class KernelRow:
    """A kernel on an architecture.

    Attributes:
        entry: which kernel.
        arch: the architecture that was asked for.
        cubin: what came out; None where nothing did.
        refusal: why the kernel does not exist on the architecture; "" where it does.
        problem: why it was not compiled although it should exist; "" where it was.
    """

    entry: KernelEntry
    arch: str
    cubin: Cubin | None = None
    refusal: str = ""
    problem: str = ""

    @property
    def resources(self) -> Resources | None:
        """What the kernel takes; None where the compiler did not tell."""
        return self.cubin.resources if self.cubin else None

    @property
    def occupancy(self) -> Occupancy | None:
        """What a multiprocessor holds of the kernel; None where that is not known."""
        spec, resources = self.entry.spec, self.resources
        if resources is None:
            return None
        return occupancy(self.arch, resources, spec.threads, spec.shared_bytes)

    def record(self) -> dict[str, Any]:
        """Return the row as JSON has it; bytes and threads are numbers, what is unknown is null."""
        spec, cubin, found, fits = self.entry.spec, self.cubin, self.resources, self.occupancy
        return {
            "id": spec.id,
            "backend_id": self.entry.backend_id,
            "file": spec.file,
            "family": spec.family,
            "variant": spec.variant,
            "expression": spec.expression,
            "dtypes": list(spec.dtypes),
            "arch": self.arch,
            "tile": list(spec.tile),
            "threads": spec.threads,
            "is_deterministic": spec.is_deterministic,
            "min_arch": spec.only_arch or f"sm_{spec.min_arch}",
            "registers": found.registers if found else None,
            "spill_store_bytes": found.spill_store_bytes if found else None,
            "spill_load_bytes": found.spill_load_bytes if found else None,
            "stack_bytes": found.stack_bytes if found else None,
            "local_bytes": found.stack_bytes if found else None,
            "static_shared_bytes": found.shared_bytes if found else None,
            "dynamic_shared_bytes": spec.shared_bytes,
            "barriers": found.barriers if found else None,
            "occupancy": fits._asdict() if fits else None,
            "image": cubin.kind.value if cubin else None,
            "image_bytes": len(cubin.image) if cubin else None,
            "folder": cubin.folder if cubin else None,
            "refusal": self.refusal or None,
            "problem": self.problem or None,
        }


def cubin_of(spec: KernelSpec, arch: str, cache: KernelCache) -> Cubin:
    """Return a kernel as its executable was saved with it, else compiled.

    Raises:
        CompileError, CacheMiss, NvrtcNotFound: it cannot be compiled.
    """
    return spec.built.cubin if spec.built else cache.get(spec.unit, arch)


def compile_rows(
    entries: Sequence[KernelEntry], archs: Sequence[str], cache: KernelCache, report: Report
) -> tuple[KernelRow, ...]:
    """Return a row for every kernel on every architecture; compiles in parallel threads.

    Args:
        entries: the kernels.
        archs: the architectures.
        cache: where compiled kernels are found and kept.
        report: called with how many are done, how many there are, and the kernel done last.

    Raises:
        CompileError: an architecture is not supported.
    """
    items = [(entry, arch) for entry in entries for arch in archs]
    lock = threading.Lock()
    done: list[str] = []

    def work(item: tuple[KernelEntry, str]) -> KernelRow:
        row = _row(*item, cache)
        with lock:
            done.append(row.entry.spec.id)
            report(len(done), len(items), done[-1])
        return row

    rows: list[KernelRow] = []
    for outcome in run_all(work, items, thread_count()):
        if isinstance(outcome, Exception):
            raise outcome
        rows.append(outcome)
    return tuple(rows)


def _row(entry: KernelEntry, arch: str, cache: KernelCache) -> KernelRow:
    refusal = entry.spec.refusal(arch)
    if refusal:
        return KernelRow(entry, arch, refusal=refusal)
    try:
        return KernelRow(entry, arch, cubin_of(entry.spec, arch, cache))
    except _PROBLEMS as error:
        return KernelRow(entry, arch, problem=str(error))
