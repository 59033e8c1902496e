"""The runtime of plans: small operands of the host are copied into places of their own.

Calls that were bound to these places once are then right for every run.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np

from softcuda.compiler.program import Program
from softcuda.executor.inputs import FIXED_BYTES, SMALL_BYTES
from softcuda.executor.runtime import Runtime
from softcuda.graph.lines import Line
from softcuda.graph.shapes import numel

__all__ = ["PlanRuntime"]

Array = np.ndarray[Any, Any]

_NOTHING: Final[tuple[Any, ...]] = ()


class PlanRuntime(Runtime):
    """A program with memory, which `execute` runs with other arrays each time."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._places = _places(program)
        self._place_bytes = int(sum(place.nbytes for place in self._places or ()))

    def execute(self, arrays: Sequence[Any], passing: Collection[int]) -> Any:
        """Run with these arrays and return the array of the result.

        Args:
            arrays: of each leaf, of the declared layout.
            passing: positions whose arrays are not kept after the run.
        """
        places = self._places
        if places is None:
            return self.run(arrays, _NOTHING, passing)[0]
        with self._lock:
            if not self._is_running:  # `run` refuses to run within itself
                for place, array in zip(places, arrays, strict=True):
                    place[...] = array
                if self._is_bound(places):
                    return self._again()
            return self.run(places, _NOTHING)[0]

    def _is_bound(self, places: list[Array]) -> bool:
        """Return whether the calls of the run before are right for this one."""
        is_alone = not self.program.arenas and not self._shared
        return self._given is places and self._is_whole and is_alone and not self._calls.stale

    def _again(self) -> Any:
        """Replay the calls into a fresh output: what `run` does where nothing else has changed."""
        self._is_running, self._is_whole = True, False
        try:
            self._take_outputs()
            if self._calls.stale:
                self._context.run(self._calls.bind_stale)
            self._context.run(_call_all, self._calls.flat)
            self._is_whole = True
            return self._memory.slots[0].array  # type: ignore[union-attr]
        except BaseException:
            self._reset()
            raise
        finally:
            self._is_running = False

    @property
    def held_bytes(self) -> int:
        """Bytes of buffers that nobody but this runtime holds."""
        return int(super().held_bytes) + self._place_bytes


def _call_all(calls: list[tuple[Any, tuple[Any, ...]]]) -> None:
    for function, arguments in calls:
        function(*arguments)


def _places(program: Program) -> list[Array] | None:
    """Return memory for every leaf of a host program; None where they are too large for a copy."""
    if program.uses_cuda:
        return None
    lines = [program.graph.lines[number] for number in program.leaf_lines]
    sizes = [_span_elems(line) * line.dtype.itemsize for line in lines]
    if max(sizes, default=0) > SMALL_BYTES or sum(sizes) > FIXED_BYTES:
        return None
    return [_place(line) for line in lines]


def _span_elems(line: Line) -> int:
    if not numel(line.dims):
        return 0
    pairs = zip(line.dims, line.params.strides, strict=True)
    reach: int = sum(abs(stride) * (extent - 1) for extent, stride in pairs)
    return 1 + reach


def _place(line: Line) -> Array:
    """Return an array of a leaf's extents and strides."""
    size, strides = line.dtype.itemsize, line.params.strides
    reach = [stride * (extent - 1) for extent, stride in zip(line.dims, strides, strict=True)]
    start = -sum(r for r in reach if r < 0) if numel(line.dims) else 0
    block = np.empty(max(_span_elems(line), 1), line.dtype.numpy)
    window: Array = np.lib.stride_tricks.as_strided(
        block[start:], line.dims, [stride * size for stride in strides]
    )
    return window
