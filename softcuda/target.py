"""What a graph is compiled for: a device type and, for CUDA, the facts kernels depend on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["CPU", "Target", "arch_of"]


@dataclass(frozen=True, slots=True)
class Target:
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

_OWN_VARIANT: Final = 9  # from this major number on an architecture has features of its own


def arch_of(major: int, minor: int) -> str:
    """Return the architecture that a compute capability is compiled for, features included.

    Example:
        >>> arch_of(8, 6), arch_of(9, 0)
        ('sm_86', 'sm_90a')
    """
    return f"sm_{major}{minor}{'a' if major >= _OWN_VARIANT else ''}"
