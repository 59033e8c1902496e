"""Tensor maps over the fake driver: every rule of cuTensorMapEncodeTiled."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fake_driver import FakeDriver, checked

from softcuda.driver.arguments import ArgBuffer
from softcuda.driver.context import Context
from softcuda.driver.device import Device
from softcuda.driver.enums import (
    CUdevice_attribute,
    CUtensorMapDataType,
    CUtensorMapFloatOOBfill,
    CUtensorMapInterleave,
    CUtensorMapSwizzle,
)
from softcuda.driver.tensor_map import TiledMap, encode_tiled, tiled_map_refusal
from softcuda.driver.types import CUtensorMap
from softcuda.errors import (
    ArgumentError,
    BackendError,
)

Array = np.ndarray[Any, Any]


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    yield from checked()


@pytest.fixture
def context(fake: FakeDriver) -> Iterator[Context]:
    with Context(Device(0, fake.driver())) as made:
        yield made


def at(array: Array) -> int:
    return array.ctypes.data


TILE = TiledMap(CUtensorMapDataType.BFLOAT16, 0x10000, (64, 100, 3), (128, 12800), (64, 8, 1))


def test_a_tensor_map(context: Context) -> None:
    tensor_map = encode_tiled(context, TILE)
    assert ctypes.addressof(tensor_map) % 64 == 0
    assert list(tensor_map.opaque[:2]) == [0x10000, 9 << 8 | 3]
    args = ArgBuffer([("a", CUtensorMap)])
    args.set("a", tensor_map)
    assert args["a"].opaque[0] == 0x10000


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"dims": (), "strides_bytes": (), "box": ()}, "rank 0"),
        ({"dims": (8,) * 6, "strides_bytes": (16,) * 5, "box": (8,) * 6}, "rank 6"),
        ({"strides_bytes": (128,)}, "1 strides; rank 3 takes 2"),
        ({"box": (64, 8)}, "not of rank 3"),
        ({"element_strides": (1,)}, "not of rank 3"),
        ({"ptr": 0x10008}, "multiple of 16"),
        ({"dims": (64, 0, 3)}, "extent 0 of axis 1"),
        ({"dims": (64, 2**32 + 1, 3)}, "2**32"),
        ({"strides_bytes": (120, 12800)}, "stride 120 of axis 1"),
        ({"strides_bytes": (128, 1 << 40)}, "below 2**40"),
        ({"strides_bytes": (128, -16)}, "stride -16 of axis 2"),
        ({"box": (64, 257, 1)}, "box extent 257"),
        ({"box": (64, 0, 1)}, "box extent 0"),
        ({"element_strides": (1, 9, 1)}, "element stride 9"),
        ({"box": (4, 8, 1)}, "row of 8 bytes; allowed are multiples of 16"),
        ({"swizzle": CUtensorMapSwizzle.B64}, "row of 128 bytes with swizzle B64; allowed is 64"),
        ({"interleave": CUtensorMapInterleave.B32}, "allowed is B32"),
        ({"interleave": CUtensorMapInterleave.B32, "ptr": 0x10010}, "multiple of 32"),
        ({"interleave": CUtensorMapInterleave.B32, "strides_bytes": (144, 12800)}, "of 32"),
        (
            {
                "dtype": CUtensorMapDataType.INT32,
                "box": (32, 8, 1),
                "oob_fill": CUtensorMapFloatOOBfill.NAN_REQUEST_ZERO_FMA,
            },
            "floating types",
        ),
    ],
)
def test_tensor_map_rules(context: Context, change: dict[str, Any], said: str) -> None:
    broken = replace(TILE, **change)
    assert said in tiled_map_refusal(broken)
    with pytest.raises(ArgumentError, match=re.escape(said)):
        encode_tiled(context, broken)


def test_tensor_maps_that_are_allowed(fake: FakeDriver, context: Context) -> None:
    wide = CUtensorMapInterleave.B32
    for change in (
        {"swizzle": CUtensorMapSwizzle.B128},
        {"element_strides": (1, 8, 1)},
        {"strides_bytes": (0, 12800)},
        {"oob_fill": CUtensorMapFloatOOBfill.NAN_REQUEST_ZERO_FMA},
        {"interleave": wide, "swizzle": CUtensorMapSwizzle.B32},
        {"dims": (64,), "strides_bytes": (), "box": (64,)},
    ):
        encode_tiled(context, replace(TILE, **change))  # type: ignore[arg-type]
    fake.attributes[CUdevice_attribute.TENSOR_MAP_ACCESS_SUPPORTED] = 0
    with (
        Context(Device(0, context.driver)) as older,
        pytest.raises(BackendError, match="compute capability"),
    ):
        encode_tiled(older, TILE)
