"""Launching kernels: the shape of a launch, and launches that are prepared once.

Source: CUDA Driver API, "Execution Control", cuLaunchKernelEx.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import addressof, byref, c_int, c_void_p
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Final

from softcuda.driver.arguments import ArgBuffer
from softcuda.driver.enums import CUlaunchAttributeID
from softcuda.driver.module import Function
from softcuda.driver.stream import Stream
from softcuda.driver.types import CUlaunchAttribute, CUlaunchConfig
from softcuda.errors import ArgumentError

__all__ = ["LAUNCH", "Extents3", "Launch", "LaunchConfig", "max_active_clusters"]

Extents3 = tuple[int, int, int]

LAUNCH: Final = "cuLaunchKernelEx"
GRID_LIMITS: Final = (2**31 - 1, 65535, 65535)
BLOCK_LIMITS: Final = (1024, 1024, 64)
MAX_THREADS: Final = 1024


@dataclass(frozen=True, slots=True)
class LaunchConfig:
    """The shape of a launch.

    Attributes:
        grid: blocks along x, y, z.
        block: threads along x, y, z.
        smem_bytes: dynamic shared memory a block [bytes].
        cluster: blocks of a cluster along x, y, z; (1, 1, 1) for no clusters.
        is_programmatic: whether the kernel may begin before the one ahead of it in the stream has
            ended (programmatic stream serialization); it then waits by itself.
    """

    grid: Extents3
    block: Extents3
    smem_bytes: int = 0
    cluster: Extents3 = (1, 1, 1)
    is_programmatic: bool = False

    def __post_init__(self) -> None:
        refusal = self._refusal()
        if refusal:
            raise ArgumentError(f"{self!r}: {refusal}")

    def _refusal(self) -> str:
        limits = (("grid", self.grid, GRID_LIMITS), ("block", self.block, BLOCK_LIMITS))
        for name, extents, most in limits:
            if len(extents) != 3 or not all(
                1 <= extent <= limit for extent, limit in zip(extents, most, strict=True)
            ):
                return f"{name} {extents} is not allowed; allowed are 1 to {most} along x, y, z"
        if prod(self.block) > MAX_THREADS:
            return f"{prod(self.block)} threads a block; allowed are {MAX_THREADS}"
        if self.smem_bytes < 0:
            return "shared memory cannot be negative"
        if len(self.cluster) != 3 or min(self.cluster) < 1:
            return f"cluster {self.cluster} is not allowed; allowed are at least 1 along x, y, z"
        if any(g % c for g, c in zip(self.grid, self.cluster, strict=True)):
            return f"cluster {self.cluster} does not divide grid {self.grid}"
        return ""

    @property
    def cluster_blocks(self) -> int:
        """The number of blocks of a cluster; 1 without clusters."""
        return prod(self.cluster)

    def attributes(self) -> list[CUlaunchAttribute]:
        """Return the launch attributes that the driver needs for this shape."""
        found = []
        if self.cluster_blocks > 1:
            attribute = CUlaunchAttribute(id=CUlaunchAttributeID.CLUSTER_DIMENSION)
            cluster = attribute.value.clusterDim
            cluster.x, cluster.y, cluster.z = self.cluster
            found.append(attribute)
        if self.is_programmatic:
            attribute = CUlaunchAttribute(id=CUlaunchAttributeID.PROGRAMMATIC_STREAM_SERIALIZATION)
            attribute.value.programmaticStreamSerializationAllowed = 1
            found.append(attribute)
        return found


class _NativeConfig:
    """A CUlaunchConfig and the attributes it points to."""

    __slots__ = ("attributes", "struct")

    def __init__(self, config: LaunchConfig) -> None:
        found = config.attributes()
        self.attributes = (CUlaunchAttribute * len(found))(*found)
        self.struct = CUlaunchConfig(
            *config.grid, *config.block, config.smem_bytes, None, None, len(found)
        )
        if found:
            self.struct.attrs = addressof(self.attributes)


class Launch:
    """A kernel with its shape and its arguments, ready to be submitted again and again.

    Attributes:
        function: the kernel.
        config: its shape.
        args: its arguments; what they hold when it is submitted is what the kernel gets.
        label: what messages call it.
    """

    __slots__ = ("_config", "_native", "_params", "args", "config", "function", "label")

    def __init__(
        self, function: Function, config: LaunchConfig, args: ArgBuffer, label: str | None = None
    ) -> None:
        """Prepare a launch.

        Args:
            function: the kernel.
            config: its shape; shared memory over 48 KiB and large clusters are allowed for the
                function here.
            args: its arguments, in the kernel's order and types.
            label: what messages call it; None for the kernel's name.

        Raises:
            ArgumentError: the device has not that much shared memory a block.
        """
        function.allow(config.smem_bytes, config.cluster_blocks)
        self.function = function
        self.config = config
        self.args = args
        self.label = label or f"kernel {function.name!r}"
        self._native = _NativeConfig(config)
        self._config = byref(self._native.struct)
        self._params = args.pointers

    def __repr__(self) -> str:
        return f"Launch({self.label}, grid {self.config.grid}, block {self.config.block})"

    def submit(self, *, stream: Stream) -> None:
        """Give the kernel to a stream; returns before it runs.

        With SOFTCUDA_SYNC=1, waits for it.

        Raises:
            DriverError: the launch was refused; everything stays usable.
            DeviceLost: an earlier fault showed, or this kernel's own with SOFTCUDA_SYNC=1.
        """
        function = self.function
        context = function.context
        handle = stream.handle
        self._native.struct.hStream = handle
        primary, launch = context.primary, context.driver.cuLaunchKernelEx
        if primary.is_current():
            launch(self._config, function.pointer, self._params, None)
        else:
            with primary.current():
                launch(self._config, function.pointer, self._params, None)
        primary.state.submit(handle, self.label)
        if context.is_synchronous and not stream.is_capturing:
            stream.synchronize()

    def launcher(self, *, stream: Stream) -> Callable[[], int]:
        """Return a call without arguments that gives the kernel to a stream.

        It is the bare driver call, which returns the driver's result: the caller has the context
        current, gives a result that is not 0 to `driver.failure`, notes the step with
        `context.state.submit`, and keeps this launch and the stream as long as it uses the call.
        """
        function = self.function
        self._native.struct.hStream = stream.handle
        launch = function.context.driver.unchecked(LAUNCH)
        pointers = self._params
        params = None if pointers is None else c_void_p(addressof(pointers))
        return partial(launch, self._config, function.pointer, params, None)


def max_active_clusters(function: Function, config: LaunchConfig) -> int:
    """Return how many clusters of a launch fit the device at a time.

    Raises:
        DriverError: the device has no clusters.
    """
    count = c_int()
    native = _NativeConfig(config)
    with function.context.current():
        function.context.driver.cuOccupancyMaxActiveClusters(
            byref(count), function.pointer, byref(native.struct)
        )
    return count.value
