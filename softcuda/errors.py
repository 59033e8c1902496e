"""The exceptions of softcuda: one base, each subclass also a builtin a user expects.

A message says, in this order: what failed, with what values, why, what is allowed, what to do.
"""

from __future__ import annotations

__all__ = [
    "ArgumentError",
    "ArgumentTypeError",
    "AxisError",
    "BackendError",
    "BackendRefused",
    "CacheMiss",
    "ClosedError",
    "CompileError",
    "ConfigError",
    "DTypeError",
    "DeviceLost",
    "DeviceOutOfMemory",
    "DriverError",
    "DriverNotFound",
    "ExchangeError",
    "ExpressionError",
    "FeedError",
    "ForkedProcessError",
    "IndexOutOfRange",
    "IntegerPowerError",
    "NoDeviceError",
    "NumberRangeError",
    "NvrtcNotFound",
    "PoolExhausted",
    "SavedFileError",
    "ShapeError",
    "SoftCudaError",
    "SoftCudaWarning",
]


class SoftCudaError(Exception):
    """Base of every error that softcuda raises."""


class ShapeError(SoftCudaError, ValueError):
    """Extents or ranks that do not fit together."""


class AxisError(SoftCudaError, ValueError, IndexError):
    """An axis that the tensor does not have, or that is named twice."""


class DTypeError(SoftCudaError, TypeError):
    """A dtype that an operation does not take."""


class ArgumentError(SoftCudaError, ValueError):
    """An argument of the right type with a value that is not allowed."""


class ArgumentTypeError(SoftCudaError, TypeError):
    """An argument of a type that is not allowed."""


class NumberRangeError(SoftCudaError, OverflowError):
    """A number that the dtype it must take cannot hold."""


class IndexOutOfRange(SoftCudaError, IndexError):
    """An index outside the extent of its axis."""


class ExpressionError(SoftCudaError, ValueError):
    """Labels of a named-axis operation that cannot be read; quotes them and marks the place."""


class IntegerPowerError(SoftCudaError, ValueError):
    """An integer raised to a negative integer power."""


class FeedError(SoftCudaError, ValueError):
    """A feed that is unknown, missing, or of the wrong shape or dtype."""


class ExchangeError(SoftCudaError, BufferError):
    """An array that cannot be shared with another library, in the way that was asked."""


class ConfigError(SoftCudaError, ValueError):
    """A profile that cannot be used; says which file and line.

    Attributes:
        path: the file, as the user named it.
        line: the line number, from 1; None when no single line is at fault.
    """

    def __init__(self, path: str, line: int | None, message: str) -> None:
        self.path = path
        self.line = line
        self.message = message
        place = path if line is None else f"{path}:{line}"
        super().__init__(f"{place}: {message}")

    def __reduce__(self) -> tuple[type[ConfigError], tuple[str, int | None, str]]:
        return type(self), (self.path, self.line, self.message)


class BackendError(SoftCudaError, RuntimeError):
    """A backend that is unknown, not usable here, or broke its contract."""


class BackendRefused(BackendError):
    """A node that the backend of its row refuses, under `strict=True`."""


class ClosedError(SoftCudaError, RuntimeError):
    """Use of an owner of memory or of a device object after its close()."""


class NoDeviceError(BackendError):
    """Work that needs a CUDA device on a machine without one."""


class DriverNotFound(NoDeviceError):
    """No CUDA driver that softcuda can use: absent, too old, or without a needed function."""


class DriverError(SoftCudaError, RuntimeError):
    """A call of the CUDA driver that did not succeed.

    Attributes:
        code: the CUresult of the call.
        name: its name, such as "CUDA_ERROR_INVALID_VALUE".
    """

    def __init__(self, message: str, code: int, name: str) -> None:
        self.code = code
        self.name = name
        super().__init__(message)

    def __reduce__(self) -> tuple[type[DriverError], tuple[str, int, str]]:
        return type(self), (str(self), self.code, self.name)


class DeviceOutOfMemory(DriverError, MemoryError):
    """A device that cannot serve a request; says what was asked and what was free."""


class DeviceLost(DriverError):
    """A device whose context a fault destroyed; names the first step that may have caused it."""


class ForkedProcessError(SoftCudaError, RuntimeError):
    """CUDA in a child forked after its start, NVRTC in one forked amid a compile; spawn works."""


class NvrtcNotFound(BackendError):
    """No NVRTC that softcuda can use: absent, or its headers are."""


class CompileError(SoftCudaError, RuntimeError):
    """A kernel that cannot be compiled; shows the source lines, options and the saved source."""


class CacheMiss(SoftCudaError, RuntimeError):
    """A kernel that is not in the compile cache while SOFTCUDA_JIT=off forbids compiling it."""


class PoolExhausted(SoftCudaError, MemoryError):
    """A pool that cannot serve a request; says what was asked and what was left."""


class SavedFileError(SoftCudaError, ValueError):
    """A saved executable that cannot be written, read, or run here; names the file and the part."""


class SoftCudaWarning(UserWarning):
    """Base category of the warnings that softcuda gives."""
