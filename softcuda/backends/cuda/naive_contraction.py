"""Contractions with one thread an output, and the sums over labels of one operand alone.

Both contraction backends begin with `prepared_pair`: labels that one operand alone has, or that
the other holds with extent 1, are summed into scratch first.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, Final, NamedTuple

from softcuda.backends.cuda.axes import Axes, fuse_axes
from softcuda.backends.cuda.making import Making
from softcuda.backends.cuda.planned import Launches, aligned, launch_in_row, one_step
from softcuda.backends.host.contraction import Pair, pair_of
from softcuda.backends.launches import Argument, KernelLaunch, i64, packed, read, scratch, write
from softcuda.backends.steps import Operand, Step, Unit
from softcuda.contraction.axes import Axes as LabelledAxes
from softcuda.dtype import (
    DType,
    bf16,
    bool_,
    complex64,
    complex128,
    compute_dtype,
    f16,
    f32,
    f64,
    i32,
)
from softcuda.dtype import i64 as i64_dtype
from softcuda.graph.shapes import contiguous_strides, numel
from softcuda.kernelspec import KernelSpec, Rounding
from softcuda.target import Target

__all__ = [
    "NAIVE_CONTRACTION",
    "Factor",
    "PreparedPair",
    "further_naive_contractions",
    "prepare_contraction",
    "prepared_pair",
]

THREADS: Final = 256
MAX_RANK: Final = 64
_MAX_BLOCKS: Final = 2**31 - 1
_FILE: Final = "naive_contraction.cu"
_DTYPES: Final = (i32, i64_dtype, f16, bf16, f32, f64)


class Factor(NamedTuple):
    """An operand of a product: where its first element is, and what is stored there.

    `making` is the chain that makes its elements as they are loaded, None where they are stored.
    """

    argument: Argument
    dtype: DType
    making: Making | None = None

    @property
    def code(self) -> int:
        """Plain instructions about that make an element as it is loaded."""
        return self.making.code if self.making else 0


class PreparedPair(NamedTuple):
    """A contraction without private labels.

    Attributes:
        pair: labels, extents and strides; labels of extent 1 are dropped.
        a: operand 0, or its sum over private labels.
        b: operand 1, or its sum.
        launches: what makes those sums.
        scratch_bytes: what they take of the step's scratch.
    """

    pair: Pair
    a: Factor
    b: Factor
    launches: tuple[KernelLaunch, ...]
    scratch_bytes: int


def _contraction_spec(a: DType, b: DType, dtype: DType) -> KernelSpec:
    names = dict.fromkeys((a.name, b.name, dtype.name))
    return KernelSpec(
        "naive_contraction",
        dtype.name if len(names) == 1 else f"{a.name}_{b.name}_{dtype.name}",
        _FILE,
        f"naive_contraction<{a.name}, {b.name}, {dtype.name}>",
        (dtype.name, a.name, b.name),
        THREADS,
        tile=(THREADS,),
        rounding=Rounding.FMA,
    )


def _sum_spec(source: DType, dtype: DType) -> KernelSpec:
    return KernelSpec(
        "private_sum",
        dtype.name if source is dtype else f"{source.name}_{dtype.name}",
        _FILE,
        f"private_sum<{source.name}, {dtype.name}>",
        (compute_dtype(dtype).name, source.name),
        THREADS,
        tile=(THREADS,),
        rounding=Rounding.FMA,
    )


# Operands of one dtype; a mix of two is compiled when it is met.
NAIVE_CONTRACTION: Final[tuple[KernelSpec, ...]] = (
    *(_contraction_spec(dtype, dtype, dtype) for dtype in (*_DTYPES, complex64, complex128)),
    *(_sum_spec(dtype, dtype) for dtype in (*_DTYPES, complex64, complex128)),
)


def further_naive_contractions() -> Iterator[KernelSpec]:
    """Yield the kernels of every mix of dtypes, those that are compiled when met too."""
    stored = (bool_, *_DTYPES)
    for source, dtype in product(stored, _DTYPES):
        yield _sum_spec(source, dtype)
        yield from (_contraction_spec(source, b, dtype) for b in stored)


def prepare_contraction(unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step of a contraction: D[out] = sum A[a] * B[b], rounded once.

    Args:
        unit: a matmul line alone; operands of any dtypes and strides.
        target: not asked; the grid depends on the result alone.
    """
    return one_step("cuda_naive", unit, lambda: _planned(unit))


