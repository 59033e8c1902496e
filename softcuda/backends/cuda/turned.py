"""Launches of chains that read operands in another order than the result lies in.

An operand is turned where its neighbours are not those of the result: `a + b.T` has one. Tiles
that span the fastest axes of both sides go through shared memory, so that both are moved along
their own; see kernels/turned.cu. The tiles are those of permuted copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from softcuda.backends.cuda.axes import Axes, fuse_axes
from softcuda.backends.cuda.chain_headers import header_of
from softcuda.backends.cuda.emitter import chain_digest, chain_label, reports
from softcuda.backends.cuda.layouts import ChainInput, fits_code, work_bytes
from softcuda.backends.cuda.permute import Choice, Side, cheapest, grid_of, needs_wide
from softcuda.backends.cuda.permute_kinds import THREADS, TileKind
from softcuda.backends.cuda.tile_orders import grid_axes, packed_tiling
from softcuda.backends.cuda.tiles import MovedAxis, tiled_copies
from softcuda.backends.cuda.walks import INDICES
from softcuda.backends.launches import KernelLaunch, i64, packed, status, write
from softcuda.backends.steps import Micro
from softcuda.dtype import DType
from softcuda.graph.params import Dims
from softcuda.graph.shapes import contiguous_strides
from softcuda.kernelspec import KernelSpec
from softcuda.target import Target

__all__ = ["TurnedVariant", "tiled_launch", "turned_launch", "turned_spec"]

_SECTOR: Final = 32  # bytes that memory moves at least
_MOST_SIDES: Final = 4  # that a kernel's parameters hold
_MOST_OPERANDS: Final = 32
_VECTOR_BYTES: Final = 16
_ITEMS: Final = (8, 4, 2)  # of single elements
_TILE_US: Final = 0.6  # the least time of a tile, and what each of its items adds; as permute_tile
_ITEM_US: Final = 0.6
_PLACES_BYTES: Final = 12  # where an item lies on both sides and in the tile
# By blocks of a multiprocessor: what a thread holds of operands without spilling, 7 architectures.
_HELD_BYTES: Final = {3: 352, 2: 530}
_COMPLEX: Final = 4  # times its bytes: parts are computed beside each other
# The same of single elements: addresses of what is turned, places on every side beside.
_SINGLE_BYTES: Final = {3: 240, 2: 448}
_ADDRESS_BYTES: Final = 8
_SIDE_BYTES: Final = 12


class TurnedVariant(NamedTuple):
    """What is compiled for a chain.

    Attributes:
        operands: the type of each operand in turned.cu, such as "Turned<f32>".
        kind: rows, columns, items and blocks, and the width of offsets.
        sides: sets of strides.
        held_bytes: of an element of all turned operands.
    """

    operands: tuple[str, ...]
    kind: TileKind
    sides: int
    held_bytes: int


class _Roles(NamedTuple):
    """What the operands of a chain are to a tile, by number; those without a role are one value.

    Attributes:
        turned: those that lead it, all with the same strides.
        dense: those that lie as the result does.
        beside: the others, and the strides of each.
        kept: values inside the chain.
    """

    turned: tuple[int, ...]
    dense: tuple[int, ...]
    beside: dict[int, Dims]
    kept: tuple[int, ...] = ()

    @property
    def sides(self) -> list[Dims]:
        """The sets of strides of the operands beside."""
        return list(dict.fromkeys(self.beside.values()))

    def name_of(self, number: int, dtype: DType) -> str:
        """Return the type of an operand in turned.cu."""
        if number in self.turned:
            return f"Turned<{dtype.name}>"
        if number in self.dense:
            return f"Dense<{dtype.name}>"
        if number in self.kept:
            return f"Kept<{dtype.name}>"
        if number in self.beside:
            return f"Beside<{dtype.name}, {2 + self.sides.index(self.beside[number])}>"
        return f"Single<{dtype.name}>"


def turned_launch(
    chain: Sequence[Micro],
    inputs: Sequence[ChainInput],
    dims: Dims,
    target: Target,
    kept: tuple[int, ...] = (),
) -> KernelLaunch | None:
    """Return the launch of a chain with operands that are turned; None where none of them is.

    Args:
        chain: the ops; the step's first output is their result.
        inputs: its operands, and behind them the values that it keeps.
        dims: extents of the dense result, none of them 0.
        target: its multiprocessors and caches decide on tiles and blocks.
        kept: ops whose values are written too.
    """
    axes = fuse_axes(dims, [*(x.strides for x in inputs), contiguous_strides(dims)])
    roles = _roles(axes, inputs)
    sides = 2 + len(roles.sides)
    if not roles.turned or len(inputs) > _MOST_OPERANDS or sides > _MOST_SIDES:
        return None
    if axes.rank > grid_axes(sides):
        return None
    return _launch(_Tiled(chain, inputs, roles, _moved(axes, roles), kept=kept), target)


def tiled_launch(
    chain: Sequence[Micro], reading: ChainInput, dims: Dims, place: Side, target: Target
) -> KernelLaunch:
    """Return the launch of a chain of one operand that writes a part of the step's output.

    Args:
        chain: the ops.
        reading: the operand, of any strides.
        dims: extents, none of them 0.
        place: the strides of what is written, and where its first element is.
        target: see `turned_launch`.
    """
    axes, roles = fuse_axes(dims, [reading.strides, place.strides]), _Roles((0,), (), {})
    moved = _moved(axes, roles)
    return _launch(_Tiled(chain, (reading,), roles, moved, place.offset), target)


class _Tiled(NamedTuple):
    """A chain over the axes of its tiles; `first` is where in the output the first element is."""

    chain: Sequence[Micro]
    inputs: Sequence[ChainInput]
    roles: _Roles
    axes: tuple[MovedAxis, ...]
    first: int = 0
    kept: tuple[int, ...] = ()

    @property
    def dtypes(self) -> list[DType]:
        """The dtypes of the operands and of what is kept."""
        return [x.dtype for x in self.inputs]


def _launch(problem: _Tiled, target: Target) -> KernelLaunch:
    kind, tiled = _chosen(problem, target)
    chain, roles, dtypes = problem.chain, problem.roles, problem.dtypes
    turned = [dtypes[number].itemsize for number in roles.turned]
    types = tuple(roles.name_of(number, dtype) for number, dtype in enumerate(dtypes))
    sides = len(problem.axes[0].steps)
    variant = TurnedVariant(types, kind, sides, sum(turned))
    spec = turned_spec(chain, dtypes, variant, problem.kept)
    grid = (grid_of(kind, tiled, target), 1, 1)
    arguments = (
        write(),
        packed(packed_tiling(tiled, kind.is_wide, min(turned) * kind.columns)),
        i64(problem.first),
        status() if reports(chain) else i64(0),
        *(x.argument for x in problem.inputs),
    )
    return KernelLaunch(spec, grid, arguments, (THREADS, 1, 1), spec.shared_bytes)


def _roles(axes: Axes, inputs: Sequence[ChainInput]) -> _Roles:
    """Return the roles of the operands; none is turned where a chain needs no tiles."""
    *given, result = axes.strides
    kept = tuple(number for number, x in enumerate(inputs) if x.is_kept)
    moving = {k: strides for k, strides in enumerate(given) if any(strides) and k not in kept}
    dense = tuple(number for number, strides in moving.items() if strides == result)
    others = {number: strides for number, strides in moving.items() if strides != result}
    leading: dict[Dims, list[int]] = {}
    for number, strides in others.items():
        if _is_turned(strides, result, inputs[number].dtype.itemsize):
            leading.setdefault(strides, []).append(number)
    # Operands that are read once take more of the time than those that are broadcast.
    turned = max(leading.values(), key=lambda n: (0 not in given[n[0]], len(n)), default=[])
    beside = {number: strides for number, strides in others.items() if number not in turned}
    return _Roles(tuple(turned), dense, beside, kept)


def _is_turned(strides: Dims, result: Dims, itemsize: int) -> bool:
    """Return whether an operand has neighbours along another axis than the result has."""
    along = abs(strides[min(range(len(result)), key=lambda axis: abs(result[axis]))])
    least = min(abs(stride) for stride in strides if stride)
    return along > least and least * itemsize < _SECTOR


def _moved(axes: Axes, roles: _Roles) -> tuple[MovedAxis, ...]:
    """Return the axes of the tiles, the result's fastest first."""
    leading, result, sides = axes.strides[roles.turned[0]], axes.strides[-1], roles.sides
    made = [
        MovedAxis(extent, leading[k], result[k], tuple(strides[k] for strides in sides))
        for k, extent in enumerate(axes.dims)
    ]
    made = made or [MovedAxis(1, 1, 1, (1,) * len(sides))]
    return tuple(sorted(made, key=lambda axis: abs(axis.step_out)))


