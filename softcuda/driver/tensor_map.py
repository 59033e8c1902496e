"""Tensor maps: descriptors of tiles that the tensor memory accelerator moves.

Source: CUDA Driver API, "Tensor Map Object Management", cuTensorMapEncodeTiled; every rule that
it lists is checked here and told in words.
"""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import addressof, byref, c_ubyte, c_uint, c_uint64, sizeof
from dataclasses import dataclass
from typing import Final

from softcuda.driver.context import Context
from softcuda.driver.enums import (
    CUdevice_attribute,
    CUtensorMapDataType,
    CUtensorMapFloatOOBfill,
    CUtensorMapInterleave,
    CUtensorMapL2promotion,
    CUtensorMapSwizzle,
)
from softcuda.driver.types import CUtensorMap
from softcuda.errors import ArgumentError, BackendError

__all__ = ["ITEMSIZES", "TiledMap", "encode_tiled", "tiled_map_refusal"]

ITEMSIZES: Final[dict[CUtensorMapDataType, int]] = {
    CUtensorMapDataType.UINT8: 1,
    CUtensorMapDataType.UINT16: 2,
    CUtensorMapDataType.UINT32: 4,
    CUtensorMapDataType.INT32: 4,
    CUtensorMapDataType.UINT64: 8,
    CUtensorMapDataType.INT64: 8,
    CUtensorMapDataType.FLOAT16: 2,
    CUtensorMapDataType.FLOAT32: 4,
    CUtensorMapDataType.FLOAT64: 8,
    CUtensorMapDataType.BFLOAT16: 2,
    CUtensorMapDataType.FLOAT32_FTZ: 4,
    CUtensorMapDataType.TFLOAT32: 4,
    CUtensorMapDataType.TFLOAT32_FTZ: 4,
}

_FLOATS: Final = frozenset(t for t in CUtensorMapDataType if "FLOAT" in t.name)
_SWIZZLE_BYTES: Final = {
    CUtensorMapSwizzle.B32: 32,
    CUtensorMapSwizzle.B64: 64,
    CUtensorMapSwizzle.B128: 128,
}
MAX_RANK: Final = 5
_ALIGNMENT: Final = 64  # bytes, of the map itself


@dataclass(frozen=True, slots=True)
class TiledMap:
    """What a tensor map describes; dimension 0 is the one whose elements are neighbours.

    Attributes:
        dtype: type of the elements.
        ptr: device address of the tensor.
        dims: extents, innermost first.
        strides_bytes: strides of dimensions 1 and up [bytes], one fewer than `dims`.
        box: extents of the tile, innermost first.
        element_strides: steps between the elements taken; () for 1 everywhere.
        interleave: layout of interleaved channels.
        swizzle: permutation of 16-byte chunks in shared memory.
        l2_promotion: the least that a fetch brings into L2.
        oob_fill: what elements outside the tensor read as.
    """

    dtype: CUtensorMapDataType
    ptr: int
    dims: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...] = ()
    interleave: CUtensorMapInterleave = CUtensorMapInterleave.NONE
    swizzle: CUtensorMapSwizzle = CUtensorMapSwizzle.NONE
    l2_promotion: CUtensorMapL2promotion = CUtensorMapL2promotion.NONE
    oob_fill: CUtensorMapFloatOOBfill = CUtensorMapFloatOOBfill.NONE

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.dims)


def tiled_map_refusal(tile: TiledMap) -> str:
    """Return the first rule that a tiled map breaks, in words; "" when it breaks none."""
    return next(_broken_rules(tile), "")


