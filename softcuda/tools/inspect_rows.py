"""What inspect_kernels lists: the rows of the backends' kernel tables, compiled for architectures.

A kernel that cannot be compiled keeps its row, which says why.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from softcuda.backends import backends
from softcuda.errors import ArgumentError, CacheMiss, CompileError, NvrtcNotFound
from softcuda.kernelspec import KernelSpec
from softcuda.knobs import thread_count
from softcuda.nvrtc.cache import KernelCache
from softcuda.nvrtc.parallel import run_all
from softcuda.nvrtc.unit import Cubin, Resources
from softcuda.tools.inspect_occupancy import Occupancy, occupancy

__all__ = [
    "KernelEntry",
    "KernelRow",
    "chosen_kernels",
    "compile_rows",
    "cuda_backends",
    "one_kernel",
]

Report = Callable[[int, int, str], None]

_PROBLEMS: Final = (CompileError, CacheMiss, NvrtcNotFound)
_SHOWN: Final = 20


class KernelEntry(NamedTuple):
    """A row of a backend's kernel table."""

    backend_id: str
    spec: KernelSpec


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


def cuda_backends() -> dict[str, tuple[KernelSpec, ...]]:
    """Return the kernel table of every registered CUDA backend by its id."""
    return {
        backend_id: tuple(getattr(module, "KERNELS", ()))
        for backend_id, module in backends().items()
        if module.DEVICE == "cuda"
    }


def chosen_kernels(patterns: Sequence[str], backend_ids: Sequence[str]) -> tuple[KernelEntry, ...]:
    """Return the kernels that match any of the patterns, of the named backends.

    Args:
        patterns: ids of kernels, or regular expressions that are searched in ids; () for all.
        backend_ids: () for all.

    Raises:
        ArgumentError: a backend is unknown, a pattern is no regular expression or matches nothing.
    """
    tables = cuda_backends()
    for name in backend_ids:
        if name not in tables:
            raise ArgumentError(
                f"--backend: {name!r} is no registered CUDA backend; allowed are "
                f"{', '.join(tables) or 'none, since none is registered'}"
            )
    entries = [
        KernelEntry(backend_id, spec)
        for backend_id, specs in tables.items()
        for spec in specs
        if backend_id in (backend_ids or tables)
    ]
    if not patterns:
        return tuple(entries)
    wanted = [(pattern, _matcher(pattern, entries)) for pattern in patterns]
    for pattern, matches in wanted:
        if not any(matches(entry.spec) for entry in entries):
            families = dict.fromkeys(f"{e.spec.family} ({e.backend_id})" for e in entries)
            raise ArgumentError(
                f"{pattern!r} matches no kernel; allowed are ids such as "
                f"{entries[0].spec.id if entries else 'none'!r} and regular expressions that are "
                f"found in one; the families are {', '.join(families) or 'none'}"
            )
    return tuple(e for e in entries if any(matches(e.spec) for _, matches in wanted))


def one_kernel(option: str, name: str, backend_ids: Sequence[str]) -> KernelEntry:
    """Return the one kernel that a name or regular expression means.

    Raises:
        ArgumentError: it means none, or several.
    """
    found = {entry.spec: entry for entry in chosen_kernels((name,), backend_ids)}
    if len(found) > 1:
        ids = [spec.id for spec in found]
        more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
        raise ArgumentError(
            f"{option}: {name!r} matches {len(ids)} kernels; allowed is one; name one of "
            f"{', '.join(ids[:_SHOWN])}{more}"
        )
    return next(iter(found.values()))


def _matcher(pattern: str, entries: Sequence[KernelEntry]) -> Callable[[KernelSpec], bool]:
    """Return what tells whether a kernel is meant: by its id where one has that id."""
    if any(entry.spec.id == pattern for entry in entries):
        return lambda spec: spec.id == pattern
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise ArgumentError(
            f"{pattern!r} is no regular expression: {error}; allowed are ids of kernels and "
            "regular expressions as Python's re has them"
        ) from error
    return lambda spec: expression.search(spec.id) is not None


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
        return KernelRow(entry, arch, cache.get(entry.spec.unit, arch))
    except _PROBLEMS as error:
        return KernelRow(entry, arch, problem=str(error))
