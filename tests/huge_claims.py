"""Work on arrays of more than 2^31 elements, and what is known of the results.

The arrays are made and judged on the device: x[r, c] = rows[r] * columns[c] in f16, or
rows[r] xor columns[c] in bool, so that a result is known everywhere from two vectors. The periods
of the vectors add up to 0 and leave all sums and products small whole numbers, which f16 holds.
The same cases run at a small size on the CPU, where a whole result can be looked at.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from tolerance import assert_close

import softcuda as sc

Array = np.ndarray[Any, Any]
Combine = Callable[[Any, Any], Any]

ROWS, COLUMNS = 65_539, 32_771  # their product is 295_121 above 2^31
FEW_ROWS, FEW_COLUMNS = 37, 131

ROW_PERIOD = (1, -2, 3, -1, 2, -3, 0)
COLUMN_PERIOD = (1, 2, -1, -2, 0)
BOUNDARY = 2**31


def periodic(period: Sequence[int], count: int) -> Array:
    """Return whole periods, then zeros: [count], f16."""
    whole = np.tile(np.array(period, np.float16), count // len(period))
    return np.concatenate([whole, np.zeros(count - len(whole), np.float16)])


def flags(count: int, step: int) -> Array:
    """Return [count] bools, True at multiples of `step`, and the last one."""
    numbers = np.arange(count)
    return (numbers % step == 0) | (numbers == count - 1)


@dataclass(frozen=True)
class Fields:
    """The operands: `numbers` [R, C] f16 and `bits` [R, C] bool, and the vectors they are of."""

    rows: Array
    columns: Array
    row_bits: Array
    column_bits: Array
    numbers: sc.Tensor
    bits: sc.Tensor


def make_fields(rows: int, columns: int, keep: Callable[[sc.Tensor], sc.Tensor]) -> Fields:
    """Return the operands; `keep` gives an evaluated tensor of a lazy one."""
    r, c = periodic(ROW_PERIOD, rows), periodic(COLUMN_PERIOD, columns)
    row_bits, column_bits = flags(rows, 3), flags(columns, 4)
    numbers = keep(sc.asarray(r[:, None]) * sc.asarray(c))
    bits = keep(sc.asarray(row_bits[:, None]) ^ sc.asarray(column_bits))
    return Fields(r, c, row_bits, column_bits, numbers, bits)


# Claims: what is known of a result


class Everywhere(NamedTuple):
    """found == combine(left, right), all of it: counted on the device, a few places fetched.

    `found` may have other extents, with as many elements.
    """

    found: sc.Tensor
    combine: Combine
    left: Array
    right: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of what is expected."""
        return np.broadcast_shapes(self.left.shape, self.right.shape)

    def outputs(self) -> list[sc.Tensor]:
        """Return the number of wrong elements, and the places."""
        expected = self.combine(sc.asarray(self.left), sc.asarray(self.right))
        found = sc.reshape(self.found, self.shape)
        return [sc.sum(found != expected), *(found[place] for place in self._places())]

    def _places(self) -> list[tuple[slice, ...]]:
        """Return a few neighbours at both ends and on both sides of the boundary."""
        shape = self.shape
        last = int(np.prod(shape, dtype=np.int64)) - 1
        middle = BOUNDARY if last > BOUNDARY else last // 2
        places = []
        for position in (0, middle - 1, middle, last):
            *outer, k = (int(i) for i in np.unravel_index(position, shape))
            run = slice(max(k - 3, 0), min(k + 4, shape[-1]))
            places.append((*(slice(i, i + 1) for i in outer), run))
        return places

    def check(self, wrong: Array, *spots: Array) -> None:
        """Judge what `outputs` gave."""
        left, right = (np.broadcast_to(x, self.shape) for x in (self.left, self.right))
        for place, spot in zip(self._places(), spots, strict=True):
            np.testing.assert_array_equal(spot, self.combine(left[place], right[place]))
        assert wrong == 0


class Few(NamedTuple):
    """A result that is small enough to be fetched."""

    found: sc.Tensor
    expected: Array
    op: str = "copy"
    k_extent: int = 1
    scale: Any = 0.0

    def outputs(self) -> list[sc.Tensor]:
        """Return the result."""
        return [self.found]

    def check(self, found: Array) -> None:
        """Judge what `outputs` gave."""
        dtype = self.found.dtype
        expected = np.asarray(self.expected)
        assert_close(found, expected, dtype, self.op, k_extent=self.k_extent, scale=self.scale)