def _chosen(problem: _Tiled, target: Target) -> Choice:
    """Return the cheapest kernel and tiles."""
    inputs, roles, dtypes = problem.inputs, problem.roles, problem.dtypes
    vectors = [dtypes[k].itemsize for k in (*roles.turned, *roles.dense, *roles.kept)]
    widest = max(*vectors, problem.chain[-1].dtype.itemsize)
    written = problem.first, *(inputs[k].offset for k in roles.dense)
    found = []
    for kind in _kinds(problem, widest):
        if any(start % kind.rows for start in written):
            continue
        if any(inputs[k].offset % kind.columns for k in roles.turned):
            continue
        found += [
            Choice(kind._replace(is_wide=needs_wide(tiled)), tiled)
            for tiled in tiled_copies(problem.axes, kind.access)
        ]
    return cheapest(found, target)


def _kinds(problem: _Tiled, widest: int) -> list[TileKind]:
    """Return kernels that hold enough of a chain's elements, none beyond registers and code."""
    side = min(_VECTOR_BYTES // widest, 4)
    vectors = [(side, side, 2, 1), (side, side, 1, 1), (1, side, 2, 0), (side, 1, 2, 0)]
    singles = [(1, 1, items, 0) for items in _ITEMS]
    made = [kind for shape in vectors if (kind := _kind(problem, widest, *shape))]
    first = next((kind for shape in singles if (kind := _kind(problem, widest, *shape))), None)
    return [*made, first or TileKind(widest, 1, 1, 1, 2, 0)]


def _kind(
    problem: _Tiled, widest: int, rows: int, columns: int, items: int, turns: int
) -> TileKind | None:
    """Return a kernel of so many elements a thread; None where it does not hold them."""
    if not fits_code(problem.chain, rows * columns * items):
        return None
    sizes = [dtype.itemsize * (_COMPLEX if dtype.is_complex else 1) for dtype in problem.dtypes]
    vectors = sum(max(columns * sizes[k], 4) for k in problem.roles.turned)
    values = rows * columns * sum(max(size, 4) for size in sizes)
    made = 4 * rows * columns
    held = rows * items * vectors + values + made + 4 * len(sizes) + _PLACES_BYTES * items
    single = _single_bytes(problem, items, vectors) if rows * columns == 1 else 0
    for blocks, most in _HELD_BYTES.items():
        if held <= most and single <= _SINGLE_BYTES[blocks]:
            tile_us = _TILE_US + _ITEM_US * (items if rows * columns > 1 else items / 4)
            return TileKind(widest, rows, columns, items, blocks, turns, tile_us)
    return None


def _single_bytes(problem: _Tiled, items: int, vectors: int) -> int:
    """Return what a thread of so many single items holds, a vector being all that is turned."""
    roles = problem.roles
    addresses = _ADDRESS_BYTES * len(roles.turned) + _SIDE_BYTES * len(roles.sides)
    beside = _ADDRESS_BYTES * len(roles.beside) + work_bytes(problem.chain)
    return items * (vectors + addresses + _PLACES_BYTES) + beside


def turned_spec(
    chain: Sequence[Micro],
    dtypes: Sequence[DType],
    variant: TurnedVariant,
    kept: Sequence[int] = (),
) -> KernelSpec:
    """Return the kernel of a chain: its generated header and the variant of turned.cu.

    Args:
        chain: the ops.
        dtypes: of its operands, and of the values that it keeps.
        variant: what is compiled for it.
        kept: ops whose values are written too.
    """
    kind, index = variant.kind, INDICES[variant.kind.is_wide]
    header = header_of(chain, dtypes[: len(dtypes) - len(kept)], kept)
    shape = (kind.rows, kind.columns, kind.items)
    given = ", ".join(map(str, (*shape, kind.blocks, index, variant.sides, *variant.operands)))
    letters = "".join(name[0].lower() for name in variant.operands)
    label = f"{chain_label(chain)}_{chain_digest(header)}_{letters}"
    return KernelSpec(
        "elementwise_turned",
        f"{label}_{'x'.join(map(str, shape))}_{index}",
        "turned.cu",
        f"elementwise_turned<Chain, {given}>",
        dtypes=(chain[-1].dtype.name, *(dtype.name for dtype in dtypes)),
        threads=THREADS,
        tile=(kind.access.capacity,),
        shared_bytes=kind.access.capacity * variant.held_bytes,
        headers=(header,),
    )
