"""Sessions over the fake driver, and arrays of another library in its memory."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from dlpack_capsules import LENT, Producer
from fake_driver import FakeDriver, checked

import softcuda as sc
from softcuda import evaluating
from softcuda.driver import library
from softcuda.driver.context import Context
from softcuda.driver.device import Device, available
from softcuda.driver.memory import DeviceMemory
from softcuda.executor import devices

CUDA = (2, 0)


def fake_sessions(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    """Yield a fake driver that every session of the test runs on."""
    evaluating.clear_cache()
    for made in checked():
        driver = made.driver()
        monkeypatch.setattr(library, "DRIVER", driver)
        monkeypatch.setattr(devices, "Device", partial(Device, driver=driver))
        monkeypatch.setattr(devices, "available", partial(available, driver))
        sessions = devices._Sessions()
        monkeypatch.setattr(devices, "_SESSIONS", sessions)
        yield made
        evaluating.clear_cache()
        sessions._by_ordinal.clear()
        gc.collect()  # what still holds a capsule calls its producer's deleter
        LENT.clear()
        del sessions, driver


class Theirs:
    """An array of another library in device memory, with both protocols."""

    def __init__(self, fake: FakeDriver, array: Any, **options: Any) -> None:
        self.context = Context(Device(0, fake.driver()))
        self.memory = DeviceMemory(self.context, max(array.nbytes, 1))
        ctypes.memmove(self.memory.ptr, array.ctypes.data, array.nbytes)
        self.array = array
        self.producer = Producer(array, device=CUDA, ptr=self.memory.ptr, **options)
        self.producer.holder = self
        self.__dlpack__ = self.producer.__dlpack__
        self.__dlpack_device__ = self.producer.__dlpack_device__

    def write(self, array: Any) -> None:
        ctypes.memmove(self.memory.ptr, array.ctypes.data, array.nbytes)


class Described:
    """An object with the CUDA array interface alone."""

    def __init__(self, theirs: Theirs, **fields: Any) -> None:
        self.theirs = theirs
        self.__cuda_array_interface__ = {
            "shape": theirs.array.shape,
            "typestr": theirs.array.dtype.str,
            "data": (theirs.memory.ptr, False),
            "version": 3,
            **fields,
        }


def on_device(values: Any, **options: Any) -> Any:
    """Return a tensor whose data the fake device holds."""
    return sc.from_dlpack(np.asarray(values), device="cuda", **options)
