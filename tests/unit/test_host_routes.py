"""Every route of a contraction, cut in every way, gives the contraction; copies move all."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from host_equations import operands, params_of
from host_harness import sample, strides_of

from softcuda.backends.host.contraction import Pair, pair_of, with_axes
from softcuda.backends.host.copies import copy_plan, move
from softcuda.backends.host.packed import PackedProduct
from softcuda.backends.host.prices import cheapest, price_ns
from softcuda.backends.host.routes import Asked, Route, routes_of
from softcuda.backends.host.tiling import TileLimits, Tiling, tilings_of
from softcuda.backends.steps import Operand
from softcuda.contraction.axes import contiguous_strides
from softcuda.dtype import bf16, bool_, dtype_of_array, f16, f32, f64
from tests.tolerance import assert_close

Array = np.ndarray[Any, Any]

ANYWHERE = (True, True, True)
TINY = TileLimits(m=16, n=16, k=4, tile=24, whole=24, apart=30)
WIDE = TileLimits(m=1 << 20, n=1 << 20, k=1 << 11, tile=1 << 20, whole=1 << 22, apart=1 << 19)

EQUATIONS = [
    ("mk,kn->mn", "m5 k7 n3"),
    ("bmk,bkn->mnb", "b3 m4 k5 n2"),
    ("adb,cd->cba", "a5 b4 c3 d6"),
    ("afbce,df->edcba", "a3 b2 c4 d2 e3 f5"),
    ("dca,cbd->ba", "a3 b4 c5 d6"),
    ("fbea,cedf->dcba", "a2 b3 c2 d3 e4 f3"),
    ("bgfd,caeg->fedcba", "a3 b2 c2 d2 e3 f2 g4"),
    ("hamk,hkbn->bhnma", "a2 b3 h2 m3 k4 n2"),
]


def pair_for(subscripts: str, inputs: list[Array], out: Array) -> Pair:
    a, b, result = (
        Operand(number, 0, x.shape, strides_of(x), dtype_of_array(x.dtype))
        for number, x in enumerate((*inputs, out))
    )
    return pair_of(a, b, result, params_of(subscripts)).summed().fused()


def dense(dims: tuple[int, ...]) -> Operand:
    return Operand(0, 0, dims, contiguous_strides(dims), f32)


def carried_out(route: Route, tiling: Tiling, inputs: list[Array], out: Array) -> None:
    product = PackedProduct(route, tiling, np.matmul, f64, TINY.apart)
    whole = zip((*inputs, out), route.operands, strict=True)
    scratch = np.full(sum(tiling.whole), np.nan)
    product(*(with_axes(array, axes) for array, axes in whole), scratch)


@pytest.mark.parametrize("kind", [0, 3, 4])
@pytest.mark.parametrize(("subscripts", "extents"), EQUATIONS)
def test_every_route_in_every_cut(subscripts: str, extents: str, kind: int) -> None:
    inputs = operands(subscripts, extents, f64, f64, kind)
    expected = np.einsum(subscripts, *inputs)
    out = np.empty(expected.shape)
    pair = pair_for(subscripts, inputs, out)
    seen = set()
    for route in routes_of(pair, Asked(ANYWHERE, False, WIDE.tile, WIDE.whole)):
        for tiling in (*tilings_of(route, TINY), *tilings_of(route, WIDE)):
            out.fill(np.nan)
            carried_out(route, tiling, inputs, out)
            depth = pair.count(pair.classes.k)
            assert_close(out, expected, f64, "matmul", k_extent=depth, scale=np.abs(expected) + 99)
            seen.add(route.packed)
    assert (True, True, True) in seen
    assert kind or len(seen) > 1


@pytest.mark.parametrize(("subscripts", "extents"), EQUATIONS)
def test_what_is_packed_has_room(subscripts: str, extents: str) -> None:
    large = {word[0]: 5 * int(word[1:]) + 2 for word in extents.split()}
    labels = subscripts.replace("->", ",").split(",")
    a, b, out = (dense(tuple(large[x] for x in word)) for word in labels)
    pair = pair_of(a, b, out, params_of(subscripts)).fused()
    limits = TileLimits(m=1 << 20, n=1 << 20, k=64, tile=1 << 11, whole=1 << 20, apart=1 << 10)
    for route in routes_of(pair, Asked(ANYWHERE, False, limits.tile, limits.whole)):
        for tiling in tilings_of(route, limits):
            sizes = zip(tiling.sizes, route.operands, route.packed, tiling.tiled, strict=False)
            for size, axes, is_packed, is_tiled in sizes:
                box = math.prod(tiling.chunks[x] for x in axes.labels)
                assert size >= is_packed * (box if is_tiled else axes.numel)
            thin = [
                math.prod(tiling.chunks[x] for x in run) for run in (route.m.axis, route.n.axis)
            ]
            for pad, extent in zip(tiling.pads, thin, strict=True):
                assert not pad or (extent + pad) % 4 == 0


@pytest.mark.parametrize(("subscripts", "extents"), EQUATIONS)
def test_tiles_and_scratch_fit_the_limits(subscripts: str, extents: str) -> None:
    large = " ".join(f"{word[0]}{10 * int(word[1:])}" for word in extents.split())
    sizes = {word[0]: int(word[1:]) for word in large.split()}
    labels = subscripts.replace("->", ",").split(",")
    a, b, out = (dense(tuple(sizes[x] for x in word)) for word in labels)
    pair = pair_of(a, b, out, params_of(subscripts)).fused()
    limits = TileLimits(m=1 << 20, n=1 << 20, k=64, tile=1 << 10, whole=1 << 12)
    for route in routes_of(pair, Asked(ANYWHERE, False, limits.tile, limits.whole)):
        for tiling in tilings_of(route, limits):
            assert max(tiling.sizes) <= max(4 * limits.tile, limits.whole)
            assert all(1 <= tiling.chunks[x] <= extent for x, extent in pair.extents.items())


def test_a_plain_product_is_not_searched_for() -> None:
    inputs = operands("mk,kn->mn", "m300 k300 n300", f32, f32, 0)
    pair = pair_for("mk,kn->mn", inputs, np.empty((300, 300), np.float32))
    choice = cheapest(pair, Asked(ANYWHERE, False, WIDE.tile, WIDE.whole), WIDE)
    assert not any(choice.route.packed)
    assert not choice.tiling.is_shared


def test_the_cheapest_has_the_least_price() -> None:
    inputs = operands("adb,cd->cba", "a90 b90 c20 d90", f32, f32, 0)
    pair = pair_for("adb,cd->cba", inputs, np.empty((20, 90, 90), np.float32))
    asked = Asked(ANYWHERE, False, WIDE.tile, WIDE.whole)
    least = min(
        price_ns(route, tiling)
        for route in routes_of(pair, asked)
        for tiling in tilings_of(route, WIDE)
    )
    assert cheapest(pair, asked, WIDE).price_ns == least


@pytest.mark.parametrize("dtype", [bool_, f16, bf16, f32, f64], ids=str)
def test_copies_move_every_element(dtype: Any) -> None:
    base = sample(dtype, (9, 21, 8, 34))
    for order in itertools.permutations(range(4)):
        source = base.transpose(order)
        for places in ((0, 1, 2, 3), (3, 1, 0, 2)):
            dims = tuple(source.shape[axis] for axis in places)
            out = np.empty(dims, dtype.numpy).transpose(np.argsort(places))
            move(source, out)
            assert out.tobytes() == source.tobytes()


def test_copies_of_reversed_and_stretched_arrays() -> None:
    base = sample(f32, (64, 40, 30))
    for source in (
        base[::-1, :, ::-1],
        base[::2],
        np.broadcast_to(base[:, :1], (64, 700, 30)),
    ):
        for order in itertools.permutations(range(3)):
            out = np.empty(source.transpose(order).shape, np.float32)
            move(source.transpose(order), out)
            assert out.tobytes() == source.transpose(order).tobytes()


def test_copies_convert() -> None:
    source = sample(f32, (300, 400)).T
    out = np.empty(source.shape, np.float16)
    move(source, out)
    assert out.tobytes() == source.astype(np.float16).tobytes()


def test_pieces_of_a_copy_tile_it() -> None:
    plan = copy_plan(
        (36, 18, 24, 24, 36), (1, 36, 648, 15552, 373248), (373248, 20736, 864, 36, 1), 1
    )
    marked = np.zeros(plan.dims, np.uint8)
    for box in plan.boxes:
        marked[box] += 1
    assert len(plan.boxes) > 1
    assert (marked == 1).all()
