"""Reports: a suite's results as JSON and as tables between the markers of README.md."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import Machine, Rates
from benchmarks.results import Check, Row, Timing
from benchmarks.timing import OURS

__all__ = ["replace_between_markers", "suite_json", "suite_tables", "time_text", "write_text"]

_QUIET = 0.2  # busy cores before a run, up to which a machine counts as quiet


def suite_json(suite: str, machine: Machine, rates: Rates, rows: Sequence[Row]) -> str:
    """Return everything that a run found, as JSON."""
    content = {
        "suite": suite,
        "machine": dataclasses.asdict(machine),
        "rates": dataclasses.asdict(rates),
        "rows": [dataclasses.asdict(row) for row in rows],
    }
    return json.dumps(_rounded(content), indent=1) + "\n"


def _rounded(value: Any) -> Any:
    """Return the same structure with floats of 5 digits; inf and NaN become null."""
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(part) for part in value]
    return value


def suite_tables(suite: str, machine: Machine, rates: Rates, rows: Sequence[Row]) -> str:
    """Return a suite's section of README.md: the machine, what must be reached, all groups."""
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    flops = ", ".join(f"{dtype} {rate / 1e9:.0f} GFLOP/s" for dtype, rate in rates.flops_s.items())
    parts = [
        f"{machine.device}, {machine.cores} cores, {machine.threads} threads, {machine.system}; "
        f"{versions}; {machine.date}.{_busy_text(machine)}",
        "",
        f"Measured in the run: copy {rates.copy_bytes_s / 1e9:.1f} GB/s (read plus write), "
        f"{rates.unit} {flops}. These make the floor.",
        "",
    ]
    checks = [check for row in rows for check in row.checks]
    if checks:
        parts += ["#### To reach", "", *_check_table(checks), ""]
    for group in dict.fromkeys(row.group for row in rows):
        members = [row for row in rows if row.group == group]
        parts += [f"#### {group}", "", *_group_table(members), ""]
    return "\n".join(parts)


def _busy_text(machine: Machine) -> str:
    """Return a warning where other programs were running."""
    if machine.busy is None or machine.busy <= _QUIET:
        return ""
    return (
        f" **The machine was not quiet**: other programs kept {machine.busy:.1f} cores busy; the "
        "figures below are doubtful."
    )


def _check_table(checks: Sequence[Check]) -> list[str]:
    lines = ["| what | bound | measured | reached |", "| --- | --- | ---: | --- |"]
    words = {True: "yes", False: "**no**", None: "not measured"}
    for check in checks:
        value = "-" if check.value is None else f"{check.value:.3g}"
        lines.append(f"| {check.what} | {check.bound} | {value} | {words[check.met]} |")
    return lines


def _group_table(rows: Sequence[Row]) -> list[str]:
    """Return one table: a column for each contestant, the floor and each fact that occurs."""
    names = list(dict.fromkeys(t.name for row in rows for t in row.timings))
    facts = list(dict.fromkeys(key for row in rows for key in row.facts))
    floors = any(row.floor is not None for row in rows)
    errors = any(t.error is not None for row in rows for t in row.timings)
    head = ["case"]
    head += ["floor", "of the floor"] if floors else []
    head += names
    head += facts
    head += ["error"] if errors else []
    lines = [f"| {' | '.join(head)} |", "| --- |" + " ---: |" * (len(head) - 1)]
    for row in rows:
        cells = [row.case.replace("|", "\\|")]
        if floors:
            cells.append(f"{time_text(row.floor.us)}, {row.floor.bound_by}" if row.floor else "-")
            fraction = row.fraction_of_floor
            cells.append("-" if fraction is None else f"{fraction:.2f}")
        timings = {t.name: t for t in row.timings}
        cells += [_timing_cell(timings.get(name), row) for name in names]
        cells += [f"{row.facts[key]:.3g}" if key in row.facts else "-" for key in facts]
        ours = timings.get(OURS)
        if errors:
            known = ours is not None and ours.error is not None
            cells.append(f"{ours.error:.1e}" if known and ours else "-")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _timing_cell(timing: Timing | None, row: Row) -> str:
    if timing is None:
        return "-"
    if timing.status == "wrong":
        return f"wrong (error {timing.error:.1e}, {timing.nan_mismatches} NaN mismatches)"
    if timing.us is None:
        return timing.status
    text = time_text(timing.us)
    if timing.low_us is not None and timing.high_us is not None:
        text += f" ±{(timing.high_us - timing.low_us) / 2 / timing.us:.0%}"
    ratio = row.ratios.get(timing.name)
    if ratio is not None:
        text += f" ({ratio.median:.2f}x, {ratio.low:.2f} to {ratio.high:.2f})"
    return text


def time_text(us: float) -> str:
    """Return a time with three digits and its unit.

    Example:
        >>> time_text(0.5), time_text(12345.0), time_text(2.5e6)
        ('500 ns', '12.3 ms', '2.5 s')
    """
    for unit, scale in (("ns", 1e-3), ("us", 1.0), ("ms", 1e3)):
        if us < scale * 999.5:
            return f"{us / scale:.3g} {unit}"
    return f"{us / 1e6:.3g} s"


def replace_between_markers(text: str, suite: str, section: str) -> str:
    """Return `text` with a suite's section replaced, or added at the end.

    The section stands between `<!-- suite NAME begins -->` and `<!-- suite NAME ends -->`.
    """
    begin, end = f"<!-- suite {suite} begins -->", f"<!-- suite {suite} ends -->"
    block = f"{begin}\n\n{section.strip()}\n\n{end}"
    if begin not in text or end not in text:
        return f"{text.rstrip()}\n\n### {suite}\n\n{block}\n"
    before, rest = text.split(begin, 1)
    return before + block + rest.split(end, 1)[1]


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
