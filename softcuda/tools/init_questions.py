"""What soft_init answers about profiles that are there: --diff and --explain."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from softcuda.errors import ArgumentError
from softcuda.graph.op import OPS, Kind
from softcuda.profile.check import range_text, token_text
from softcuda.profile.model import Profile, Row, Threshold
from softcuda.tools.cells import Ledger, Outcome, State
from softcuda.tools.display import crossing_text
from softcuda.tools.profile_rows import was_measured
from softcuda.tools.spread import kept_times

__all__ = ["difference_lines", "explanation_lines"]

_POWERS: Final = {True: 13, False: 25}  # sizes compared: contractions up to 2^12, others 2^24
_NAMED: Final = 6  # tokens in a line
_NEAR: Final = 2.0  # a size this close to where a row ends is near a crossing


def _measured(profile: Profile, ops: Collection[str]) -> set[tuple[str, str]]:
    """Return (op, dtype) of the narrow rows that were measured, of some ops or of all."""
    rows = (row for row in profile.rows if was_measured(row) and (not ops or row.op in ops))
    return {(row.op, row.dtype) for row in rows if row.dtype is not None}


class _Span(NamedTuple):
    """Neighbouring sizes that two profiles decide in two ways."""

    low: int
    high: int
    backend_ids: tuple[str, str]


def difference_lines(one: Profile, other: Profile, ops: Collection[str] = ()) -> list[str]:
    """Return what two profiles decide differently, as lines of text.

    Sizes are powers of two, of every op and dtype that both have measured; where they have none in
    common, of those that one of them has. How far they agree is said for all sizes, and for those
    that are away from where a row ends.

    Args:
        one: a profile.
        other: another one.
        ops: of these ops only; () for all.

    Raises:
        ArgumentError: neither has measured anything of them.
    """
    lines = [
        f"device: {key} is {said or 'not written'!r} in {one.name} and {there or 'not written'!r} "
        f"in {other.name}"
        for key, said, there in zip(one.device._fields, one.device, other.device, strict=True)
        if said != there
    ]
    lines += [
        f"{word} is {a} in {one.name} and {b} in {other.name}"
        for word, a, b in (
            ("policy", one.policy, other.policy),
            ("pool: device", one.pool.device, other.pool.device),
            ("pool: block_size", str(one.pool.block_size), str(other.pool.block_size)),
        )
        if a != b
    ]
    tokens = _measured(one, ops) & _measured(other, ops)
    if tokens:
        lines += _alone(one, other, ops)
    if not tokens:
        tokens = _measured(one, ops) | _measured(other, ops)
        if not tokens:
            raise ArgumentError(
                f"--diff: neither {one.path} nor {other.path} has a measured row "
                f"op[dtype]{' of ' + ', '.join(ops) if ops else ''}; there is nothing to compare"
            )
        lines.append("nothing was measured for both: what one was measured for is compared")
    same = total = near_same = near_total = 0
    for op, dtype in sorted(tokens):
        spans: list[_Span] = []
        for power in range(_POWERS[OPS[op].kind is Kind.CONTRACTION]):
            size = 1 << power
            rows = (one.lookup(op, dtype, size), other.lookup(op, dtype, size))
            if rows[0] is None or rows[1] is None:
                continue
            ids = (rows[0].backend_id, rows[1].backend_id)
            agree, is_near = ids[0] == ids[1], any(_is_near(row, size) for row in rows if row)
            total, same = total + 1, same + agree
            near_total, near_same = near_total + is_near, near_same + (is_near and agree)
            if agree:
                continue
            if spans and spans[-1].backend_ids == ids and spans[-1].high == size // 2:
                spans[-1] = spans[-1]._replace(high=size)
            else:
                spans.append(_Span(size, size, ids))
        lines += [
            f"{token_text(op, dtype)}, sizes {span.low} to {span.high}: "
            f"{span.backend_ids[0]} -> {span.backend_ids[1]}"
            for span in spans
        ]
    asked = [line for line in one.thresholds if not ops or line.op in ops]
    lines += list(_moved(asked, other.thresholds))
    lines.append(f"{_share(same, total)} sizes agree")
    away = (same - near_same, total - near_total)
    lines.append(f"{_share(*away)} sizes away from the crossings agree")
    return lines


def _alone(one: Profile, other: Profile, ops: Collection[str]) -> Iterator[str]:
    """Yield what only one of two profiles has measured."""
    for here, there in ((one, other), (other, one)):
        rest = _measured(here, ops) - _measured(there, ops)
        if rest:
            first = ", ".join(token_text(op, dtype) for op, dtype in sorted(rest)[:_NAMED])
            more = f" and {len(rest) - _NAMED} more" if len(rest) > _NAMED else ""
            yield f"measured in {here.name} alone, and not compared: {first}{more}"


def _is_near(row: Row, size: int) -> bool:
    return (row.low > 0 and size < _NEAR * row.low) or (
        row.high is not None and size * _NEAR >= row.high
    )


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.1%})" if whole else "0 of 0"


def _moved(one: Sequence[Threshold], other: Sequence[Threshold]) -> Iterator[str]:
    """Yield the crossings that differ by more than both uncertainties."""
    there = {(line.op, line.dtype): line for line in other}
    for line in one:
        second = there.get((line.op, line.dtype))
        if second is None:
            continue
        for word, a, b in (("host", line.host, second.host),
                           ("resident", line.resident, second.resident)):  # fmt: skip
            if a is None or b is None:
                continue
            error = (a.uncertainty or 0) + (b.uncertainty or 0)
            if a.found != b.found or abs(a.size - b.size) > error:
                token = token_text(line.op, line.dtype)
                yield f"{token}, crossing {word}: {crossing_text(a)} -> {crossing_text(b)}"


def explanation_lines(
    profile: Profile, ledger: Ledger | None, token: str, size: int, samples: str = ""
) -> list[str]:
    """Return why an op goes where at a size: its row, and the samples behind it.

    Those are of the measured sizes around it and of the next nearest one.

    Args:
        profile: the profile.
        ledger: its samples; None where there is no file of them.
        token: `op` (which stands for f32, or for the dtype that it was measured in) or `op[dtype]`.
        size: the row's size.
        samples: the name of their file.

    Raises:
        ArgumentError: the profile has no row for it.
    """
    op, _, rest = token.partition("[")
    dtype = rest.rstrip("]") or _dtype_of(profile, op)
    row = profile.lookup(op, dtype, size)
    if row is None:
        raise ArgumentError(
            f"--explain: {profile.path} has no row for {op}; DEFAULT.soft decides it"
        )
    decided = f"{token_text(row.op, row.dtype)} | {range_text(row.low, row.high)}"
    lines = [f"{op}[{dtype}] of size {size} runs on {row.backend_id}"]
    lines.append(f"decided by {profile.label(row)}: {decided} = {row.backend_id}")
    if row.comment:
        lines.append(f"it says: {row.comment}")
    for line in profile.thresholds:
        if (line.op, line.dtype) == (op, dtype):
            lines.append(
                f"the GPU is faster from: {crossing_text(line.host) or 'unknown'} with the data "
                f"on the host, {crossing_text(line.resident) or 'unknown'} resident"
            )
    if ledger is None:
        return [*lines, f"there is no file of samples: {samples or 'none was looked for'}"]
    cells = dict(ledger.at(op, dtype))
    for measured in _around(list(cells), size):
        lines.append(f"at size {measured} [us]:")
        lines += [f"  {name}: {_outcome_text(found)}" for name, found in cells[measured].items()]
    if not cells:
        lines.append(f"there are no samples of {op}[{dtype}] in {samples or 'the file of samples'}")
    return lines


def _dtype_of(profile: Profile, op: str) -> str:
    """Return the dtype that an op without one stands for."""
    known = [row.dtype for row in profile.rows if row.op == op and row.dtype is not None]
    return "f32" if "f32" in known or not known else known[0]


def _around(sizes: Sequence[int], size: int) -> list[int]:
    """Return the sizes that bracket one, and the nearest other; ascending.

    Example:
        >>> _around([416, 448, 512, 4096], 700), _around([1, 8, 64, 512], 8)
        ([448, 512, 4096], [1, 8, 64])
    """
    below = [each for each in sizes if each <= size][-1:]
    above = [each for each in sizes if each > size][:1]
    rest = [each for each in sizes if each not in below + above]
    nearest = sorted(rest, key=lambda each: abs(math.log(each / size)))
    return sorted(below + above + nearest[: 3 - len(below + above)])


def _outcome_text(outcome: Outcome) -> str:
    """Return a median and the samples behind it; those that are outliers stand by themselves."""
    if outcome.state is not State.MEASURED:
        return f"{outcome.state.value}: {outcome.reason}"
    host = outcome.host_us
    beside = f"; with the data on the host {host:.4g}" if outcome.host and host else ""
    kept = kept_times(outcome.samples)
    samples = ", ".join(f"{time:g}" for time in kept)
    beyond = ", ".join(f"{time:g}" for time in sorted(outcome.samples)[len(kept) :])
    outliers = f"; outliers {beyond}" if beyond else ""
    return f"median {outcome.microseconds:g} of {samples or 'no samples'}{outliers}{beside}"
