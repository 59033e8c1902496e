"""The header of chains of elementwise ops: emitted once for all launches that compute them.

Its text depends on ops and dtypes alone, so an optimizer's step over parameters of many extents
has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from softcuda.backends.cuda.emitter import chain_header, emit
from softcuda.backends.steps import Micro
from softcuda.dtype import DType
from softcuda.nvrtc.unit import Header

__all__ = ["Struct", "header_of", "joint_header"]


class Struct(NamedTuple):
    """A chain in device code: the name of its struct, its ops, the dtypes of its operands."""

    name: str
    chain: tuple[Micro, ...]
    dtypes: tuple[DType, ...]


def header_of(chain: Sequence[Micro], dtypes: Sequence[DType], kept: Sequence[int] = ()) -> Header:
    """Return the header "chain.cuh" with the struct of a chain alone.

    Args:
        chain: the ops in order.
        dtypes: of the operands that the chain's sources count.
        kept: ops whose values are written too.
    """
    return _emitted(_shapeless(chain), tuple(dtypes), tuple(kept))


def joint_header(structs: Sequence[Struct]) -> Header:
    """Return the header "chain.cuh" with the structs of several chains."""
    return _joint(tuple([each._replace(chain=_shapeless(each.chain)) for each in structs]))


def _shapeless(chain: Sequence[Micro]) -> tuple[Micro, ...]:
    return tuple([Micro(m.op, m.sources, (), m.dtype, m.params) for m in chain])


@lru_cache(maxsize=1024)
def _emitted(chain: tuple[Micro, ...], dtypes: tuple[DType, ...], kept: tuple[int, ...]) -> Header:
    return chain_header(emit(chain, dtypes, kept=kept))


@lru_cache(maxsize=256)
def _joint(structs: tuple[Struct, ...]) -> Header:
    return chain_header(*(emit(each.chain, each.dtypes, each.name) for each in structs))
