"""What a graph is compiled for: a device type and, for CUDA, the facts kernels depend on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from softcuda.errors import ArgumentError, CompileError
from softcuda.nvrtc.unit import FIRST_OF_SUFFIX, as_arch

__all__ = ["ARCHITECTURES", "CPU", "Target", "arch_of", "named_arch"]


class Target(NamedTuple):
    """The machine that an executable is made for.

    Attributes:
        type: "cpu" or "cuda".
        arch: the architecture kernels are compiled for, such as "sm_90a"; "" for a CPU.
        multiprocessors: their number; 0 for a CPU.
        shared_memory_kib: shared memory a block may ask for [KiB].
        l2_mib: size of the L2 cache [MiB].
    """

    type: str
    arch: str = ""
    multiprocessors: int = 0
    shared_memory_kib: int = 0
    l2_mib: int = 0

    def __str__(self) -> str:
        return self.arch or self.type


CPU: Final = Target("cpu")

# Source: CUDA C++ Programming Guide, "Compute Capabilities", and what NVRTC 12.4 to 13.5 compile
# for.
ARCHITECTURES: Final = (75, 80, 86, 87, 88, 89, 90, 100, 101, 103, 107, 110, 120, 121)

_OWN_VARIANT: Final = 9  # from this major number on an architecture has features of its own


def arch_of(major: int, minor: int) -> str:
    """Return the architecture that a compute capability is compiled for, features included.

    Example:
        >>> arch_of(8, 6), arch_of(9, 0)
        ('sm_86', 'sm_90a')
    """
    return f"sm_{major}{minor}{'a' if major >= _OWN_VARIANT else ''}"


def named_arch(name: str, compiled: Callable[[], Sequence[int]] = tuple) -> str:
    """Return the name of an architecture once it is one: sm_75 or newer.

    Args:
        name: such as "sm_90a".
        compiled: gives the numbers that a compiler knows, 90 for sm_90; called for a name that is
            none of ARCHITECTURES.

    Raises:
        ArgumentError: it is no architecture, or an older one, or has a suffix that it lacks.

    Example:
        >>> named_arch("sm_90a")
        'sm_90a'
    """
    try:
        number = as_arch(name).number
    except CompileError as error:
        raise _no_arch(name, str(error).partition(";")[0]) from error
    if number not in ARCHITECTURES and number not in compiled():
        raise _no_arch(name, "there is none of this number")
    return name


def _no_arch(name: str, why: str) -> ArgumentError:
    known = ", ".join(f"sm_{number}" for number in ARCHITECTURES)
    suffixes = " and ".join(f"{s} from sm_{first} on" for s, first in FIRST_OF_SUFFIX.items())
    return ArgumentError(
        f"{name!r} is no architecture that softcuda compiles for ({why}); allowed are {known}, and "
        f"those that NVRTC adds; with the suffix {suffixes}"
    )
