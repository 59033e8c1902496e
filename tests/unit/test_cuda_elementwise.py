"""Elementwise launches as data: fused axes, generated chains, layouts, parameters."""

from __future__ import annotations

import struct
from itertools import product
from typing import Any

import numpy as np
import pytest
from chain_cases import array_of, micro_of, operand_of, unit_of
from hypothesis import given
from hypothesis import strategies as st

from softcuda.backends import cuda_elementwise, cuda_naive
from softcuda.backends.cuda.axes import (
    RANKS,
    Axes,
    broadcast_strides,
    fuse_axes,
    needs_wide_index,
    pack_axes,
    padded_rank,
)
from softcuda.backends.cuda.elementwise import PARAMETER_BYTES
from softcuda.backends.cuda.emitter import emit, split
from softcuda.backends.cuda.layouts import ChainInput, Lies, strided_layouts
from softcuda.backends.launches import KernelLaunch, read
from softcuda.backends.steps import Step
from softcuda.dtype import REAL_DTYPES, bf16, f16, f32, f64, i32, i64
from softcuda.errors import BackendError, ShapeError
from softcuda.graph.params import Cast, Reduce
from softcuda.graph.shapes import contiguous_strides
from softcuda.target import Target

H200 = Target("cuda", "sm_90a", 132, 227, 60)
RNG = np.random.default_rng(0)


def offsets(dims: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    places = product(*(range(d) for d in dims))
    return [sum(i * s for i, s in zip(place, strides, strict=True)) for place in places]


@st.composite
def loops(draw: Any) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Draw extents and strides as views of dense arrays have them, broadcast axes among them."""
    dims = tuple(draw(st.lists(st.integers(1, 4), max_size=5)))
    sets = [contiguous_strides(dims)]
    for _ in range(draw(st.integers(0, 3))):
        array = np.empty(tuple(1 if draw(st.booleans()) else d for d in dims), np.int8)
        if draw(st.booleans()) and array.shape == dims:
            array = np.empty(dims[::-1], np.int8).T
        if draw(st.booleans()):
            array = array[tuple(slice(None, None, draw(st.sampled_from((1, -1)))) for _ in dims)]
        sets.append(broadcast_strides(array.shape, array.strides, dims))
    return dims, sets


@given(loops())
def test_fused_axes_walk_the_same_elements_in_the_same_order(loop: Any) -> None:
    dims, sets = loop
    axes = fuse_axes(dims, sets)
    assert 1 not in axes.dims
    for before, after in zip(sets, axes.strides, strict=True):
        assert offsets(dims, before) == offsets(axes.dims, after)
    again = fuse_axes(axes.dims, axes.strides)
    assert again == axes, "no two axes are left to fuse"


@given(loops(), st.booleans())
def test_packed_axes_give_the_offsets(loop: Any, wide: bool) -> None:
    """By the device's arithmetic: FastDivisor of common.cuh, Axes of strided.cuh."""
    axes = fuse_axes(*loop)
    rank = padded_rank(axes.rank)
    data = pack_axes(axes, rank, range(len(axes.strides)), wide)
    step, code = (1, "q") if wide else (3, "I")
    count = rank * step
    extents = struct.unpack_from(f"<{count}{code}", data)
    steps = struct.unpack_from(
        f"<{len(axes.strides) * rank}{'q' if wide else 'i'}",
        data,
        struct.calcsize(f"<{count}{code}"),
    )
    assert len(data) == struct.calcsize(f"<{count}{code}") + len(steps) * (8 if wide else 4)
    for operand, strides in enumerate(axes.strides):
        found = []
        for index in range(axes.numel):
            rest, offset = index, 0
            for axis in range(rank):
                extent, *magic = extents[axis * step : (axis + 1) * step]
                outer = rest // extent if wide else (((rest * magic[0]) >> 32) + rest) >> magic[1]
                coordinate = rest if axis == rank - 1 else rest - outer * extent
                offset += coordinate * steps[operand * rank + axis]
                rest = outer
            found.append(offset)
        assert found == offsets(axes.dims, strides)


def moved_by_vectors(axes: Axes, strides: tuple[int, ...], lies: Lies, width: int) -> list[int]:
    """Return where every element is read, as StridedLoop of elementwise.cu finds it."""
    places, found = offsets(axes.dims, strides), []
    for start in range(0, axes.numel, width):
        left = axes.dims[-1] - start % axes.dims[-1]
        for lane in range(min(width, axes.numel - start)):
            if lies in (Lies.ROW, Lies.DENSE):
                assert places[start] % width == 0
                found.append(places[start] + lane)
            elif lies in (Lies.LEVEL, Lies.SINGLE):
                found.append(places[start])
            elif lane < left:
                found.append(places[start] + lane * strides[-1])
            else:
                found.append(places[start + left] + (lane - left) * strides[-1])
    return found


@given(loops(), st.integers(2, 9))
def test_vectors_read_every_element_where_it_lies(loop: Any, inner: int) -> None:
    dims, (dense, *others) = loop
    given = [
        (*(s * inner for s in dense), 1),
        *((*(s * inner * k for s in strides), k % 3) for k, strides in enumerate(others)),
    ]
    axes = fuse_axes((*dims, inner), [*given, (*(s * inner for s in dense), 1)])
    inputs = [ChainInput(read(k), f32, s) for k, s in enumerate(given)]
    walked = strided_layouts(axes, inputs, 4)
    assert walked.wraps or axes.dims[-1] % walked.width == 0
    assert not walked.wraps or axes.dims[-1] >= walked.width
    for lies, strides in zip(walked.layouts, axes.strides, strict=False):
        assert not (walked.wraps and lies in (Lies.ROW, Lies.LEVEL))
        found = moved_by_vectors(axes, strides, lies, walked.width)
        assert found == offsets(axes.dims, strides)


def test_operands_that_do_not_broadcast_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"\[3\] does not broadcast to \[2, 4\]"):
        broadcast_strides((3,), (1,), (2, 4))


