"""Reports: the bad values that a run meets, as the errors of every backend.

A kernel cannot raise. It writes what it met into the status words of its device, where `code` 0
says that all is well; the executor reads them when it waits for the device.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from softcuda.errors import IndexOutOfRange, IntegerPowerError, SoftCudaError

__all__ = ["STATUS_WORDS", "index_error", "power_error", "reported", "where_of"]

STATUS_WORDS: Final = 4  # i64 each: code, first, second, where; kernels/report.cuh

# Codes: 1 is an index out of range: first the index, second the extent, where as `where_of` says.
_POWER: Final = 2  # first is the exponent

# Who reads indices, by number: an op, or a function that is built of one.
_ASKERS: Final = (
    *("take", "gather", "index_add", "scatter_add"),
    *("take_along_axis", "cross_entropy"),
)
_AXES: Final = 64


def where_of(asker: str, axis: int) -> int:
    """Return the number by which kernels say who asked for an index, and on which axis.

    Args:
        asker: the caller that the params name, else the op's token.
        axis: the axis that is addressed, below 64.
    """
    return _ASKERS.index(asker) * _AXES + axis


def index_error(asker: str, index: int, axis: int, extent: int) -> IndexOutOfRange:
    """Return the error of an index outside -extent to extent - 1.

    Args:
        asker: the function or op that reads the index.
        index: the index. Of cross_entropy, which moves negative labels below -extent, so moved.
        axis: the axis it addresses.
        extent: of that axis.
    """
    if asker == "cross_entropy":
        label = index + extent if index < 0 else index
        return IndexOutOfRange(
            f"cross_entropy: label {label} of {extent} classes along axis {axis}; allowed are 0 to "
            f"{extent - 1}"
        )
    return IndexOutOfRange(
        f"{asker}: index {index} is outside axis {axis} of extent {extent}; allowed are {-extent} "
        f"to {extent - 1}"
    )


def power_error(exponent: int) -> IntegerPowerError:
    """Return the error of an integer raised to a negative power."""
    return IntegerPowerError(
        f"pow: an integer is raised to the power {exponent}; allowed are exponents >= 0; cast the "
        "base to a float first"
    )


def reported(words: Iterable[int]) -> SoftCudaError:
    """Return the error that STATUS_WORDS words tell, the first of which is not 0."""
    code, first, second, where = (int(word) for word in words)
    if code == _POWER:
        return power_error(first)
    asker, axis = divmod(where, _AXES)
    return index_error(_ASKERS[asker], first, axis, second)
