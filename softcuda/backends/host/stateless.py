"""Functions of calls that keep nothing from call to call: all that they know is their arguments."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from softcuda.backends.host.blocks import multiply_by_parts
from softcuda.backends.host.chain import Blocks
from softcuda.backends.host.chain_program import relu_beside
from softcuda.backends.host.chain_reduce import Reduction
from softcuda.backends.host.conversion import convert
from softcuda.backends.host.copies import assign, copy_in_turn, copy_shared
from softcuda.backends.host.elementwise import ELEMENTWISE

__all__ = ["is_stateless"]

_COPIES: Final = (np.copyto, assign, convert, copy_in_turn, copy_shared)
_PLACES: Final = (np.ndarray.argmax, np.ndarray.argmin)
_MATHEMATICS: Final = (*ELEMENTWISE.values(), multiply_by_parts, relu_beside)
_FUNCTIONS: Final = frozenset((*_COPIES, *_PLACES, *_MATHEMATICS))
_OWNERS: Final = (np.ufunc, Blocks, Reduction)  # of methods such as reduce and run


def is_stateless(function: Any) -> bool:
    """Return whether a function may be called again with other arrays of the same layouts."""
    if isinstance(function, np.ufunc) or isinstance(getattr(function, "__self__", None), _OWNERS):
        return True
    return callable(function) and function in _FUNCTIONS