def _planned(unit: Unit) -> tuple[Launches, int]:
    micro = unit.chain[-1]
    made = prepared_pair(unit, micro.sources, unit.result, micro.params)
    return (*made.launches, _launch(made, unit.result)), made.scratch_bytes


def prepared_pair(
    unit: Unit, sources: Sequence[int], product: Operand, params: Any
) -> PreparedPair:
    """Return the contraction of two of a unit's operands, private labels summed first.

    Args:
        unit: whose operands are read.
        sources: numbers of the two operands.
        product: extents, strides and dtype of the product, which has elements.
        params: the Contraction.
    """
    a, b = (unit.operands[source] for source in sources)
    pair = pair_of(a, b, product, params)
    classes = pair.classes
    kept = pair.summed() if classes.private_a or classes.private_b else pair
    launches: list[KernelLaunch] = []
    factors: list[Factor] = []
    used = 0
    for number, axes, own, left in (
        (sources[0], pair.a, classes.private_a, kept.a),
        (sources[1], pair.b, classes.private_b, kept.b),
    ):
        dtype = unit.operands[number].dtype
        if not own:
            factors.append(Factor(read(number), dtype))
            continue
        if left.numel:
            launches.append(_sum_launch(number, dtype, product.dtype, axes, own, used))
        held = compute_dtype(product.dtype)
        factors.append(Factor(scratch(used), held))
        used += aligned(left.numel * held.itemsize)
    return PreparedPair(kept, factors[0], factors[1], tuple(launches), used)


def _sum_launch(
    number: int,
    source: DType,
    dtype: DType,
    axes: LabelledAxes,
    private: Sequence[int],
    place: int,
) -> KernelLaunch:
    kept = axes.over([label for label in axes.labels if label not in private])
    summed = axes.over(private)
    count = kept.numel
    outputs = _fused(kept.dims, [kept.strides, contiguous_strides(kept.dims)])
    loop = _fused(summed.dims, [summed.strides])
    arguments = (
        scratch(place),
        read(number),
        i64(count),
        i64(summed.numel),
        packed(_pack(outputs, (0,))),
        packed(_pack(loop, (0,))),
    )
    return _launched(_sum_spec(source, dtype), count, arguments)


def _launch(made: PreparedPair, result: Operand) -> KernelLaunch:
    pair = made.pair
    labels, depth = pair.out.labels, pair.classes.k
    count, terms = numel(result.dims), pair.count(depth)
    a, b = pair.a.over(labels), pair.b.over(labels)
    outputs = _fused(pair.out.dims, [a.strides, b.strides, pair.out.strides])
    summed = _fused(pair.dims(depth), [pair.a.over(depth).strides, pair.b.over(depth).strides])
    arguments = (
        write(),
        made.a.argument,
        made.b.argument,
        i64(count),
        i64(terms),
        packed(_pack(outputs, (0, 1))),
        packed(_pack(summed, (0, 1))),
    )
    spec = _contraction_spec(made.a.dtype, made.b.dtype, result.dtype)
    return _launched(spec, count, arguments)


def _fused(dims: Sequence[int], strides: Sequence[tuple[int, ...]]) -> Axes:
    """Return fused axes; none where an extent is 0 and the loop has no iteration."""
    if numel(tuple(dims)) == 0:
        return Axes((), tuple(() for _ in strides))
    return fuse_axes(tuple(dims), strides)


def _pack(axes: Axes, operands: Sequence[int]) -> bytes:
    """Return the bytes of `LoopAxes` of naive_contraction.cu, innermost axis first."""
    padding = (0,) * (MAX_RANK - axes.rank)
    numbers: list[int] = [axes.rank, *reversed(axes.dims), *padding]
    for operand in operands:
        numbers += [*reversed(axes.strides[operand]), *padding]
    return struct.pack(f"<{len(numbers)}q", *numbers)


def _launched(spec: KernelSpec, count: int, arguments: tuple[Argument, ...]) -> KernelLaunch:
    """Return the launch of a grid-stride loop over `count` outputs; none launch nothing."""
    return launch_in_row(spec, min(max(-(-count // THREADS), 1), _MAX_BLOCKS), arguments)
