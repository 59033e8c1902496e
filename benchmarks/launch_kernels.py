"""Suite launch: 100 small kernels in one executable against the same in a bare driver graph."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import softcuda as sc
from benchmarks.cases import Bench, Case
from benchmarks.gpu_timing import Gpu, gpu_of, segment_graphs
from benchmarks.gpu_work import on_device
from benchmarks.host_time import CALLS, host_loop, rounds
from benchmarks.results import Row, at_most
from benchmarks.timing import OURS, ratios, timing_of
from softcuda.errors import ArgumentError
from softcuda.executor.executable import Executable
from softcuda.profile.model import DeviceFacts, PoolSettings, Profile
from softcuda.profile.model import Row as ProfileRow
from softcuda.profile.vocabulary import work_ops

__all__ = ["CASES"]

Array = np.ndarray[Any, Any]

TRIPS = "100 kernels: run and wait, against launching their driver graph and waiting"
HOST = "100 kernels: host time of Executable.run"
KERNELS = 100
BARE = "driver graph"

OPS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda t, y: t + y,
    lambda t, y: t * y,
    lambda t, y: t - y,
    lambda t, y: y - t,
)


def _naive_profile() -> Profile:
    """Return a profile under which every node is a kernel of its own."""
    rows = tuple(ProfileRow(op, None, 0, None, "cuda_naive") for op in work_ops())
    about = {"soft_version": sc.__version__}
    return Profile("cuda_naive", about, DeviceFacts(), rows, pool=PoolSettings("cuda"))


def _chain(t: Any, y: Any, x: Any, taps: int) -> list[Any]:
    """Return 100 nodes in a row; the first `taps` of them read x where the others read y."""
    made = []
    for number in range(KERNELS):
        t = OPS[number % len(OPS)](t, x if number < taps else y)
        made.append(t)
    return made


def _values(count: int) -> list[Array]:
    rng = np.random.default_rng(count)
    return [rng.uniform(0.5, 1.0, count).astype(np.float32) for _ in range(4)]


class _Small:
    """A compiled chain of 100 kernels, checked, and its bare driver graph.

    Attributes:
        executable: the chain; x is a leaf that can be fed.
        feeds: two feeds of x, tensors on the device.
        graph: the one driver graph of the executable.
    """

    def __init__(self, gpu: Gpu, count: int, taps: int, outputs: int) -> None:
        arrays = _values(count)
        t, y, x, other = map(on_device, arrays)
        nodes = _chain(t, y, x, taps)
        self.gpu = gpu
        self.executable: Executable = sc.compile(nodes[KERNELS - outputs :], _naive_profile())
        self.feeds = ({x: x}, {x: other})
        launches = [launch for step in self.executable.program.steps for launch in step.launches]
        self.held = self.executable.run()
        graphs = segment_graphs(self.executable)
        if len(launches) != KERNELS or len(graphs) != 1:
            raise ArgumentError(
                f"{len(launches)} kernels in {len(graphs)} driver graphs; this case is about "
                f"{KERNELS} in one"
            )
        self.graph = graphs[0]
        wide = [array.astype(np.float64) for array in arrays]
        for feed, taken in zip(self.feeds, (wide[2], wide[3]), strict=True):
            right = _chain(wide[0], wide[1], taken, taps)[-1]
            found = self.executable.run(feed)[-1].numpy()
            if not np.allclose(found, right, rtol=1e-4, atol=1e-4):
                raise ArgumentError(f"the chain of {count} elements is wrong: {found}, not {right}")

    def run(self, _: int) -> Any:
        return self.executable.run()

    def fed(self, call: int) -> Any:
        return self.executable.run(self.feeds[call % 2])


def _trip(count: int, name: str, bench: Bench) -> Row:
    """Time whole calls, each waited for."""
    gpu = gpu_of(bench)
    small = _Small(gpu, count, taps=1, outputs=1)
    run, wait = small.executable.run, gpu.on.synchronize
    small.held = run()
    context, stream = gpu.on.context, gpu.on.stream
    launch = small.graph.launcher(stream=stream)
    wait_bare = partial(context.driver.cuStreamSynchronize, stream.pointer)

    def ours() -> float:
        begin = time.perf_counter()
        for _ in range(CALLS):
            run()
            wait()
        return (time.perf_counter() - begin) / CALLS

    def bare() -> float:
        with context.current():
            begin = time.perf_counter()
            for _ in range(CALLS):
                launch()
                wait_bare()
            return (time.perf_counter() - begin) / CALLS

    taken = rounds({OURS: ours, BARE: bare}, CALLS)
    row = Row(TRIPS, name, [timing_of(key, samples) for key, samples in taken.items()])
    row.ratios = ratios(taken)
    over = statistics.median(
        mine / theirs for mine, theirs in zip(taken[OURS].seconds, taken[BARE].seconds, strict=True)
    )
    row.facts["over the driver graph"] = over
    row.checks = [at_most(f"round trip of 100 kernels of {name} over the driver graph", over, 1.15)]
    return row


def _host(taps: int, outputs: int, holds: bool, name: str, bench: Bench) -> Row:
    """Time `run` alone: with unchanged pointers, and with some patched in each call."""
    gpu = gpu_of(bench)
    small = _Small(gpu, 256, taps, outputs)
    small.held = None
    context, wait = gpu.on.context, gpu.on.synchronize
    launch = small.graph.launcher(stream=gpu.on.stream)

    def bare() -> float:
        with context.current():
            return host_loop(lambda _: launch(), wait)()

    loops = {OURS: host_loop(small.run, wait), BARE: bare}
    patched = "held results" if holds else "other feeds"
    loops[patched] = host_loop(small.run if holds else small.fed, wait, holds=holds)
    taken = rounds(loops, 1)
    row = Row(HOST, name, [timing_of(key, samples) for key, samples in taken.items()])
    us = {timing.name: timing.us or 0.0 for timing in row.timings}
    over, nodes = us[OURS] - us[BARE], outputs if holds else taps
    each = (us[patched] - us[OURS]) / nodes
    row.facts["over the launch [us]"] = over
    row.facts["a patched node [us]"] = each
    if outputs == 1:
        row.checks.append(at_most(f"run over its launch, unchanged ({name}) [us]", over, 6.0))
    row.checks.append(at_most(f"each patched node, {name} [us]", each, 3.0))
    return row


CASES = (
    *(
        Case(TRIPS, f"{count} elements", partial(_trip, count, f"{count} elements"))
        for count in (8, 128, 1024)
    ),
    *(
        Case(HOST, f"{taps} nodes read the feed", partial(_host, taps, 1, False, f"{taps} fed"))
        for taps in (1, 10, 100)
    ),
    *(
        Case(HOST, f"{outs} outputs held", partial(_host, 1, outs, True, f"{outs} held"))
        for outs in (1, 10)
    ),
)
