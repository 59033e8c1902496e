"""Two architectures compared: what each kernel takes on both, and the instructions of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from softcuda.knobs import thread_count
from softcuda.nvrtc.parallel import run_all
from softcuda.nvrtc.unit import Image
from softcuda.tools.inspect_compiled import KernelRow
from softcuda.tools.inspect_disassembly import Disassembler, instructions, sass_of
from softcuda.tools.inspect_display import Table

__all__ = ["Comparison", "compare", "comparison_table", "histogram_table"]

_FACTS: Final = {
    "regs": ("registers",),
    "spills": ("spill_store_bytes",),
    "local": ("local_bytes",),
    "shared": ("static_shared_bytes",),
    "blocks": ("occupancy", "blocks"),
    "warps": ("occupancy", "warps"),
    "image": ("image_bytes",),
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One kernel on two architectures.

    Attributes:
        before: on the first.
        after: on the second.
        counts: how often each instruction occurs on the first and on the second; () where there
            is no disassembler, or an image of the two is no cubin.
    """

    before: KernelRow
    after: KernelRow
    counts: tuple[Counter[str], ...] = ()

    def record(self) -> dict[str, Any]:
        """Return the comparison as JSON has it."""
        names = ("before", "after")
        return {
            "id": self.before.entry.spec.id,
            "backend_id": self.before.entry.backend_id,
            "before": self.before.record(),
            "after": self.after.record(),
            "instructions": dict(zip(names, map(dict, self.counts), strict=True))
            if self.counts
            else None,
        }


def compare(rows: Sequence[KernelRow], tool: Disassembler | None) -> tuple[Comparison, ...]:
    """Return the comparisons of rows that alternate between two architectures.

    Args:
        rows: of each kernel that on the first architecture, then that on the second.
        tool: what disassembles; None for no instructions.

    Raises:
        CompileError: the disassembler fails.
    """
    counts: list[Counter[str] | None] = [None] * len(rows)
    if tool is not None:
        for number, outcome in enumerate(
            run_all(lambda row: _count(row, tool), rows, thread_count())
        ):
            if isinstance(outcome, Exception):
                raise outcome
            counts[number] = outcome or None
    found = []
    for k in range(0, len(rows), 2):
        pair = [count for count in counts[k : k + 2] if count is not None]
        found.append(Comparison(rows[k], rows[k + 1], tuple(pair) if len(pair) == 2 else ()))
    return tuple(found)


def _count(row: KernelRow, tool: Disassembler) -> Counter[str]:
    """Return the instructions of a row; none where it has no cubin."""
    if row.cubin is None or row.cubin.kind is not Image.CUBIN:
        return Counter()
    return instructions(sass_of(row.cubin, tool))


def comparison_table(comparisons: Sequence[Comparison]) -> Table:
    """Return the table of resources: one number where both are equal, else "before > after"."""
    numbers = (*_FACTS, "instructions")
    rows = []
    for comparison in comparisons:
        pair = (comparison.before.record(), comparison.after.record())
        cells = [_change(*(_fact(record, path) for record in pair)) for path in _FACTS.values()]
        totals = [str(count.total()) for count in comparison.counts] or ["-", "-"]
        rows.append((pair[0]["backend_id"], pair[0]["id"], *cells, _change(*totals)))
    headings = ("backend_id", "kernel", *numbers)
    return Table(headings, tuple(rows), frozenset(numbers), "kernel", ("backend_id", "image"))


def _fact(record: Any, path: tuple[str, ...]) -> str:
    for key in path:
        record = None if record is None else record[key]
    return "-" if record is None else str(record)


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before} > {after}"


def histogram_table(comparisons: Sequence[Comparison], archs: Sequence[str]) -> Table | None:
    """Return how often each instruction occurs in all kernels, the largest differences first.

    None where nothing was disassembled.
    """
    totals = [Counter[str](), Counter[str]()]
    for comparison in comparisons:
        for total, count in zip(totals, comparison.counts, strict=False):
            total.update(count)
    before, after = totals
    if not before and not after:
        return None
    names = sorted(before | after, key=lambda name: (-abs(after[name] - before[name]), name))
    rows = tuple(
        (name, str(before[name]), str(after[name]), f"{after[name] - before[name]:+}")
        for name in names
    )
    headings = ("instruction", archs[0], archs[1], "change")
    return Table(headings, rows, frozenset(headings[1:]))
