"""libcuda in Python: the functions of the prototype table, on host memory.

Calls go through real ctypes functions, so that argument types are tried too. The fake records
every call, injects any result at the n-th call of a function, checks that a context is current
wherever the driver wants one, and counts the handles that live. Kernels are Python functions;
streams do their work at once.
"""

from __future__ import annotations

import gc
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from ctypes import CFUNCTYPE, c_char_p, c_int, c_void_p, memmove
from functools import partial
from typing import Any, NamedTuple

from fake_driver_memory import FakeMemory

from softcuda.driver.api import PROTOTYPES
from softcuda.driver.enums import CUdevice_attribute
from softcuda.driver.library import Driver

INVALID_VALUE, INVALID_DEVICE, INVALID_CONTEXT = 1, 101, 201

# Functions that need no current context.
CONTEXT_FREE = frozenset(
    (
        "cuInit",
        "cuDriverGetVersion",
        "cuCtxGetCurrent",
        "cuCtxPushCurrent_v2",
        "cuCtxPopCurrent_v2",
        "cuPointerGetAttribute",
        "cuGraphExecKernelNodeSetParams_v2",
        "cuGraphExecMemcpyNodeSetParams",
        "cuGraphExecMemsetNodeSetParams",
    )
)

ATTRIBUTES = {
    CUdevice_attribute.MULTIPROCESSOR_COUNT: 132,
    CUdevice_attribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: 232448,
    CUdevice_attribute.L2_CACHE_SIZE: 62914560,
    CUdevice_attribute.TENSOR_MAP_ACCESS_SUPPORTED: 1,
}


class Call(NamedTuple):
    """One recorded call."""

    name: str
    arguments: tuple[Any, ...]


class _Thread(threading.local):
    def __init__(self) -> None:
        self.stack: list[int] = []