def _broken_rules(tile: TiledMap) -> Iterator[str]:
    rank, steps = tile.rank, tile.element_strides or (1,) * tile.rank
    plain = tile.interleave == CUtensorMapInterleave.NONE
    wide = tile.interleave == CUtensorMapInterleave.B32
    least = 1 if plain else 3
    if not least <= rank <= MAX_RANK:
        yield f"rank {rank}; allowed is {least} to {MAX_RANK}" + ("" if plain else " interleaved")
    if len(tile.strides_bytes) != rank - 1:
        yield f"{len(tile.strides_bytes)} strides; rank {rank} takes {rank - 1}, none for axis 0"
    if len(tile.box) != rank or len(steps) != rank:
        yield f"box {tile.box} and element strides {steps} are not of rank {rank}"
    unit = 32 if wide else 16
    if tile.ptr % unit:
        yield f"address {tile.ptr:#x} is no multiple of {unit} bytes"
    for axis, extent in enumerate(tile.dims):
        if not 1 <= extent <= 1 << 32:
            yield f"extent {extent} of axis {axis}; allowed is 1 to 2**32"
    for axis, stride in enumerate(tile.strides_bytes, 1):
        if stride % unit or not 0 <= stride < 1 << 40:
            yield (
                f"stride {stride} of axis {axis} [bytes]; allowed are multiples of {unit} from 0 "
                "to below 2**40"
            )
    for axis, extent in enumerate(tile.box):
        if not 1 <= extent <= 256:
            yield f"box extent {extent} of axis {axis}; allowed is 1 to 256"
    for axis, step in enumerate(steps):
        if not 1 <= step <= 8:
            yield f"element stride {step} of axis {axis}; allowed is 1 to 8"
    yield from _broken_box_rules(tile)


def _broken_box_rules(tile: TiledMap) -> Iterator[str]:
    row = tile.box[0] * ITEMSIZES[tile.dtype]
    if tile.interleave == CUtensorMapInterleave.NONE:
        if row % 16:
            yield f"a box row of {row} bytes; allowed are multiples of 16"
        most = _SWIZZLE_BYTES.get(tile.swizzle)
        if most is not None and row > most:
            yield f"a box row of {row} bytes with swizzle {tile.swizzle.name}; allowed is {most}"
    elif tile.interleave == CUtensorMapInterleave.B32 and tile.swizzle != CUtensorMapSwizzle.B32:
        yield f"interleave B32 with swizzle {tile.swizzle.name}; allowed is B32"
    if tile.oob_fill != CUtensorMapFloatOOBfill.NONE and tile.dtype not in _FLOATS:
        yield f"a NaN fill of {tile.dtype.name} elements; allowed are floating types"


def encode_tiled(context: Context, tile: TiledMap) -> CUtensorMap:
    """Return the tensor map of a tile, to be passed to a kernel by value.

    Args:
        context: of a device of compute capability 9.0 or higher.
        tile: what the map describes; the memory is not touched.

    Returns:
        128 bytes, at a multiple of 64.

    Raises:
        ArgumentError: the description breaks a rule; says which, and what is allowed.
        BackendError: the device has no tensor maps.
        DriverError: the driver refuses it for another reason.
    """
    refusal = tiled_map_refusal(tile)
    if refusal:
        raise ArgumentError(f"no tensor map for {tile!r}: {refusal}")
    device = context.device
    if not device.attribute(CUdevice_attribute.TENSOR_MAP_ACCESS_SUPPORTED):
        raise BackendError(
            f"{device!r} has no tensor maps; they need compute capability 9.0 or higher"
        )
    storage = (c_ubyte * (sizeof(CUtensorMap) + _ALIGNMENT))()
    tensor_map = CUtensorMap.from_buffer(storage, -addressof(storage) % _ALIGNMENT)
    rank = tile.rank
    with context.current():
        context.driver.cuTensorMapEncodeTiled(
            byref(tensor_map),
            int(tile.dtype),
            rank,
            tile.ptr,
            (c_uint64 * rank)(*tile.dims),
            (c_uint64 * max(rank - 1, 1))(*tile.strides_bytes),
            (c_uint * rank)(*tile.box),
            (c_uint * rank)(*(tile.element_strides or (1,) * rank)),
            int(tile.interleave),
            int(tile.swizzle),
            int(tile.l2_promotion),
            int(tile.oob_fill),
        )
    return tensor_map
