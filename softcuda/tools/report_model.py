"""A model of times, latency + bytes / rate + flops / rate, and the crossings that it predicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

import numpy as np

from softcuda.dtype import REAL_DTYPES
from softcuda.graph.node import Node
from softcuda.graph.op import OPS, Kind
from softcuda.profile.model import Crossing, Profile
from softcuda.profile.vocabulary import DEVICE_TYPES
from softcuda.tools.cells import Ledger
from softcuda.tools.costs import best_times, fitted
from softcuda.tools.lines import growth_of
from softcuda.tools.thresholds import Race, crossing_of
from softcuda.tools.workloads import typical
from softcuda.tools.workloads_inputs import Source

__all__ = [
    "Constants",
    "Fit",
    "OpWork",
    "constants_of",
    "fit_of",
    "own_constants",
    "predicted",
    "work_of",
]

_BYTES_BY: Final = "add"  # the op whose largest size tells the rate of bytes
_FLOPS_BY: Final = "matmul"  # and the rate of flops
_PROBE: Final = {False: 4096, True: 64}  # sizes whose bytes tell those of others; of a product
_SMALLEST: Final = 16  # up to this size a call is all latency


class OpWork(NamedTuple):
    """What the typical work of an op moves and computes.

    Attributes:
        operands: how many arrays it reads.
        read_bytes: bytes of them.
        written_bytes: bytes of the result.
        flops: operations of a product; 0 for other ops, whose arithmetic the model leaves out.
    """

    operands: int
    read_bytes: float
    written_bytes: float
    flops: float


def work_of(op: str, dtype: str, size: int) -> OpWork:
    """Return the typical work of an op at a row's size.

    Bytes grow with the size, those of a product with its square: the work of a probe is scaled.
    """
    contracts = OPS[op].kind is Kind.CONTRACTION
    operands, read, written, _ = _probed(op, dtype)
    growth = (size / _PROBE[contracts]) ** (2 if contracts else 1)
    return OpWork(operands, growth * read, growth * written, 2.0 * size**3 if contracts else 0.0)


@cache
def _probed(op: str, dtype: str) -> OpWork:
    probe = _PROBE[OPS[op].kind is Kind.CONTRACTION]
    made = typical(op, probe, REAL_DTYPES[dtype], Source(np.random.default_rng(0)))
    node = made.node(Node)
    written = math.prod(node.dims) * node.dtype.itemsize
    read = sum(array.nbytes for array in made.arrays)
    return OpWork(len(made.arrays), read, written, 0.0)


class Constants(NamedTuple):
    """The constants of a device: microseconds a call, a byte, a flop."""

    latency_us: float
    byte_us: float
    flop_us: float

    def time_us(self, work: OpWork) -> float:
        """Return the time of some work with its data resident [microseconds]."""
        moved = (work.read_bytes + work.written_bytes) * self.byte_us
        return self.latency_us + moved + work.flops * self.flop_us


def constants_of(ledger: Ledger, dtype: str) -> dict[str, Constants]:
    """Return device type -> constants, as few samples tell them.

    Latency: the median over elementwise ops of the time at the smallest size, up to 16. Bytes: what
    `add` takes beyond that at its largest size. Flops: what `matmul` takes beyond both.
    """
    found = {}
    for device in DEVICE_TYPES:
        first = []
        for op, kind in ledger.outcomes:
            times = best_times(ledger, op, dtype).get(device, {}) if kind == dtype else {}
            smallest = min(times, default=_SMALLEST + 1)
            if OPS[op].kind is Kind.ELEMENTWISE and smallest <= _SMALLEST:
                first.append(times[smallest])
        if not first:
            continue
        made = Constants(float(np.median(first)), 0.0, 0.0)
        byte_us = _beyond(made, ledger, _BYTES_BY, dtype, device)
        made = made._replace(byte_us=byte_us)
        found[device] = made._replace(flop_us=_beyond(made, ledger, _FLOPS_BY, dtype, device))
    return found


def _beyond(known: Constants, ledger: Ledger, op: str, dtype: str, device: str) -> float:
    """Return what an op takes a byte, or a flop, beyond what is known of it; 0 if nothing."""
    times = best_times(ledger, op, dtype).get(device, {})
    if not times:
        return 0.0
    largest = max(times)
    work = work_of(op, dtype, largest)
    amount = work.flops or work.read_bytes + work.written_bytes
    return max(times[largest] - known.time_us(work), 0.0) / amount


def predicted(
    profile: Profile, constants: dict[str, Constants], op: str, dtype: str, sizes: Sequence[int]
) -> tuple[Crossing | None, Crossing | None]:
    """Return the crossings that the model predicts: data on the host, data resident.

    With the data on the host every operand is copied, and the result, by the lines of [transfer].

    Args:
        profile: whose [transfer] counts.
        constants: of both devices.
        op: token of the op.
        dtype: name of the row's dtype.
        sizes: where the devices are compared, ascending.
    """
    if set(constants) != set(DEVICE_TYPES):
        return None, None
    rates = {line.direction: line for line in profile.transfer}
    host, resident = [], []
    for size in sizes:
        work = work_of(op, dtype, size)
        cpu, cuda = (constants[device].time_us(work) for device in DEVICE_TYPES)
        resident.append(Race(size, (cpu,) * 3, (cuda,) * 3))
        if set(rates) == {"h2d", "d2h"}:
            there, back = rates["h2d"], rates["d2h"]
            copies = work.operands * there.latency_us + back.latency_us
            copies += work.read_bytes * 1e-3 / there.gb_per_s
            copies += work.written_bytes * 1e-3 / back.gb_per_s
            host.append(Race(size, (cpu,) * 3, (cuda + copies,) * 3))
    growth = growth_of(op)
    return crossing_of(host, growth), crossing_of(resident, growth)


class Fit(NamedTuple):
    """A line through the times of an op on a device.

    Attributes:
        latency_us: microseconds.
        rate: GB/s read plus written; of a product GFLOP/s.
    """

    latency_us: float
    rate: float


def fit_of(ledger: Ledger, op: str, dtype: str, device: str) -> Fit | None:
    """Return latency + amount / rate through all times of an op, None where there are too few."""
    amounts = {}
    for size, time_us in best_times(ledger, op, dtype).get(device, {}).items():
        work = work_of(op, dtype, size)
        amounts[round(work.flops or work.read_bytes + work.written_bytes)] = (time_us,)
    amounts.pop(0, None)
    return Fit(*fitted(amounts)) if len(amounts) > 1 else None


def own_constants(ledger: Ledger, op: str, dtype: str) -> dict[str, Constants]:
    """Return device type -> the constants of the line through all times of an op."""
    found = {}
    for device in DEVICE_TYPES:
        fit = fit_of(ledger, op, dtype, device)
        if fit is not None:
            unit_us = 1e-3 / fit.rate
            by_flops = OPS[op].kind is Kind.CONTRACTION
            costs = (0.0, unit_us) if by_flops else (unit_us, 0.0)
            found[device] = Constants(fit.latency_us, *costs)
    return found
