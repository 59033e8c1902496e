"""The loader: from the spec of a kernel to its function on a device."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from softcuda.driver.context import Context
from softcuda.driver.device import driver_version
from softcuda.driver.module import Function, Module
from softcuda.errors import CompileError
from softcuda.forks import renew_in_child
from softcuda.kernelspec import KernelSpec
from softcuda.nvrtc.cache import KernelCache
from softcuda.target import arch_of

__all__ = ["Loader", "compile_all", "compile_for"]


def compile_all(specs: Sequence[KernelSpec], arch: str, cache: KernelCache) -> None:
    """Compile kernels for an architecture, in parallel, into a cache; needs no device.

    Raises:
        CompileError: one does not compile, or does not run on the architecture.
        CacheMiss: one is not in the cache, and SOFTCUDA_JIT=off.
        NvrtcNotFound: one is not in the cache, and there is no NVRTC.
    """
    for spec in specs:
        refusal = spec.refusal(arch)
        if refusal:
            raise CompileError(f"{refusal}; choose another backend for this node in the profile")
    cache.get_all([spec.unit for spec in dict.fromkeys(specs)], arch)


def compile_for(specs: Sequence[KernelSpec], arch: str) -> None:
    """Compile kernels for an architecture into the disk cache; see `compile_all`."""
    compile_all(specs, arch, KernelCache())


class Loader:
    """The kernels of one device, each loaded once. Safe in threads.

    Attributes:
        arch: the architecture that kernels are compiled for.
        cache: the compiled kernels.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.arch = arch_of(*context.device.capability)
        major, _, minor = driver_version(context.driver).partition(".")
        self.cache = KernelCache(driver_version=int(major) * 1000 + int(minor or 0) * 10)
        self._lock = threading.Lock()
        self._functions: dict[KernelSpec, Function] = {}
        renew_in_child(self)

    def after_fork(self) -> None:
        """Make the lock anew in a forked child, where the driver refuses every call."""
        self._lock = threading.Lock()

    def prepare(self, specs: Sequence[KernelSpec]) -> None:
        """Compile kernels that are not loaded yet, in parallel."""
        missing = [s for s in specs if s.built is None and s not in self._functions]
        if missing:
            compile_all(missing, self.arch, self.cache)

    def function(self, spec: KernelSpec) -> Function:
        """Return the function of a kernel, compiled and loaded on first use.

        One that came with an executable from a file is loaded as it is, and never compiled.

        Raises:
            CompileError: it does not compile, or its file has more than one entry point.
            DriverError: the driver refuses the image.
        """
        known = self._functions.get(spec)
        if known is not None:
            return known
        with self._lock:
            known = self._functions.get(spec)
            if known is None:
                built = spec.built
                cubin = built.cubin if built else self.cache.get(spec.unit, self.arch)
                module = Module(self._context, cubin.image, spec.id)
                known = self._functions[spec] = module.function(cubin.name)
            return known