def test_offsets_beyond_31_bits_are_wide() -> None:
    assert not needs_wide_index(Axes((1 << 15, 1 << 15), ((1 << 16, 1),)))
    assert needs_wide_index(Axes((1 << 15, 2), ((-(1 << 17), 1),)))
    assert needs_wide_index(Axes((1 << 31,), ((0,),)))
    assert not needs_wide_index(Axes((2, 2), ((1, 1), (1 << 31, 1))), [0])
    assert [padded_rank(r) for r in RANKS] == list(RANKS)


# ---- the emitter ---------------------------------------------------------------------------------


def test_the_text_of_a_chain() -> None:
    operands = [operand_of(np.zeros(3, d)) for d in ("f4", "f2", "?")]
    mul = micro_of("mul", (0, 1), operands[:2])
    cast = micro_of("cast", (~0,), [mul], Cast(bf16))
    add = micro_of("add", (~1, 2), [cast, operands[2]])
    relu = micro_of("relu", (~2,), [add])
    text = emit([mul, cast, add, relu], [f32, f16, REAL_DTYPES["bool"]])
    body = text[text.index("apply(f32") :].partition("    }\n")[0]
    assert body.splitlines() == [
        "apply(f32 x0, f16 x1, bool x2, i64* status = nullptr) {",
        "        const f32 v0 = convert<f32>(x1);",
        "        const f32 v1 = Mul<f32>::apply(x0, v0);",
        "        const bf16 v2 = convert<bf16>(v1);",
        "        const f32 v3 = convert<f32>(v2);",
        "        const f32 v4 = convert<f32>(x2);",
        "        const bf16 v5 = convert<bf16>(Add<f32>::apply(v3, v4));",
        "        const f32 v6 = convert<f32>(v5);",
        "        const f32 v7 = Relu<f32>::apply(v6);",
        "        const bf16 v8 = convert<bf16>(v7);",
        "        return v8;",
    ]
    assert "using Result = bf16;" in text and "COUNT = 3" in text and "REPORTS = false" in text
    assert (
        "apply(read(Slot<f32, 0>{}), read(Slot<f16, 1>{}), read(Slot<bool, 2>{}), status)" in text
    )


def launched(chain: Any, arrays: Any, backend: Any = cuda_elementwise) -> Step:
    (step,) = backend.prepare(unit_of(chain, arrays), H200)
    return step  # type: ignore[no-any-return]


def only(step: Step) -> KernelLaunch:
    (launch,) = step.launches
    return launch


def sum_of(arrays: Any) -> list[Any]:
    typed = [operand_of(array) for array in arrays]
    chain = [micro_of("add", (0, 1), typed[:2])]
    for k in range(2, len(arrays)):
        chain.append(micro_of("add", (~(k - 2), k), [chain[-1], typed[k]]))
    return chain


