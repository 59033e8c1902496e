"""What a profile says, as frozen data, and the lookups that compiling does in it."""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final

from softcuda.graph.op import OPS, Kind
from softcuda.profile.cost_lines import CostLines
from softcuda.profile.curves import Curve, curve_of
from softcuda.profile.records import (
    DEFAULT_BLOCK_SIZE,
    CostPoint,
    Crossing,
    DeviceFacts,
    PoolSettings,
    Row,
    Threshold,
    Transfer,
)

__all__ = [
    "DEFAULT_BLOCK_SIZE",
    "CostPoint",
    "Crossing",
    "DeviceFacts",
    "PoolSettings",
    "Profile",
    "Row",
    "Threshold",
    "Transfer",
]

_BY_SIZE: Final = attrgetter("low")
_STAND_INS: Final = ("f32", "f64", "f16", "bf16", "i32", "i64", "bool")


@dataclass(frozen=True, eq=False)
class Profile:
    """A whole profile.

    Two profiles are equal where they say the same: path, line numbers, comments and the order of
    lines do not count. `cache_key` also tells apart what a decision table prints.

    Attributes:
        path: the file, as the user named it.
        meta: key -> text of [meta]; `soft_version` is always there.
        device: the machine it was measured on.
        rows: the rows, in the file's order.
        thresholds: the lines of [thresholds].
        costs: the lines of [costs].
        transfer: the lines of [transfer].
        policy: "table" (obey the rows) or "min_cut".
        pool: settings of the pools.
        is_cut: whether soft_init wrote the file and its end is missing; not what a profile says.
    """

    path: str
    meta: Mapping[str, str]
    device: DeviceFacts
    rows: tuple[Row, ...]
    thresholds: tuple[Threshold, ...] = ()
    costs: Sequence[CostPoint] = ()
    transfer: tuple[Transfer, ...] = ()
    policy: str = "table"
    pool: PoolSettings = field(default_factory=PoolSettings)
    is_cut: bool = False
    _index: dict[tuple[str, str | None], list[Row]] = field(init=False, repr=False)
    _lines: CostLines = field(init=False, repr=False)
    _curves: dict[tuple[str, str | None, str], Curve | None] = field(init=False, repr=False)
    _names_cuda: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "meta", MappingProxyType(dict(self.meta)))
        put(self, "_index", _index(self.rows))
        on_cuda = any(row.backend_id.startswith("cuda") for row in self.rows)
        put(self, "_names_cuda", on_cuda or self.device.type == "cuda")
        costs = self.costs
        put(self, "_lines", costs if isinstance(costs, CostLines) else CostLines(costs))
        put(self, "_curves", {})

    @cached_property
    def digest(self) -> str:
        """SHA-256 of what it says [hex]."""
        return hashlib.sha256(repr(self.content()).encode()).hexdigest()

    @cached_property
    def cache_key(self) -> str:
        """SHA-256 of what decides and of what a decision table prints: file name, line numbers.

        Profiles of one key are interchangeable to the compiler; [meta] and [thresholds] do not
        count.
        """
        parts = (
            self.name,
            self.device.written(),
            [(*_row(row), row.line) for row in self.rows],
            self._lines.written(),
            _unlined(self.transfer),
            self.policy,
            self.pool,
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, Profile) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def __reduce__(self) -> tuple[Any, ...]:
        values = [getattr(self, f.name) for f in fields(self) if f.init]
        values[1] = dict(self.meta)
        return Profile, tuple(values)

    def content(self) -> dict[str, str]:
        """Return what the profile says, part by part, as text that is equal for equal content."""
        return {
            "meta": repr(sorted(self.meta.items())),
            "device": repr(self.device.written()),
            "rows": repr(sorted(_row(row) for row in self.rows)),
            "thresholds": repr(_unlined(self.thresholds)),
            "costs": repr(_unlined(self.costs)),
            "transfer": repr(_unlined(self.transfer)),
            "policy": self.policy,
            "pool": repr(self.pool),
        }

    @property
    def names_cuda(self) -> bool:
        """Whether a row names a CUDA backend, or the pool keeps outputs on a device."""
        return self._names_cuda

    @cached_property
    def name(self) -> str:
        """The file's name without its folder."""
        return os.path.basename(self.path) or self.path

    def lookup(self, op: str, dtype: str, size: int) -> Row | None:
        """Return the row that decides a node, None where the op has no row.

        A row `op[dtype]` wins over a row `op`.

        Args:
            op: token of the op.
            dtype: name of the row's dtype (softcuda.graph.lines.row_dtype).
            size: the row's size (softcuda.graph.lines.row_size).
        """
        rows = self._of(op, dtype)
        return rows[bisect_right(rows, size, lo=1, key=_BY_SIZE) - 1] if rows else None

    def _of(self, op: str, dtype: str) -> Sequence[Row]:
        """Return the rows that hold for an op and a dtype, by size; () where there are none."""
        index = self._index
        return index.get((op, dtype)) or index.get((op, None)) or ()

    def nearest(self, op: str, dtype: str, size: int, backend_ids: Collection[str]) -> Row | None:
        """Return the row of an op that is nearest in size among those of some backends.

        Args:
            op: token of the op.
            dtype: name of the row's dtype.
            size: the row's size.
            backend_ids: whose rows are looked at.

        Returns:
            The row; None where the op has none of them.
        """
        named = [row for row in self._of(op, dtype) if row.backend_id in backend_ids]

        def distance(row: Row) -> int:
            if size < row.low:
                return row.low - size
            return 0 if row.high is None else max(size - row.high + 1, 0)

        return min(named, key=distance, default=None)

    def label(self, row: Row) -> str:
        """Return file name and line of a row, such as "CONFIG.soft:12"."""
        return f"{self.name}:{row.line}"

    def cost_us(self, op: str, dtype: str, size: int, device_type: str) -> float | None:
        """Return the modelled time of an op with its data resident [microseconds].

        Between points: linear in log(size), log(time). Below the first point its time, which is
        overhead there. Beyond the last, the slope of the last two points, not below 0 and not
        above that of the op's arithmetic (3 for matmul, whose size is a cube root; else 1), which
        a single point takes.

        Args:
            op: token of the op.
            dtype: name of the row's dtype; points of `op[dtype]` win over points of `op`. Where
                there are neither, those of another dtype stand in, f32 before others; not of a
                product, whose arithmetic depends on it.
            size: the row's size.
            device_type: "cpu" or "cuda".

        Returns:
            The time, None where no point says anything about the op on that device.
        """
        curve = self._curve(op, dtype, device_type)
        return None if curve is None else curve.at(size)

    def _curve(self, op: str, dtype: str, device_type: str) -> Curve | None:
        """Return the curve of an op, made when it is first asked for."""
        key = (op, dtype, device_type)
        if key in self._curves:
            return self._curves[key]
        curve = None
        for points in self._points(op, dtype):
            here = [(p.size, dict(p.times_us).get(device_type)) for p in points]
            known = [(size, time) for size, time in here if time is not None]
            if known:
                curve = curve_of(op, known)
                break
        self._curves[key] = curve
        return curve

    def _points(self, op: str, dtype: str) -> list[Sequence[CostPoint]]:
        """Return the points that tell the times of an op and a dtype, the nearest first."""
        found = [points for kind in (dtype, None) if (points := self._lines.of(op, kind))]
        if found or op not in OPS or OPS[op].kind is Kind.CONTRACTION:
            return found
        return [points for kind in _STAND_INS if (points := self._lines.of(op, kind))]

    def transfer_us(self, direction: str, nbytes: int) -> float | None:
        """Return the modelled time of a copy [microseconds], None where no line says it.

        Args:
            direction: "h2d" or "d2h".
            nbytes: bytes to copy.
        """
        for line in self.transfer:
            if line.direction == direction and line.points:
                return _copy_curve(line.points).at(nbytes)
            if line.direction == direction:
                return line.latency_us + nbytes / (line.gb_per_s * 1e3)
        return None


@lru_cache(maxsize=16)
def _copy_curve(points: tuple[tuple[int, float], ...]) -> Curve:
    return curve_of("copy", points)


def _row(row: Row) -> tuple[str, str, int, int, str]:
    high = -1 if row.high is None else row.high
    return (row.op, row.dtype or "", row.low, high, row.backend_id)


def _unlined(items: Iterable[Any]) -> list[str]:
    return sorted(repr(item[:-1]) for item in items)


def _index(rows: Iterable[Row]) -> dict[tuple[str, str | None], list[Row]]:
    grouped: dict[tuple[str, str | None], list[Row]] = {}
    for row in rows:
        grouped.setdefault((row.op, row.dtype), []).append(row)
    for group in grouped.values():
        group.sort(key=_BY_SIZE)
    return grouped
