"""Offsets and counts beyond 2^31 on a device; all here, so that one worker holds the memory."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from far_views import FAR_DTYPES, FarView, far_works
from huge_arithmetic import ARITHMETIC
from huge_claims import COLUMNS, ROWS, Fields, HugeCase, judge, make_fields
from huge_movement import MOVEMENT
from kernel_cases import taken_by
from numpy_bounds import apply, check, known_leaf
from op_cases import fast_profile, profile_of

import softcuda as sc
from softcuda.driver.copies import copy_to_device
from softcuda.driver.memory import DeviceMemory
from softcuda.dtype import REAL_DTYPES, bool_, dtype_of_array, f16
from softcuda.executor.on_demand import cuda_target, session
from softcuda.graph.node import Node, on_host
from softcuda.pool.device import DeviceArray
from softcuda.profile.model import Profile
from softcuda.running import compile as compile_nodes
from softcuda.target import Target
from softcuda.tools.inspect_rows import cuda_backends

Array = np.ndarray[Any, Any]


def target() -> Target:
    found = cuda_target()
    assert isinstance(found, Target), found
    return found


def run(profile: Profile, outputs: Any) -> Any:
    """Return the values of tensors, which stay on the device; nothing may stand in."""
    return sc.compile(outputs, profile, strict=True).run()


@pytest.fixture(autouse=True)
def released() -> Iterator[None]:
    """Give the memory of a test back before the next one."""
    yield
    gc.collect()
    session().synchronize()
    session().arenas.trim()


# Few elements, far apart


@pytest.mark.sanitize
@pytest.mark.parametrize("backend_id", cuda_backends())
@pytest.mark.parametrize("name", FAR_DTYPES)
def test_far_operands(name: str, backend_id: str) -> None:
    """Every family, every operand, by rows, by columns and backwards."""
    works = {each.name: each for each in far_works(REAL_DTYPES[name])}
    on = session()
    nbytes = max(int(each.places.max()) + each.array.itemsize for each in works.values())
    buffer = DeviceMemory(on.context, nbytes)

    @cache
    def leaf(number: int, view: FarView) -> Node:
        each = next(w for w in works.values() if (w.number, w.view) == (number, view))
        array, places = np.ascontiguousarray(each.array), each.places + buffer.ptr
        for k, place in enumerate(places.ravel()):
            source = array.ctypes.data + k * array.itemsize
            copy_to_device(on.context, int(place), source, array.itemsize)
        on.context.synchronize()  # the copies are in the legacy stream, the session's in its own
        first = int(places[0, 0])
        data = DeviceArray(
            first, array.shape, each.strides, array.dtype, on.ordinal, buffer, on.fetch
        )
        return Node.leaf(data)

    nodes = {what: each.node(leaf(each.number, each.view)) for what, each in works.items()}
    nodes = taken_by(backend_id, nodes, target())
    if not nodes:
        return
    found = compile_nodes(nodes, profile_of(backend_id), strict=True).run()
    for what, result in found.items():
        work = works[what].work
        leaves = [known_leaf(array, dtype_of_array(array.dtype)) for array in work.arrays]
        known = apply(work.op, work.params, leaves)
        check(on_host(result.data), known, f"{what} of {name} on {backend_id}")


# More than 2^31 elements


@pytest.fixture(scope="module")
def fields() -> Fields:
    return make_fields(ROWS, COLUMNS, partial(run, fast_profile()))


@pytest.mark.parametrize(
    ("case", "backend_id"),
    [
        pytest.param(case, backend_id, id=f"{case.name}-{backend_id}")
        for case in (*ARITHMETIC, *MOVEMENT)
        for backend_id in case.backends
    ],
)
def test_huge_work(case: HugeCase, backend_id: str, fields: Fields) -> None:
    profile = fast_profile(**{case.op: backend_id})
    judge(case.build(fields), partial(run, profile), partial(run, fast_profile()))


def test_rows_deep_inside_a_buffer() -> None:
    """onnxruntime-28107: offsets of elements pass 31 bits, counts do not."""
    rows, columns = 262_144, 8960
    assert 255_999 * columns == 2_293_751_040 > 2**31 - 1
    numbers = (np.arange(rows) % 1000).astype(np.float16)
    ones = sc.ones((columns,), f16)
    buffer = run(fast_profile(), sc.asarray(numbers[:, None]) * ones)
    for profile in (fast_profile(), profile_of("cuda_naive")):
        for row, right in ((239_673, 673), (239_674, 674), (255_999, 999)):
            inside = buffer[row]
            copied, most, scaled, ends = (
                tensor.numpy()
                for tensor in sc.compile(
                    [sc.copy(inside), sc.max(inside), inside * 2.0, inside[:: columns - 1]], profile
                ).run()
            )
            np.testing.assert_array_equal(copied, np.full(columns, right, np.float16))
            np.testing.assert_array_equal(scaled, np.full(columns, 2 * right, np.float16))
            assert (most, *ends) == (right, right, right)


def test_the_place_of_the_last_of_2_to_32_bytes() -> None:
    """cupy-8014: the index of the largest passes 32 bits, and is an i64."""
    flags = sc.concat([sc.zeros((2**32 - 1,), bool_), sc.ones((1,), bool_)])
    largest, smallest = run(fast_profile(), [sc.argmax(flags), sc.argmin(sc.logical_not(flags))])
    assert largest.dtype is smallest.dtype is sc.i64
    assert largest.item() == smallest.item() == 4_294_967_295
