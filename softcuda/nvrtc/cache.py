"""The compile cache: a unit becomes a cubin from memory, from the disk, or by NVRTC.

    cache = KernelCache()
    cubin = cache.get(unit, "sm_90a")
    cubins = cache.get_all(units, "sm_90a")     # compiled in parallel threads

A cache that cannot be written, or a home that is not there, costs one warning; kernels are then
kept in memory only.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from softcuda import knobs
from softcuda.errors import CacheMiss, CompileError, NvrtcNotFound
from softcuda.forks import renew_in_child
from softcuda.nvrtc.compiler import Job, compile_job, make_job
from softcuda.nvrtc.headers import SystemHeaders, note_headers, noted_headers, system_headers
from softcuda.nvrtc.key import entry_name, key_parts, unit_key
from softcuda.nvrtc.library import NVRTC, Nvrtc
from softcuda.nvrtc.notices import Notices
from softcuda.nvrtc.parallel import run_all
from softcuda.nvrtc.place import cache_place, debug_options
from softcuda.nvrtc.store import FoundEntry, discard, entry_files, read_entry, write_entry
from softcuda.nvrtc.toolchain import (
    Toolchain,
    ask_toolchain,
    note_toolchain,
    noted_toolchain,
)
from softcuda.nvrtc.unit import CompileUnit, Cubin, Image, as_arch

__all__ = ["KernelCache"]

_READABLE = 200  # longer parts of a key are told in meta.json by their length alone


class KernelCache:
    """Compiled kernels of one process, and those that processes before it left on the disk.

    Every method may be called from several threads; a unit is compiled once.

    Attributes:
        folder: of the disk cache; None for memory only.
        compiled: how many units were compiled since the cache was made.
    """

    def __init__(self, nvrtc: Nvrtc = NVRTC, driver_version: int | None = None) -> None:
        """Prepare a cache at the place and with the options that the environment names.

        Args:
            nvrtc: compiles what is missing.
            driver_version: as cuDriverGetVersion gives it, a part of the key of PTX.

        Raises:
            ArgumentError: a variable of the environment has a value that is not allowed.
        """
        self.folder = cache_place()
        self.compiled = 0
        self._nvrtc = nvrtc
        self._driver_version = driver_version
        self._options = debug_options()
        self._may_compile = knobs.may_compile()
        self._toolchain: Toolchain | None = None
        self._is_confirmed = False
        self._headers: dict[tuple[str, ...], SystemHeaders] = {}
        self._reading = threading.Lock()
        self._lock = threading.Lock()
        self._locks: dict[tuple[CompileUnit, str], threading.Lock] = {}
        self._memory: dict[tuple[CompileUnit, str], Cubin] = {}
        self._notices = Notices()
        renew_in_child(self)

    def after_fork(self) -> None:
        """Make the locks anew in a forked child."""
        self._reading = threading.Lock()
        self._lock = threading.Lock()
        self._locks = {}

    def __repr__(self) -> str:
        where = self.folder or "memory only"
        return f"KernelCache({where}, {len(self._memory)} in use, {self.compiled} compiled)"

    def get(self, unit: CompileUnit, arch: str) -> Cubin:
        """Return a unit compiled for the architecture of a device, such as "sm_90a".

        The files of a unit are read once; a change of them is seen by the next process.

        Raises:
            CacheMiss: it is not in the cache, and SOFTCUDA_JIT=off.
            CompileError: it does not compile.
            NvrtcNotFound: it is not in the cache, and there is no NVRTC.
        """
        cubin = self._memory.get((unit, arch))
        if cubin is not None:
            return cubin
        try:
            return self._got(unit, arch)
        finally:
            self._notices.give()

    def _got(self, unit: CompileUnit, arch: str) -> Cubin:
        """Return a unit as `get` does; what is to be said about it waits."""
        wanted = (unit, arch)
        with self._lock:
            lock = self._locks.setdefault(wanted, threading.Lock())
        with lock:
            cubin = self._memory.get(wanted)
            if cubin is None:
                cubin = self._memory[wanted] = self._fetch(unit, arch)
            return cubin

    def get_all(
        self, units: Sequence[CompileUnit], arch: str, threads: int | None = None
    ) -> tuple[Cubin, ...]:
        """Return units compiled for an architecture, in their order; compiles in parallel threads.

        Args:
            units: what to compile.
            arch: the architecture of the device.
            threads: at most that many; by default as SOFTCUDA_THREADS says.

        Raises:
            CacheMiss: units are not in the cache, and SOFTCUDA_JIT=off; lists all of them.
            CompileError: one does not compile; the first of them in the order of `units`.
            NvrtcNotFound: one is not in the cache, and there is no NVRTC.
        """
        threads = threads or knobs.thread_count()
        outcomes = run_all(lambda unit: self._got(unit, arch), units, threads)
        self._notices.give()
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        misses = [failure for failure in failures if isinstance(failure, CacheMiss)]
        if len(misses) > 1:
            raise CacheMiss("\n".join(str(miss) for miss in misses))
        if failures:
            raise failures[0]
        return tuple(outcome for outcome in outcomes if isinstance(outcome, Cubin))

    def _fetch(self, unit: CompileUnit, arch: str) -> Cubin:
        """Return a unit from the disk, else compiled and stored."""
        try:
            toolchain, job = self._planned(unit, arch)
        except NvrtcNotFound as error:
            if self._may_compile:
                raise
            raise self._miss(
                unit, arch, "", f"there is no NVRTC to know the key by: {error}"
            ) from error
        found = self._look(job, toolchain)
        if found.cubin is None and not self._may_compile:
            raise self._miss(unit, arch, self._key(job, toolchain), found.damage)
        if found.cubin is None and not self._is_confirmed:
            confirmed = self._confirm()
            if confirmed != toolchain:
                toolchain = confirmed
                job = self._job(unit, arch, toolchain)
                found = self._look(job, toolchain)
        if job.kind is Image.PTX:
            self._say_ptx(job, arch, toolchain)
        return found.cubin or self._compile(job, toolchain, found)

    def _planned(self, unit: CompileUnit, arch: str) -> tuple[Toolchain, Job]:
        """Return what a unit is compiled by, and how; where a note forbids it NVRTC is asked."""
        toolchain = self._known_toolchain()
        try:
            return toolchain, self._job(unit, arch, toolchain)
        except CompileError:
            if self._is_confirmed or self._confirm() == toolchain:
                raise
        toolchain = self._confirm()
        return toolchain, self._job(unit, arch, toolchain)

    def _known_toolchain(self) -> Toolchain:
        """Return NVRTC's version and architectures, by the note of an earlier process if any."""
        with self._lock:
            if self._toolchain is None and self.folder is not None and not self._nvrtc.is_loaded:
                self._toolchain = noted_toolchain(self.folder)
        return self._toolchain or self._confirm()

    def _confirm(self) -> Toolchain:
        """Return what NVRTC itself says, and note it for later processes."""
        with self._lock:
            known = self._toolchain if self._is_confirmed else None
            if known is not None:
                return known
            known = self._toolchain = ask_toolchain(self._nvrtc)
            self._is_confirmed = True
        if self.folder is not None and noted_toolchain(self.folder) != known:
            self._write(note_toolchain, self.folder, self._nvrtc)
        return known

    def _job(self, unit: CompileUnit, arch: str, toolchain: Toolchain) -> Job:
        return make_job(unit, arch, toolchain.architectures, self._options, self._system_headers)

    def _system_headers(self, names: tuple[str, ...]) -> SystemHeaders:
        """Return NVIDIA's headers, by the note of an earlier process if any; read once."""
        with self._reading:
            known = self._headers.get(names)
            if known is None and self.folder is not None:
                known = noted_headers(self.folder, names)
            if known is None:
                known = system_headers(names)
                if self.folder is not None:
                    self._write(note_headers, self.folder, names, known)
            self._headers[names] = known
            return known

    def _key(self, job: Job, toolchain: Toolchain) -> str:
        return unit_key(job, toolchain.version, self._driver_version)

    def _look(self, job: Job, toolchain: Toolchain) -> FoundEntry:
        """Return what the disk has, and what is wrong with it."""
        if self.folder is None:
            return FoundEntry(None, "")
        key = self._key(job, toolchain)
        return read_entry(self.folder / entry_name(job.unit, job.arch, key), key)

    def _compile(self, job: Job, toolchain: Toolchain, found: FoundEntry) -> Cubin:
        """Return a job compiled, and stored where the cache can be read and written."""
        key = self._key(job, toolchain)
        entry = self.folder and self.folder / entry_name(job.unit, job.arch, key)
        if found.is_refused:
            self._say_not_kept(f"read ({entry}: {found.damage})")
        elif found.damage:
            self._notices.add(
                f"the entry {entry} of the compile cache is damaged and is made again: "
                f"{found.damage}"
            )
        failed = self.folder and self.folder / "failed"
        cubin = compile_job(job, self._nvrtc, failed)
        with self._lock:
            self.compiled += 1
        if entry is None:
            self._notices.add(
                "there is no folder for compiled kernels, since the user has no home: they stay "
                "in memory only; set SOFTCUDA_CACHE_DIR to a folder that can be written",
                "not kept",
            )
            return cubin
        if found.is_refused:
            return cubin
        files = entry_files(cubin, job.source.text, key, self._readable(job, toolchain))
        given = {header.name for header in job.unit.headers}
        for header in job.source.headers:
            if header.name in given:
                files[header.name] = header.text.encode()
        if found.damage and not self._write(discard, entry):
            return cubin
        if not self._write(write_entry, entry, files):
            return cubin
        winner = read_entry(entry, key).cubin
        return winner or cubin._replace(folder=str(entry))

    def _write(self, function: Any, *arguments: Any) -> bool:
        """Call a function that writes; where it cannot, warn once and return False."""
        try:
            function(*arguments)
        except OSError as error:
            self._say_not_kept(f"written ({error})")
            return False
        return True

    def _say_not_kept(self, why: str) -> None:
        self._notices.add(
            f"the compile cache {self.folder} cannot be {why}: compiled kernels are kept in memory "
            "only; set SOFTCUDA_CACHE_DIR to a folder that can be written",
            "not kept",
        )

    def _readable(self, job: Job, toolchain: Toolchain) -> list[list[str]]:
        """Return the parts of a key for people to read."""
        return [
            [label, text.decode() if len(text) < _READABLE else f"{len(text)} bytes"]
            for label, text in key_parts(job, toolchain.version, self._driver_version)
        ]

    def _miss(self, unit: CompileUnit, arch: str, key: str, damage: str) -> CacheMiss:
        entry = entry_name(unit, arch, key) if key else unit.id
        return CacheMiss(
            f"kernel {unit.id} for {arch} is not in the compile cache {self.folder}, and "
            f"SOFTCUDA_JIT=off forbids compiling it: {unit.expression} of {unit.file}, options "
            f"{' '.join(unit.options) or '(none)'}, entry {entry}"
            f"{f' ({damage})' if damage else ''}; unset SOFTCUDA_JIT, or fill the cache first"
        )

    def _say_ptx(self, job: Job, arch: str, toolchain: Toolchain) -> None:
        name, known = f"NVRTC {toolchain.version.partition(' ')[0]}", toolchain.architectures
        why = f"{arch} is newer than {name} knows"
        if as_arch(arch).number < known[-1]:
            why = f"{name} has no {arch}, it has {', '.join(f'sm_{n}' for n in known)}"
        self._notices.add(
            f"{why}: kernels are compiled to PTX of {job.arch}, and the driver assembles them; an "
            f"NVRTC that knows {arch} makes them ready to run",
            f"PTX {arch}",
        )
