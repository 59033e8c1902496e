"""The crossings of a finding in Markdown: the answer, their number, each one, their limits."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from softcuda.graph.op import OPS, Kind
from softcuda.profile.model import Crossing
from softcuda.tools.cells import Ledger, largest_size
from softcuda.tools.report_agreement import Compared, Pair, is_rough

__all__ = ["crossings", "in_a_sentence", "limits", "table"]

_PRODUCT: Final = Kind.CONTRACTION  # whose sizes are extents
_WIDTH: Final = 100


def _filled(text: str, indent: str = "") -> str:
    """Return a paragraph, or with an indent the point of a list, in lines of 100 characters."""
    return textwrap.fill(
        text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of Markdown, its first column to the left."""
    lines = [f"| {' | '.join(head)} |", f"| --- |{' ---: |' * (len(head) - 1)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def in_a_sentence(rows: Sequence[Compared]) -> Iterator[str]:
    """Yield the finding in one sentence, of the first dtype."""
    if not rows:
        return
    dtype = rows[0].dtype
    of_dtype = [row for row in rows if row.dtype == dtype]
    products = [row for row in of_dtype if OPS[row.op].kind is _PRODUCT]
    others = [row for row in of_dtype if OPS[row.op].kind is not _PRODUCT]
    said = []
    for words, place in (
        ("with its data on the host", Compared._fields.index("host")),
        ("with its data on the GPU already", Compared._fields.index("resident")),
    ):
        parts = [
            f"a square product of {dtype} {_from(pair.measured)}"
            for pair in _pairs(products[:1], place)
            if pair.measured is not None
        ]
        known = [pair.measured for pair in _pairs(others, place) if pair.measured is not None]
        sizes = sorted(c.size for c in known if c.found)
        if known:
            half = f", half of these from {sizes[(len(sizes) - 1) // 2]} elements" if sizes else ""
            parts.append(f"{len(sizes)} of {len(known)} other operations from some size on{half}")
        if parts:
            said.append(f"{words}, {' and '.join(parts)}")
    text = "; ".join(said)
    yield _filled(f"**{text[:1].upper()}{text[1:]}.**") + "\n"


def _pairs(rows: Sequence[Compared], place: int) -> list[Pair]:
    return [pair for row in rows if isinstance(pair := row[place], Pair)]


def _from(crossing: Crossing) -> str:
    if not crossing.found:
        return f"does not pay up to an extent of {crossing.size}"
    about = "about " if is_rough(crossing) else ""
    return f"pays on the GPU from an extent of {about}{crossing.size} on"


def limits(ledger: Ledger, rows: Sequence[Compared]) -> Iterator[str]:
    """Yield how far the sizes reach, and how many crossings are rough, as a threat."""
    if not rows:
        return
    ends: Counter[int] = Counter()
    for (op, dtype), cells in ledger.outcomes.items():
        if OPS[op].kind is not _PRODUCT and any(
            row.op == op and row.dtype == dtype for row in rows
        ):
            ends[max(cells)] += 1
    full = largest_size("add", "cuda")
    short = sum(count for size, count in ends.items() if size < full)
    host = [row.host.measured for row in rows if row.host.measured and row.host.measured.found]
    rough = sum(is_rough(crossing) for crossing in host)
    modelled = sum(row.host.modelled for row in rows)
    lines = []
    if short:
        at = ", ".join(f"{ends[size]} at {size}" for size in sorted(ends) if size < full)
        lines.append(
            f"- The time of the sweep ended before its sizes did: of {sum(ends.values())} curves "
            f"of operations other than products {short} end below {full} ({at}). What is behind at "
            "its last size may cross beyond it."
        )
    if rough:
        lines.append(
            f"- {rough} of the {len(host)} crossings with the data on the host are orders of "
            "magnitude (~): too few sizes lie around them, or the quartiles of both devices "
            "overlap over many sizes. They are counted as found."
        )
    if modelled:
        lines.append(
            f"- {modelled} of these lie where the CPU was not tried "
            "(*modelled*): that there is one is sure as far as the CPU keeps to its pace."
        )
    yield from (_filled(line, "  ") for line in lines)


def crossings(rows: Sequence[Compared]) -> Iterator[str]:
    """Yield how many operations cross and where, and a table for each dtype."""
    if not rows:
        yield "No operation was measured on both devices: there is no crossing.\n"
        return
    yield (
        "Operations other than `matmul`, whose size is an extent and whose crossings are in the "
        "tables:\n"
    )
    yield "\n".join(_summary(rows)) + "\n"
    yield (
        "Sizes; beside each what the model below predicts, and in brackets how many times larger\n"
        "the measured one is.\n"
    )
    for dtype in dict.fromkeys(row.dtype for row in rows):
        of_dtype = [row for row in rows if row.dtype == dtype]
        yield f"### {dtype}\n"
        if any(row.host.model or row.resident.model for row in of_dtype):
            cells: list[Sequence[str]] = [
                (row.op, *row.host.texts(), *row.resident.texts()) for row in of_dtype
            ]
            yield table(("op", "data on the host", "model", "data resident", "model"), cells)
        else:
            yield (
                "The constants of the model come from elementwise operations and `add`, which were "
                f"not measured in\n{dtype}: it predicts nothing here.\n"
            )
            cells = [(row.op, row.host.texts()[0], row.resident.texts()[0]) for row in of_dtype]
            yield table(("op", "data on the host", "data resident"), cells)


def _summary(rows: Sequence[Compared]) -> Iterator[str]:
    """Yield the finding in a sentence for each dtype and place of the data."""
    for dtype in dict.fromkeys(row.dtype for row in rows):
        of_dtype = [row for row in rows if row.dtype == dtype and OPS[row.op].kind != _PRODUCT]
        for word, crossings in (
            ("on the host", [row.host.measured for row in of_dtype]),
            ("resident", [row.resident.measured for row in of_dtype]),
        ):
            found = [c for c in crossings if c is not None and c.found]
            sizes = sorted(c.size for c in found)
            known = sum(c is not None for c in crossings)
            if not known:
                continue
            said = f"the GPU is ahead for good in {len(sizes)} of {known} operations"
            if sizes:
                said += f", in half of these from size {sizes[(len(sizes) - 1) // 2]}"
            rough = sum(map(is_rough, found))
            if rough:
                said += f" ({rough} of them with ~)"
            largest = Counter(c.size for c in crossings if c is not None and not c.found)
            behind = " and ".join(f"{largest[size]} at {size}" for size in sorted(largest))
            if behind:
                said += f"; it is behind at the largest size of both in {behind}"
            yield _filled(f"- {dtype}, data {word}: {said}.", "  ")
