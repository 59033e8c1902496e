"""Contractions without rows and columns, as reductions of products.

    out[b..] = sum over k.. of A[b.., k..] * B[b.., k..]

Neither operand has a label of the result that the other lacks: every product is used once, and the
operands are read once. A tile of a matrix product would hold one row and one column; a reduction
with the multiplication in front of it reads vectors of both operands, and shares few results among
many blocks. Labels that one operand alone has are summed with the others. Ops in front of an
operand stand in front of the multiplication.
"""

from __future__ import annotations

from softcuda.backends.cuda.emitter import split
from softcuda.backends.cuda.making import Making, making_of
from softcuda.backends.cuda.reduce import reduce_steps
from softcuda.backends.host.contraction import pair_of
from softcuda.backends.steps import Micro, Operand, Step, Unit
from softcuda.dtype import DType, compute_dtype
from softcuda.graph.op import OPS, Kind
from softcuda.graph.params import Cast, Contraction, Dims, Reduce
from softcuda.graph.shapes import contiguous_strides
from softcuda.target import Target

__all__ = ["as_reduction", "dot_steps"]


def dot_steps(backend_id: str, unit: Unit, target: Target) -> tuple[Step, ...] | None:
    """Return the one step of a contraction that is a reduction; None where it is none.

    Args:
        backend_id: who was given the unit.
        unit: a contraction of floats and the chains around it, or the chain of such a step.
        target: the device.
    """
    is_made = any(micro.op.kind is Kind.REDUCTION for micro in unit.chain)
    found = unit if is_made else as_reduction(unit)
    return None if found is None else reduce_steps(backend_id, found, target)


def as_reduction(unit: Unit) -> Unit | None:
    """Return a contraction, and the chains around it, as a reduction; None where it is none.

    Factors are converted to the compute dtype of the product, multiplied and summed there, and
    rounded once.

    Args:
        unit: a contraction of floats, its result not empty.
    """
    parts = split(unit)
    anchor = parts.anchor
    if not isinstance(anchor.params, Contraction) or anchor.params.compute is not None:
        return None
    made = [making_of(unit, part) for part in parts.prologues]
    a, b = (unit.operands[source] for source, _ in made)
    strides = contiguous_strides(anchor.dims)
    product = Operand(unit.result.value, 0, anchor.dims, strides, anchor.dtype)
    pair = pair_of(a, b, product, anchor.params)
    classes = pair.classes
    summed = (*classes.k, *classes.private_a, *classes.private_b)
    if classes.m or classes.n or not summed:
        return None
    near = [map(abs, axes.over(summed).strides) for axes in (pair.a, pair.b)]
    far = dict(zip(summed, map(max, *near), strict=True))
    summed = tuple(sorted(summed, key=lambda label: -far[label]))
    dims = (*anchor.dims, *pair.dims(summed))
    if 0 in dims:
        return None
    space = (*anchor.params.out, *summed)
    read = tuple(
        (x._replace(dims=dims, strides=axes.over(space).strides), making)
        for x, axes, (_, making) in ((a, pair.a, made[0]), (b, pair.b, made[1]))
    )
    return _unit(unit, read, dims)


def _unit(unit: Unit, read: tuple[tuple[Operand, Making | None], ...], dims: Dims) -> Unit:
    """Return the reduction of the product of two operands, with the unit's chain behind it."""
    place = next(k for k, micro in enumerate(unit.chain) if micro.op.kind is Kind.CONTRACTION)
    anchor = unit.chain[place]
    held = compute_dtype(anchor.dtype)
    chain: list[Micro] = []

    def converted(source: int, stored: DType, to: DType, over: Dims) -> int:
        if stored is to:
            return source
        chain.append(Micro(OPS["cast"], (source,), over, to, Cast(to)))
        return ~(len(chain) - 1)

    operands, factors = list(unit.operands), []
    for window, making in read:
        operands.append(window)
        source, stored = len(operands) - 1, window.dtype
        if making:
            arguments, start = (source, *making.numbers), len(chain)
            for micro in making.chain:
                own = (arguments[s] if s >= 0 else s - start for s in micro.sources)
                chain.append(micro._replace(sources=tuple(own), dims=dims))
            source, stored = ~(len(chain) - 1), chain[-1].dtype
        factors.append(converted(source, stored, held, dims))
    chain.append(Micro(OPS["mul"], tuple(factors), dims, held, ()))
    axes = tuple(range(len(anchor.dims), len(dims)))
    chain.append(Micro(OPS["sum"], (~(len(chain) - 1),), anchor.dims, held, Reduce(axes, False)))
    product = converted(~(len(chain) - 1), held, anchor.dtype, anchor.dims)
    shift = len(chain) - 1 - place

    def moved(source: int) -> int:
        if source >= 0:
            return source
        return product if source == ~place else source - shift

    behind = unit.chain[place + 1 :]
    chain += [micro._replace(sources=tuple(map(moved, micro.sources))) for micro in behind]
    return _used(unit._replace(chain=tuple(chain), operands=tuple(operands)))


def _used(unit: Unit) -> Unit:
    """Return a unit with only the operands that its chain reads."""
    used = sorted({s for micro in unit.chain for s in micro.sources if s >= 0})
    numbers = {old: new for new, old in enumerate(used)}
    chain = tuple(
        m._replace(sources=tuple(numbers[s] if s >= 0 else s for s in m.sources))
        for m in unit.chain
    )
    return unit._replace(chain=chain, operands=tuple(unit.operands[k] for k in used))
