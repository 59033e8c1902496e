"""Modules, arguments and launches over the fake driver."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from ctypes import c_double, c_float, c_int32, c_int64, c_uint64
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fake_driver import FakeDriver, checked
from fake_driver_graphs import FakeKernel

from softcuda.driver.arguments import ArgBuffer
from softcuda.driver.context import Context
from softcuda.driver.device import Device
from softcuda.driver.enums import (
    CUfunction_attribute,
)
from softcuda.driver.launch import Launch, LaunchConfig, max_active_clusters
from softcuda.driver.module import Module
from softcuda.driver.stream import Stream
from softcuda.driver.types import CUtensorMap
from softcuda.errors import (
    ArgumentError,
    ArgumentTypeError,
    DeviceLost,
    DriverError,
)

Array = np.ndarray[Any, Any]


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    yield from checked()


@pytest.fixture
def context(fake: FakeDriver) -> Iterator[Context]:
    with Context(Device(0, fake.driver())) as made:
        yield made


def at(array: Array) -> int:
    return array.ctypes.data


# Modules and functions


def test_modules(fake: FakeDriver, context: Context) -> None:
    fake.kernels["second"] = FakeKernel()
    with Module(context, b"\x7fELF cubin", "copy.cubin") as module:
        assert repr(module) == "Module(copy.cubin, device 0, open)"
        assert module.function_count() == 2
        function = module.function("kernel")
        assert repr(function) == "Function('kernel', device 0)"
        assert function.attribute(CUfunction_attribute.NUM_REGS) == 32
        assert function.max_active_blocks(256) == 8
        assert function.best_block_size() == (1024, 264)
        assert max_active_clusters(function, LaunchConfig((8, 1, 1), (128, 1, 1), 0, (8, 1, 1)))
        with pytest.raises(DriverError, match=r"NOT_FOUND \(500\).*has no kernel 'third'"):
            module.function("third")
    with pytest.raises(DriverError) as caught:
        Module(context, b"bad image", "bad.cubin")
    text = str(caught.value)
    assert "no kernel image is available" in text
    assert "loading bad.cubin (9 bytes) on Device(0, 'Fake H200', sm_90)" in text
    assert text.endswith("the driver says: ptxas says no")
    fake.fail("cuModuleLoadDataEx", 700)
    with pytest.raises(DeviceLost):
        Module(context, b"cubin")
    context.state.fault = None


def test_large_shared_memory_is_allowed_once(fake: FakeDriver, context: Context) -> None:
    function = Module(context, b"cubin").function("kernel")
    function.allow(40000)
    assert "cuFuncSetAttribute" not in fake.names()
    function.allow(100000)
    function.allow(90000)
    assert fake.names().count("cuFuncSetAttribute") == 1
    assert function.attribute(CUfunction_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES) == 100000
    function.allow(0, 16)
    assert function.attribute(CUfunction_attribute.NON_PORTABLE_CLUSTER_SIZE_ALLOWED) == 1
    with pytest.raises(ArgumentError, match="232449 bytes of dynamic and 1024 of static"):
        function.allow(232449)


# Arguments and launches


def test_argument_layout() -> None:
    args = ArgBuffer(
        [("out", c_uint64), ("n", c_int32), ("map", CUtensorMap), ("x", c_float), ("y", c_double)]
    )
    first = ctypes.addressof(args.fields[0])
    offsets = [ctypes.addressof(field) - first for field in args.fields]
    assert offsets == [0, 8, 64, 192, 200]
    assert first % 64 == 0
    assert args.pointers is not None
    assert [p - first for p in args.pointers] == offsets
    args.set("out", 2**64 - 1)
    args.fields[args.index("n")].value = -3
    args.set("y", 0.1)
    assert repr(args) == f"ArgBuffer(out={2**64 - 1}, n=-3, map=CUtensorMap, x=0.0, y=0.1)"
    assert ArgBuffer([]).pointers is None


def test_arguments_that_do_not_fit() -> None:
    args = ArgBuffer([("p", c_uint64), ("n", c_int32), ("dims", c_int64 * 3), ("m", CUtensorMap)])
    args.set("dims", (1, -2, 2**40))
    assert list(args["dims"]) == [1, -2, 2**40]
    args.set("n", 7)
    for name, value in {"p": -1, "n": 2**31, "dims": (1, 2)}.items():
        with pytest.raises(ArgumentError, match=name):
            args.set(name, value)
    with pytest.raises(ArgumentError, match="do not fit c_"):
        args.set("dims", (0, 0, 2**63))
    assert args["n"].value == 7
    for name, value in {"n": "seven", "m": 3}.items():
        with pytest.raises(ArgumentTypeError, match=name):
            args.set(name, value)
    with pytest.raises(ArgumentError, match=r"no parameter 'q'; it has \('p', 'n'"):
        args.set("q", 1)
    with pytest.raises(ArgumentError, match="not all named differently"):
        ArgBuffer([("a", c_int32), ("a", c_int32)])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"grid": (0, 1, 1)}, "grid"),
        ({"grid": (1, 65536, 1)}, "65535"),
        ({"grid": (2**31, 1, 1)}, "2147483647"),
        ({"block": (1025, 1, 1)}, "block"),
        ({"block": (1, 1, 65)}, "block"),
        ({"block": (512, 4, 1)}, "2048 threads"),
        ({"block": (32, 1)}, "block"),
        ({"smem_bytes": -1}, "negative"),
        ({"cluster": (0, 1, 1)}, "cluster"),
        ({"cluster": (3, 1, 1)}, "does not divide grid"),
    ],
)
def test_shapes_that_cannot_be_launched(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        replace(LaunchConfig((4, 1, 1), (32, 1, 1)), **change)


def test_launches(fake: FakeDriver, context: Context) -> None:
    fake.kernels["axpy"] = FakeKernel((c_uint64, c_float))
    function = Module(context, b"cubin").function("axpy")
    args = ArgBuffer([("p", c_uint64), ("a", c_float)])
    config = LaunchConfig((4, 2, 1), (128, 1, 1), 512, (2, 1, 1), is_programmatic=True)
    launch = Launch(function, config, args)
    assert repr(launch) == "Launch(kernel 'axpy', grid (4, 2, 1), block (128, 1, 1))"
    seen: list[tuple[Any, ...]] = []
    inner = fake.cuLaunchKernelEx

    def look(config: Any, *rest: Any) -> None:
        c = config.contents
        attributes = (type(launch._native.attributes)).from_address(c.attrs)
        seen.append((c.gridDimX, c.gridDimY, c.blockDimX, c.sharedMemBytes, c.hStream))
        seen.append(tuple(a.id for a in attributes[: c.numAttrs]))
        assert attributes[0].value.clusterDim.x == 2
        assert attributes[1].value.programmaticStreamSerializationAllowed == 1
        inner(config, *rest)

    fake.cuLaunchKernelEx = look
    with Stream(context) as first, Stream(context) as second:
        args.set("p", 17)
        launch.submit(stream=first)
        args.set("p", 18)
        launch.submit(stream=second)
        assert fake.launched == [("axpy", (17, 0.0)), ("axpy", (18, 0.0))]
        assert seen == [
            (4, 2, 128, 512, first.handle),
            (4, 6),
            (4, 2, 128, 512, second.handle),
            (4, 6),
        ]
        assert context.state.pending == {s.handle: "kernel 'axpy'" for s in (first, second)}
        first.synchronize()
        assert second.is_done()
        assert context.state.pending == {}
    del fake.cuLaunchKernelEx


def test_a_refused_launch_leaves_everything_usable(fake: FakeDriver, context: Context) -> None:
    launch = Launch(
        Module(context, b"cubin").function("kernel"),
        LaunchConfig((1, 1, 1), (1024, 1, 1)),
        ArgBuffer([]),
    )
    with Stream(context) as stream:
        fake.fail("cuLaunchKernelEx", 701)
        with pytest.raises(DriverError, match="too many resources requested for launch; take few"):
            launch.submit(stream=stream)
        assert context.state.pending == {}
        launch.submit(stream=stream)
        with context.current():
            launch.submit(stream=stream)
    assert len(fake.launched) == 2


def test_synchronous_launches(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTCUDA_SYNC", "1")
    context = Context(Device(0, fake.driver()))
    launch = Launch(
        Module(context, b"cubin").function("kernel"),
        LaunchConfig((1, 1, 1), (1, 1, 1)),
        ArgBuffer([]),
        "step 5 (add)",
    )
    stream = Stream(context)
    launch.submit(stream=stream)
    assert "cuStreamSynchronize" in fake.names()
    fake.fail("cuStreamSynchronize", 716)
    with pytest.raises(DeviceLost, match=r"misaligned address; .*lost; .* step 5 \(add\)"):
        launch.submit(stream=stream)
    monkeypatch.setenv("SOFTCUDA_SYNC", "yes")
    with pytest.raises(ArgumentError, match="SOFTCUDA_SYNC is 'yes'"):
        Context(Device(0, fake.driver()))
    fake.live.clear()
    fake.retained.clear()
