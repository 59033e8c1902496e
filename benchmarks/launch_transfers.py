"""Suite launch: 256 MiB between NumPy arrays and the device."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

import softcuda as sc
from benchmarks.cases import Bench, Case
from benchmarks.gpu_timing import Gpu, gpu_of
from benchmarks.results import Check, Row, at_least
from benchmarks.timing import OURS, Samples, ratios, timing_of
from softcuda.driver.copies import (
    copy_to_device,
    copy_to_device_async,
    copy_to_host,
    copy_to_host_async,
)
from softcuda.driver.memory import DeviceMemory, PinnedMemory
from softcuda.errors import ArgumentError

__all__ = ["CASES"]

Array = np.ndarray[Any, Any]

GROUP = "Transfers of 256 MiB"
NBYTES = 256 << 20
ROUNDS = 11
DRIVER = "driver"


def _source() -> Array:
    return np.random.default_rng(11).random(NBYTES // 4, np.float32)


def _measure(
    name: str, works: Mapping[str, Callable[[], object]], rate: float, share: float
) -> Row:
    """Return the row of a transfer in several ways, which take turns.

    Args:
        name: the case.
        works: contestant -> a transfer that is done when it returns.
        rate: bytes a second to reach; 0 for none.
        share: of the driver's own rate to reach; 0 for none.
    """
    taken = {key: Samples(1) for key in works}
    order = list(works)
    for key in order * 2:
        works[key]()
    for done in range(ROUNDS):
        shift = done % len(order)
        for key in order[shift:] + order[:shift]:
            begin = time.perf_counter()
            works[key]()
            taken[key].seconds.append(time.perf_counter() - begin)
    row = Row(GROUP, name, [timing_of(key, samples) for key, samples in taken.items()])
    row.ratios = ratios(taken)
    ours = NBYTES / statistics.median(taken[OURS].seconds)
    row.facts["GB/s"] = ours / 1e9
    checks: list[Check] = []
    if rate:
        checks.append(at_least(f"{name} [bytes/s]", ours, rate))
    if share:
        ratio = row.ratios[DRIVER].median
        checks.append(at_least(f"{name}, rate over the driver's own copy", ratio, share))
    row.checks = checks
    return row


def _same(what: str, found: Array, right: Array) -> None:
    if not np.array_equal(found.view(np.uint8), right.view(np.uint8)):
        raise ArgumentError(f"{what}: the bytes that arrived are not those that were sent")


def _torch_works(bench: Bench, source: Array, *, back: bool) -> dict[str, Callable[[], object]]:
    torch = bench.peers.torch
    if torch is None:
        return {}
    host = torch.from_numpy(source)
    there = host.to("cuda")
    torch.cuda.synchronize()
    if back:
        return {"PyTorch": there.cpu}
    return {"PyTorch": lambda: (host.to("cuda"), torch.cuda.synchronize())}


def _to_device(name: str, bench: Bench) -> Row:
    on = gpu_of(bench).on
    source, memory = _source(), DeviceMemory(on.context, NBYTES)

    def ours() -> None:
        on.upload(source, memory.ptr)
        on.synchronize()

    def through_tensor() -> None:
        sc.asarray(source).to("cuda").evaluate()
        on.synchronize()

    ours()
    back = np.empty_like(source)
    copy_to_host(on.context, back.ctypes.data, memory.ptr, NBYTES)
    _same(name, back, source)
    works: dict[str, Callable[[], object]] = {
        OURS: ours,
        DRIVER: lambda: copy_to_device(on.context, memory.ptr, source.ctypes.data, NBYTES),
        "asarray(a).to('cuda')": through_tensor,
    }
    return _measure(name, works | _torch_works(bench, source, back=False), 25e9, 0.0)


def _filled(gpu: Gpu, source: Array) -> DeviceMemory:
    memory = DeviceMemory(gpu.on.context, NBYTES)
    copy_to_device(gpu.on.context, memory.ptr, source.ctypes.data, NBYTES)
    return memory


def _to_touched(name: str, bench: Bench) -> Row:
    gpu = gpu_of(bench)
    source = _source()
    memory, target = _filled(gpu, source), np.zeros_like(source)
    target.fill(-1.0)
    gpu.on.download(memory.ptr, target)
    _same(name, target, source)
    works: dict[str, Callable[[], object]] = {
        OURS: lambda: gpu.on.download(memory.ptr, target),
        DRIVER: lambda: copy_to_host(gpu.on.context, target.ctypes.data, memory.ptr, NBYTES),
    }
    return _measure(name, works, 20e9, 0.0)


def _to_new(name: str, bench: Bench) -> Row:
    gpu = gpu_of(bench)
    source = _source()
    memory = _filled(gpu, source)
    array = gpu.on.array(memory.ptr, source.shape, source.dtype, memory)
    _same(name, gpu.on.fetch(array), source)

    def by_driver() -> None:
        target = np.empty_like(source)
        copy_to_host(gpu.on.context, target.ctypes.data, memory.ptr, NBYTES)

    works: dict[str, Callable[[], object]] = {
        OURS: lambda: gpu.on.fetch(array),
        DRIVER: by_driver,
    }
    return _measure(name, works | _torch_works(bench, source, back=True), 12e9, 0.0)


def _pinned(name: str, back: bool, bench: Bench) -> Row:
    gpu = gpu_of(bench)
    on = gpu.on
    source = _source()
    pinned, memory = PinnedMemory(on.context, NBYTES), _filled(gpu, source)
    array = pinned.array()
    array.fill(0xAA)
    if back:
        on.download(memory.ptr, array)
        _same(name, array, source)
    else:
        array[...] = source.view(np.uint8)
        gpu.fill(memory.ptr, 0xAA, NBYTES)
        on.upload(array, memory.ptr)
        _same(name, on.fetch(on.array(memory.ptr, array.shape, array.dtype, memory)), source)

    def ours() -> None:
        if back:
            on.download(memory.ptr, array)
        else:
            on.upload(array, memory.ptr)
            on.synchronize()

    def by_driver() -> None:
        if back:
            copy_to_host_async(on.context, pinned.ptr, memory.ptr, NBYTES, stream=on.stream)
        else:
            copy_to_device_async(on.context, memory.ptr, pinned.ptr, NBYTES, stream=on.stream)
        on.stream.synchronize()

    return _measure(name, {OURS: ours, DRIVER: by_driver}, 0.0, 0.9)


def _case(name: str, measure: Callable[[str, Bench], Row]) -> Case:
    return Case(GROUP, name, partial(measure, name))


CASES = (
    _case("pageable array to the device", _to_device),
    _case("device into a touched array", _to_touched),
    _case("device into a new array", _to_new),
    _case("pinned array to the device", lambda name, bench: _pinned(name, False, bench)),
    _case("device into a pinned array", lambda name, bench: _pinned(name, True, bench)),
)
