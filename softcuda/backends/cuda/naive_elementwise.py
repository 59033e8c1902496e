"""The launch of one elementwise op by the reference kernel: one thread an output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from softcuda.backends.cuda.axes import Axes, broadcast_strides, pack_axes, padded_rank
from softcuda.backends.cuda.chain_headers import header_of
from softcuda.backends.cuda.emitter import (
    chain_digest,
    chain_label,
    reports,
)
from softcuda.backends.cuda.planned import Launches, launch_in_row, one_step
from softcuda.backends.launches import i64, packed, read, status, write
from softcuda.backends.steps import Micro, Step, Unit
from softcuda.dtype import DTYPES, DType
from softcuda.graph.op import OPS
from softcuda.kernelspec import KernelSpec
from softcuda.target import Target

__all__ = ["NAIVE_ELEMENTWISE", "prepare_elementwise"]

THREADS: Final = 256
MAX_BLOCKS: Final = 2**20


def _spec(chain: Sequence[Micro], dtypes: Sequence[DType], rank: int) -> KernelSpec:
    header = header_of(chain, dtypes)
    names = [dtype.name for dtype in dtypes]
    return KernelSpec(
        "naive_elementwise",
        f"{chain_label(chain)}_{chain_digest(header)}_rank{rank}",
        "naive_elementwise.cu",
        f"naive_elementwise<Chain, {rank}, {', '.join(names)}>",
        dtypes=(chain[-1].dtype.name, *names),
        threads=THREADS,
        headers=(header,),
    )


# The shortest op for every dtype; those of a graph are generated for it.
NAIVE_ELEMENTWISE: Final = tuple(
    _spec((Micro(OPS["copy"], (0,), (), dtype, ()),), (dtype,), 2) for dtype in DTYPES.values()
)


def prepare_elementwise(unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step of an elementwise op; without launches where the result is empty."""
    return one_step("cuda_naive", unit, lambda: (_launches(unit), 0))


def _launches(unit: Unit) -> Launches:
    dims = unit.result.dims
    axes = Axes(dims, tuple(broadcast_strides(x.dims, x.strides, dims) for x in unit.operands))
    rank = padded_rank(axes.rank)
    spec = _spec(unit.chain, [x.dtype for x in unit.operands], rank)
    operands = range(len(unit.operands))
    arguments = (
        write(),
        i64(axes.numel),
        packed(pack_axes(axes, rank, operands, wide=True)),
        status() if reports(unit.chain) else i64(0),
        *(read(number) for number in operands),
    )
    return (launch_in_row(spec, min(-(-axes.numel // THREADS), MAX_BLOCKS), arguments),)