def test_extents_strides_and_numbers_are_not_compiled_in() -> None:
    specs = set()
    for dims in ((7,), (40, 1000), (3, 5, 7)):
        arrays = [array_of(RNG, dims, f32), array_of(RNG, dims, f32)]
        specs.add(only(launched(sum_of(arrays), arrays)).spec)
    assert len(specs) == 1
    for dims in ((24, 32), (1000, 64)):
        arrays = [array_of(RNG, dims, f32), array_of(RNG, dims[1:], f32)]
        specs.add(only(launched(sum_of(arrays), arrays)).spec)
    assert len(specs) == 2
    for step in (1, -1):
        arrays = [array_of(RNG, (9, 11), f32), array_of(RNG, (11, 9), f32)[::step].T]
        specs.add(only(launched(sum_of(arrays), arrays)).spec)
    assert len({spec.id for spec in specs}) == len(specs) == 3


def test_integer_powers_report_and_nothing_else() -> None:
    for dtype, kind in ((i32, "status"), (f32, "i64")):
        arrays = [array_of(RNG, (9,), dtype), array_of(RNG, (9,), dtype)]
        chain = [micro_of("pow", (0, 1), [operand_of(x) for x in arrays])]
        for backend in (cuda_elementwise, cuda_naive):
            arguments = only(launched(chain, arrays, backend)).arguments
            assert kind in [a.kind for a in arguments[1:4]]
            assert (kind == "status") == ("status" in [a.kind for a in arguments])


@pytest.mark.parametrize("backend", [cuda_elementwise, cuda_naive])
def test_empty_results_launch_nothing(backend: Any) -> None:
    arrays = [array_of(RNG, (3, 0, 2), f32), array_of(RNG, (2,), f32)]
    assert launched(sum_of(arrays), arrays, backend).launches == ()


def test_strides_that_no_kernel_takes_are_copied_first() -> None:
    axes = [RNG.permutation(16) for _ in range(64)]
    arrays = [array_of(RNG, (2,) * 16, f64).transpose(order) for order in axes]
    chain = sum_of(arrays)
    step = launched(chain, arrays)
    assert len(step.launches) > 1
    copies = [a for launch in step.launches[:-1] for a in launch.arguments if a.kind == "scratch"]
    read = [a for a in step.launches[-1].arguments if a.kind == "scratch"]
    assert sorted(copies) == sorted(read) and len(set(copies)) == len(copies)
    assert step.scratch_bytes == len(copies) * 8 * 2**16
    for launch in step.launches:
        sizes = [len(a.value) if isinstance(a.value, bytes) else 8 for a in launch.arguments]
        assert sum(sizes) <= PARAMETER_BYTES


def test_rows_have_ids_of_their_own() -> None:
    for backend in (cuda_elementwise, cuda_naive):
        ids = [spec.id for spec in backend.KERNELS]
        assert len(set(ids)) == len(ids)


# ---- units around an anchor ----------------------------------------------------------------------


def test_a_unit_is_split_at_its_anchor() -> None:
    arrays = [array_of(RNG, (4, 6), f16), array_of(RNG, (6,), f32), array_of(RNG, (4,), f64)]
    typed = [operand_of(x) for x in arrays]
    exp = micro_of("exp", (0,), typed[:1])
    mul = micro_of("mul", (~0, 1), [exp, typed[1]])
    total = micro_of("sum", (~1,), [mul], Reduce((1,), False))
    sub = micro_of("sub", (2, ~2), [typed[2], total])
    neg = micro_of("neg", (~3,), [sub])
    parts = split(unit_of([exp, mul, total, sub, neg], arrays))
    (prologue,) = parts.prologues
    assert (prologue.operands, prologue.dtypes, prologue.result) == ((0, 1), (f16, f32), f32)
    assert [m.sources for m in prologue.chain] == [(0,), (~0, 1)]
    assert parts.anchor == total
    epilogue = parts.epilogue
    assert (epilogue.operands, epilogue.dtypes, epilogue.result) == ((2,), (f32, f64), f64)
    assert [m.sources for m in epilogue.chain] == [(1, 0), (~0,)]
    text = emit(epilogue.chain, epilogue.dtypes, "Epilogue")
    assert "apply(f32 x0, f64 x1, i64* status = nullptr)" in text
    alone = split(unit_of([micro_of("sum", (0,), typed[:1], Reduce((0,), False))], arrays[:1]))
    assert alone.prologues[0].chain == alone.epilogue.chain == ()
    assert "return x0;" in emit((), alone.prologues[0].dtypes)


def test_a_unit_without_an_anchor_is_not_split() -> None:
    arrays = [array_of(RNG, (4,), i64)]
    chain = [micro_of("neg", (0,), [operand_of(arrays[0])])]
    with pytest.raises(BackendError, match="a unit of neg has 0 anchors"):
        split(unit_of(chain, arrays))
