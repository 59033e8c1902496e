"""What a product by named axes costs the host, beside a bare driver graph, PyTorch and CuPy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import softcuda as sc
from benchmarks.accuracy import compare, tolerance
from benchmarks.cases import Bench, Case
from benchmarks.gpu_timing import cupy_peer, gpu_of, kernel_graph, torch_peer
from benchmarks.gpu_work import PROFILE, on_device
from benchmarks.host_time import host_loop, rounds
from benchmarks.host_work import random_array
from benchmarks.results import Row, Timing, at_most
from benchmarks.timing import OURS, Contestant, ratios, timing_of
from softcuda.backends import added_devices
from softcuda.driver.graph import CudaGraph
from softcuda.errors import ArgumentError
from softcuda.profile.resolve import resolve

__all__ = ["CASES"]

Array = np.ndarray[Any, Any]
Loop = Callable[[], float]

GROUP = "Host time of a 32x32 product by named axes, the wait not counted"
EXPRESSION, EXTENT = "ij,jk->ik", 32
BARE = "driver graph, set and launched"
SAME = "the same operands"
MATMUL = "matmul"
_NOISE_US = 0.2  # by which two loops over one graph may differ


class _Product(NamedTuple):
    """Operands of two products, and the driver graph of one.

    Attributes:
        arrays: the operands on the host.
        pairs: the operands on the device; calls take them by turns.
        graph: the instantiated graph, of one kernel.
        held: what the graph reads and writes.
    """

    arrays: list[list[Array]]
    pairs: list[list[Any]]
    graph: CudaGraph
    held: Any


def _product(bench: Bench) -> _Product:
    arrays = [[random_array(2 * k + n, EXTENT, EXTENT) for n in range(2)] for k in range(2)]
    pairs = [[on_device(array) for array in pair] for pair in arrays]
    executable = sc.compile(sc.einsum(EXPRESSION, *pairs[0]), PROFILE)
    held = executable, executable.run()
    return _Product(arrays, pairs, kernel_graph(gpu_of(bench), executable), held)


def _check(what: str, product: _Product, call: Callable[[int], Any]) -> None:
    """Refuse a call that is wrong for either pair of operands.

    Args:
        what: the call.
        product: the operands.
        call: number of the pair -> its product, on the host.

    Raises:
        ArgumentError: it is.
    """
    for number, pair in enumerate(product.arrays):
        right = np.einsum(EXPRESSION, *(array.astype(np.float64) for array in pair))
        found = compare(call(number), right)
        if not found.within(tolerance("f32", summed=EXTENT)):
            raise ArgumentError(f"{what} of pair {number} is wrong: {found}")


def _bare(bench: Bench, product: _Product) -> Loop:
    """Return the loop over setting the node of the driver graph and launching it."""
    on = gpu_of(bench).on
    (node,) = product.graph.nodes
    launch = product.graph.launcher(stream=on.stream)

    def call(_: int) -> None:
        node.apply()
        launch()

    def loop() -> float:
        with on.context.current():
            return host_loop(call, on.synchronize)()

    return loop


def _peers(bench: Bench, product: _Product) -> tuple[dict[str, Loop], list[Timing]]:
    """Return the loops of the peers that are there, and a line for each that is not."""
    wait = gpu_of(bench).on.synchronize
    found: dict[str, list[float]] = {"PyTorch": [], "CuPy": []}

    def work(name: str, einsum: Any, pairs: Any, to_host: Any) -> Callable[[], None]:
        _check(name, product, lambda number: to_host(einsum(EXPRESSION, *pairs[number])))
        loop = host_loop(lambda number: einsum(EXPRESSION, *pairs[number % 2]), wait)
        return lambda: found[name].append(loop())

    def of_torch(torch: Any) -> Callable[[], None]:
        pairs = [[torch.from_numpy(x).to("cuda") for x in pair] for pair in product.arrays]
        return work("PyTorch", torch.einsum, pairs, lambda out: out.cpu().numpy())

    def of_cupy(cupy: Any) -> Callable[[], None]:
        pairs = [[cupy.asarray(x) for x in pair] for pair in product.arrays]
        return work("CuPy", cupy.einsum, pairs, cupy.asnumpy)

    def loop_of(peer: Contestant) -> float:
        peer.names["submit"]()  # in the stream of the session, which is entered outside the loop
        return found[peer.name].pop()

    peers = [torch_peer(bench, of_torch), cupy_peer(bench, of_cupy)]
    loops = {peer.name: partial(loop_of, peer) for peer in peers if not peer.absent}
    return loops, [Timing(peer.name, status="absent") for peer in peers if peer.absent]


def _over_launch(
    make: Callable[[_Product], Callable[[list[Any]], Any]], what: str, most: float, bench: Bench
) -> Row:
    """Time a call on two pairs of operands by turns, beside a driver graph and the peers.

    Args:
        make: the product -> what takes a pair of operands and returns an evaluated tensor.
        what: the call.
        most: the microseconds that it may take above setting and launching the driver graph.
        bench: of a GPU suite.
    """
    wait = gpu_of(bench).on.synchronize
    product = _product(bench)
    submit, pairs = make(product), product.pairs
    _check(what, product, lambda number: submit(pairs[number]).numpy())
    peers, absent = _peers(bench, product)
    loops = {
        OURS: host_loop(lambda number: submit(pairs[number % 2]), wait),
        BARE: _bare(bench, product),
        SAME: host_loop(lambda _: submit(pairs[0]), wait),
        **peers,
    }
    taken = rounds(loops, 1)
    row = Row(GROUP, what, [timing_of(key, samples) for key, samples in taken.items()] + absent)
    row.ratios = {name: ratio for name, ratio in ratios(taken).items() if name in peers}
    us = {timing.name: timing.us or 0.0 for timing in row.timings}
    over = us[OURS] - us[BARE]
    row.facts["over the driver graph [us]"] = over
    row.checks.append(at_most(f"{what} over setting and launching a driver graph [us]", over, most))
    return row


def _plan(product: _Product) -> Callable[[list[Any]], Any]:
    described = [sc.TensorDescriptor.from_tensor(tensor) for tensor in product.pairs[0]]
    return sc.EinsumPlan(EXPRESSION, described, config=PROFILE, device="cuda").execute


def _einsum(product: _Product) -> Callable[[list[Any]], Any]:
    return lambda pair: sc.einsum(EXPRESSION, *pair).evaluate()


def _evaluated(bench: Bench) -> Row:
    """Time einsum defined and evaluated, and the look for the profile that is a part of it.

    Each evaluation looks at a profile that is named by a path, as here: it may have changed.
    """
    row = _over_launch(_einsum, EVALUATED, 10.0, bench)
    looked = host_loop(lambda _: resolve(None, added_devices()), gpu_of(bench).on.synchronize)
    row.facts["of it the look at the profile [us]"] = looked() * 1e6
    return row


def _compiled(what: str, bench: Bench) -> Row:
    """Time a compiled graph of an einsum beside the same one of a matmul."""
    wait = gpu_of(bench).on.synchronize
    product = _product(bench)
    a, b = product.pairs[0]
    made = {
        OURS: sc.compile(sc.einsum(EXPRESSION, a, b), PROFILE),
        MATMUL: sc.compile(sc.matmul(a, b), PROFILE),
    }
    for name, executable in made.items():

        def fed(number: int, run: Any = executable.run) -> Any:
            return run(dict(zip((a, b), product.pairs[number], strict=True))).numpy()

        _check(name, product, fed)
    loops = {name: host_loop(lambda _, run=made[name].run: run(), wait) for name in made}
    taken = rounds(loops, 1)
    row = Row(GROUP, what, [timing_of(key, samples) for key, samples in taken.items()])
    row.ratios = ratios(taken)
    ours, theirs = row.timings
    over = (ours.us or 0.0) - (theirs.us or 0.0)
    kernels = {
        name: sum(len(step.launches) for step in x.program.steps) for name, x in made.items()
    }
    row.facts["over matmul [us]"] = over
    row.checks += [
        at_most(f"{what}: kernels beyond those of matmul", kernels[OURS] - kernels[MATMUL], 0),
        at_most(f"{what}: over matmul [us]", over, _NOISE_US),
    ]
    return row


PLAN = "EinsumPlan.execute"
EVALUATED = "einsum, defined and evaluated"
COMPILED = "einsum in a compiled graph"

CASES = (
    Case(GROUP, PLAN, partial(_over_launch, _plan, PLAN, 5.0)),
    Case(GROUP, EVALUATED, _evaluated),
    Case(GROUP, COMPILED, partial(_compiled, COMPILED)),
)
