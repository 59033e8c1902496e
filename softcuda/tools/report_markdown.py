"""The finding as a page of Markdown: question, method, machine, crossings, what explains them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from softcuda.graph.op import OPS, Kind
from softcuda.profile.check import token_text
from softcuda.profile.model import Profile
from softcuda.tools.cells import Ledger, State
from softcuda.tools.costs import transfers
from softcuda.tools.report_agreement import Compared, agreement_rows, beside_model
from softcuda.tools.report_curves import Figure
from softcuda.tools.report_model import Constants, constants_of, fit_of
from softcuda.tools.spread import OUTLIER_RULE, kept_times, short_text
from softcuda.tools.thresholds import races

__all__ = ["finding"]

_PRODUCT: Final = Kind.CONTRACTION  # whose sizes are extents
_EXPLAINED: Final = 12  # ops whose lines and shares are shown

_QUESTION: Final = """\
From which size on is an operation faster on the GPU: with its data on the host, so that it must be
copied there and its result back, and with its data on the device already?
"""
_METHOD: Final = f"""\
`soft_init` runs every operation on every backend that takes it, at powers of two and, by bisection,
between two sizes with different winners. Each result is compared with float64 first; a wrong
backend has no time. Backends take turns, at least three rounds after a warm-up; medians count. The
times are those of whole calls of a compiled graph of one node, Python included.

- *Resident*: the operands are on the GPU and the result stays there; many calls in a row, one wait
  at their end.
- *On the host*: the operands are NumPy arrays in pageable memory and so is the result; one call,
  copies and waits included.
- A *crossing* is the size from which the fastest GPU backend is ahead of the fastest CPU backend at
  every larger size that was measured; between two sizes times are latency + work / rate. Behind ±
  is how far it moves when one device is at its lower and the other at its upper quartile, and at
  least half of the distance between the two sizes. A crossing at 1: the GPU was ahead everywhere.
  "None below": the CPU was ahead at that size, the largest that both were measured at.
- Size: elements; of `matmul` the cube root of batch·m·n·k.
- Outliers: {OUTLIER_RULE}.
"""
_MODEL: Final = """\
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
_THREATS: Final = """\
- One machine, on one day, by one version of softcuda: another host processor moves every crossing.
- One typical shape an operation. A product is square; a reduction runs along rows; gather and
  scatter have random indices. Other shapes cross elsewhere.
- A call of one node. In a graph, fusion saves passes over memory and launches, and a value that
  stays on a device is not copied: `policy = min_cut` prices whole graphs.
- Resident times are throughput: calls follow each other without a wait. A single call with its wait
  takes some microseconds more.
- Data on the host is pageable, as NumPy allocates it; pinned memory copies faster, and moves the
  crossings with the data on the host down.
- Medians of few samples, in one process, with whatever else the machine did.
- The model has three constants a device. Caches of the CPU, the ramp of the GPU's clocks and
  functions that are bound by arithmetic are no part of it.
"""


