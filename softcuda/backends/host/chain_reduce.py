"""Reductions on the host with the elementwise ops before them, in cache-sized tiles.

The space is cut into tiles whose extents do not depend on the number of threads. A region is a
tile of the kept axes with a run of tiles of the reduced axes; regions are computed by any thread
and their states meet in a fixed order, so the result has the same bits on every run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from softcuda.backends.host.chain import environment, slot_bytes, threads_for
from softcuda.backends.host.chain_calls import SMALL_ELEMS, CallList, stand_in
from softcuda.backends.host.chain_moments import reducer_for
from softcuda.backends.host.chain_program import build_program
from softcuda.backends.host.chain_slots import MicroProgram
from softcuda.backends.host.chain_small import record_reduction
from softcuda.backends.host.chain_space import Space, fuse_axes, pieces
from softcuda.backends.host.chain_states import Block, Partial, Reducer
from softcuda.backends.host.conversion import convert
from softcuda.backends.host.workers import SHARED, Workers
from softcuda.backends.steps import Micro, Operand
from softcuda.graph.params import Dims

__all__ = ["Reduction", "bind_reduction", "reduction_scratch_bytes", "tile_extents"]

Array = np.ndarray[Any, Any]
Call = tuple[Any, tuple[Any, ...]]

# Two-core Xeon, 2 MiB of second-level cache a core, (4096, 4096) f32: sum, mean and max of all,
# of rows and of columns.
TILE_ELEMS = 131072  # after a chain
ALONE_TILE_ELEMS = 196608  # of an operand as it is: fewer values compete for the cache
SMALLEST_TILE_ELEMS = 65536
READ_ONLY_TILE_ELEMS = 1 << 20  # where nothing of the tile is read twice
NARROWEST_KEPT = 4096  # a run of kept elements inside a tile: long enough for vector loops
REGIONS = 16  # runs of reduced tiles, where there are fewer than 8 kept tiles
FEW_KEPT_TILES = 8

_OF_NOTHING = {"prod": 1, "all": True, "logsumexp": -math.inf}
_NOT_A_NUMBER = ("mean", "var", "std")


class _Window(NamedTuple):
    """A tile: where it begins and its extents along every fused axis."""

    starts: Dims
    extents: Dims


def tile_extents(dims: Dims, reduced: Sequence[bool], elems: int) -> Dims:
    """Return the extents of the tiles of a space, at most about `elems` elements.

    Args:
        dims: extents of the fused axes.
        reduced: which of them are reduced.
        elems: the most elements of a tile.

    Example:
        >>> tile_extents((4096, 4096), (True, False), 65536)
        (16, 4096)
    """
    tile = [1] * len(dims)
    room, kept = elems, 1
    for axis in range(len(dims) - 1, -1, -1):
        limit = room
        outer = math.prod(d for d, r in zip(dims[:axis], reduced[:axis], strict=True) if r)
        if not reduced[axis] and outer > 1:
            limit = min(room, max(NARROWEST_KEPT // kept, room // outer, 1))
        tile[axis] = pieces(dims[axis], limit)
        if axis == len(dims) - 1 and tile[axis] > NARROWEST_KEPT:
            rounded = -(-tile[axis] // NARROWEST_KEPT) * NARROWEST_KEPT
            tile[axis] = min(rounded, dims[axis])
        room = max(room // tile[axis], 1)
        kept *= 1 if reduced[axis] else tile[axis]
    return tuple(tile)


def bind_reduction(
    chain: Sequence[Micro],
    operands: Sequence[Operand],
    inputs: Sequence[Array],
    out: Array,
    scratch: Array | None = None,
    *,
    tile_elems: int | None = None,
    threads: int | None = None,
    workers: Workers = SHARED,
) -> list[Call]:
    """Return the calls that write a reduction, with the chain before it, to `out`.

    Args:
        chain: elementwise ops, if any, then the reduction of the last one's value.
        operands: the external operands as the step names them.
        inputs: their arrays, any strides.
        out: dense array of the result.
        scratch: bytes as reduction_scratch_bytes asks, or None.
        tile_elems: elements of a tile; None lets the reduction decide.
        threads: threads that share the tiles; None lets the reduction decide.
        workers: the team that they belong to.

    Returns:
        For few elements bare calls on ready views; else one call that runs the tiles.
    """
    last = chain[-1]
    params: Any = last.params
    if out.size == 0:
        return []
    source = _source(chain, operands)
    if 0 in source.dims:
        value = math.nan if last.op.name in _NOT_A_NUMBER else _OF_NOTHING.get(last.op.name, 0)
        return [(out.fill, (value,))]
    if tile_elems is None and math.prod(source.dims) <= SMALL_ELEMS:
        made = CallList(scratch)
        record_reduction(made, chain, operands, inputs, out)
        return made.calls
    if len(chain) == 1:
        operands, inputs = [operands[last.sources[0]]], [inputs[last.sources[0]]]
    program = build_program(chain[:-1], operands, None)
    axes: Dims = params.axes
    space = fuse_axes(source.dims, inputs, [axis in axes for axis in range(len(source.dims))])
    if not any(space.labels):  # only axes of extent 1, or none, are reduced
        arrays = tuple(array.reshape(*array.shape, 1) for array in space.arrays)
        space = Space((*space.dims, 1), arrays, (*space.labels, True))
    reduction = Reduction(program, last, space, workers)
    reduction.cut(tile_elems)
    kept = out.reshape(tuple([space.dims[axis] for axis in reduction.kept]), copy=False)
    return [(reduction.run, (threads, *space.arrays, kept))]


def reduction_scratch_bytes(chain: Sequence[Micro], operands: Sequence[Operand]) -> int:
    """Return the scratch that a reduction of few elements needs [bytes]; 0 for a larger one."""
    if not 0 < math.prod(_source(chain, operands).dims) <= SMALL_ELEMS:
        return 0
    made = CallList()
    out = np.empty(chain[-1].dims, chain[-1].dtype.numpy)
    record_reduction(made, chain, operands, [stand_in(operand) for operand in operands], out)
    return made.used_bytes


def _source(chain: Sequence[Micro], operands: Sequence[Operand]) -> Operand | Micro:
    """Return what the reduction at the end of a chain reads."""
    place = chain[-1].sources[0]
    return operands[place] if place >= 0 else chain[~place]


class Reduction:
    """One reduction over the tiles of one space, whatever arrays of one layout it is run on."""

    def __init__(self, program: MicroProgram, last: Micro, space: Space, workers: Workers) -> None:
        self.program = program
        self.workers = workers
        self.dims = space.dims
        self.reduced = space.labels
        self.axes = tuple(axis for axis, r in enumerate(self.reduced) if r)
        self.kept = tuple(axis for axis, r in enumerate(self.reduced) if not r)
        self.reducer: Reducer = reducer_for(last.op.name, last.params, self.dims, self.axes)
        self.elements = math.prod(self.dims[axis] for axis in self.axes)
        self.dtypes: list[np.dtype[Any]] = [array.dtype for array in space.arrays]
        self.moving = [tuple(d != 1 for d in array.shape) for array in space.arrays]
        self.whole = [[None if moves else slice(None) for moves in m] for m in self.moving]

    def cut(self, elems: int | None) -> None:
        """Choose tiles and regions; `elems` limits the elements of a tile."""
        once = not self.program.instructions and not self.reducer.needs_scratch
        if elems is None:
            share = math.prod(self.dims) // REGIONS
            largest = TILE_ELEMS if self.program.instructions else ALONE_TILE_ELEMS
            elems = max(SMALLEST_TILE_ELEMS, min(share, READ_ONLY_TILE_ELEMS if once else largest))
        self.tile = tile_extents(self.dims, self.reduced, elems)
        self.counts = tuple(-(-d // t) for d, t in zip(self.dims, self.tile, strict=True))
        self.kept_tiles = math.prod(self.counts[axis] for axis in self.kept)
        self.reduced_tiles = math.prod(self.counts[axis] for axis in self.axes)
        few = self.kept_tiles < FEW_KEPT_TILES
        self.regions = min(self.reduced_tiles, REGIONS) if few else 1
        self.elems = math.prod(self.tile)

    def run(self, threads: int | None, *arrays: Array) -> None:
        """Compute every region, then join those of each kept tile in order; the result is last."""
        *inputs, out = arrays
        items = self.kept_tiles * self.regions
        cost = (self.program.cost_ns + self.reducer.cost_ns) * math.prod(self.dims)
        team = threads_for(cost, items) if threads is None else threads
        ready: list[dict[Dims, list[Any]]] = [{} for _ in range(max(team, 1))]
        states: list[Partial | None] = [None] * items

        def compute(worker: int, item: int) -> None:
            state = self._region(ready[worker], item, inputs)
            if self.regions == 1:
                self._store(item, state, out)
            else:
                states[item] = state

        self.workers.run(compute, items, team)
        if self.regions == 1:
            return
        for tile in range(self.kept_tiles):
            total: Partial | None = None
            for state in states[tile * self.regions : (tile + 1) * self.regions]:
                if state is not None:
                    total = state if total is None else self.reducer.merge(total, state)
            if total is not None:
                self._store(tile, total, out)

    def _region(self, ready: dict[Dims, list[Any]], item: int, inputs: Sequence[Array]) -> Partial:
        tile, region = divmod(item, self.regions)
        first = self.reduced_tiles * region // self.regions
        stop = self.reduced_tiles * (region + 1) // self.regions
        state = self.reducer.measure(self._load(ready, tile, first, inputs))
        for place in range(first + 1, stop):
            block = self._load(ready, tile, place, inputs)
            state = self.reducer.merge(state, self.reducer.measure(block))
        return state

    def _window(self, tile: int, place: int) -> _Window:
        """Return a tile by its number among the kept ones and among the reduced ones."""
        starts, extents = [0] * len(self.dims), list(self.tile)
        for axes, number in ((self.kept, tile), (self.axes, place)):
            left = number
            for axis in reversed(axes):
                left, rest = divmod(left, self.counts[axis])
                starts[axis] = start = rest * self.tile[axis]
                extents[axis] = min(self.tile[axis], self.dims[axis] - start)
        return _Window(tuple(starts), tuple(extents))

    def _load(
        self, ready: dict[Dims, list[Any]], tile: int, place: int, inputs: Sequence[Array]
    ) -> Block:
        """Compute the chain on a tile; `ready` holds this thread's registers by extents."""
        starts, extents = self._window(tile, place)
        env = ready.get(extents)
        if env is None:
            env = ready[extents] = self._registers(extents)
        if len(starts) == 1:
            for number, array in enumerate(inputs):
                moves = self.moving[number][0]
                env[number] = array[starts[0] : starts[0] + extents[0]] if moves else array
        else:
            cuts = [slice(s, s + e) for s, e in zip(starts, extents, strict=True)]
            for number, whole in enumerate(self.whole):
                index = tuple([a or b for a, b in zip(whole, cuts, strict=True)])
                env[number] = inputs[number][index]
        for function, sources, target in self.program.instructions:
            function(*[env[source] for source in sources], env[target])
        values = env[self.program.result]
        if values.shape != extents:
            values = np.broadcast_to(values, extents)
        return Block(values, self.axes, starts, env[-1])

    def _registers(self, extents: Dims) -> list[Any]:
        """Return registers for tiles of these extents, the reducer's own scratch last."""
        slots = slot_bytes(self.program, self.elems)
        own = self.elems * 8 if self.reducer.needs_scratch else 0
        scratch = self.workers.scratch(slots + own)
        externals = [
            tuple(e if m else 1 for e, m in zip(extents, moving, strict=True))
            for moving in self.moving
        ]
        env = environment(self.program, extents, externals, self.elems, scratch)
        if not own:
            return [*env, None]
        dtype = self._held_dtype()
        size = math.prod(extents) * dtype.itemsize
        return [*env, scratch[slots : slots + size].view(dtype).reshape(extents)]

    def _held_dtype(self) -> np.dtype[Any]:
        place = self.program.result
        if place < self.program.externals:
            return self.dtypes[place]
        return self.program.registers[place - self.program.externals - 1].dtype

    def _store(self, tile: int, state: Partial, out: Array) -> None:
        """Write the result of a kept tile, rounded once."""
        window = self._window(tile, 0)
        box: list[Any] = [
            slice(window.starts[axis], window.starts[axis] + window.extents[axis])
            for axis in self.kept
        ]
        result = self.reducer.finish(state, self.elements)
        place = out[(*box, ...)]
        convert(result.reshape(place.shape), place)
