"""Steps made by hand, for passes that look at nothing but what steps read and write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from softcuda.backends.launches import KernelLaunch, read, status, write
from softcuda.backends.steps import Operand, Step
from softcuda.compiler.dependences import dependences
from softcuda.compiler.program import Place
from softcuda.dtype import f32
from softcuda.kernelspec import KernelSpec

SPEC = KernelSpec("kernel", "f32", "none.cu", "kernel", ("f32",), 256)
ITEM = 4  # bytes


class Made(NamedTuple):
    """Steps, and where their values live."""

    steps: list[Step]
    places: dict[int, Place]

    def edges(self) -> dict[int, tuple[int, ...]]:
        return dependences(list(enumerate(self.steps)), self.places)


def window(value: int, count: int = 64, offset: int = 0, stride: int = 1) -> Operand:
    return Operand(value, offset, (count,), (stride,), f32)


def kernel(
    reads: Sequence[Operand | int],
    writes: Sequence[Operand | int],
    scratch_bytes: int = 0,
    *,
    reports: bool = False,
) -> Step:
    """Return a step of one kernel; a bare number stands for the whole of a value."""
    inputs, outputs = (
        tuple(x if isinstance(x, Operand) else window(x) for x in given)
        for given in (reads, writes)
    )
    arguments = (*map(read, range(len(inputs))), *map(write, range(len(outputs))))
    if reports:
        arguments += (status(),)
    launch = KernelLaunch(SPEC, (1, 1, 1), arguments, (256, 1, 1))
    return Step(
        "cuda_naive", "kernel", inputs, outputs, scratch_bytes=scratch_bytes, launches=(launch,)
    )


def copy(source: int, target: int) -> Step:
    return Step("transfer", "d2d", (window(source),), (window(target),))


def arena(*offsets: int) -> dict[int, Place]:
    """Return places of values 0, 1, .. of 256 bytes."""
    return {k: Place("arena", at, 64 * ITEM, "cuda") for k, at in enumerate(offsets)}


LEAF, OTHER, OWN, HERS, OUT = 100, 101, 102, 103, 104
OUTSIDE = {
    LEAF: Place("leaf", 0, 256, "cuda"),
    OTHER: Place("leaf", 1, 256, "cuda"),
    OWN: Place("variable", 0, 256, "cuda"),
    HERS: Place("variable", 1, 256, "cuda"),
    OUT: Place("output", 0, 256, "cuda"),
}
