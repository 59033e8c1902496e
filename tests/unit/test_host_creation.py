"""full, eye, arange, linspace, and the Philox generator with its published answers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from host_harness import ALL, FLOATS, run

from softcuda.dtype import DType, bf16, bool_, f16, f32, f64, i32, i64
from softcuda.graph.params import Arange, Eye, Full, Linspace, Random
from softcuda.graph.philox import philox, philox_blocks
from tests.tolerance import assert_close

Array = np.ndarray[Any, Any]


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_full_and_eye(dtype: DType) -> None:
    value = {0: True, 1: -3}.get(dtype.kind, 1 / 3)
    for dims in ((), (0,), (3, 4)):
        expected = np.full(dims, value).astype(dtype.numpy)
        assert run("full", params=Full(dims, dtype, repr(value))).tobytes() == expected.tobytes()
    for rows, columns in ((3, 3), (2, 5), (5, 2), (1, 1), (0, 4)):
        for k in range(-6, 7):
            expected = np.eye(rows, columns, k).astype(dtype.numpy)
            result = run("eye", params=Eye(rows, columns, k, dtype))
            assert result.tobytes() == expected.tobytes(), (rows, columns, k)


def test_full_rounds_once() -> None:
    value = 1 + 2.0**-8 + 2.0**-30
    assert float(run("full", params=Full((), bf16, repr(value)))) == 1.0078125
    assert int(run("full", params=Full((), i64, repr(2**63 - 1)))) == 2**63 - 1
    assert math.isnan(run("full", params=Full((), f32, "nan")))


@pytest.mark.parametrize("dtype", [i32, i64, *FLOATS], ids=str)
def test_arange(dtype: DType) -> None:
    for start, step, count in ((0, 1, 0), (3, -2, 10), (-5, 7, 40000)):
        result = run("arange", params=Arange(repr(start), repr(step), count, dtype))
        exact = start + step * np.arange(count)
        expected = exact if dtype.is_float else exact.astype(dtype.numpy)
        assert_close(result, expected, dtype, "full")
    if dtype.is_float:
        result = run("arange", params=Arange("0.1", "0.3", 1000, dtype))
        assert_close(result, 0.1 + 0.3 * np.arange(1000), dtype, "full")
    wide = run("arange", params=Arange(repr(2**62), repr(3), 3, i64))
    assert wide.tolist() == [2**62 + 3 * i for i in range(3)]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_linspace(dtype: DType) -> None:
    for start, stop in ((0.0, 1.0), (-3.0, 0.7), (1.0, 1.0), (1e3, -1e3)):
        for count in (0, 1, 2, 7, 33000):
            for endpoint in (True, False):
                params = Linspace(repr(start), repr(stop), count, endpoint, dtype)
                result = run("linspace", params=params)
                expected = np.linspace(start, stop, count, endpoint)
                scale = max(abs(start), abs(stop))
                assert_close(result, expected, dtype, "linspace", scale=scale)
                if count > 1 and endpoint:
                    assert float(result[-1]) == float(np.float64(stop).astype(dtype.numpy))
                if count:
                    assert float(result[0]) == start
    far = run("linspace", params=Linspace("-1.7e308", "1.7e308", 3, True, f64))
    assert far.tolist() == [-1.7e308, 0.0, 1.7e308]


ANSWERS = [
    ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "answer"), ANSWERS)
def test_philox_known_answers(counter: Any, key: Any, answer: Any) -> None:
    # kat_vectors of Random123, philox4x32 with 10 rounds
    a, b, c, d = (np.array([word], np.uint64) for word in counter)
    assert philox((a, b, c, d), key)[:, 0].tolist() == list(answer)


def words(seed: int, block: int) -> list[int]:
    """Return a block's four words, one block at a time."""
    seed, block = seed % 2**64, block % 2**64
    numbers = [block & 0xFFFFFFFF, block >> 32, 0, 0]
    a, b, c, d = (np.array([n], np.uint64) for n in numbers)
    return [int(x) for x in philox((a, b, c, d), (seed & 0xFFFFFFFF, seed >> 32))[:, 0]]


