"""Seeded random graphs of all ops: one function a family of ops, each adds a node or gives up."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy_bounds import known_leaf
from random_nodes import MOST_ELEMENTS, Made, RandomGraph

from softcuda.dtype import REAL_DTYPES, bool_, f32, f64, i32, i64
from softcuda.graph import params as p
from softcuda.graph.node import Node
from softcuda.graph.op import OPS, Kind
from softcuda.tools.workloads_inputs import Source, number_text

EXTENTS = (1, 2, 3, 4, 5, 7)
MOST_PRODUCTS = 20_000

ELEMENTWISE = [op for op in OPS.values() if op.kind is Kind.ELEMENTWISE and op.name != "cast"]
REDUCTIONS = [op for op in OPS.values() if op.kind is Kind.REDUCTION]


def random_graph(seed: int) -> tuple[RandomGraph, list[Made]]:
    """Return the graph of a seed, and its outputs."""
    graph = RandomGraph(np.random.default_rng(seed))
    rng = graph.rng
    for _ in range(int(rng.integers(2, 5))):
        graph.made.append(_leaf(graph))
    wanted = len(graph.made) + int(rng.integers(5, 41))
    for _ in range(20 * wanted):
        if len(graph.made) >= wanted:
            break
        graph.pick(STEPS)(graph)
    computed = [m for m in graph.made if not m.node.is_leaf] or graph.made
    read = {id(x) for m in graph.made for x in m.node.inputs}
    unread = [m for m in computed if id(m.node) not in read]
    extra = [graph.pick(computed) for _ in range(int(rng.integers(0, 4)))]
    return graph, unread + extra


def _leaf(graph: RandomGraph) -> Made:
    rng = graph.rng
    dtype = graph.pick((*REAL_DTYPES.values(), f32, f32, f64, f64))
    rank = int(rng.integers(0, 4))
    dims = tuple(int(graph.pick(EXTENTS)) for _ in range(rank))
    if rank and graph.some(15):
        dims = (0, *dims[1:])
    source = Source(rng)
    makers = [source.array] if not rank else [source.array, source.strided, source.stretched]
    return graph.leaf(graph.pick(makers)("small", dims, dtype), dtype)


def _elementwise(graph: RandomGraph) -> None:
    op = graph.pick(ELEMENTWISE)
    first = graph.operand()
    if op.name == "where":
        first = graph.operand(lambda m: m.known.dtype is bool_)
    if first is None:
        return
    inputs = [first]
    for _ in range(op.arity - 1):
        other = graph.operand(lambda m: _broadcasts([x.known.dims for x in (*inputs, m)]))
        kind = graph.pick((f32, f64)) if first.known.dtype is bool_ else first.known.dtype
        inputs.append(graph.number(kind) if graph.some(4) or other is None else other)
    if op.name == "pow" and not _may_be_raised(inputs):
        return
    graph.add(op, inputs)


def _may_be_raised(pair: Sequence[Made]) -> bool:
    base, exponent = (m.known for m in pair)
    if base.dtype.is_float or exponent.dtype.is_float:
        return bool(np.all(base.value > 0.1)) and bool(np.all(np.abs(exponent.value) < 10))
    return bool(np.all(exponent.value - exponent.error >= 0))


def _broadcasts(shapes: Sequence[tuple[int, ...]]) -> bool:
    try:
        return math.prod(np.broadcast_shapes(*shapes)) <= MOST_ELEMENTS
    except ValueError:
        return False


def _cast(graph: RandomGraph) -> None:
    one = graph.operand()
    if one is not None:
        graph.add(OPS["cast"], [one], p.Cast(graph.pick(tuple(REAL_DTYPES.values()))))


def _reduction(graph: RandomGraph) -> None:
    op, one = graph.pick(REDUCTIONS), graph.operand()
    if one is None:
        return
    rank = len(one.known.dims)
    axes = tuple(axis for axis in range(rank) if graph.some(2))
    keepdims = graph.some(2)
    if op.name in ("var", "std"):
        graph.add(op, [one], p.Moment(axes, keepdims, graph.pick(("0", "1"))))
    elif op.name == "norm":
        graph.add(op, [one], p.Norm(axes, keepdims, graph.pick(("2", "1", "inf", "-inf", "0"))))
    else:
        graph.add(op, [one], p.Reduce(axes, keepdims))


def _along_axis(graph: RandomGraph) -> None:
    one = graph.operand(lambda m: len(m.known.dims) > 0)
    if one is None:
        return
    rank = len(one.known.dims)
    axis = int(graph.rng.integers(rank))
    name = graph.pick(("cumsum", "softmax", "log_softmax", "layer_norm"))
    if name == "cumsum":
        graph.add(OPS[name], [one], p.Cumulative(axis))
    elif name != "layer_norm":
        graph.add(OPS[name], [one], p.Softmax(axis))
    else:
        tail = one.known.dims[axis:]
        beside = graph.operand(lambda m: m.known.dims == tail)
        inputs = [one] if beside is None else [one, beside]
        params = p.LayerNorm(rank - axis, "1e-05", beside is not None, False)
        graph.add(OPS[name], inputs, params)


def _view(graph: RandomGraph) -> None:
    one = graph.operand()
    if one is None:
        return
    rng, dims = graph.rng, one.known.dims
    name = graph.pick(("permute", "reshape", "broadcast_to", "slice", "diagonal"))
    if name == "permute":
        graph.add(OPS[name], [one], p.Permute(tuple(int(a) for a in rng.permutation(len(dims)))))
    elif name == "reshape":
        graph.add(OPS[name], [one], p.Shape(_refactored(graph, math.prod(dims))))
    elif name == "broadcast_to":
        wider = tuple(int(graph.pick(EXTENTS)) if d == 1 else d for d in dims)
        graph.add(OPS[name], [one], p.Shape((*((2,) if graph.some(2) else ()), *wider)))
    elif name == "slice":
        graph.add(OPS[name], [one], _random_slice(graph, dims))
    elif len(dims) > 1:
        first, second = (int(a) for a in rng.permutation(len(dims))[:2])
        graph.add(OPS[name], [one], p.Diagonal(first, second, int(rng.integers(-2, 3))))


def _refactored(graph: RandomGraph, total: int) -> tuple[int, ...]:
    if not total:
        return (0, 2)
    found: list[int] = []
    while total > 1 and len(found) < 3:
        factor = graph.pick([f for f in range(1, total + 1) if total % f == 0])
        found.append(factor)
        total //= factor
    return (*found, total) if total > 1 or graph.some(3) else tuple(found)


def _random_slice(graph: RandomGraph, dims: tuple[int, ...]) -> p.Slice:
    starts, steps, sizes = [], [], []
    for extent in dims:
        step = int(graph.pick((1, 1, 2, -1, -2)))
        start = int(graph.rng.integers(extent)) if extent and graph.some(2) else 0
        start = start if step > 0 else extent - 1 - start
        room = (extent - start if step > 0 else start + 1) if extent else 0
        starts.append(max(start, 0))
        steps.append(step)
        sizes.append(-(-room // abs(step)))
    return p.Slice(tuple(starts), tuple(steps), tuple(sizes))


def _movement(graph: RandomGraph) -> None:
    one = graph.operand()
    if one is None:
        return
    dims, rank = one.known.dims, len(one.known.dims)
    name = graph.pick(("concat", "stack", "pad", "tril", "triu", "one_hot"))
    if name == "one_hot":
        chosen = graph.operand(lambda m: m.known.dtype.is_integer)
        if chosen is not None:
            graph.add(OPS[name], [chosen], p.OneHot(4, graph.pick((f32, i64, bool_))))
    elif name == "pad":
        before, after = (tuple(int(x) for x in graph.rng.integers(0, 3, rank)) for _ in range(2))
        graph.add(OPS[name], [one], p.Pad(before, after, number_text(one.known.dtype, 1)))
    elif name in ("tril", "triu"):
        graph.add(OPS[name], [one], p.Triangle(int(graph.rng.integers(-2, 3))))
    elif rank or name == "stack":
        others = [graph.operand(lambda m: m.known.dims == dims) for _ in range(2)]
        axis = int(graph.rng.integers(rank + (name == "stack")))
        graph.add(OPS[name], [one, *(m for m in others if m is not None)], p.Concat(axis))


def _indexing(graph: RandomGraph) -> None:
    one = graph.operand(lambda m: math.prod(m.known.dims) > 0 and len(m.known.dims) > 0)
    if one is None:
        return
    dims = one.known.dims
    axis = int(graph.rng.integers(len(dims)))
    name = graph.pick(("take", "gather", "index_add", "scatter_add"))
    count = int(graph.pick(EXTENTS))
    addressed = (*dims[:axis], count, *dims[axis + 1 :])
    asked = addressed if name in ("gather", "scatter_add") else (count,)
    kind = graph.pick((i32, i64))
    indices = graph.leaf(Source(graph.rng).indices(dims[axis], asked, kind), kind)
    inputs = [one, indices]
    if name in ("index_add", "scatter_add"):
        values = graph.operand(lambda m: m.known.dims == addressed)
        if values is None:
            dtype = graph.pick((f32, i32, one.known.dtype))
            values = graph.leaf(Source(graph.rng).array("small", addressed, dtype), dtype)
        inputs.append(values)
    graph.add(OPS[name], inputs, p.Gather(axis))


def _creation(graph: RandomGraph) -> None:
    dtype = graph.pick((f32, f64, *REAL_DTYPES.values()))
    name = graph.pick(("full", "arange", "linspace", "eye", "uniform", "normal"))
    if name == "full":
        graph.add(OPS[name], [], p.Full((2, 3), dtype, number_text(dtype, 2)))
    elif name == "eye":
        graph.add(OPS[name], [], p.Eye(3, 4, int(graph.rng.integers(-1, 2)), dtype))
    elif name == "arange" and dtype is not bool_:
        first, step = number_text(dtype, -2), number_text(dtype, 1)
        graph.add(OPS[name], [], p.Arange(first, step, 5, dtype))
    elif name == "linspace" and dtype.is_float:
        graph.add(OPS[name], [], p.Linspace("-1.0", "1.5", 7, graph.some(2), dtype))
    elif dtype.is_float and name in ("uniform", "normal"):
        state = Source(graph.rng).generator_state()
        variable = Made(Node.leaf(state.copy(), OPS["variable"]), known_leaf(state, i64))
        if graph.add(OPS[name], [variable], p.Random((3, 5), dtype, "-1.0", "1.0", 0)):
            graph.states.append((variable.node, state))


def _contraction(graph: RandomGraph) -> None:
    a, b = graph.operand(), graph.operand()
    if a is None or b is None:
        return
    one = tuple(range(len(a.known.dims)))
    extents = dict(zip(one, a.known.dims, strict=True))
    other: list[int] = []
    for extent in b.known.dims:
        free = [x for x in one if x not in other and extent in (1, extents[x])]
        label = graph.pick(free) if free and not graph.some(3) else len(extents)
        extents.setdefault(label, extent)
        other.append(label)
    if math.prod(extents.values()) > MOST_PRODUCTS:
        return
    out = [x for x in graph.rng.permutation(len(extents)).tolist() if not graph.some(3)]
    graph.add(OPS["matmul"], [a, b], p.Contraction(one, tuple(other), tuple(out)))


STEPS = (
    *[_elementwise] * 12,
    *[_reduction] * 3,
    *[_view] * 4,
    _cast,
    _along_axis,
    _along_axis,
    _movement,
    _movement,
    _indexing,
    _creation,
    _contraction,
    _contraction,
)
