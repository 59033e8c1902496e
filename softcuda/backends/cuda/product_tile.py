"""The tile of a product: what the kernels that multiply by tiles have in common."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ProductTile"]


@dataclass(frozen=True, slots=True)
class ProductTile:
    """What a block and a thread make.

    Attributes:
        m: rows of a block.
        n: columns.
        k: depth of a step.
        thread_m: rows of a thread's part.
        thread_n: columns.
        stages: steps that are in shared memory at once.
        lanes_m: threads of a warp along m.
    """

    m: int
    n: int
    k: int
    thread_m: int
    thread_n: int
    stages: int
    lanes_m: int

    @property
    def threads(self) -> int:
        """Threads a block."""
        return (self.m // self.thread_m) * (self.n // self.thread_n)

    @property
    def name(self) -> str:
        """Such as "128x256x8"."""
        return f"{self.m}x{self.n}x{self.k}"
