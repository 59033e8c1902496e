"""A unit as the pass `fuse` grows it."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Group"]


@dataclass(slots=True)
class Group:
    """A unit that grows backward.

    `runner` is the line whose backend runs it: the anchor, else the last line. `before` and
    `after` are the elementwise lines before and behind the anchor, the latest first. `kept` are
    those of `after` that others read too. `products` are contractions that only the unit reads.
    """

    runner: int
    anchor: int | None
    before: list[int] = field(default_factory=list)
    after: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    reads: int = 0
    products: set[int] = field(default_factory=set)

    def ordered(self) -> list[int]:
        """Return the lines in the order in which they are computed."""
        middle = [] if self.anchor is None else [self.anchor]
        return [*reversed(self.before), *middle, *reversed(self.after)]

    @property
    def last(self) -> int:
        """The line that makes the result."""
        return self.after[0] if self.after else self.runner

    @property
    def size(self) -> int:
        """How many lines there are."""
        return len(self.before) + len(self.after) + (self.anchor is not None)