def finding(profile: Profile, ledger: Ledger, found: Sequence[Figure], stem: str) -> str:
    """Return the page; the same profile and samples give the same page.

    Args:
        profile: what was measured, with its thresholds.
        ledger: its samples.
        found: its figures, the important ops first.
        stem: name of the picture and of the page with all curves, without their endings.
    """
    device = profile.device
    dtypes = list(dict.fromkeys(figure.dtype for figure in found))
    constants = {dtype: constants_of(ledger, dtype) for dtype in dtypes}
    rows = beside_model(profile, ledger, constants, found)
    parts = [
        "<!-- Written by soft_init report --markdown. -->",
        f"# Where the GPU begins to pay: {device.name or device.cpu or 'this machine'}\n",
        _QUESTION,
        "## Method\n",
        _METHOD,
        "## Machine\n",
        *_machine(profile, ledger),
        "## Curves\n",
        f"![time against size of the most important operations]({stem}.svg)\n",
        f"[{stem}.html]({stem}.html) has the curves of all operations, with a table behind each.\n",
        "## Crossings\n",
        *_crossings(rows),
        "## What explains them\n",
        *_constants(constants),
        *_reasons(constants, profile),
        *_lines(ledger, found),
        *_shares(ledger, found),
        "## Agreement with the model\n",
        _MODEL,
        *agreement_rows(rows),
        "## Threats to validity\n",
        _THREATS,
        *_samples(ledger),
        "## Again, on another machine\n",
        "    soft_init --output here.soft && soft_init report here.soft --markdown\n",
        "writes this page, the picture and the curves; `soft_init --diff` of two profiles tells\n"
        "which decisions differ.",
    ]
    return "\n".join(parts) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"| --- |{' ---: |' * (len(head) - 1)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _machine(profile: Profile, ledger: Ledger) -> Iterator[str]:
    device = profile.device
    if device.cpu_cores:
        yield (
            f"The CPU that the GPU is compared with has {device.cpu_cores} logical processors, and "
            "its backends use\nall of them where that is faster: with fewer it would take longer "
            "at large sizes.\n"
        )
    facts = [*device.written(), *sorted(profile.meta.items())]
    yield _table(("fact", "value"), facts)
    rows = []
    for memory in ("pageable", "pinned"):
        rows += [
            (f"{line.direction}, {memory}", f"{line.latency_us:g}", f"{line.gb_per_s:g}")
            for line in transfers(ledger, memory)
        ]
    if rows:
        yield _table(("copies", "latency [us]", "rate [GB/s]"), rows)


def _crossings(rows: Sequence[Compared]) -> Iterator[str]:
    if not rows:
        yield "No operation was measured on both devices: there is no crossing.\n"
        return
    yield "\n".join(_summary(rows)) + "\n"
    yield (
        "Sizes; beside each what the model below predicts, and in brackets how many times larger\n"
        "the measured one is.\n"
    )
    for dtype in dict.fromkeys(row.dtype for row in rows):
        of_dtype = [row for row in rows if row.dtype == dtype]
        yield f"### {dtype}\n"
        yield _table(
            ("op", "data on the host", "model", "data resident", "model"),
            [(row.op, *row.host.texts(), *row.resident.texts()) for row in of_dtype],
        )


def _summary(rows: Sequence[Compared]) -> Iterator[str]:
    """Yield the finding in a sentence for each dtype and place of the data."""
    for dtype in dict.fromkeys(row.dtype for row in rows):
        of_dtype = [row for row in rows if row.dtype == dtype and OPS[row.op].kind != _PRODUCT]
        for word, crossings in (
            ("on the host", [row.host.measured for row in of_dtype]),
            ("resident", [row.resident.measured for row in of_dtype]),
        ):
            sizes = sorted(c.size for c in crossings if c is not None and c.found)
            known = sum(c is not None for c in crossings)
            if not known:
                continue
            said = f"the GPU is ahead for good in {len(sizes)} of {known}\n  operations"
            if sizes:
                said += f", in half of these from size {sizes[(len(sizes) - 1) // 2]}"
            largest = Counter(c.size for c in crossings if c is not None and not c.found)
            behind = " and ".join(f"{largest[size]} at {size}" for size in sorted(largest))
            if behind:
                said += f"; it is\n  behind at the largest size of both in {behind}"
            yield f"- {dtype}, data {word}: {said}."


def _constants(constants: dict[str, dict[str, Constants]]) -> Iterator[str]:
    rows = [
        (f"{device}, {dtype}", short_text(c.latency_us), _rate(c.byte_us), _rate(c.flop_us))
        for dtype, of_dtype in constants.items()
        for device, c in of_dtype.items()
    ]
    if rows:
        yield _table(("device", "latency of a call [us]", "rate [GB/s]", "rate [GFLOP/s]"), rows)


