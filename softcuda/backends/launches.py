"""Launches: what a CUDA step does on the device, as plain data until the loader binds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from softcuda.kernelspec import KernelSpec

__all__ = [
    "Argument",
    "KernelLaunch",
    "f32",
    "f64",
    "i32",
    "i64",
    "packed",
    "read",
    "scratch",
    "status",
    "write",
]

Extents3 = tuple[int, int, int]


class Argument(NamedTuple):
    """One parameter of a kernel.

    `kind` says how `value` is taken: "read" and "write" are pointers to the first element of the
    step's input or output of that number; "scratch" is a pointer that many bytes into the step's
    scratch; "status" is a pointer to the words that a kernel reports errors in; "i32", "i64",
    "f32", "f64" are numbers; "packed" is a struct by value, its bytes little-endian.
    """

    kind: str
    value: int | float | bytes


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """One kernel of a step.

    Attributes:
        spec: the kernel.
        grid: blocks along x, y, z.
        arguments: its parameters in order.
        block: threads along x, y, z; (spec.threads, 1, 1) where the kernel counts them in x.
        shared_bytes: dynamic shared memory a block [bytes].
    """

    spec: KernelSpec
    grid: Extents3
    arguments: tuple[Argument, ...]
    block: Extents3
    shared_bytes: int = 0


def read(number: int) -> Argument:
    """Return the pointer to the first element of the step's input `number`."""
    return Argument("read", number)


def write(number: int = 0) -> Argument:
    """Return the pointer to the first element of the step's output `number`."""
    return Argument("write", number)


def scratch(offset_bytes: int = 0) -> Argument:
    """Return the pointer `offset_bytes` into the step's scratch, which is 256-byte aligned."""
    return Argument("scratch", offset_bytes)


def status() -> Argument:
    """Return the pointer to the status words, in which a kernel tells the first error it meets.

    softcuda/backends/reports.py reads them.
    """
    return Argument("status", 0)


def i32(value: int) -> Argument:
    """Return a 32-bit integer."""
    return Argument("i32", value)


def i64(value: int) -> Argument:
    """Return a 64-bit integer."""
    return Argument("i64", value)


def f32(value: float) -> Argument:
    """Return a 32-bit floating-point number."""
    return Argument("f32", value)


def f64(value: float) -> Argument:
    """Return a 64-bit floating-point number."""
    return Argument("f64", value)


def packed(data: bytes) -> Argument:
    """Return a struct by value: its bytes as the kernel declares it, padding included."""
    return Argument("packed", data)
