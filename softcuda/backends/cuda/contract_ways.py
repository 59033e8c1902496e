"""The ways in which contract.cu reads an operand."""

from __future__ import annotations

from enum import Enum

__all__ = ["Way"]


class Way(Enum):
    """How a kernel reads an operand: names are those of contract_tile.cuh, values stand in ids.

    Vectors of ROWS_VECTOR are neighbours in the box as they are in the operand. Those of ROWS_APART
    come through registers, and their elements are put where they belong one by one.
    """

    ROWS_SINGLE = "r"
    ROWS_VECTOR = "r4"
    ROWS_APART = "p4"
    DEPTH_SINGLE = "k"

    @property
    def is_along_depth(self) -> bool:
        """Whether neighbouring threads read neighbours along the depth."""
        return self is Way.DEPTH_SINGLE

    @property
    def is_vector(self) -> bool:
        """Whether a thread reads several elements at once."""
        return self in (Way.ROWS_VECTOR, Way.ROWS_APART)

    @property
    def is_held(self) -> bool:
        """Whether what is read comes through registers even where nothing is converted."""
        return self is Way.ROWS_APART