def drawn(
    name: str,
    dtype: DType,
    state: tuple[int, int],
    dims: Any,
    offset: int = 0,
    low: float = 0.0,
    high: float = 1.0,
) -> Array:
    params = Random(dims, dtype, repr(low), repr(high), offset)
    return run(name, np.array(state, np.int64), params=params)


def unit(dtype: DType, seed: int, start: int, e: int) -> float:
    if dtype is f64:
        block = words(seed, start + e // 2)
        first, second = block[2 * (e % 2)], block[2 * (e % 2) + 1]
        return float((first >> 5) * 2**26 + (second >> 6)) * 2.0**-53
    return (words(seed, start + e // 4)[e % 4] >> 8) * 2.0**-24


def bell(dtype: DType, seed: int, start: int, e: int) -> float:
    pair = e // 2
    if dtype is f64:
        w = words(seed, start + pair)
        first = ((w[0] >> 5) * 2**26 + (w[1] >> 6) + 1) * 2.0**-53
        second = ((w[2] >> 5) * 2**26 + (w[3] >> 6)) * 2.0**-53
    else:
        w = words(seed, start + pair // 2)
        first, second = (w[2 * (pair % 2)] + 1) * 2.0**-32, w[2 * (pair % 2) + 1] * 2.0**-32
    radius, angle = math.sqrt(-2 * math.log(first)), 2 * math.pi * second
    return radius * (math.sin(angle) if e % 2 else math.cos(angle))


STATES = [((0, 0), 0), ((-1, 5), 3), ((2**40 + 17, 2**32 - 2), 1), ((7, -3), 0)]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("state", "offset"), STATES)
def test_elements_by_their_definition(dtype: DType, state: Any, offset: int) -> None:
    start = state[1] + offset
    for count in (1, 2, 3, 5, 13):
        uniform = drawn("uniform", dtype, state, (count,), offset, -1.0, 3.0)
        exact = [-1 + 4 * unit(dtype, state[0], start, e) for e in range(count)]
        assert_close(uniform, np.array(exact), dtype, "multiply_add", scale=4.0)
        normal = drawn("normal", dtype, state, (count,), offset, 2.0, 0.5)
        exact = [2 + 0.5 * bell(dtype, state[0], start, e) for e in range(count)]
        assert_close(normal, np.array(exact), dtype, "sin", scale=4.0)


@pytest.mark.parametrize("name", ["uniform", "normal"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_the_stream_goes_on(name: str, dtype: DType) -> None:
    whole = drawn(name, dtype, (3, 4), (70000,))
    blocks = philox_blocks(40000, dtype)
    rest = drawn(name, dtype, (3, 4), (30000,), blocks)
    assert whole[40000:].tobytes() == rest.tobytes()
    assert drawn(name, dtype, (3, 4 + blocks), (30000,)).tobytes() == rest.tobytes()
    assert drawn(name, dtype, (3, 4), (7, 10000)).tobytes() == whole.tobytes()
    assert drawn(name, dtype, (3, 4), (0, 2)).shape == (0, 2)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_uniform_stays_below_high(dtype: DType) -> None:
    for low, high in ((0.0, 1.0), (1.0, 1.5), (-0.3, 0.1), (0.0, 0.3)):
        values = drawn("uniform", dtype, (1, 0), (200000,), 0, low, high).astype(np.float64)
        assert values.max() < high
        assert values.min() >= float(np.float64(low).astype(dtype.numpy))
        assert abs(values.mean() - (low + high) / 2) < 0.01 * (high - low)


def test_moments_of_the_normal() -> None:
    values = drawn("normal", f32, (9, 0), (400000,)).astype(np.float64)
    assert abs(values.mean()) < 0.01
    assert abs(values.std() - 1) < 0.01
    assert abs((values**3).mean()) < 0.03
    assert abs((values**4).mean() - 3) < 0.06


def test_blocks_taken() -> None:
    for dtype in (f16, bf16, f32):
        assert [philox_blocks(n, dtype) for n in (0, 1, 4, 5)] == [0, 1, 1, 2]
    assert [philox_blocks(n, f64) for n in (0, 1, 2, 3)] == [0, 1, 1, 2]
    assert bool_ not in FLOATS
