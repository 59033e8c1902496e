"""What a graph is compiled for: a device type and, for CUDA, the facts kernels depend on."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from softcuda.errors import ArgumentError

__all__ = ["CPU", "Target", "arch_of", "named_arch"]


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

_ARCH: Final = re.compile(r"sm_(\d{2,3})[af]?")
_OLDEST: Final = 75
_OWN_VARIANT: Final = 9  # from this major number on an architecture has features of its own


def arch_of(major: int, minor: int) -> str:
    """Return the architecture that a compute capability is compiled for, features included.

    Example:
        >>> arch_of(8, 6), arch_of(9, 0)
        ('sm_86', 'sm_90a')
    """
    return f"sm_{major}{minor}{'a' if major >= _OWN_VARIANT else ''}"


def named_arch(name: str) -> str:
    """Return the name of an architecture once it is one: sm_75 or newer.

    Raises:
        ArgumentError: it is no architecture, or an older one.

    Example:
        >>> named_arch("sm_90a")
        'sm_90a'
    """
    match = _ARCH.fullmatch(name)
    if match is None or int(match[1]) < _OLDEST:
        raise ArgumentError(
            f"target {name!r} is no architecture that softcuda supports; allowed are names such as "
            f"sm_{_OLDEST}, sm_90a, sm_120, from sm_{_OLDEST} on"
        )
    return name
