"""Launches over index spaces of any rank: the structs of walk.cuh, grids, elements as bits."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from softcuda.backends.host.movement import scalar_of
from softcuda.backends.launches import Argument, i64, packed
from softcuda.dtype import DTYPES, DType
from softcuda.graph.params import Dims
from softcuda.kernelspec import KernelSpec, fast_divisor
from softcuda.target import Target

__all__ = [
    "DTYPE_CODES",
    "INDICES",
    "LARGE",
    "SIZED",
    "WALK_THREADS",
    "blocks_for",
    "each_block",
    "element_of",
    "index_name",
    "large_rows",
    "pack_divisor",
    "pack_extents",
    "pack_numbers",
    "pack_walk",
    "size_name",
    "sized_dtypes",
    "sized_rows",
    "sized_spec",
]

WALK_THREADS: Final = 256
LARGE: Final = "u128"
SIZED: Final = ("u8", "u16", "u32", "u64", LARGE)  # element types of kernels that only move bits
INDICES: Final = ("i32", "i64")
MAX_RANK: Final = 64

# As convert_from of converting.cuh numbers them, and naive_reduce.cu the complex ones.
DTYPE_CODES: Final = {dtype: code for code, dtype in enumerate(DTYPES.values())}

_BLOCKS_EACH: Final = 32  # blocks a multiprocessor of a grid-stride loop
_MULTIPROCESSORS: Final = 128  # where the target does not say
_BITS: Final = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_CARRIED_BYTES: Final = 8
_OF_SIZE: Final = {
    "u8": ("bool",),
    "u16": ("f16", "bf16"),
    "u32": ("i32", "f32"),
    "u64": ("i64", "f64", "complex64"),
    "u128": ("complex128",),
}


def size_name(dtype: DType) -> str:
    """Return the element type by which kernels move a dtype, such as "u16" for bf16."""
    return f"u{8 * dtype.itemsize}"


def sized_dtypes(size: str) -> tuple[str, ...]:
    """Return the tokens of the dtypes that an element type such as "u16" moves."""
    return _OF_SIZE[size]


def index_name(is_wide: bool) -> str:
    """Return the INDEX of a kernel: "i64" where an offset passes 2^31."""
    return INDICES[is_wide]


def element_of(value: bool | int | float | complex, dtype: DType) -> Argument:
    """Return a number that is rounded once to a dtype as a `carried_t` of walk.cuh: its bits."""
    scalar = scalar_of(value, dtype.numpy)
    if dtype.itemsize > _CARRIED_BYTES:
        return packed(scalar.tobytes())
    bits = int(scalar.view(_BITS[dtype.itemsize])[()])
    return i64(bits - (1 << 64) if bits >= 1 << 63 else bits)


def each_block(is_wide: bool) -> int:
    """Return the outputs that a block makes in one step: UNROLL of walk.cuh for each thread."""
    return WALK_THREADS if is_wide else 4 * WALK_THREADS


def blocks_for(work: int, each: int, target: Target) -> int:
    """Return how many blocks a grid-stride loop over `work` pieces gets.

    Args:
        work: pieces, at least 1.
        each: pieces that a block takes in one step.
        target: its multiprocessors bound the number.
    """
    most = (target.multiprocessors or _MULTIPROCESSORS) * _BLOCKS_EACH
    return max(min(-(-work // each), most), 1)


def pack_divisor(extent: int, is_wide: bool) -> bytes:
    """Return the bytes of one `divisor_t<INDEX>`."""
    return struct.pack("<q", extent) if is_wide else struct.pack("<3I", *fast_divisor(extent))


def pack_numbers(numbers: Sequence[int], length: int, is_wide: bool) -> bytes:
    """Return the bytes of `INDEX[length]`, zeros behind the numbers."""
    filled = (*numbers, *([0] * (length - len(numbers))))
    return struct.pack(f"<{length}{'q' if is_wide else 'i'}", *filled)


def pack_extents(dims: Dims, is_wide: bool) -> bytes:
    """Return the bytes of `divisor_t<INDEX>[MAX_RANK]`, innermost first."""
    added = pack_divisor(1, is_wide) * (MAX_RANK - len(dims))
    return b"".join(pack_divisor(extent, is_wide) for extent in reversed(dims)) + added


def pack_walk(dims: Dims, strides: Sequence[Dims], is_wide: bool) -> bytes:
    """Return the bytes of `Walk<INDEX, COUNT>` of walk.cuh.

    Args:
        dims: extents, outermost axis first, none of them 0.
        strides: one set for each of COUNT operands [elements].
        is_wide: INDEX is i64.
    """
    parts = [pack_extents(dims, is_wide)]
    parts += [pack_numbers(tuple(reversed(s)), MAX_RANK, is_wide) for s in strides]
    parts.append(struct.pack("<q" if is_wide else "<i", len(dims)))
    return b"".join(parts)


def sized_spec(family: str, file: str, dtype: DType, is_wide: bool) -> KernelSpec:
    """Return the row of a kernel over the element type of a dtype and an INDEX."""
    return _sized(family, file, size_name(dtype), index_name(is_wide))


def sized_rows(family: str, file: str) -> tuple[KernelSpec, ...]:
    """Return the rows of a kernel over an element type of at most 8 bytes and an INDEX."""
    return tuple(
        _sized(family, file, size, index) for size in SIZED if size != LARGE for index in INDICES
    )


def large_rows(family: str, file: str) -> tuple[KernelSpec, ...]:
    """Return the rows over elements of 16 bytes, which are compiled when a graph meets them."""
    return tuple(_sized(family, file, LARGE, index) for index in INDICES)


@lru_cache(maxsize=256)
def _sized(family: str, file: str, size: str, index: str) -> KernelSpec:
    expression = f"{family}<{size}, {index}>"
    variant, dtypes = f"{size}_{index}", sized_dtypes(size)
    return KernelSpec(family, variant, file, expression, dtypes, WALK_THREADS)