def _reasons(constants: dict[str, dict[str, Constants]], profile: Profile) -> Iterator[str]:
    """Yield what the constants of each dtype say of both crossings."""
    rates = {line.direction: line.gb_per_s for line in profile.transfer}
    for dtype, of_dtype in constants.items():
        if len(of_dtype) < 2 or not all(c.byte_us and c.flop_us for c in of_dtype.values()):
            continue
        cpu, cuda = of_dtype["cpu"], of_dtype["cuda"]
        calls = f"{short_text(cpu.latency_us)} us, on the GPU {short_text(cuda.latency_us)} us"
        shares = [cpu.byte_us / cuda.byte_us, cpu.flop_us / cuda.flop_us]
        bytes_, flops = map(short_text, shares)
        yield (
            f"- {dtype}, resident: a call on the CPU takes {calls}; beyond it\n"
            f"  a byte takes the CPU {bytes_} times as long as the GPU, a flop of a product "
            f"{flops} times. The\n  difference of the calls decides small sizes, the rates large "
            "ones."
        )
        slowest, own = min(rates.values(), default=0.0), 1e-3 / cpu.byte_us
        if slowest:
            said = (
                "what the CPU\n  does at that pace is done before it could be copied, at every "
                "size; what crosses takes it\n  longer a byte."
                if slowest < own
                else "what the CPU\n  does at that pace crosses where copies are worth their waits."
            )
            yield (
                f"- {dtype}, on the host: copies reach {slowest:g} GB/s, and the CPU {own:.3g} in "
                f"`add`: {said}"
            )
    yield ""


def _rate(each_us: float) -> str:
    return short_text(1e-3 / each_us) if each_us else "-"


def _lines(ledger: Ledger, found: Sequence[Figure]) -> Iterator[str]:
    """Yield latency and rate of each important op, from a line through all of its times."""
    rows = []
    for figure in found[:_EXPLAINED]:
        fits = [fit_of(ledger, figure.op, figure.dtype, device) for device in ("cpu", "cuda")]
        cells = [f"{short_text(f.latency_us)} us, {short_text(f.rate)}" if f else "-" for f in fits]
        rows.append((figure.title, *cells))
    if rows:
        yield (
            "Operation by operation: latency and rate (GB/s read plus written; of `matmul`\n"
            "GFLOP/s) of the line through its times, by least squares of the relative error.\n"
        )
        yield _table(("op", "CPU", "CUDA, resident"), rows)


def _shares(ledger: Ledger, found: Sequence[Figure]) -> Iterator[str]:
    """Yield what a call is made of near its crossing with the data on the host."""
    rows = []
    for figure in found[:_EXPLAINED]:
        on_host = {r.size: r for r in races(ledger, figure.op, figure.dtype, on_host=True)}
        resident = {r.size: r for r in races(ledger, figure.op, figure.dtype, on_host=False)}
        if figure.host is None or not figure.host.found or not on_host:
            continue
        size = min(on_host, key=lambda each: abs(each - (figure.host.size if figure.host else 0)))
        whole, kernel = on_host[size].cuda[1], resident[size].cuda[1]
        copies = max(whole - kernel, 0.0)
        times = (on_host[size].cpu[1], whole, kernel, copies)
        rows.append((figure.title, str(size), *map(short_text, times), f"{copies / whole:.0%}"))
    if rows:
        yield "At the measured size nearest to the crossing with the data on the host [us]:\n"
        head = ("op", "size", "CPU", "CUDA", "of it resident", "copies and waits", "their share")
        yield _table(head, rows)


def _samples(ledger: Ledger) -> Iterator[str]:
    taken = kept = 0
    wrong = set()
    for (op, dtype), cells in ledger.outcomes.items():
        for outcomes in cells.values():
            for name, outcome in outcomes.items():
                taken += len(outcome.samples)
                kept += len(kept_times(outcome.samples))
                if outcome.state is State.WRONG:
                    wrong.add(f"`{name}` {token_text(op, dtype)}")
    yield f"{taken} resident samples, {taken - kept} of them outliers.\n"
    if wrong:
        yield f"Disqualified, since a result was not right: {', '.join(sorted(wrong))}.\n"
