"""The ways in which contract.cu reads an operand."""

from __future__ import annotations

from enum import Enum

__all__ = ["Way"]


class Way(Enum):
    """How a kernel reads an operand: names are those of contract_tile.cuh, values stand in ids.

    Vectors of ROWS_VECTOR are neighbours in the box as they are in the operand. Those of the other
    two come through registers, and their elements are put where they belong one by one.
    """

    ROWS_SINGLE = "r"
    ROWS_VECTOR = "r4"
    ROWS_APART = "p4"
    DEPTH_SINGLE = "k"
    DEPTH_VECTOR = "k4"

    @property
    def is_along_depth(self) -> bool:
        """Whether neighbouring threads read neighbours along the depth."""
        return self in (Way.DEPTH_SINGLE, Way.DEPTH_VECTOR)

    @property
    def is_vector(self) -> bool:
        """Whether a thread reads several elements at once."""
        return self not in (Way.ROWS_SINGLE, Way.DEPTH_SINGLE)

    @property
    def is_held(self) -> bool:
        """Whether what is read comes through registers even where nothing is converted."""
        return self in (Way.ROWS_APART, Way.DEPTH_VECTOR)

    @property
    def single(self) -> Way:
        """The way in the same direction, element by element."""
        return Way.DEPTH_SINGLE if self.is_along_depth else Way.ROWS_SINGLE
