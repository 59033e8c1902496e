"""The finding as a page of Markdown: question, method, machine, crossings, what explains them."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from typing import Final

from softcuda.profile.check import token_text
from softcuda.profile.model import Profile
from softcuda.tools.cells import Ledger, State
from softcuda.tools.costs import transfers
from softcuda.tools.plausible import plausible
from softcuda.tools.report_agreement import agreement_rows, beside_model
from softcuda.tools.report_crossings import crossings, in_a_sentence, limits, table
from softcuda.tools.report_curves import Figure
from softcuda.tools.report_model import Constants, constants_of, fit_of
from softcuda.tools.report_words import METHOD, MODEL, QUESTION, THREATS
from softcuda.tools.spread import kept_times, short_text
from softcuda.tools.thresholds import races

__all__ = ["finding"]

_ORDER: Final = ("f32", "f64", "f16", "bf16")
_EXPLAINED: Final = 12  # ops whose lines and shares are shown


def finding(profile: Profile, ledger: Ledger, found: Sequence[Figure], stem: str) -> str:
    """Return the page; the same profile and samples give the same page.

    Args:
        profile: what was measured, with its thresholds.
        ledger: its samples.
        found: its figures, the important ops first.
        stem: name of the picture and of the page with all curves, without their endings.
    """
    found = sorted(found, key=lambda figure: _rank(figure.dtype))
    dtypes = list(dict.fromkeys(figure.dtype for figure in found))
    ledger = plausible(ledger)
    constants = {dtype: constants_of(ledger, dtype) for dtype in dtypes}
    rows = beside_model(profile, ledger, constants, found)
    parts = [
        "<!-- Written by soft_init report --markdown. -->",
        f"# {_title(profile)}\n",
        QUESTION,
        *in_a_sentence(rows),
        "## Method\n",
        METHOD,
        "## Machine\n",
        *_machine(profile, ledger),
        "## Curves\n",
        f"![time against size of the most important operations]({stem}.svg)\n",
        f"[{stem}.html]({stem}.html) has the curves of all operations, with a table behind each.\n",
        "## Crossings\n",
        *crossings(rows),
        "## What explains them\n",
        *_constants(constants),
        *_reasons(constants, profile),
        *_lines(ledger, found),
        *_shares(ledger, found),
        "## Agreement with the model\n",
        MODEL,
        *agreement_rows(rows),
        "## Threats to validity\n",
        *limits(ledger, rows),
        THREATS,
        *_samples(ledger),
        "## Again, on another machine\n",
        "    soft_init --output here.soft && soft_init report here.soft --markdown\n",
        "writes this page, the picture and the curves; `soft_init --diff` of two profiles tells\n"
        "which decisions differ.",
    ]
    return "\n".join(parts) + "\n"


def _title(profile: Profile) -> str:
    device = profile.device
    name = html.escape(device.name or device.cpu or "this machine", quote=False)
    is_cuda = device.type == "cuda"
    return f"Where the GPU begins to pay: {name}" if is_cuda else f"What a call takes: {name}"


def _machine(profile: Profile, ledger: Ledger) -> Iterator[str]:
    device = profile.device
    if device.cpu_cores:
        yield (
            f"The CPU that the GPU is compared with has {device.cpu_cores} logical processors, and "
            "its backends use\nall of them where that is faster: with fewer it would take longer "
            "at large sizes.\n"
        )
    facts = [*device.written(), *sorted(profile.meta.items())]
    yield table(("fact", "value"), facts)
    rows = []
    for memory in ("pageable", "pinned"):
        rows += [
            (f"{line.direction}, {memory}", f"{line.latency_us:g}", f"{line.gb_per_s:g}")
            for line in transfers(ledger, memory)
        ]
    if rows:
        yield table(("copies", "latency [us]", "rate [GB/s]"), rows)


def _rank(dtype: str) -> int:
    """Return the place of a dtype: those of most programs come first."""
    return _ORDER.index(dtype) if dtype in _ORDER else len(_ORDER)


def _constants(constants: dict[str, dict[str, Constants]]) -> Iterator[str]:
    rows = [
        (f"{device}, {dtype}", short_text(c.latency_us), _rate(c.byte_us), _rate(c.flop_us))
        for dtype, of_dtype in constants.items()
        for device, c in of_dtype.items()
    ]
    if rows:
        yield table(("device", "latency of a call [us]", "rate [GB/s]", "rate [GFLOP/s]"), rows)


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
        yield table(("op", "CPU", "CUDA, resident"), rows)


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
        yield table(head, rows)


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
