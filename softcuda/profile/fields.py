"""The parts of one line: op tokens, ranges, numbers, costs, crossings, transfers."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Collection, Sequence
from typing import Final

from softcuda.dtype import DTYPES
from softcuda.profile.records import Crossing
from softcuda.profile.text import Spot, listed, shown
from softcuda.profile.vocabulary import DEVICE_TYPES, why_no_row

__all__ = [
    "LARGEST",
    "cost_times",
    "crossings",
    "iso_time",
    "one_of",
    "op_token",
    "positive",
    "size_range",
    "transfer_line",
    "whole",
]

LARGEST: Final = 2**63 - 1

_TOKEN: Final = re.compile(r"([^\s\[\]|=]+)\s*(?:\[\s*([^\s\[\]|=]*)\s*\])?")
_BELOW: Final = re.compile(r"size\s*<\s*([^<>=\s]+)")
_FROM: Final = re.compile(r"size\s*>=\s*([^<>=\s]+)")
_BETWEEN: Final = re.compile(r"([^<>=\s]+)\s*<=\s*size\s*<\s*([^<>=\s]+)")
_WHOLE: Final = re.compile(r"[0-9]{1,19}")
_REAL: Final = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_TIME: Final = re.compile(r"([^\s]+)\s+([^\s]+)")
_CROSSING: Final = re.compile(r"([^\s]+)\s+(?:none\s+below\s+([^\s]+)|([^\s±]+)(?:\s*±\s*(\S+))?)")
_TRANSFER: Final = re.compile(r"(\S+?)\s*us\s*\+\s*(\S+?)\s*GB/s")
_COPIED: Final = re.compile(r"(\S+?)\s*B\s+(\S+?)\s*us")

_RANGES: Final = "'any', 'size < N', 'size >= N' and 'N <= size < M'"
_CROSSINGS: Final = (
    "'host SIZE ± ERROR' and 'resident SIZE ± ERROR', or '... none below SIZE', with a comma "
    "between them"
)


def op_token(text: str, ops: Collection[str], spot: Spot) -> tuple[str, str | None]:
    """Return (op, dtype or None) of a token `op` or `op[dtype]`.

    Raises:
        ConfigError: no such op or dtype, or no token at all.
    """
    match = _TOKEN.fullmatch(text)
    if match is None:
        spot.fail(
            f"{shown(text)} names no op; allowed is a token such as matmul, or matmul[f32] for "
            "one dtype"
        )
    op, dtype = match[1], match[2]
    if op not in ops:
        reason = why_no_row(op)
        spot.fail(
            f"unknown op {shown(op)}{': ' + reason if reason else ''}; allowed are "
            f"{listed(sorted(ops))}"
        )
    if dtype is not None and dtype not in DTYPES:
        spot.fail(f"unknown dtype {shown(dtype)} in {shown(text)}; allowed are {listed([*DTYPES])}")
    return op, dtype


def iso_time(text: str, what: str, spot: Spot) -> datetime.datetime:
    """Return a time that is written as ISO 8601 has it.

    Raises:
        ConfigError: it is written in another way, or there is no such time.
    """
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        spot.fail(
            f"{what} is {shown(text)}; allowed is a time of ISO 8601, such as 2026-03-18T09:00:00Z"
        )


def size_range(text: str, spot: Spot) -> tuple[int, int | None]:
    """Return (low, high or None) of a half-open range.

    Raises:
        ConfigError: another form, a malformed number, an empty range.
    """
    low, high = 0, None
    if between := _BETWEEN.fullmatch(text):
        low, high = whole(between[1], "the bound", spot), whole(between[2], "the bound", spot)
    elif below := _BELOW.fullmatch(text):
        high = whole(below[1], "the bound", spot)
    elif start := _FROM.fullmatch(text):
        low = whole(start[1], "the bound", spot)
    elif text != "any":
        spot.fail(f"{shown(text)} is no range of sizes; allowed are {_RANGES}")
    if high is not None and low >= high:
        spot.fail(
            f"the range {shown(text)} holds no size, since ranges are half-open; allowed are "
            f"{_RANGES} with N below M"
        )
    return low, high


def whole(text: str, what: str, spot: Spot, least: int = 0) -> int:
    """Return a whole number.

    Raises:
        ConfigError: not decimal digits, or outside least .. 2^63 - 1.
    """
    value = int(text) if _WHOLE.fullmatch(text) else -1
    if not least <= value <= LARGEST:
        spot.fail(
            f"{what} {shown(text)} is no whole number that fits; allowed are decimal digits, "
            f"{least} to {LARGEST}"
        )
    return value


def positive(text: str, what: str, spot: Spot) -> float:
    """Return a finite number above 0.

    Raises:
        ConfigError: not a decimal number, 0, or too large for a float.
    """
    value = float(text) if _REAL.fullmatch(text) else math.nan
    if not 0 < value < math.inf:
        spot.fail(f"{what} {shown(text)} is no number above 0; allowed is one such as 41.2 or 3e-2")
    return value


def cost_times(text: str, spot: Spot) -> tuple[tuple[str, float], ...]:
    """Return pairs (device type, microseconds) of `cpu 41.2, cuda 9.8`.

    Raises:
        ConfigError: another form, an unknown or doubled device, a malformed number.
    """
    times: dict[str, float] = {}
    for part in text.split(","):
        match = _TIME.fullmatch(part.strip())
        if match is None or match[1] not in DEVICE_TYPES:
            spot.fail(
                f"{shown(part.strip())} is no cost; allowed are 'cpu MICROSECONDS' and 'cuda "
                "MICROSECONDS', with a comma between them"
            )
        _once(match[1], times, text, spot)
        times[match[1]] = positive(match[2], "the time", spot)
    return tuple((device, times[device]) for device in DEVICE_TYPES if device in times)


def crossings(text: str, spot: Spot) -> tuple[Crossing | None, Crossing | None]:
    """Return the host and the resident crossing of `host 384 ± 20, resident 96 ± 8`.

    Raises:
        ConfigError: another form, an unknown or doubled word, a malformed number.
    """
    found: dict[str, Crossing] = {}
    for part in text.split(","):
        match = _CROSSING.fullmatch(part.strip())
        if match is None or match[1] not in ("host", "resident"):
            spot.fail(f"{shown(part.strip())} is no crossing; allowed are {_CROSSINGS}")
        _once(match[1], found, text, spot)
        if match[2] is not None:
            found[match[1]] = Crossing(whole(match[2], "the size", spot), None, False)
            continue
        size = whole(match[3], "the size", spot)
        error = None if match[4] is None else whole(match[4], "the uncertainty", spot)
        found[match[1]] = Crossing(size, error)
    return found.get("host"), found.get("resident")


def transfer_line(text: str, spot: Spot) -> tuple[float, float, tuple[tuple[int, float], ...]]:
    """Return latency [microseconds], rate [GB/s] and points of `8.1 us + 53.6 GB/s`.

    Points are pairs (bytes, microseconds), as of `8.1 us + 53.6 GB/s, 1024 B 8 us, 65536 B 10 us`.

    Raises:
        ConfigError: another form, or a malformed number; points do not ascend.
    """
    line, *parts = (part.strip() for part in text.split(","))
    match = _TRANSFER.fullmatch(line)
    found = [(part, _COPIED.fullmatch(part)) for part in parts]
    wrong = next((part for part, point in found if point is None), None)
    if match is None or wrong is not None:
        spot.fail(
            f"{shown(text if wrong is None else wrong)} is no transfer; allowed is 'LATENCY us + "
            "RATE GB/s', such as 8.1 us + 53.6 GB/s, and behind it points 'BYTES B TIME us', such "
            "as 8.1 us + 53.6 GB/s, 1024 B 8.2 us, 65536 B 10.5 us"
        )
    points = tuple(
        (whole(point[1], "the size of a copy", spot), positive(point[2], "its time", spot))
        for _, point in found
        if point is not None
    )
    sizes = [size for size, _ in points]
    if sizes[:1] == [0] or sizes != sorted(set(sizes)):
        said = listed([str(size) for size in sizes])
        spot.fail(f"{shown(text)} has points of {said} B; they must ascend from 1")
    return positive(match[1], "the latency", spot), positive(match[2], "the rate", spot), points


def one_of(text: str, what: str, allowed: Sequence[str], spot: Spot) -> str:
    """Return a word that is allowed.

    Raises:
        ConfigError: it is another word.
    """
    if text not in allowed:
        spot.fail(f"{what} is {shown(text)}; allowed are {listed(allowed)}")
    return text


def _once(word: str, seen: Collection[str], text: str, spot: Spot) -> None:
    if word in seen:
        spot.fail(f"{word!r} stands twice in {shown(text)}; allowed is once")
