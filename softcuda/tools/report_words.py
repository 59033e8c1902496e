"""What a page of a finding says whatever was found: question, method, model, threats."""

from __future__ import annotations

from typing import Final

from softcuda.tools.plausible import DISTURBED
from softcuda.tools.spread import OUTLIER_RULE

__all__ = ["METHOD", "MODEL", "QUESTION", "THREATS"]

QUESTION: Final = """\
From which size on is an operation faster on the GPU: with its data on the host, so that it must be
copied there and its result back, and with its data on the device already?
"""
METHOD: Final = f"""\
`soft_init` runs every operation on every backend that takes it: at a few powers of two first, then,
by bisection, between two sizes with different winners, then at the other powers of two, as far as
time allows. Each result is compared with float64 first; a wrong backend
has no time. Backends take turns, at least three rounds after a warm-up; medians count. Medians that
do not fit their neighbours are taken again, and the smaller ones are kept; one of more than
{DISTURBED:g} times what a larger size takes was disturbed, and that one's counts instead. The times
are those of whole calls of a compiled graph of one node, Python included.

- *Resident*: the operands are on the GPU and the result stays there; many calls in a row, one wait
  at their end.
- *On the host*: the operands are NumPy arrays in pageable memory and so is the result; one call,
  copies and waits included.
- A *crossing* is the first size from which the fastest GPU backend is ahead of the fastest CPU
  backend at every size that was measured; between two sizes times are latency + work / rate. Behind
  ± is how far it moves when one device is at its lower and the other at its upper quartile, and at
  least half of the distance between the two sizes. A crossing at the smallest size, 1: the GPU was
  ahead everywhere. "None below": the CPU was ahead at that size, the largest that both were
  measured at. *Modelled*: beyond it the CPU would have taken too long to be tried; its time there
  is that of the line through its last two sizes. A crossing with ~ is an order of magnitude: its
  uncertainty is as large as it is.
- Size: elements; of `matmul` the cube root of batch·m·n·k.
- Outliers: {OUTLIER_RULE}.
"""
MODEL: Final = """\
The model knows a device by three constants, and the copies by the lines of `[transfer]`:

    time = latency + bytes / rate + flops / rate
    copies = one latency for each array + bytes / rate

*The device's* constants: latency is the median, over elementwise operations, of the time at the
smallest size; the rate of bytes is what `add` reaches beyond it at its largest size, that of flops
what `matmul` reaches. Nothing else is fitted. Arithmetic of operations other than products is left
out of it, and so are caches. *The operation's own* constants are those of the line through all of
its times on a device, which is a description and no prediction. So where its own agree and the
device's do not, it is the latency or the arithmetic of the operation that decides, not the form of
the model; where its own fail too, no straight line describes it: caches and threads make a CPU
faster at some sizes than at others.
"""
THREATS: Final = """\
- One machine, on one day, by one version of softcuda: another host processor moves every crossing.
- One typical shape an operation. A product is square; a reduction runs along rows; gather and
  scatter have random indices. Other shapes cross elsewhere.
- A call of one node. In a graph, fusion saves passes over memory and launches, and a value that
  stays on a device is not copied: `policy = min_cut` prices whole graphs.
- Resident times are throughput: calls follow each other without a wait. A single call with its wait
  takes some microseconds more.
- Data on the host is pageable, as NumPy allocates it; pinned memory copies faster, and moves the
  crossings with the data on the host down.
- Medians of few samples, in one process, with whatever else the machine did: a profile's head says
  how busy other processes were, where the kernel tells it.
- The model has three constants a device. Caches of the CPU, the ramp of the GPU's clocks and
  functions that are bound by arithmetic are no part of it.
"""
