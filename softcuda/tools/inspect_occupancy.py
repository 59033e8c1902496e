"""How many blocks of a kernel a multiprocessor holds, by published limits; needs no device."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from softcuda.nvrtc.unit import Resources, as_arch

__all__ = ["LIMITS", "Limits", "Occupancy", "occupancy"]

WARP: Final = 32
REGISTERS: Final = 65536  # of a multiprocessor, and the most that a block may take
PARTITIONS: Final = 4  # of a multiprocessor; a warp's registers lie in one of them
REGISTER_UNIT: Final = 256  # registers are given to a warp in multiples of it
BLOCK_THREADS: Final = 1024


class Limits(NamedTuple):
    """What a multiprocessor of one architecture holds.

    Attributes:
        warps: resident at once.
        blocks: resident at once.
        shared_kib: shared memory of all blocks [KiB].
        reserved_bytes: shared memory that the system takes of every block [bytes].
        barriers: named barriers of all blocks; 0 where they never are what runs out.
    """

    warps: int
    blocks: int
    shared_kib: int
    reserved_bytes: int
    barriers: int

    @property
    def shared_unit(self) -> int:
        """Shared memory is given to a block in multiples of this [bytes]."""
        return 128 if self.reserved_bytes else 256

    @property
    def block_shared_bytes(self) -> int:
        """The most shared memory that a block may ask for [bytes]."""
        return self.shared_kib * 1024 - self.reserved_bytes


# Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; barriers
# and units: cuda_occupancy.h of the CUDA runtime.
LIMITS: Final[Mapping[int, Limits]] = MappingProxyType(
    {
        75: Limits(32, 16, 64, 0, 0),
        80: Limits(64, 32, 164, 1024, 0),
        86: Limits(48, 16, 100, 1024, 0),
        87: Limits(48, 16, 164, 1024, 0),
        89: Limits(48, 24, 100, 1024, 0),
        90: Limits(64, 32, 228, 1024, 64),
        100: Limits(64, 32, 228, 1024, 64),
        103: Limits(64, 32, 228, 1024, 32),
        110: Limits(48, 24, 228, 1024, 24),
        120: Limits(48, 24, 100, 1024, 24),
        121: Limits(48, 24, 100, 1024, 24),
    }
)


class Occupancy(NamedTuple):
    """What a multiprocessor holds of one kernel.

    Attributes:
        blocks: active at once; 0 where a block does not fit.
        warps: active at once.
        share: of the warps that the multiprocessor could hold, 0 to 1.
        limited_by: "warps", "blocks", "registers", "shared memory" or "barriers": what admits no
            further block; the first of them where several do.
    """

    blocks: int
    warps: int
    share: float
    limited_by: str


def occupancy(
    arch: str, resources: Resources, threads: int, dynamic_shared_bytes: int = 0
) -> Occupancy | None:
    """Return how many blocks of a kernel are active on a multiprocessor at once.

    All of the memory that L1 and shared memory have in common is taken to be shared memory.

    Args:
        arch: the architecture, such as "sm_90a".
        resources: what the kernel takes.
        threads: of a block.
        dynamic_shared_bytes: of a block, beside its static shared memory [bytes].

    Returns:
        None where the limits of the architecture are not known.

    Raises:
        CompileError: `arch` is no architecture.

    Source: the rules of cuda_occupancy.h of the CUDA runtime.

    Example:
        >>> occupancy("sm_90a", Resources(32, 0, 0, 0, 0, 1), 256)
        Occupancy(blocks=8, warps=64, share=1.0, limited_by='warps')
    """
    limits = LIMITS.get(as_arch(arch).number)
    if limits is None:
        return None
    block_warps = max(-(-threads // WARP), 1)
    shared = resources.shared_bytes + dynamic_shared_bytes
    room = {
        "warps": limits.warps // block_warps if threads <= BLOCK_THREADS else 0,
        "blocks": limits.blocks,
        "registers": _by_registers(resources.registers, block_warps),
        "shared memory": _by_shared(limits, shared),
    }
    if limits.barriers and resources.barriers:
        room["barriers"] = limits.barriers // resources.barriers
    limited_by = min(room, key=lambda name: room[name])
    blocks = room[limited_by]
    warps = blocks * block_warps
    return Occupancy(blocks, warps, warps / limits.warps, limited_by)


def _by_registers(registers: int, block_warps: int) -> int:
    """Return how many blocks the registers hold.

    A block is let in by a check that rounds its warps up to the number of partitions.
    """
    per_warp = _rounded_up(max(registers, 1) * WARP, REGISTER_UNIT)
    if per_warp * _rounded_up(block_warps, PARTITIONS) > REGISTERS:
        return 0
    return (REGISTERS // PARTITIONS // per_warp) * PARTITIONS // block_warps


def _by_shared(limits: Limits, shared_bytes: int) -> int:
    """Return how many blocks the shared memory holds."""
    if shared_bytes > limits.block_shared_bytes:
        return 0
    taken = _rounded_up(shared_bytes + limits.reserved_bytes, limits.shared_unit)
    return limits.shared_kib * 1024 // taken if taken else limits.blocks


def _rounded_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
