"""Chains of elementwise ops on the host: one pass over memory, in cache-sized blocks.

Every op of the chain runs on one block before the next block begins, so what lies between the
ops stays in the cache. A block's values do not depend on where it begins and ends or on which
thread computes it: the results are those of whole-array evaluation, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from softcuda import knobs
from softcuda.backends.host.chain_program import build_program
from softcuda.backends.host.chain_slots import FULL, MicroProgram
from softcuda.backends.host.chain_space import fuse_axes, pieces
from softcuda.backends.host.workers import ALIGNMENT, SHARED, Workers, aligned_bytes
from softcuda.backends.steps import Micro, Operand
from softcuda.graph.params import Dims

__all__ = [
    "BLOCK_ELEMS",
    "Blocks",
    "bind_chain",
    "chain_scratch_bytes",
    "environment",
    "threads_for",
]

Array = np.ndarray[Any, Any]
Call = tuple[Any, tuple[Any, ...]]

# Two-core Xeon, 2 MiB of second-level cache a core, f32: 64 Ki to 128 Ki elements are the
# fastest with two threads; smaller blocks pass the interpreter's lock too often, with larger
# ones the values of a chain leave the cache.
BLOCK_ELEMS = 98304
SCRATCH_BYTES = 1 << 20  # of one thread's slots together; bounds the block of long chains
SMALLEST_BLOCK = 8192
LARGEST_BLOCK = 1 << 20  # of a chain without scratch: nothing has to stay in the cache
WORTH_A_THREAD_NS = 60_000.0  # waking a thread takes 20 to 50 microseconds


def threads_for(cost_ns: float, items: int) -> int:
    """Return how many threads work of this rough cost is spread over."""
    if cost_ns < 2 * WORTH_A_THREAD_NS or items < 2:
        return 1
    return min(knobs.thread_count(), items, int(cost_ns / WORTH_A_THREAD_NS))


def chain_scratch_bytes(chain: Sequence[Micro], inputs: Sequence[Operand]) -> int:
    """Return the scratch that a chain of one block needs [bytes]; 0 for a larger one."""
    elems = math.prod(chain[-1].dims)
    if elems > BLOCK_ELEMS:
        return 0
    program = build_program(chain, inputs, chain[-1].dtype)
    return slot_bytes(program, elems)


def slot_bytes(program: MicroProgram, elems: int) -> int:
    """Return the bytes of all scratch slots for blocks of `elems` elements."""
    return sum(_slot_size(itemsize, elems) for itemsize in program.slot_itemsizes)


def _slot_size(itemsize: int, elems: int) -> int:
    return -(-itemsize * elems // ALIGNMENT) * ALIGNMENT


def environment(
    program: MicroProgram, shape: Dims, externals: Sequence[Dims], elems: int, scratch: Array
) -> list[Any]:
    """Return the registers for blocks of one shape; those of externals and output are None.

    Args:
        program: what runs on the block.
        shape: extents of the block.
        externals: extents of each external operand's block.
        elems: elements of the largest block: the size of every slot.
        scratch: bytes, at least slot_bytes(program, elems).
    """
    starts = [0]
    for itemsize in program.slot_itemsizes:
        starts.append(starts[-1] + _slot_size(itemsize, elems))
    env: list[Any] = [None] * (program.externals + 1)
    for register in program.registers:
        dims = shape if register.extents_of == FULL else externals[register.extents_of]
        start = starts[register.slot]
        nbytes = math.prod(dims) * register.dtype.itemsize
        env.append(scratch[start : start + nbytes].view(register.dtype).reshape(dims))
    for place in program.zeros:
        env[place].fill(0)
    return env


def bind_chain(
    chain: Sequence[Micro],
    operands: Sequence[Operand],
    inputs: Sequence[Array],
    out: Array,
    scratch: Array | None,
    *,
    block_elems: int | None = None,
    threads: int | None = None,
    workers: Workers = SHARED,
) -> list[Call]:
    """Return the calls that write the last value of an elementwise chain to `out`.

    Args:
        chain: 1 or more elementwise ops over one iteration space.
        operands: the external operands as the step names them.
        inputs: their arrays, any strides; each broadcasts to the space.
        out: array of the space, any strides.
        scratch: bytes as chain_scratch_bytes asks, or None.
        block_elems: elements of a block; None lets the chain decide.
        threads: threads that share the blocks; None lets the chain decide.
        workers: the team that they belong to.

    Returns:
        For one block the ops' own calls on ready views; else one call that runs the blocks; for
        a space without elements nothing.
    """
    if out.size == 0:
        return []
    program = build_program(chain, operands, chain[-1].dtype)
    space = fuse_axes(chain[-1].dims, (*inputs, out))
    elems = block_elems or _block_elems(program)
    if out.size > elems:
        blocks = Blocks(program, space.dims, space.arrays, elems, workers)
        return [(blocks.run, (threads, *space.arrays))]
    shapes = [view.shape for view in space.arrays]
    needed = slot_bytes(program, out.size)
    if scratch is None or scratch.nbytes < needed:
        scratch = aligned_bytes(needed)
    env = environment(program, space.dims, shapes, out.size, scratch)
    env[: len(space.arrays)] = space.arrays
    for place in program.zeros:  # in memory of their own: others may use the scratch between runs
        env[place] = np.zeros_like(env[place])
    return [
        (function, (*(env[place] for place in sources), env[target]))
        for function, sources, target in program.instructions
    ]


def _block_elems(program: MicroProgram) -> int:
    """Return the elements of a block: as many as the slots' share of the cache lets be."""
    itemsizes = sum(program.slot_itemsizes)
    if not itemsizes and len(program.instructions) == 1:
        only = program.instructions[0].function
        return LARGEST_BLOCK if isinstance(only, np.ufunc) else BLOCK_ELEMS
    return max(SMALLEST_BLOCK, min(BLOCK_ELEMS, SCRATCH_BYTES // max(itemsizes, 1)))


class Blocks:
    """A chain over a space of many blocks, whatever arrays of one layout it is run on.

    Blocks are `chunk` wide along axis `cut`, whole in the axes after it and one element in those
    before. In a contiguous space the first block is a little wider, so that all others begin at
    an aligned address of the output.
    """

    def __init__(
        self,
        program: MicroProgram,
        dims: Dims,
        arrays: tuple[Array, ...],
        elems: int,
        workers: Workers,
    ) -> None:
        self.program = program
        self.workers = workers
        inner, cut = 1, len(dims) - 1
        while cut and inner * dims[cut] <= elems:
            inner *= dims[cut]
            cut -= 1
        self.cut = cut
        self.tail = dims[cut + 1 :]
        self.outer = dims[:cut]
        self.extent = dims[cut]
        self.chunk = pieces(self.extent, max(elems // inner, 1), knobs.thread_count())
        self.shift = 0
        if len(dims) == 1 and self.chunk > 16:
            self.chunk = -(-self.chunk // 16) * 16
            out = arrays[-1]
            if out.strides == (out.itemsize,):
                self.shift = -out.ctypes.data % ALIGNMENT // out.itemsize
        self.chunks = max(1, -(-(self.extent - self.shift) // self.chunk))
        self.count = math.prod(self.outer) * self.chunks
        self.elems = (self.chunk + self.shift) * inner
        self.cost_ns = program.cost_ns * math.prod(dims)
        self.moving = [tuple(d != 1 for d in array.shape[: cut + 1]) for array in arrays]
        self.inner = [array.shape[cut + 1 :] for array in arrays]

    def run(self, threads: int | None, *arrays: Array) -> None:
        """Compute every block of these arrays, the result last."""
        team = threads_for(self.cost_ns, self.count) if threads is None else threads
        environments: list[dict[int, list[Any]]] = [{} for _ in range(max(team, 1))]

        def compute(worker: int, item: int) -> None:
            self.compute(environments[worker], item, arrays)

        self.workers.run(compute, self.count, team)

    def compute(self, ready: dict[int, list[Any]], item: int, arrays: Sequence[Array]) -> None:
        """Compute one block; `ready` holds this thread's registers by width of the block."""
        outer, chunk = divmod(item, self.chunks)
        start = chunk * self.chunk + self.shift if chunk else 0
        stop = min((chunk + 1) * self.chunk + self.shift, self.extent)
        if chunk == self.chunks - 1:
            stop = self.extent
        env = ready.get(stop - start)
        if env is None:
            env = ready[stop - start] = self._registers(stop - start)
        window = slice(start, stop)
        if self.cut == 0:
            for place, (array, moving) in enumerate(zip(arrays, self.moving, strict=True)):
                env[place] = array[window] if moving[0] else array
        else:
            at: list[int] = []
            for extent in reversed(self.outer):
                outer, rest = divmod(outer, extent)
                at.append(rest)
            at.reverse()
            for place, (array, moving) in enumerate(zip(arrays, self.moving, strict=True)):
                index: list[Any] = [i if moves else 0 for i, moves in zip(at, moving, strict=False)]
                index.append(window if moving[-1] else slice(0, 1))
                env[place] = array[tuple(index)]
        for function, sources, target in self.program.instructions:
            function(*[env[place] for place in sources], env[target])

    def _registers(self, width: int) -> list[Any]:
        scratch = self.workers.scratch(slot_bytes(self.program, self.elems))
        externals = [
            ((width if moving[-1] else 1), *inner)
            for inner, moving in zip(self.inner, self.moving, strict=True)
        ]
        return environment(self.program, (width, *self.tail), externals, self.elems, scratch)
