"""Modules loaded from cubins or PTX, their functions, and how many blocks fit.

Source: CUDA Driver API, "Module Management", "Execution Control", "Occupancy".
"""

from __future__ import annotations

from ctypes import addressof, byref, c_int, c_uint, c_void_p, create_string_buffer
from typing import Final, NamedTuple

from softcuda.driver.context import Context
from softcuda.driver.enums import CUdevice_attribute, CUfunction_attribute, CUjit_option
from softcuda.driver.library import Driver
from softcuda.driver.owner import Owner, Resource
from softcuda.errors import ArgumentError, DeviceLost, DriverError

__all__ = ["BlockAdvice", "Function", "Module"]

LOG_BYTES: Final = 8192
PORTABLE_CLUSTER: Final = 8  # blocks; a larger cluster must be allowed for each function


def _unload(driver: Driver, handle: int) -> None:
    driver.cuModuleUnload(handle)


class Module(Owner):
    """Device code in a context.

    Attributes:
        label: what messages call it.
    """

    __slots__ = ("label",)

    def __init__(self, context: Context, image: bytes, label: str = "module") -> None:
        """Load device code.

        Args:
            context: where.
            image: a cubin for the architecture of the device, or PTX text, which the driver
                compiles.
            label: what messages call it, such as the name of its file.

        Raises:
            DriverError: the image does not fit the device or the driver; holds the driver's log.
        """
        primary, driver = context.primary, context.driver
        handle = c_void_p()
        log = create_string_buffer(LOG_BYTES)
        options = (c_int * 2)(
            CUjit_option.ERROR_LOG_BUFFER, CUjit_option.ERROR_LOG_BUFFER_SIZE_BYTES
        )
        values = (c_void_p * 2)(addressof(log), LOG_BYTES)
        try:
            with primary.current():
                driver.cuModuleLoadDataEx(byref(handle), image, 2, options, values)
        except DeviceLost:
            raise
        except DriverError as error:
            said = log.value.decode("utf-8", "replace").strip()
            raise DriverError(
                f"{error}; loading {label} ({len(image)} bytes) on {context.device!r}"
                f"{f', the driver says: {said}' if said else ''}",
                error.code,
                error.name,
            ) from None
        super().__init__(context, Resource(primary, handle.value or 0, _unload, label))
        self.label = label

    def _about(self) -> str:
        return self.label

    def function(self, name: str) -> Function:
        """Return a kernel of the module.

        Args:
            name: as in the image; for a template, the lowered name.

        Raises:
            DriverError: the module has no such kernel.
        """
        return Function(self, name)

    def function_count(self) -> int:
        """Return the number of kernels of the module.

        Raises:
            DriverNotFound: the driver is older than CUDA 12.4.
        """
        count = c_uint()
        with self.context.current():
            self.context.driver.cuModuleGetFunctionCount(byref(count), self.handle)
        return count.value


class BlockAdvice(NamedTuple):
    """The block size of greatest occupancy [threads], and the least grid that fills the device."""

    block_size: int
    min_grid_size: int


class Function:
    """A kernel of a module; its code stays loaded as long as it is held.

    Attributes:
        context: where it is loaded.
        name: as in the image.
        resource: the module's handle with its lifetime.
        pointer: the CUfunction as a prepared ctypes argument.
    """

    __slots__ = ("__weakref__", "_smem_bytes", "context", "name", "pointer", "resource")

    def __init__(self, module: Module, name: str) -> None:
        """Find a kernel.

        Raises:
            DriverError: the module has no such kernel.
        """
        self.context = module.context
        self.resource = module.resource
        self.name = name
        self.pointer = c_void_p()
        self._smem_bytes = -1  # the most dynamic shared memory allowed so far; -1: not asked yet
        driver = self.context.driver
        try:
            with self.context.current():
                driver.cuModuleGetFunction(byref(self.pointer), module.handle, name.encode())
        except DeviceLost:
            raise
        except DriverError as error:
            raise DriverError(
                f"{error}; {module!r} has no kernel {name!r}", error.code, error.name
            ) from None

    def __repr__(self) -> str:
        return f"Function({self.name!r}, device {self.context.device.ordinal})"

    def attribute(self, attribute: CUfunction_attribute) -> int:
        """Return an attribute: registers, local memory, shared memory and the like."""
        value = c_int()
        with self.context.current():
            self.context.driver.cuFuncGetAttribute(byref(value), int(attribute), self.pointer)
        return value.value

    def set_attribute(self, attribute: CUfunction_attribute, value: int) -> None:
        """Set one of the attributes that can be set.

        Raises:
            DriverError: the attribute cannot be set, or not to this value.
        """
        with self.context.current():
            self.context.driver.cuFuncSetAttribute(self.pointer, int(attribute), value)

    def allow(self, smem_bytes: int, cluster_blocks: int = 1) -> None:
        """Allow launches with so much dynamic shared memory and clusters of so many blocks.

        Raises:
            ArgumentError: the device has not that much shared memory a block.
            DriverError: the device does not take such clusters.
        """
        if self._smem_bytes < 0:
            self._smem_bytes = self.attribute(CUfunction_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES)
        if smem_bytes > self._smem_bytes:
            static = self.attribute(CUfunction_attribute.SHARED_SIZE_BYTES)
            limit = self.context.device.attribute(
                CUdevice_attribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
            )
            if smem_bytes + static > limit:
                raise ArgumentError(
                    f"{self!r} asks for {smem_bytes} bytes of dynamic and {static} of static "
                    f"shared memory a block; {self.context.device!r} allows {limit} together; "
                    "take a smaller tile or fewer stages"
                )
            self.set_attribute(CUfunction_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, smem_bytes)
            self._smem_bytes = smem_bytes
        if cluster_blocks > PORTABLE_CLUSTER:
            self.set_attribute(CUfunction_attribute.NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)

    def max_active_blocks(self, block_size: int, smem_bytes: int = 0) -> int:
        """Return how many blocks fit one multiprocessor at a time.

        Args:
            block_size: threads a block.
            smem_bytes: dynamic shared memory a block [bytes].
        """
        count = c_int()
        with self.context.current():
            self.context.driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                byref(count), self.pointer, block_size, smem_bytes
            )
        return count.value

    def best_block_size(self, smem_bytes: int = 0, limit: int = 0) -> BlockAdvice:
        """Return the block size of greatest occupancy and the grid that fills the device with it.

        Args:
            smem_bytes: dynamic shared memory a block [bytes].
            limit: most threads a block; 0 for the device's own limit.
        """
        grid, block = c_int(), c_int()
        with self.context.current():
            self.context.driver.cuOccupancyMaxPotentialBlockSize(
                byref(grid), byref(block), self.pointer, None, smem_bytes, limit
            )
        return BlockAdvice(block.value, grid.value)