class FakeDriver(FakeMemory):
    """A driver with `devices` devices of compute capability 9.0."""

    def __init__(self, devices: int = 1, version: int = 13000, init: int = 0) -> None:
        super().__init__()
        self.device_total = devices
        self.version = version
        self.init = init
        self.calls: list[Call] = []
        self.live: dict[int, str] = {}
        self.retained: Counter[int] = Counter()
        self.broken: list[BaseException] = []
        self.missing: set[str] = set()
        self.fault = 0  # once set, what every call in a context returns
        self.attributes = dict(ATTRIBUTES)
        self._failures: list[tuple[str, int, int]] = []
        self._counts: Counter[str] = Counter()
        self._thread = _Thread()
        self._next = 0x1000
        self._functions: list[Any] = []

    # The library

    def __getitem__(self, name: str) -> Any:
        if name in self.missing:
            raise AttributeError(f"undefined symbol: {name}")
        # What the table calls text is written to as well, so the fake takes its address.
        types = [c_void_p if t is c_char_p else t for t in PROTOTYPES[name]]
        if name == "cuModuleGetFunction":
            types = list(PROTOTYPES[name])
        function = CFUNCTYPE(c_int, *types)(partial(self._call, name))
        self._functions.append(function)
        return function

    def driver(self) -> Driver:
        """Return a driver over this fake."""
        return Driver(lambda: self)

    def fail(self, name: str, code: int, nth: int = 1) -> None:
        """Make the n-th call of a function, counted from now, return a result."""
        self._failures.append((name, self._counts[name] + nth, code))

    def forget_failures(self) -> None:
        """Let every call succeed from now on."""
        self._failures.clear()

    def _call(self, name: str, *arguments: Any) -> int:
        self.calls.append(Call(name, arguments))
        self._counts[name] += 1
        for failing, number, code in self._failures:
            if failing == name and number == self._counts[name]:
                return code
        if name not in CONTEXT_FREE and not name.startswith("cuDevice"):
            if self.current not in self.contexts():
                return INVALID_CONTEXT
            if self.fault:
                return self.fault
        try:
            handler: Callable[..., int | None] = getattr(self, name)
            return handler(*arguments) or 0
        except BaseException as error:  # ctypes would only print it
            self.broken.append(error)
            return INVALID_VALUE

    # Handles

    def make(self, kind: str) -> int:
        """Return a new live handle."""
        self._next += 0x10
        self.live[self._next] = kind
        return self._next

    def drop(self, handle: int | None, kind: str) -> int:
        """Forget a handle; an unknown one or one of another kind is an invalid value."""
        if handle is None or self.live.get(handle) != kind:
            return INVALID_VALUE
        del self.live[handle]
        return 0

    def names(self) -> list[str]:
        """Return the names of the calls so far, without the questions for the current context."""
        return [call.name for call in self.calls if call.name != "cuCtxGetCurrent"]

    def check(self) -> None:
        """Fail if a handle is left, a context is retained or current, or a handler broke."""
        assert not self.broken, self.broken
        assert not self.live, f"handles left: {self.live}"
        assert not +self.retained, f"contexts retained: {self.retained}"
        assert not self._thread.stack, "a context was left current"

    # Initialization and devices

    def cuInit(self, flags: int) -> int:
        return self.init

    def cuDriverGetVersion(self, out: Any) -> None:
        out[0] = self.version

    def cuDeviceGetCount(self, out: Any) -> None:
        out[0] = self.device_total

    def cuDeviceGet(self, out: Any, ordinal: int) -> int:
        out[0] = ordinal
        return 0 if ordinal < self.device_total else INVALID_DEVICE

    def cuDeviceGetName(self, out: int, length: int, device: int) -> None:
        memmove(out, b"Fake H200\0", 10)

    def cuDeviceGetUuid_v2(self, out: Any, device: int) -> None:
        out.contents.bytes = bytes(range(1, 17))

    def cuDeviceTotalMem_v2(self, out: Any, device: int) -> None:
        out[0] = self.memory_bytes

    def cuDeviceGetAttribute(self, out: Any, attribute: int, device: int) -> None:
        capability = {
            CUdevice_attribute.COMPUTE_CAPABILITY_MAJOR: 9,
            CUdevice_attribute.COMPUTE_CAPABILITY_MINOR: 0,
        }
        known = CUdevice_attribute(attribute)
        out[0] = capability.get(known, self.attributes.get(known, 0))

    def cuDeviceCanAccessPeer(self, out: Any, device: int, peer: int) -> None:
        out[0] = int(device != peer)

    # Contexts

    def contexts(self) -> set[int]:
        """Return the primary contexts that exist."""
        return {self.context_of(device) for device in +self.retained}

    def context_of(self, device: int) -> int:
        """Return the handle of a device's primary context."""
        return 0xC0 + device

    @property
    def current(self) -> int:
        """The context current in this thread; 0 for none."""
        return self._thread.stack[-1] if self._thread.stack else 0

    def cuDevicePrimaryCtxRetain(self, out: Any, device: int) -> None:
        self.retained[device] += 1
        out[0] = self.context_of(device)

    def cuDevicePrimaryCtxRelease_v2(self, device: int) -> int:
        if self.retained[device] < 1:
            return INVALID_CONTEXT
        self.retained[device] -= 1
        if not self.retained[device]:
            assert not self.live, f"the context went before {self.live}"
        return 0

    def cuCtxGetCurrent(self, out: int) -> None:
        c_void_p.from_address(out).value = self.current or None

    def cuCtxPushCurrent_v2(self, context: int) -> None:
        self._thread.stack.append(context)

    def cuCtxPopCurrent_v2(self, out: Any) -> None:
        out[0] = self._thread.stack.pop()

    def cuCtxSynchronize(self) -> None:
        """Everything is done already."""

    def cuCtxGetStreamPriorityRange(self, least: Any, greatest: Any) -> None:
        least[0], greatest[0] = 0, -5

    def cuCtxEnablePeerAccess(self, peer: int, flags: int) -> int:
        if (self.current, peer) in self.peers:
            return 704
        self.peers.add((self.current, peer))
        return 0

    def cuCtxDisablePeerAccess(self, peer: int) -> int:
        if (self.current, peer) not in self.peers:
            return 705
        self.peers.remove((self.current, peer))
        return 0


def checked(devices: int = 1) -> Iterator[FakeDriver]:
    """Yield a fake; fail afterwards if anything is left of what was made of it."""
    fake = FakeDriver(devices)
    yield fake
    gc.collect()
    fake.check()
