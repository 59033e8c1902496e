"""From a Profile to its file: the same profile gives the same bytes, the file is whole or not."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Final

from softcuda.errors import ArgumentError
from softcuda.profile.check import range_text, token_text
from softcuda.profile.grammar import parse
from softcuda.profile.model import Crossing, Profile
from softcuda.profile.place import place_file
from softcuda.profile.text import one_line, shown
from softcuda.profile.vocabulary import DEVICE_KEYS, META_KEYS, work_ops

__all__ = ["render", "write"]

_HEAD: Final = """\
# A softcuda profile: which backend computes each operation, at each size.
# softcuda reads it once, when a graph is compiled; print(executable) names the line that decided.
# A comment begins with # or ; at the start of a line or after white space.
"""

_OPS: Final = """\
# op_name | size_bucket = backend
#
# Size: matmul (also dot, outer and every pair of an einsum): the cube root of batch*m*n*k,
#   rounded down; reductions, cumsum, softmax, log_softmax, layer_norm: elements of the input;
#   gather, take, creation, random, concat, stack, pad: elements of the result;
#   all others: elements of the result after broadcasting.
# Ranges are half-open: any, size < N, size >= N, N <= size < M. The rows of an op cover every
#   size once. A row op[dtype] is narrower and wins over a row op; a row's dtype is that of the
#   widest input (cast: the wider of both).
# Views (transpose, slice, reshape without a copy, expand_dims, broadcast_to, diagonal, flip) do
#   no work and have no row. An op without a row takes that of DEFAULT.soft.
"""

_PLACEMENT: Final = """\
# table: obey the rows below. min_cut: move work between devices so that the modelled total,
# copies included, is least.
"""

_THRESHOLDS: Final = """\
# Informative: the size from which CUDA is faster, with the data on the host before and after,
# and with the data resident on the device.
"""

_COSTS: Final = """\
# Microseconds, data resident; interpolated on log axes.
"""

_TRANSFER: Final = """\
# Copies between host and device: latency + rate, then what copies of some sizes took. Between
# those a copy lies on log axes.
"""

_POOL: Final = """\
# device holds outputs by default; block_size [bytes] is what both pools take at a time.
"""


def render(profile: Profile, notes: Iterable[str] = ()) -> str:
    """Return the text of a profile's file; the same profile gives the same text.

    Comments of rows stand beside them. The last line is block_size of [pool]: by its absence a file
    that was cut short is known.

    Args:
        profile: what to write.
        notes: lines of comment for the head of the file; they are not part of the profile.
    """
    head = _HEAD + "".join(f"# {one_line(note)}".rstrip() + "\n" for note in notes)
    known = [(key, profile.meta[key]) for key in META_KEYS if key in profile.meta]
    others = sorted((k, v) for k, v in profile.meta.items() if k not in META_KEYS)
    device = sorted(profile.device.written(), key=lambda item: DEVICE_KEYS.index(item[0]))
    pool = [("device", profile.pool.device), ("block_size", str(profile.pool.block_size))]
    blocks = [
        head,
        _section("meta", "", _aligned([(k, f"= {v}", "") for k, v in known + others])),
        _section("device", "", _aligned([(k, f"= {v}", "") for k, v in device])),
        _section("placement", _PLACEMENT, [f"policy = {profile.policy}"]),
        _section("ops", _OPS, _rows(profile)),
        _section("thresholds", _THRESHOLDS, _thresholds(profile)),
        _section("costs", _COSTS, _costs(profile)),
        _section("transfer", _TRANSFER, _transfer(profile)),
        _section("pool", _POOL, _aligned([(k, f"= {v}", "") for k, v in pool])),
    ]
    return "\n".join(block for block in blocks if block)


def write(
    profile: Profile,
    path: str | os.PathLike[str],
    force: bool = False,
    notes: Iterable[str] = (),
) -> None:
    """Write a profile to a file, whole or not at all.

    Atomic: a temporary file in the same folder is written, synchronised to the disk and renamed;
    a failure anywhere leaves what was there. Deterministic: the same profile, the same bytes.

    Args:
        profile: what to write.
        path: the file; a symbolic link is followed.
        force: replace a file that is there.
        notes: lines of comment for the head of the file.

    Raises:
        ConfigError: the file is there and `force` is not given, it cannot be written, or the
            profile is none that could be read again (gaps, overlaps, unknown words).
        ArgumentError: a text of the profile does not survive the file (a line end, " #").
    """
    named = os.fspath(path)
    data = _checked(profile, render(profile, notes), named)
    place_file(named, data, force)


def _checked(profile: Profile, text: str, named: str) -> bytes:
    """Return the bytes of a text that reads back as the profile."""
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise ArgumentError(
            f"the profile for {named} holds {text[error.start : error.end]!r}, which is no "
            "character of UTF-8; allowed is plain text"
        ) from None
    again = parse(data, named, work_ops(), {row.backend_id: "cpu" for row in profile.rows})
    said, found = profile.content(), again.content()
    for part, text_of in said.items():
        if found[part] != text_of:
            raise ArgumentError(
                f"the profile for {named} does not survive its file: {part} is {shown(text_of)} "
                f"and would read {shown(found[part])}; allowed is text without line ends, outer "
                "white space, or # and ; after white space"
            )
    return data


def _section(name: str, comment: str, lines: Sequence[str]) -> str:
    if not lines:
        return ""
    return f"[{name}]\n{comment}" + "".join(f"{line}\n" for line in lines)


def _aligned(cells: Sequence[tuple[str, str, str]]) -> list[str]:
    """Return lines of a key, a value behind it in one column, and a comment in another."""
    first = max((len(key) for key, _, _ in cells), default=0)
    lines = [f"{key:<{first}} {value}" for key, value, _ in cells]
    second = max((len(line) for line in lines), default=0)
    return [
        f"{line:<{second}}  # {cell[2]}" if cell[2] else line
        for line, cell in zip(lines, cells, strict=True)
    ]


def _rows(profile: Profile) -> list[str]:
    ranges = [range_text(row.low, row.high) for row in profile.rows]
    width = max((len(text) for text in ranges), default=0)
    return _aligned(
        [
            (
                token_text(row.op, row.dtype),
                f"| {text:<{width}} = {row.backend_id}",
                one_line(row.comment),
            )
            for row, text in zip(profile.rows, ranges, strict=True)
        ]
    )


def _crossing(word: str, crossing: Crossing | None) -> list[str]:
    if crossing is None:
        return []
    if not crossing.found:
        return [f"{word} none below {crossing.size}"]
    error = "" if crossing.uncertainty is None else f" ± {crossing.uncertainty}"
    return [f"{word} {crossing.size}{error}"]


def _thresholds(profile: Profile) -> list[str]:
    cells = []
    for line in profile.thresholds:
        parts = _crossing("host", line.host) + _crossing("resident", line.resident)
        cells.append((token_text(line.op, line.dtype), f"= {', '.join(parts)}", ""))
    return _aligned(cells)


def _costs(profile: Profile) -> list[str]:
    return _aligned(
        [
            (
                token_text(cost.op, cost.dtype),
                f"| size = {cost.size} = "
                + ", ".join(f"{device} {float(time)!r}" for device, time in cost.times_us),
                "",
            )
            for cost in profile.costs
        ]
    )


def _transfer(profile: Profile) -> list[str]:
    return [
        f"{line.direction} = {float(line.latency_us)!r} us + {float(line.gb_per_s)!r} GB/s"
        + "".join(f", {size} B {float(time)!r} us" for size, time in line.points)
        for line in profile.transfer
    ]