class Repeats(NamedTuple):
    """Rows (axis 0) or columns (axis 1) that repeat after `period`, the first of them known."""

    found: sc.Tensor
    axis: int
    period: int
    first: Array
    op: str
    k_extent: int

    def outputs(self) -> list[sc.Tensor]:
        """Return the first period, the part behind the last, and how far repeats ever differ."""
        extent = self.found.shape[self.axis]
        end = extent // self.period * self.period
        later, earlier = self._cut(self.period, end), self._cut(0, end - self.period)
        return [self._cut(0, self.period), self._cut(end, extent), sc.max(sc.abs(later - earlier))]

    def _cut(self, start: int, stop: int) -> sc.Tensor:
        part = slice(start, stop)
        return self.found[part] if self.axis == 0 else self.found[:, part]

    def check(self, first: Array, behind: Array, gap: Array) -> None:
        """Judge what `outputs` gave; behind the periods the vectors are 0, as their last is."""
        dtype, count = self.found.dtype, behind.shape[self.axis]
        wide, largest = self.first.astype(np.float64), float(np.abs(self.first).max())
        zeros = np.take(wide, [self.period - 1] * count, self.axis)
        for found, expected in ((first, wide), (behind, zeros)):
            assert_close(
                found, expected, dtype, self.op, k_extent=self.k_extent, scale=largest * 2.0
            )
        assert_close(gap, np.zeros(()), dtype, self.op, k_extent=self.k_extent, scale=largest * 4.0)


Claim = Everywhere | Few | Repeats
Build = Callable[[Fields], list[Claim]]
Compute = Callable[[Any], Any]


@dataclass(frozen=True)
class HugeCase:
    """What an op does to huge arrays, on each of the backends."""

    op: str
    backends: tuple[str, ...]
    build: Build

    @property
    def name(self) -> str:
        """The name of the function that builds it."""
        return self.build.__name__


class Table(list[HugeCase]):
    """Cases, each added by a decorator of the function that builds it."""

    def case(self, op: str, *backends: str) -> Callable[[Build], Build]:
        """Add a case: the op that is tried, and the backends that are to do it."""

        def add(build: Build) -> Build:
            self.append(HugeCase(op, backends, build))
            return build

        return add


def product(found: sc.Tensor, left: Array, right: Array) -> Everywhere:
    """Return the claim that a result in f16 is left * right."""
    return Everywhere(found, operator.mul, left.astype(np.float16), right.astype(np.float16))


def spread(fields: Fields) -> tuple[Array, Array]:
    """Return the vectors of `numbers` as [R, 1] and [C]."""
    return fields.rows[:, None], fields.columns


def judge(claims: Sequence[Claim], compute: Compute, judge_by: Compute) -> None:
    """Compute what is claimed about, then judge it; both steps may keep values on a device.

    They are two runs, so that the op under test has a result in memory, whatever could be fused.

    Args:
        claims: of one case.
        compute: evaluates the results, on the backend under test.
        judge_by: evaluates what the claims ask of them.
    """
    results = compute([claim.found for claim in claims])
    known = [claim._replace(found=found) for claim, found in zip(claims, results, strict=True)]
    answers = judge_by([claim.outputs() for claim in known])
    for claim, found in zip(known, answers, strict=True):
        claim.check(*(tensor.numpy() for tensor in found))


def even_numbers(fields: Fields) -> tuple[Array, Array, sc.Tensor]:
    """Return rows [R, 1], columns [C] and their product, whose extents suit every vector."""
    extents = (-(-len(fields.rows) // 8) * 8, -(-len(fields.columns) // 64) * 64)
    rows, columns = periodic(ROW_PERIOD, extents[0])[:, None], periodic(COLUMN_PERIOD, extents[1])
    return rows, columns, sc.asarray(rows) * sc.asarray(columns)


def distinct_rows(fields: Fields, function: Callable[[Array], Array]) -> Array:
    """Return a function of every row of `numbers` in float64, computed once a different row."""
    values, number = np.unique(fields.rows, return_inverse=True)
    made = np.array([function(float(v) * fields.columns.astype(np.float64)) for v in values])
    return np.asarray(made[number])


def distinct_columns(fields: Fields, function: Callable[[Array], Array]) -> Array:
    """Return a function of every column of `numbers` in float64."""
    values, number = np.unique(fields.columns, return_inverse=True)
    made = np.array([function(float(v) * fields.rows.astype(np.float64)) for v in values])
    return np.asarray(made[number])
