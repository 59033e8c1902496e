"""Devices: how many there are, their names and attributes; whether CUDA can be used at all.

Source: CUDA Driver API, "Device Management", "Version Management".
"""

from __future__ import annotations

from ctypes import byref, c_int, c_size_t, create_string_buffer
from typing import NamedTuple

from softcuda.driver.enums import CUdevice_attribute
from softcuda.driver.library import DRIVER, Driver, version_text
from softcuda.driver.types import CUuuid
from softcuda.errors import NoDeviceError, SoftCudaError
from softcuda.knobs import visible_devices

__all__ = ["Availability", "Device", "available", "device_count", "driver_version"]


class Availability(NamedTuple):
    """Whether CUDA can be used; true in a condition when it can.

    Attributes:
        ok: whether a device can be used.
        reason: why not, in one sentence; "" when it can.
    """

    ok: bool
    reason: str

    def __bool__(self) -> bool:
        return self.ok


def available(driver: Driver = DRIVER) -> Availability:
    """Return whether CUDA can be used, with the reason when not; never raises.

    The first call initialises CUDA where there is a driver (0.15 s on an H200). No library, a
    driver too old, no device, CUDA_VISIBLE_DEVICES that hides all, and use after a fork are
    reasons.
    """
    try:
        device_count(driver)
    except SoftCudaError as error:
        return Availability(False, str(error))
    return Availability(True, "")


def driver_version(driver: Driver = DRIVER) -> str:
    """Return the CUDA version that the driver supports, such as "13.0".

    Raises:
        DriverNotFound: there is no driver.
    """
    version = c_int()
    driver.cuDriverGetVersion(byref(version))
    return version_text(version.value)


def device_count(driver: Driver = DRIVER) -> int:
    """Return how many devices the driver shows, at least 1.

    Raises:
        DriverNotFound: there is no driver, or it is too old.
        NoDeviceError: there is no device, or CUDA_VISIBLE_DEVICES hides all.
        ForkedProcessError: CUDA was initialised before this process was forked.
    """
    count = c_int()
    driver.cuDeviceGetCount(byref(count))
    if count.value < 1:
        raise NoDeviceError(
            "cuDeviceGetCount found no device; CUDA work needs one that nvidia-smi lists"
        )
    return count.value


class Device:
    """One CUDA device, by its ordinal among those that the driver shows.

    Attributes:
        ordinal: 0 to device_count() - 1.
        driver: the driver it was asked of.
        handle: its CUdevice.
    """

    __slots__ = ("_attributes", "driver", "handle", "ordinal")

    def __init__(self, ordinal: int = 0, driver: Driver = DRIVER) -> None:
        """Find a device; no context is made.

        Raises:
            NoDeviceError: there is no device of this ordinal.
            DriverNotFound: there is no driver, or it is too old.
        """
        count = device_count(driver)
        if not 0 <= ordinal < count:
            visible = visible_devices()
            shown = "" if visible is None else f" with CUDA_VISIBLE_DEVICES={visible!r}"
            raise NoDeviceError(
                f"there is no CUDA device {ordinal}: the driver shows {count}{shown}; allowed are "
                f"ordinals 0 to {count - 1}"
            )
        handle = c_int()
        driver.cuDeviceGet(byref(handle), ordinal)
        self.ordinal = ordinal
        self.driver = driver
        self.handle = handle.value
        self._attributes: dict[int, int] = {}

    def __repr__(self) -> str:
        return f"Device({self.ordinal}, {self.name!r}, sm_{''.join(map(str, self.capability))})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Device):
            return NotImplemented
        return self.ordinal == other.ordinal and self.driver is other.driver

    def __hash__(self) -> int:
        return hash((self.ordinal, id(self.driver)))

    def attribute(self, attribute: CUdevice_attribute) -> int:
        """Return an attribute of the device; asked of the driver once."""
        known = self._attributes.get(attribute)
        if known is None:
            value = c_int()
            self.driver.cuDeviceGetAttribute(byref(value), int(attribute), self.handle)
            known = self._attributes[attribute] = value.value
        return known

    @property
    def name(self) -> str:
        """The name that the driver gives the device, such as "NVIDIA H200"."""
        text = create_string_buffer(256)
        self.driver.cuDeviceGetName(text, len(text), self.handle)
        return text.value.decode("utf-8", "replace")

    @property
    def uuid(self) -> str:
        """The identity of the device, as nvidia-smi writes it without its prefix GPU-."""
        uuid = CUuuid()
        self.driver.cuDeviceGetUuid_v2(byref(uuid), self.handle)
        text = bytes(uuid).hex()
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability, (major, minor)."""
        return (
            self.attribute(CUdevice_attribute.COMPUTE_CAPABILITY_MAJOR),
            self.attribute(CUdevice_attribute.COMPUTE_CAPABILITY_MINOR),
        )

    @property
    def total_bytes(self) -> int:
        """The memory of the device [bytes]."""
        total = c_size_t()
        self.driver.cuDeviceTotalMem_v2(byref(total), self.handle)
        return total.value

    @property
    def multiprocessors(self) -> int:
        """The number of multiprocessors."""
        return self.attribute(CUdevice_attribute.MULTIPROCESSOR_COUNT)

    @property
    def smem_bytes(self) -> int:
        """The most shared memory that a block may ask for [bytes]."""
        return self.attribute(CUdevice_attribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)

    @property
    def l2_bytes(self) -> int:
        """The size of the L2 cache [bytes]."""
        return self.attribute(CUdevice_attribute.L2_CACHE_SIZE)
