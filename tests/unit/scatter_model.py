"""What the kernels of scatter.cu and sort.cu do with the arguments of launches, on NumPy arrays."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from softcuda.backends.host.conversion import convert
from softcuda.backends.launches import Argument, KernelLaunch
from softcuda.backends.steps import Operand, Step
from softcuda.graph.shapes import numel

Array = np.ndarray[Any, Any]

RANK = 64
DIGITS = 256
GARBAGE = 0xA5


class Walk(NamedTuple):
    """A walk unpacked, outermost axis first."""

    dims: tuple[int, ...]
    strides: list[tuple[int, ...]]

    def offsets(self, which: int) -> Array:
        """Return the offset of every number in one set of strides."""
        total = np.zeros(self.dims, np.int64)
        for axis, (extent, step) in enumerate(zip(self.dims, self.strides[which], strict=True)):
            steps = np.arange(extent, dtype=np.int64) * step
            total += steps.reshape(-1, *(1,) * (len(self.dims) - axis - 1))
        return total.reshape(-1)


def walk_of(data: bytes, sets: int, is_wide: bool) -> Walk:
    """Return the Walk that bytes are of."""
    divisors = struct.unpack_from(f"<{RANK}q" if is_wide else f"<{3 * RANK}I", data)
    at, size, code = (8 * RANK, 8, "q") if is_wide else (12 * RANK, 4, "i")
    strides = [
        struct.unpack_from(f"<{RANK}{code}", data, at + k * size * RANK) for k in range(sets)
    ]
    (rank,) = struct.unpack_from(f"<{code}", data, at + sets * size * RANK)
    extents = divisors[:: 1 if is_wide else 3][:rank]
    return Walk(tuple(extents[::-1]), [s[:rank][::-1] for s in strides])


def parts_of(array: Array) -> Array:
    """Return the elements of an array, of complex ones real and imaginary parts by turns."""
    flat = array.reshape(-1)
    return flat.view(flat.real.dtype) if array.dtype.kind == "c" else flat


def data_of(argument: Argument) -> bytes:
    """Return the bytes of a struct."""
    assert isinstance(argument.value, bytes)
    return argument.value


class Model:
    """The memory of a step, and what its launches do to it.

    `arrays` are the step's inputs; elements are found by their offset from the first one, those
    of complex numbers part by part. `parts` are what is added to.
    """

    def __init__(self, step: Step, arrays: Sequence[Array]) -> None:
        self.step = step
        self.arrays = arrays
        self.out = np.zeros(step.outputs[0].dims, step.outputs[0].dtype.numpy)
        self.parts = parts_of(self.out)
        self.scratch = np.full(step.scratch_bytes, GARBAGE, np.uint8)
        self.status = [0, 0, 0, 0]
        self.written: list[range] = []
        for launch in step.launches:
            is_copy = launch.spec.file in ("elementwise.cu", "turned.cu")
            getattr(self, "_copy" if is_copy else f"_{launch.spec.family}")(launch)

    def _place(self, argument: Argument, dtype: Any, count: int) -> Array:
        """Return `count` elements of the scratch, or of the result."""
        if argument.kind == "write":
            return self.out.reshape(-1)
        assert argument.kind == "scratch"
        start, nbytes = int(argument.value), count * np.dtype(dtype).itemsize
        assert start >= 0 and start + nbytes <= self.scratch.size
        return self.scratch[start : start + nbytes].view(dtype)

    def _by_offset(self, number: int) -> dict[int, Any]:
        """Return the elements of an input by their offset."""
        operand: Operand = self.step.inputs[number]
        places = Walk(operand.dims, [operand.strides]).offsets(0)
        if operand.dtype.is_complex:
            places = (2 * places[:, None] + [0, 1]).reshape(-1)
        return dict(zip(places.tolist(), parts_of(self.arrays[number]), strict=True))

    def _copy(self, launch: KernelLaunch) -> None:
        (number,) = (a.value for a in launch.arguments if a.kind == "read")
        (to,) = (a for a in launch.arguments if a.kind in ("write", "scratch"))
        source = self.arrays[int(number)]
        convert(source, self._place(to, self.out.dtype, source.size).reshape(source.shape))

    def _checked(self, offset: int, indices: dict[int, Any], packed: Argument) -> int:
        extent, where, is_long = struct.unpack("<qqi4x", data_of(packed))
        index = int(indices[offset])
        assert bool(is_long) == (np.asarray(indices[offset]).dtype == np.int64)
        if -extent <= index < extent:
            return index % extent
        self.status = self.status if self.status[0] else [1, index, extent, where]
        return 0

    def _check_indices(self, launch: KernelLaunch) -> None:
        source, _, count, walk, packed = launch.arguments
        offsets = walk_of(data_of(walk), 1, True).offsets(0)
        assert len(offsets) == count.value
        for offset in offsets.tolist():
            self._checked(offset, self._by_offset(int(source.value)), packed)

    def _scatter_keys(self, launch: KernelLaunch) -> None:
        to, source, _, count, packed_walk, packed, step = launch.arguments
        is_wide = launch.spec.variant == "i64"
        walk = walk_of(data_of(packed_walk), 2, is_wide)
        indices = self._by_offset(int(source.value))
        places, offsets = walk.offsets(0), walk.offsets(1)
        assert len(offsets) == count.value
        entries = self._entries(to, int(count.value), is_wide)
        for n, (place, offset) in enumerate(zip(places, offsets.tolist(), strict=True)):
            key = int(place) + self._checked(offset, indices, packed) * int(step.value)
            entries[n] = (key, n)

    def _entries(self, at: Argument, count: int, is_wide: bool) -> Array:
        dtype = np.uint64 if is_wide else np.uint32
        return self._place(at, dtype, 2 * count).reshape(count, 2)

    def _sort_small(self, launch: KernelLaunch) -> None:
        at, count, size = launch.arguments
        entries = self._entries(at, int(count.value), launch.spec.variant == "i64")
        assert int(count.value) <= int(size.value) <= 4096
        entries[...] = entries[np.argsort(entries[:, 0], kind="stable")]

    def _sort_count(self, launch: KernelLaunch) -> None:
        counts, _, count, stretch, _ = launch.arguments
        stretches = -(-int(count.value) // int(stretch.value))
        assert launch.grid == (stretches, 1, 1)
        words = np.uint64 if launch.spec.variant == "i64" else np.uint32
        self._place(counts, words, DIGITS * stretches)[...] = 0

    def _sort_offsets(self, launch: KernelLaunch) -> None:
        counts, totals, stretches = launch.arguments
        words = np.uint64 if launch.spec.variant == "i64" else np.uint32
        assert not self._place(counts, words, DIGITS * int(stretches.value)).any()
        self._place(totals, words, DIGITS)[...] = 0

    def _sort_move(self, launch: KernelLaunch) -> None:
        to, source, _, _, count, _, shift = launch.arguments
        is_wide = launch.spec.variant == "i64"
        entries = self._entries(source, int(count.value), is_wide).copy()
        digits = entries[:, 0] >> int(shift.value) & (DIGITS - 1)
        moved = self._entries(to, int(count.value), is_wide)
        moved[...] = entries[np.argsort(digits, kind="stable")]

    def _scatter_values(self, launch: KernelLaunch) -> None:
        _, keys, sums, values, entries, packed, row_step = launch.arguments
        level = Level(data_of(packed), launch.spec.variant.endswith("i64"))
        pairs = self._entries(entries, level.count, level.is_wide).astype(np.int64)
        if values.kind == "read":
            held = self._by_offset(int(values.value))
        else:
            count = level.count * level.columns
            held = dict(enumerate(self._place(values, self.parts.dtype, count)))
        rows = pairs[:, 1] * int(row_step.value)
        found = [[held[r + c] for c in level.offsets(0)] for r in rows.tolist()]
        self._add(level, pairs[:, 0], np.array(found), keys, sums)

    def _scatter_sums(self, launch: KernelLaunch) -> None:
        _, keys, sums, given, given_keys, packed = launch.arguments
        level = Level(data_of(packed), True)
        found = self._place(given, self._sum_dtype, level.count * level.columns)
        ordered = self._place(given_keys, np.uint64, level.count).astype(np.int64)
        self._add(level, ordered, found.reshape(level.count, level.columns), keys, sums)

    @property
    def _sum_dtype(self) -> Any:
        if self.parts.dtype.kind == "i":
            return np.int64
        return np.float64 if self.parts.dtype == np.float64 else np.float32

    def _add(self, level: Level, keys: Array, x: Array, to_keys: Argument, to: Argument) -> None:
        """Add up the runs of every chunk, and pass its first and last on."""
        columns = np.array(level.offsets(1))
        flat, is_last = self.parts, level.chunks == 1
        assert is_last not in (to.kind == "scratch", to_keys.kind == "scratch")
        if not is_last:
            passed = self._place(to, self._sum_dtype, 2 * level.chunks * level.columns)
            passed = passed.reshape(2 * level.chunks, level.columns)
            passed_keys = self._place(to_keys, np.uint64, 2 * level.chunks)
        for chunk in range(level.chunks):
            part = slice(chunk * level.length, min((chunk + 1) * level.length, level.count))
            cuts = np.flatnonzero(np.diff(keys[part])) + 1
            runs = np.split(np.arange(part.start, part.stop), cuts)
            for number, run in enumerate(runs):
                total = np.add.accumulate(x[run].astype(self._sum_dtype), axis=0)[-1]
                if is_last or 0 < number < len(runs) - 1:
                    place = keys[run[0]] * level.out_step + columns
                    flat[place] = (flat[place].astype(total.dtype) + total).astype(flat.dtype)
                    continue
                slot = 2 * chunk + (number > 0)
                passed_keys[slot], passed[slot] = keys[run[0]], total
                if len(runs) == 1:
                    passed_keys[slot + 1], passed[slot + 1] = keys[run[0]], 0


class Level:
    """The struct of a launch, unpacked."""

    def __init__(self, data: bytes, is_wide: bool) -> None:
        self.is_wide = is_wide
        self.count, self.length, self.threads, self.columns, self.out_step = struct.unpack_from(
            "<5q", data
        )
        self.walk = walk_of(data[40:], 3, is_wide)
        self.chunks = self.walk.dims[0]
        assert self.threads == self.chunks * self.columns == numel(self.walk.dims)
        assert self.chunks == -(-self.count // self.length)

    def offsets(self, which: int) -> list[int]:
        """Return the offset of every column in one set of strides."""
        columns = Walk(self.walk.dims[1:], [s[1:] for s in self.walk.strides])
        assert columns.offsets(2).tolist() == list(range(self.columns))
        return [int(offset) for offset in columns.offsets(which)]
