"""Direct access of one device to the memory of another.

Source: CUDA Driver API, "Peer Context Memory Access".
"""

from __future__ import annotations

from ctypes import byref, c_int

from softcuda.driver.context import Context
from softcuda.driver.device import Device
from softcuda.driver.results import PEER_ACCESS_ALREADY_ENABLED
from softcuda.errors import DriverError

__all__ = ["can_access_peer", "disable_peer_access", "enable_peer_access"]


def can_access_peer(device: Device, peer: Device) -> bool:
    """Return whether kernels of `device` may be given access to memory of `peer`."""
    answer = c_int()
    device.driver.cuDeviceCanAccessPeer(byref(answer), device.handle, peer.handle)
    return answer.value != 0


def enable_peer_access(context: Context, peer: Context) -> None:
    """Let kernels and copies of `context` reach the memory of `peer`; idempotent.

    Raises:
        DriverError: the devices cannot reach each other.
    """
    try:
        with context.current():
            context.driver.cuCtxEnablePeerAccess(peer.primary.handle, 0)
    except DriverError as error:
        if error.code != PEER_ACCESS_ALREADY_ENABLED:
            raise


def disable_peer_access(context: Context, peer: Context) -> None:
    """Take that access back.

    Raises:
        DriverError: it was not enabled.
    """
    with context.current():
        context.driver.cuCtxDisablePeerAccess(peer.primary.handle)
