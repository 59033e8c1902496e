"""Work that reaches every kernel of the backends' tables, at the edges of tiles and vectors.

Planning needs no device, so the cases are chosen by what they launch: of many small workloads
those are kept that launch a kernel of the table, each kernel a few times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from device_leaves import node_of, planned_leaf
from gemm_units import labels_of
from op_cases import profile_of, variants

from softcuda.backends import backends
from softcuda.compiler.compile import compile_graph
from softcuda.compiler.settings import Settings
from softcuda.dtype import REAL_DTYPES, DType, f32, f64, i32
from softcuda.graph.node import Node
from softcuda.graph.op import OPS, Kind
from softcuda.graph.params import (
    Arange,
    Cast,
    Concat,
    Cumulative,
    Dims,
    LayerNorm,
    Linspace,
    Moment,
    Norm,
    OneHot,
    Reduce,
    Softmax,
)
from softcuda.graph.trace import trace
from softcuda.kernelspec import KernelSpec
from softcuda.profile.model import PoolSettings
from softcuda.profile.resolve import default_profile
from softcuda.profile.vocabulary import work_ops
from softcuda.target import Target
from softcuda.tools.inspect_rows import cuda_backends
from softcuda.tools.workloads import accepted_dtypes
from softcuda.tools.workloads_base import Workload
from softcuda.tools.workloads_inputs import Source

TIMES = 3  # that a kernel is run

# Kinds of ops whose usual workloads reach their kernels; for the others see `_larger`.
_VARIED = (Kind.MOVEMENT, Kind.CREATION, Kind.RANDOM)

# Extents around the tiles of permuted copies, in elements of each size.
_PERMUTED = (
    ((64, 128), (1, 0)),
    ((63, 129), (1, 0)),
    ((65, 31, 7), (2, 1, 0)),
    ((1031, 260), (1, 0)),
    ((128, 6, 160), (1, 0, 2)),
    ((128, 6, 24), (1, 0, 2)),
    ((37, 5, 41), (1, 0, 2)),
    ((2,) * 10, tuple(range(9, -1, -1))),
    ((512, 520), (1, 0)),
    ((100, 52), (1, 0)),
    ((98, 54), (1, 0)),
    ((96, 4, 104), (2, 1, 0)),
    ((50, 3, 62, 2), (2, 1, 0, 3)),
    ((50, 3, 62, 4), (2, 1, 0, 3)),
    ((50, 3, 62, 8), (2, 1, 0, 3)),
    ((17, 16), (1, 0)),
)
# Enough tiles for kernels whose tiles are large.
_TRANSPOSED = ((168, 8192), (768, 4096), (2047, 1536), (3072, 511))
# Long reductions of few results go in parts, many short rows through a kernel of their own.
_REDUCED = (
    ((1,), 0),
    ((13, 7), 0),
    ((13, 7), 1),
    ((9, 1032), 1),
    ((1031, 36), 0),
    ((3, 300_001), 1),
    ((300_001, 3), 0),
    ((70_000, 64), 1),
    ((300_003, 16), 1),
    ((2, 65_536), 1),
    ((9, 2048), 1),
    ((9, 4096), 1),
    ((9, 8192), 1),
    ((9, 16_384), 1),
    ((9, 32_768), 1),
)
_FULL_ROWS = ((33, 64), (33, 128))  # rows that fill a team of 8 threads of the device
# Batches, sides and depths of products: for every tile, whole and split.
_PRODUCTS = (
    *((1, side, side) for side in (1, 31, 64, 129, 257, 513)),
    *((1, side, 20_003) for side in (17, 65)),
    *((5000, side, 3) for side in (1, 7)),
    (500, 65, 5),
    (20, 500, 5),
    (5, 800, 1),
    (1, 2000, 1),
)
# Rows, columns and depths of products in every storage order: whole vectors, and none.
_ORDERED = (
    (64, 48, 32),
    (65, 47, 33),
    (16, 2000, 256),
    (2000, 16, 256),
    (520, 260, 128),
    (1300, 520, 64),
    (1304, 1304, 32),
    (1303, 1303, 31),
    (1, 260, 128),
    (8, 260, 128),
    (3, 67, 65),
)


class KernelCase(NamedTuple):
    """A workload on a backend."""

    name: str
    backend_id: str
    work: Workload


def kernel_cases(target: Target) -> dict[KernelSpec, list[KernelCase]]:
    """Return the cases of every kernel of the tables that runs on a target."""
    found: dict[KernelSpec, list[KernelCase]] = {
        spec: []
        for specs in cuda_backends().values()
        for spec in specs
        if not spec.refusal(target.arch)
    }
    for group in _candidates():
        nodes = {name: node_of(work, planned_leaf) for name, work in group.items()}
        for backend_id, table in cuda_backends().items():
            own = found.keys() & set(table)  # a backend may launch another one's kernels too
            for name, specs in launched(backend_id, nodes, target).items():
                for spec in specs & own:
                    if len(found[spec]) < TIMES:
                        found[spec].append(KernelCase(name, backend_id, group[name]))
    return found


def taken_by(backend_id: str, nodes: Mapping[str, Node], target: Target) -> dict[str, Node]:
    """Return those nodes, each one op over leaves, that a backend supports."""
    graph = trace(list(nodes.values())).graph
    taken, backend = {}, backends()[backend_id]
    for (name, node), number in zip(nodes.items(), graph.outputs, strict=True):
        line = graph.lines[number]
        if backend.supports(line, [graph.lines[k] for k in line.inputs], target):
            taken[name] = node
    return taken


def launched(
    backend_id: str, nodes: Mapping[str, Node], target: Target
) -> dict[str, set[KernelSpec]]:
    """Return the kernels that a backend launches for each node that it takes."""
    taken = taken_by(backend_id, nodes, target)
    if not taken:
        return {}
    profile = replace(profile_of(backend_id), pool=PoolSettings("cuda"))
    settings = Settings(profile, default_profile(), target, True, "")
    program = compile_graph(trace(list(taken.values())).graph, settings)
    made = {operand.value: step for step in program.steps for operand in step.outputs}
    return {
        name: {launch.spec for launch in made[program.output_lines[place]].launches}
        for name, place in zip(taken, program.outputs, strict=True)
    }


def _candidates() -> Iterator[dict[str, Workload]]:
    """Yield workloads by name, in groups."""
    source = Source(np.random.default_rng(31))
    for op in work_ops():
        if OPS[op].kind not in _VARIED:
            continue
        for dtype in accepted_dtypes(op, source):
            made = variants(op, dtype.name)
            yield {f"{op} of {dtype}, {name}": work for name, work in made.items()}
    for dtype in REAL_DTYPES.values():
        yield {f"{name} of {dtype}": work for name, work in _larger(dtype, source)}


def _larger(dtype: DType, source: Source) -> Iterator[tuple[str, Workload]]:
    """Yield what the variants of the ops do not reach."""

    def work(op: str, params: Any, *arrays: Any) -> Workload:
        return Workload(OPS[op], arrays, params)

    for start, step in (("0", "3"), ("0.5", "0.75")):
        yield f"arange {start}", work("arange", Arange(start, step, 1031, dtype))
    yield "linspace", work("linspace", Linspace("0.0", "9.0", 1031, True, dtype))
    for index in (i32, REAL_DTYPES["i64"]):
        indices = source.indices(9, (33,), index)
        yield f"one_hot {index}", work("one_hot", OneHot(7, dtype), indices)
    few = source.array("small", (6, 5), dtype)
    for other in (REAL_DTYPES["bool"], i32, f32):
        beside = source.array("small", (6, 4), other)
        yield f"concat {other}", work("concat", Concat(1), few, beside)
    for dims, axes in _PERMUTED:
        x = source.array("small", dims, dtype)
        yield f"copy {dims} {axes}", work("copy", (), x.transpose(axes))
        other = f32 if dtype is not f32 else i32
        yield (
            f"cast {dims} {axes}",
            work("cast", Cast(dtype), x.astype(other.numpy).transpose(axes)),
        )
    for dims in _TRANSPOSED:
        x = source.array("small", dims, dtype)
        yield f"copy {dims} transposed", work("copy", (), x.T)
    x = source.array("small", (65, 80), dtype)
    for name, view in (("all", x), ("row", x[:1]), ("column", x[:, :1]), ("one", x[:1, :1])):
        yield f"copy {name}", work("copy", (), np.broadcast_to(view, x.shape))
    yield "copy of steps", work("copy", (), x[1::2, ::3])
    for dims, axis in _REDUCED:
        if dims[0] > 2**17 and axis == 0 and dtype is f64:
            continue  # the reference adds columns one by one, and is no better
        x = source.array("near_one" if dtype.is_float else "small", dims, dtype)
        for op in ("sum", "max", "argmax", "any", "prod", "mean", "var", "logsumexp"):
            yield f"{op} {dims}", Workload(OPS[op], (x,), _params(op, axis))
        for order in ("2", "3.0"):
            yield f"norm {order} {dims}", work("norm", Norm((axis,), False, order), x)
        yield f"cumsum {dims}", work("cumsum", Cumulative(axis), x)
        if dtype.is_float:
            yield f"softmax {dims}", work("softmax", Softmax(axis), x)
            yield f"layer_norm {dims}", work("layer_norm", LayerNorm(1, "1e-05", False, False), x)
    for dims in _FULL_ROWS if dtype.is_float else ():
        x = source.array("near_one", dims, dtype)
        yield f"softmax {dims}", work("softmax", Softmax(1), x)
        yield f"layer_norm {dims}", work("layer_norm", LayerNorm(1, "1e-05", False, False), x)
    if dtype.is_float:
        x = source.array("near_one", (64, 300), dtype)
        yield "softmax of columns", work("softmax", Softmax(0), x)
        yield "softmax of steps", work("softmax", Softmax(1), x[1:, ::2])
    if not dtype.is_bool:
        for name, equation, shapes in _products():
            a, b = (source.array("small", dims, dtype) for dims in shapes)
            yield f"matmul {name}", work("matmul", labels_of(equation), a, b)


def _products() -> Iterator[tuple[str, str, tuple[Dims, Dims]]]:
    """Yield name, labels and extents of products: every tile, storage order, and way to split."""
    for batches, side, depth in _PRODUCTS:
        shapes = (batches, side, depth), (batches, depth, side)
        yield f"{batches} {side} {depth}", "zij,zjk->zik", shapes
    for m, n, k in _ORDERED:
        for a in ("ij", "ji"):
            for b in ("jk", "kj"):
                extents = {"i": m, "j": k, "k": n}
                shapes = tuple(tuple(extents[label] for label in part) for part in (a, b))
                yield f"{a} {b} {m} {n} {k}", f"{a},{b}->ik", (shapes[0], shapes[1])
    for dims in ((6, 5, 3), (33, 17, 40)):  # a label that one operand alone has
        yield f"alone {dims}", "ijp,jk->ik", (dims, (dims[1], 4))
    for m, n in ((70, 40), (520, 600), (16, 1000), (1000, 16), (1500, 1500)):
        yield f"two depths {m} {n}", "iab,bka->ik", ((m, 6, 10), (10, n, 6))


def _params(op: str, axis: int) -> Any:
    return Moment((axis,), False, "1") if op == "var" else Reduce((axis,), False)
