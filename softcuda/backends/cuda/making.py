"""The chain that makes an operand of a product as it is loaded: Made of made.cuh."""

from __future__ import annotations

from typing import NamedTuple

from softcuda.backends.cuda.emitter import Part
from softcuda.backends.cuda.layouts import code_of
from softcuda.backends.steps import Micro, Unit
from softcuda.dtype import DType
from softcuda.errors import BackendError
from softcuda.graph.shapes import numel

__all__ = ["Making", "making_of"]


class Making(NamedTuple):
    """The elementwise ops that make the elements of an operand.

    Attributes:
        chain: the ops; argument 0 is the element as it is stored, the others are numbers.
        dtypes: of all arguments.
        numbers: the unit's operands that the other arguments are, one element each.
    """

    chain: tuple[Micro, ...]
    dtypes: tuple[DType, ...]
    numbers: tuple[int, ...]

    @property
    def code(self) -> int:
        """Plain instructions about that an element takes."""
        return code_of(self.chain)

    def element(self, stored: DType, struct: str) -> str:
        """Return the type of an element in device code.

        Args:
            stored: what it is stored as.
            struct: the name of the chain's struct.
        """
        arguments = (stored.name, struct, *(dtype.name for dtype in self.dtypes[1:]))
        return f"Made<{', '.join(arguments)}>"


def making_of(unit: Unit, part: Part) -> tuple[int, Making | None]:
    """Return the operand that a source of a product is made of, and by which chain.

    Args:
        unit: whose operands are read.
        part: the ops in front of that source; None is returned where there are none.

    Raises:
        BackendError: the ops read other than one operand of their extents and numbers.
    """
    if not part.chain:
        return part.operands[0], None
    dims = part.chain[-1].dims
    whole = [place for place, k in enumerate(part.operands) if unit.operands[k].dims == dims]
    others = [place for place in range(len(part.operands)) if place not in whole]
    if len(whole) != 1 or any(numel(unit.operands[part.operands[k]].dims) != 1 for k in others):
        read = ", ".join(str(list(unit.operands[k].dims)) for k in part.operands)
        raise BackendError(
            f"the ops in front of a product make {list(dims)} of operands of extents {read}; "
            "allowed are one operand of these extents, more than one element, and numbers"
        )
    order = [whole[0], *others]
    place_of = {old: new for new, old in enumerate(order)}
    chain = tuple(
        micro._replace(sources=tuple(place_of[s] if s >= 0 else s for s in micro.sources))
        for micro in part.chain
    )
    dtypes = tuple(part.dtypes[k] for k in order)
    return part.operands[whole[0]], Making(chain, dtypes, tuple(part.operands[k] for k in others))
