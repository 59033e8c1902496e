"""Whether gradients flow through a node: what each node knows, and how none is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import Final

__all__ = ["RECORDING", "Flow", "no_grad"]


class Flow(Enum):
    """What a node knows of gradients.

    FREE: nobody asked for them; they flow through as long as the node has its inputs.
    TRACED: it is marked, or depends on what is marked, and keeps its inputs when evaluated.
    STOPPED: nothing flows through: made inside `no_grad`, or by `detach`.
    LOST: a FREE node that was evaluated and dropped the inputs through which they would flow.
    """

    FREE = 0
    TRACED = 1
    STOPPED = 2
    LOST = 3


RECORDING: Final[ContextVar[bool]] = ContextVar("softcuda_recording", default=True)
"""False inside `no_grad`; each thread has its own."""


@contextmanager
def no_grad() -> Iterator[None]:
    """Return a context in which tensors are made that no gradient flows through.

    They keep no inputs once they are evaluated. It holds for the thread that enters it, and can
    decorate a function: `@softcuda.no_grad()`.
    """
    before = RECORDING.set(False)
    try:
        yield
    finally:
        RECORDING.reset(before)
