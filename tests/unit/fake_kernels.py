"""A CUDA backend whose kernels are Python functions, for sessions over the fake driver.

It takes neg and add of f32 without broadcasting. Programs on it have steps, segments, driver
graphs, arenas and outputs as real ones have, and right results.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from ctypes import c_int64, c_uint64
from typing import Any, ClassVar

import numpy as np
import pytest
from fake_driver import FakeDriver
from fake_driver_graphs import FakeKernel
from fake_sessions import fake_sessions

from softcuda.backends import register, unregister
from softcuda.backends.launches import KernelLaunch, i64, read, write
from softcuda.backends.steps import Step, Unit, Verdict
from softcuda.dtype import f32
from softcuda.graph.lines import Line
from softcuda.graph.shapes import contiguous_strides, numel
from softcuda.kernelspec import KernelSpec
from softcuda.nvrtc.unit import CompileUnit, Cubin, Image
from softcuda.profile.model import DeviceFacts, PoolSettings, Profile, Row
from softcuda.target import Target

Array = np.ndarray[Any, Any]

BACKEND_ID = "cuda_of_tests"
SPECS = {name: KernelSpec(name, "f32", "none.cu", name, ("f32",), 256) for name in ("neg", "add")}


class CudaOfTests:
    """The backend."""

    BACKEND_ID = BACKEND_ID
    DEVICE = "cuda"
    FUSES: frozenset[Any] = frozenset()
    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    KERNELS = tuple(SPECS.values())

    def supports(self, line: Line, operands: Sequence[Line], target: Target) -> Verdict:
        alike = all(x.dims == line.dims and x.dtype is f32 for x in operands)
        return Verdict(line.op.name in SPECS and alike, "it takes neg and add of f32")

    def prepare(self, unit: Unit, target: Target) -> tuple[Step, ...]:
        (micro,) = unit.chain
        for operand in unit.operands:
            assert operand.strides == contiguous_strides(operand.dims)
        pointers = [read(source) for source in micro.sources]
        arguments = (write(), *pointers, i64(numel(unit.result.dims)))
        launch = KernelLaunch(SPECS[micro.op.name], (1, 1, 1), arguments, (256, 1, 1))
        return (
            Step(
                BACKEND_ID,
                launch.spec.id,
                unit.operands,
                (unit.result,),
                chain=unit.chain,
                lines=unit.lines,
                launches=(launch,),
            ),
        )


class Cubins:
    """A compile cache that has every kernel already."""

    def __init__(self, **options: Any) -> None:
        self.asked: list[CompileUnit] = []

    def get(self, unit: CompileUnit, arch: str) -> Cubin:
        self.asked.append(unit)
        return Cubin(b"cubin", Image.CUBIN, unit.expression, arch, "", None)

    def get_all(self, units: Sequence[CompileUnit], arch: str) -> list[Cubin]:
        return [self.get(unit, arch) for unit in units]


def _floats(ptr: c_uint64, count: c_int64) -> Array:
    return np.frombuffer((ctypes.c_float * count.value).from_address(ptr.value), np.float32)


def _neg(out: c_uint64, x: c_uint64, count: c_int64) -> None:
    _floats(out, count)[...] = -_floats(x, count)


def _add(out: c_uint64, x: c_uint64, y: c_uint64, count: c_int64) -> None:
    _floats(out, count)[...] = _floats(x, count) + _floats(y, count)


def fake_kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    """Yield a fake driver whose sessions run the backend of this module."""
    monkeypatch.setattr("softcuda.loader.KernelCache", Cubins)
    register(CudaOfTests())
    try:
        for fake in fake_sessions(monkeypatch):
            fake.kernels["neg"] = FakeKernel((c_uint64, c_uint64, c_int64), _neg)
            fake.kernels["add"] = FakeKernel((c_uint64, c_uint64, c_uint64, c_int64), _add)
            yield fake
    finally:
        unregister(BACKEND_ID)


def kernel_profile(pool: str = "cuda") -> Profile:
    """Return a profile of the backend; the ops that it does not take run on the CPU."""
    rows = tuple(Row(name, None, 0, None, BACKEND_ID) for name in SPECS)
    return Profile(
        "kernels", {"soft_version": "0.1.0"}, DeviceFacts(), rows, pool=PoolSettings(pool)
    )
