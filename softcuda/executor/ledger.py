"""The ledger of a device's memory: who holds it, and what can make room."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from softcuda.driver.context import Context
from softcuda.driver.memory import DeviceMemory
from softcuda.errors import DeviceOutOfMemory, PoolExhausted, SoftCudaError
from softcuda.executor.arenas import Arena, Arenas
from softcuda.pool.device import DevicePool
from softcuda.sizes import bytes_text

if TYPE_CHECKING:
    from softcuda.executor.runtime import Runtime

__all__ = ["Ledger"]

T = TypeVar("T")


class Ledger:
    """Allocates the memory of one device.

    A request that the device refuses is tried once more, after idle output buffers and arenas
    were given back; then the error says who holds what.

    Attributes:
        arenas: memory for intermediates.
        runtimes: what has output buffers on the device.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._outputs: weakref.WeakSet[DeviceMemory] = weakref.WeakSet()
        self.arenas = Arenas(self._arena)
        self.runtimes: weakref.WeakSet[Runtime] = weakref.WeakSet()

    def memory(self, nbytes: int, *, is_output: bool = False) -> DeviceMemory:
        """Return fresh memory.

        Args:
            nbytes: size [bytes].
            is_output: whether errors count it among the outputs.

        Raises:
            DeviceOutOfMemory: the device has not that much.
        """
        made = self._tried(lambda: DeviceMemory(self._context, nbytes), nbytes)
        if is_output:
            self._outputs.add(made)
        return made

    def _arena(self, nbytes: int, block_bytes: int) -> Arena:
        def make() -> Arena:
            return Arena(DevicePool(self._context, block_bytes), nbytes)

        return self._tried(make, max(nbytes, block_bytes))

    def _tried(self, make: Callable[[], T], nbytes: int) -> T:
        try:
            return make()
        except (DeviceOutOfMemory, PoolExhausted):
            self.make_room()
        try:
            return make()
        except (DeviceOutOfMemory, PoolExhausted) as error:
            raise self._refused(nbytes, error) from None

    def make_room(self) -> None:
        """Give back what nobody uses: idle output buffers, and arenas outside of runs."""
        for runtime in list(self.runtimes):
            runtime.release_idle()
        self.arenas.trim()

    def _refused(self, nbytes: int, error: Any) -> DeviceOutOfMemory:
        free = ""
        with suppress(SoftCudaError):
            info = self._context.memory_info()
            free = f", {bytes_text(info.free_bytes)} free of {bytes_text(info.total_bytes)}"
        outputs = sum(memory.nbytes for memory in self._outputs if not memory.is_closed)
        return DeviceOutOfMemory(
            f"device {self._context.device.ordinal} is out of memory: asked "
            f"{bytes_text(nbytes)}{free}; softcuda's arenas hold "
            f"{bytes_text(self.arenas.held_bytes)}, its outputs {bytes_text(outputs)}, and idle "
            "ones were given back before it was tried once more; let go of results that are no "
            "longer needed, or compute with smaller tensors",
            getattr(error, "code", 2),
            getattr(error, "name", "CUDA_ERROR_OUT_OF_MEMORY"),
        )
