"""Tables of inspect_kernels: drawn on a terminal, plain columns elsewhere; and its progress."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Literal, NamedTuple, TextIO

from softcuda.sizes import counted
from softcuda.tools.inspect_compiled import KernelRow

__all__ = ["Table", "compile_progress", "kernel_table", "problems", "summary", "table_text"]

_LINE_EVERY_S: Final = 5.0
_NUMBERS: Final = frozenset(
    ("threads", "regs", "spills", "local", "shared", "blocks", "warps", "full")
)
_HEADINGS: Final = (
    *("backend_id", "family", "variant", "file", "dtypes", "arch", "tile"),
    *("threads", "regs", "spills", "local", "shared", "blocks", "warps", "full", "limited by"),
)
_OPTIONAL: Final = (
    *("limited by", "file", "tile", "warps", "blocks", "threads", "local", "full"),
    *("dtypes", "backend_id"),
)
_PROBLEM_LINES: Final = 12
_GAP: Final = 3


class Table(NamedTuple):
    """A table of texts.

    Attributes:
        headings: of the columns.
        rows: a text for every column.
        numbers: the headings of the columns that are aligned on the right.
        folds: the heading of the column that may be broken into several lines.
        optional: the headings of columns that a narrow terminal does without, the first first.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[str] = frozenset()
    folds: str = ""
    optional: tuple[str, ...] = ()


def kernel_table(rows: Sequence[KernelRow]) -> Table:
    """Return the table of kernels; bytes of memory are of a thread (local) or a block (shared)."""
    return Table(_HEADINGS, tuple(map(_cells, rows)), _NUMBERS, "variant", _OPTIONAL)


def _cells(row: KernelRow) -> tuple[str, ...]:
    spec, found, fits = row.entry.spec, row.resources, row.occupancy
    known: tuple[str, ...] = ("", "", "", "")
    if found is not None:
        spills = f"{found.spill_store_bytes}/{found.spill_load_bytes}"
        shared = f"{found.shared_bytes}+{spec.shared_bytes}"
        known = (str(found.registers), spills, str(found.stack_bytes), shared)
    held: tuple[str, ...] = ("", "", "", _note(row))
    if fits is not None:
        held = (str(fits.blocks), str(fits.warps), f"{fits.share:.0%}", fits.limited_by)
    return (
        row.entry.backend_id,
        spec.family,
        spec.variant,
        spec.file,
        _short(spec.dtypes),
        row.arch,
        "x".join(map(str, spec.tile)) or "-",
        str(spec.threads),
        *known,
        *held,
    )


def _short(dtypes: Sequence[str]) -> str:
    """Return dtypes with repeated ones counted, such as "f32*3,bool"."""
    runs: list[tuple[str, int]] = []
    for name in dtypes:
        if runs and runs[-1][0] == name:
            runs[-1] = (name, runs[-1][1] + 1)
        else:
            runs.append((name, 1))
    return ",".join(name if count == 1 else f"{name}*{count}" for name, count in runs) or "-"


def _note(row: KernelRow) -> str:
    if row.refusal:
        return "not for this architecture"
    if row.problem:
        return "not compiled"
    return "PTX, the driver assembles it" if row.resources is None else "limits not known"


def summary(rows: Sequence[KernelRow], compiled: int, place: object) -> str:
    """Return the lines under the table: how many, from where, and what an architecture lacks.

    Args:
        rows: all rows.
        compiled: how many of them were compiled just now.
        place: the folder of the cache, or None.
    """
    kernels = len({row.entry for row in rows})
    archs = ", ".join(dict.fromkeys(row.arch for row in rows))
    saved = sum(row.entry.spec.built is not None for row in rows)
    cached = sum(row.cubin is not None for row in rows) - compiled - saved
    lines = [
        f"{counted(kernels, 'kernel')} for {archs or 'no architecture'}: "
        f"{f'{saved} as they were saved, ' if saved else ''}{compiled} compiled now, "
        f"{max(cached, 0)} from the cache {place or '(none)'}",
        "spills: stored/loaded and local memory: bytes a thread; shared: static+dynamic bytes a "
        "block; blocks and warps: active on a multiprocessor",
    ]
    lines.extend(dict.fromkeys(row.refusal for row in rows if row.refusal))
    return "\n".join(lines)


