"""What a benchmark yields: plain data, the content of results/<device>/<suite>.json."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Check", "Floor", "Ratio", "Row", "Timing", "at_least", "at_most"]


@dataclass(frozen=True, slots=True)
class Timing:
    """What one contestant took in one case.

    Attributes:
        name: softcuda, or the peer.
        us: median of the rounds [microseconds a call]; None where there is no time.
        low_us: lower quartile.
        high_us: upper quartile.
        rounds: samples taken.
        calls: calls in each sample.
        error: norm(out - ref) / norm(ref) against float64; None where nothing was compared.
        nan_mismatches: elements that are NaN on one side only.
        status: "ok", or why there is no time: "absent" (not installed), "wrong", "failed".
    """

    name: str
    us: float | None = None
    low_us: float | None = None
    high_us: float | None = None
    rounds: int = 0
    calls: int = 0
    error: float | None = None
    nan_mismatches: int = 0
    status: str = "ok"


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times faster softcuda is than a peer: median and quartiles of paired rounds."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Floor:
    """The least time a case can take: the larger of bytes / copy rate and flops / unit's rate.

    Attributes:
        us: the floor [microseconds].
        bound_by: "bytes" or "flops".
        nbytes: bytes that must be read and written at least once.
        flops: floating point operations of the contraction.
    """

    us: float
    bound_by: str
    nbytes: int
    flops: int


@dataclass(frozen=True, slots=True)
class Check:
    """One number that must be reached.

    Attributes:
        what: what is measured, with its unit.
        bound: "at least 2" or "at most 0.3".
        value: the number; None where it could not be measured.
        met: whether it was reached; None where it could not be measured.
    """

    what: str
    bound: str
    value: float | None
    met: bool | None


@dataclass(slots=True)
class Row:
    """One case, measured."""

    group: str
    case: str
    timings: list[Timing] = field(default_factory=list)
    ratios: dict[str, Ratio] = field(default_factory=dict)
    floor: Floor | None = None
    fraction_of_floor: float | None = None
    checks: list[Check] = field(default_factory=list)
    facts: dict[str, float] = field(default_factory=dict)


def at_least(what: str, value: float | None, bound: float) -> Check:
    """Return the check that a value is no smaller than a bound."""
    return Check(what, f"at least {bound:g}", value, None if value is None else value >= bound)


def at_most(what: str, value: float | None, bound: float) -> Check:
    """Return the check that a value is no larger than a bound."""
    return Check(what, f"at most {bound:g}", value, None if value is None else value <= bound)
