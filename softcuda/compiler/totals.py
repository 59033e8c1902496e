"""Modelled totals: what the [costs] of a profile say of a whole graph on each device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from softcuda.backends import backends
from softcuda.compiler.program import Choice
from softcuda.graph.lines import Graph, row_dtype, row_size
from softcuda.profile.model import Profile

__all__ = ["modelled_totals"]


def modelled_totals(graph: Graph, choices: Sequence[Choice], profile: Profile) -> tuple[str, ...]:
    """Return the lines that end a printed table: both modelled totals [microseconds].

    Nothing is said of them where the profile has no [costs], nor of CUDA where it has no CUDA row.
    """
    if not profile.costs:
        return ()
    devices = ("cpu", "cuda") if profile.names_cuda else ("cpu",)
    totals = dict.fromkeys(devices, 0.0)
    unknown: dict[str, set[str]] = {device: set() for device in devices}
    known = backends()
    counts: Counter[tuple[str, str, int]] = Counter()
    for line, choice in zip(graph.lines, choices, strict=True):
        if choice.backend_id in known:
            operands = [graph.lines[source] for source in line.inputs]
            counts[line.op.name, row_dtype(line, operands).name, row_size(line, operands)] += 1
    for (op, dtype, size), count in counts.items():
        for device in totals:
            cost = profile.cost_us(op, dtype, size, device)
            if cost is None:
                unknown[device].add(op)
            else:
                totals[device] += count * cost
    said = []
    for device, total in totals.items():
        missing = ", ".join(sorted(unknown[device]))
        said.append(
            f"all-{device}: unknown, [costs] has no {device} point for {missing}"
            if missing
            else f"all-{device}: {total:.1f} us modelled, transfers not counted"
        )
    return tuple(said)