def problems(rows: Sequence[KernelRow]) -> str:
    """Return why kernels could not be compiled, each reason once; "" where all were."""
    lines: list[str] = []
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.problem:
            reasons.setdefault(row.problem, []).append(f"{row.entry.spec.id} for {row.arch}")
    for reason, kernels_of in reasons.items():
        more = f" and {len(kernels_of) - 1} more" if len(kernels_of) > 1 else ""
        told = "\n".join(reason.splitlines()[:_PROBLEM_LINES])
        lines.append(f"not compiled: {kernels_of[0]}{more}: {told}")
    return "\n".join(lines)


def table_text(table: Table, stream: TextIO) -> str:
    """Return a table as text for a stream: drawn where it is a terminal, else plain columns."""
    return _drawn(table, stream) if stream.isatty() else _plain(table)


def _widths(table: Table) -> list[int]:
    grid = (table.headings, *table.rows)
    return [max(len(row[k]) for row in grid) for k in range(len(table.headings))]


def _plain(table: Table) -> str:
    widths = _widths(table)
    lines = [
        "  ".join(
            text.rjust(width) if heading in table.numbers else text.ljust(width)
            for text, width, heading in zip(row, widths, table.headings, strict=True)
        ).rstrip()
        for row in (table.headings, *table.rows)
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def _drawn(table: Table, stream: TextIO) -> str:
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - loaded where a table is drawn
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table as Drawing  # noqa: PLC0415

    width = Console(file=stream).width
    shown, left_out = _fitting(table, width)
    drawing = Drawing(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for k in shown:
        heading = table.headings[k]
        is_fixed = heading != table.folds
        side: Literal["left", "right"] = "right" if heading in table.numbers else "left"
        drawing.add_column(heading, justify=side, no_wrap=is_fixed, overflow="fold")
    for row in table.rows:
        drawing.add_row(*(row[k] for k in shown))
    buffer = io.StringIO()
    console = Console(
        file=buffer, width=width, force_terminal=True, markup=False, highlight=False, emoji=False
    )
    console.print(drawing)
    lines = [buffer.getvalue().rstrip()]
    if left_out:
        lines.append(f"left out, the terminal is narrow: {', '.join(left_out)}")
    return "\n".join(lines)


def _fitting(table: Table, width: int) -> tuple[list[int], list[str]]:
    """Return the numbers of the columns that a terminal shows, and the headings of the others."""
    widths = _widths(table)
    shown, left_out = list(range(len(widths))), []
    for heading in table.optional:
        if sum(widths[k] + _GAP for k in shown) <= width:
            break
        shown.remove(table.headings.index(heading))
        left_out.append(heading)
    return shown, left_out


@contextmanager
def compile_progress(stream: TextIO) -> Iterator[Callable[[int, int, str], None]]:
    """Yield what to tell how far compiling is: (done, total, kernel).

    One line that is written over on a terminal; elsewhere a line every few seconds.
    """
    is_terminal = stream.isatty()
    last = time.monotonic()

    def report(done: int, total: int, name: str) -> None:
        nonlocal last
        if is_terminal:
            print(f"\r\x1b[Kcompiled {done} of {total}  {name}", end="", file=stream, flush=True)
        elif time.monotonic() - last >= _LINE_EVERY_S:
            last = time.monotonic()
            print(f"compiled {done} of {total}, {name}", file=stream, flush=True)

    try:
        yield report
    finally:
        if is_terminal:
            print("\r\x1b[K", end="", file=stream, flush=True)
