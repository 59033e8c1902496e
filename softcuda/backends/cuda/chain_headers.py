"""The header of a chain of elementwise ops: emitted once for all launches that compute the chain.

Its text depends on ops and dtypes alone, so an optimizer's step over parameters of many extents
has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from softcuda.backends.cuda.emitter import chain_header, emit
from softcuda.backends.steps import Micro
from softcuda.dtype import DType
from softcuda.nvrtc.unit import Header

__all__ = ["header_of"]


def header_of(chain: Sequence[Micro], dtypes: Sequence[DType], kept: Sequence[int] = ()) -> Header:
    """Return the header "chain.cuh" with the struct of a chain alone.

    Args:
        chain: the ops in order.
        dtypes: of the operands that the chain's sources count.
        kept: ops whose values are written too.
    """
    shapeless = tuple([Micro(m.op, m.sources, (), m.dtype, m.params) for m in chain])
    return _emitted(shapeless, tuple(dtypes), tuple(kept))


@lru_cache(maxsize=1024)
def _emitted(chain: tuple[Micro, ...], dtypes: tuple[DType, ...], kept: tuple[int, ...]) -> Header:
    return chain_header(emit(chain, dtypes, kept=kept))
