"""From an equation and shapes to a path: search, slices, then the steps in detail. Pure, cached."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from softcuda.contraction.equation import Equation, label_extents
from softcuda.contraction.explicit import ExplicitPath, read_path
from softcuda.contraction.marks import listed
from softcuda.contraction.network import (
    Network,
    RawStep,
    depth_first,
    labels_below,
    raw_steps,
)
from softcuda.contraction.operands import OperandView, view_of
from softcuda.contraction.optimizers import Candidate, candidates
from softcuda.contraction.orders import ordered_labels
from softcuda.contraction.path import ContractionPath, ContractionStep
from softcuda.contraction.slicing import SlicedLabel, Storage, Work, next_cut, total_work
from softcuda.errors import ArgumentError

__all__ = ["find_path"]

Labels = tuple[int, ...]
Dims = tuple[int, ...]


class _Problem(NamedTuple):
    """What a path is found for."""

    equation: Equation
    shapes: tuple[Dims, ...]
    extents: Dims
    storage: Storage


class _Order(NamedTuple):
    """An order of pairs with slices.

    Attributes:
        candidate: the order as it was proposed.
        chunks: the extent of a slice for each sliced label.
        cut: slices with one cut more, where an intermediate is still too large.
        cost: whether a cut is missing, and the work.
    """

    candidate: Candidate
    chunks: dict[int, int]
    cut: dict[int, int] | None
    cost: tuple[bool, Work]


def find_path(
    equation: Equation,
    shapes: Sequence[Dims],
    storage: Storage,
    *,
    optimize: Any = "auto",
    memory_limit: int | None = None,
    output_shape: Dims | None = None,
) -> ContractionPath:
    """Return the order in which a contraction is done, pair by pair.

    Equal arguments give the same path, from a cache of 256 where `optimize` can be hashed.

    Args:
        equation: labels of the operands and the result.
        shapes: extents of each operand.
        storage: bytes an element takes.
        optimize: "auto": exact for up to 8 operands, beyond the better of greedy and
            random-greedy; another name of `OPTIMIZERS`, or one of opt_einsum's, which stands for
            the nearest of these; a path such as [(0, 2), (0, 1)], one of np.einsum_path, or a
            `ContractionPath`; an optimiser of opt_einsum or cotengra.
        memory_limit: bytes that any one intermediate may take; None for no limit. Where no order
            meets it, labels are sliced.
        output_shape: extents of the result, where they are given: they may stretch labels that
            have extent 1 in all operands.

    Raises:
        ShapeError: extents that do not fit.
        ArgumentError: an optimiser that is unknown, a path that does not fit the equation, a
            limit below one element.
        ArgumentTypeError: an optimiser of another kind.

    Example:
        >>> from softcuda.contraction.equation import equation_of
        >>> chain = equation_of(["ij", "jk", "k"], "i")
        >>> path = find_path(chain, [(9, 8), (8, 7), (7,)], Storage((4, 4, 4), 4, 4))
        >>> path.positions, path.flops
        (((1, 2), (0, 1)), 256)
    """
    optimize = _as_data(optimize)
    arguments = (equation, tuple(shapes), storage, optimize, memory_limit, output_shape)
    if isinstance(optimize, Hashable):
        return _cached(*arguments)
    return _found(*arguments)


def _as_data(optimize: Any) -> Any:
    """Return a path of any form as an `ExplicitPath`; anything else as it is."""
    if isinstance(optimize, (str, bool)):
        return optimize
    if isinstance(optimize, ContractionPath):
        names = optimize.equation.names
        sliced = tuple((names[cut.label], cut.chunk) for cut in optimize.sliced)
        return ExplicitPath(optimize.positions, sliced)
    is_foreign = callable(optimize) or hasattr(optimize, "search") or hasattr(optimize, "get_path")
    if isinstance(optimize, Iterable) and not is_foreign:
        return read_path(optimize)
    return optimize


def _found(
    equation: Equation,
    shapes: tuple[Dims, ...],
    storage: Storage,
    optimize: Any,
    memory_limit: int | None,
    output_shape: Dims | None,
) -> ContractionPath:
    problem = _Problem(equation, shapes, label_extents(equation, shapes, output_shape), storage)
    network = _network(problem, _views(problem, problem.extents))
    largest = None if memory_limit is None else memory_limit // storage.between
    proposed: tuple[Candidate, ...] = ()
    chunks: dict[int, int] = {}
    while True:
        if not proposed or isinstance(optimize, (str, bool)):
            # Our own searches see what slices leave of each extent, and may find a better order.
            extents = _chunked(problem.extents, chunks)
            inside = replace(network, extents=extents)
            proposed = candidates(inside, equation.names, optimize, largest)
        orders = [_order(problem, network, each, chunks, memory_limit) for each in proposed]
        best = min(orders, key=lambda order: order.cost)
        if best.cut is None:
            return _path(problem, network, best)
        chunks = best.cut


_cached = lru_cache(maxsize=256)(_found)


def _views(problem: _Problem, extents: Dims) -> tuple[OperandView, ...]:
    """Return the views of the operands, or of slices with these extents."""
    return tuple(
        view_of(
            labels,
            tuple(1 if d == 1 else extents[x] for d, x in zip(dims, labels, strict=True)),
        )
        for labels, dims in zip(problem.equation.inputs, problem.shapes, strict=True)
    )


def _network(problem: _Problem, views: tuple[OperandView, ...]) -> Network:
    terms = tuple(frozenset(view.labels) for view in views)
    held = frozenset().union(*terms)
    return Network(terms, held & frozenset(problem.equation.output), problem.extents)


def _chunked(extents: Dims, chunks: dict[int, int]) -> Dims:
    """Return the extent of each label within a slice."""
    return tuple(chunks.get(label, extent) for label, extent in enumerate(extents))


def _order(
    problem: _Problem,
    network: Network,
    candidate: Candidate,
    chunks: dict[int, int],
    memory_limit: int | None,
) -> _Order:
    """Return the order that a candidate proposes, what it costs, and what is still to be cut."""
    steps = raw_steps(network, candidate.tree)
    chunks = {**_named_slices(problem, candidate.sliced), **chunks}
    cut = None
    if memory_limit is not None:
        cut = next_cut(network, steps, problem.storage, memory_limit, chunks)
    cost = (cut is not None, total_work(network, steps, chunks))
    return _Order(candidate, chunks, cut, cost)


def _path(problem: _Problem, network: Network, order: _Order) -> ContractionPath:
    """Return the path of an order of pairs."""
    chunks, candidate = order.chunks, order.candidate
    extents = _chunked(problem.extents, chunks)
    tree = candidate.tree
    if candidate.is_free:
        tree = depth_first(replace(network, extents=extents), tree)
    views = _views(problem, extents)
    inside = _network(problem._replace(extents=extents), views)
    steps = raw_steps(inside, tree)
    below = labels_below(network, [step.inputs for step in steps])
    varies = [not chunks.keys().isdisjoint(labels) for labels in below]
    places = sorted(range(len(steps)), key=varies.__getitem__)
    steps = _reordered(steps, places, len(views))
    output = problem.equation.output
    cuts = [SlicedLabel(label, problem.extents[label], chunk) for label, chunk in chunks.items()]
    loops = {label: place for place, label in enumerate(output)}
    cuts.sort(key=lambda cut: (loops.get(cut.label, len(loops)), cut.label))
    slices = math.prod(cut.slices for cut in cuts)
    runs = [slices if varies[place] else 1 for place in places]
    return ContractionPath(
        problem.equation,
        problem.shapes,
        problem.extents,
        problem.storage,
        views,
        _detailed(problem, inside, views, steps, runs),
        tuple(cuts),
        candidate.found_by,
    )


def _reordered(steps: Sequence[RawStep], order: Sequence[int], count: int) -> tuple[RawStep, ...]:
    """Return steps in another order, in which each still follows what it uses."""
    number = list(range(count)) + [0] * len(steps)
    for place, old in enumerate(order):
        number[count + old] = count + place
    return tuple(
        steps[old]._replace(inputs=tuple(number[value] for value in steps[old].inputs))
        for old in order
    )


def _detailed(
    problem: _Problem,
    network: Network,
    views: Sequence[OperandView],
    steps: Sequence[RawStep],
    runs: Sequence[int],
) -> tuple[ContractionStep, ...]:
    """Return steps with their labels in order, and what each costs."""
    last = tuple(label for label in problem.equation.output if label in steps[-1].output)
    labels = ordered_labels([view.labels for view in views], steps, last)
    itemsizes = [*problem.storage.inputs, *[problem.storage.between] * (len(steps) - 1)]
    itemsizes.append(problem.storage.output)
    count = len(views)
    numel = [network.numel(view.labels) for view in views]
    made = []
    for place, (step, times) in enumerate(zip(steps, runs, strict=True)):
        numel.append(network.numel(step.output))
        touched = [*step.inputs, count + place]
        made.append(
            ContractionStep(
                step.inputs,
                tuple(labels[value] for value in step.inputs),
                labels[count + place],
                step.flops(network.numel(step.involved)),
                sum(itemsizes[value] * numel[value] for value in touched),
                numel[-1],
                times,
            )
        )
    return tuple(made)


def _named_slices(problem: _Problem, sliced: Sequence[tuple[str, int]]) -> dict[int, int]:
    """Return the extent of a slice by label, for labels that a path names."""
    names = problem.equation.names
    chunks = {}
    for name, chunk in sliced:
        if name not in names:
            raise ArgumentError(
                f"the path slices label {name}, which is in no operand; allowed are "
                f"{listed(list(names))}"
            )
        label = names.index(name)
        extent = problem.extents[label]
        if chunk < 1 or extent % chunk:
            raise ArgumentError(
                f"the path slices label {name} of extent {extent} in slices of {chunk}; allowed "
                "are divisors of the extent"
            )
        if chunk < extent:
            chunks[label] = chunk
    return chunks
