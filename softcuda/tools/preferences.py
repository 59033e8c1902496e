"""Which backend a near tie goes to: two sweeps of one machine shall choose alike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from softcuda.graph.op import OPS, Kind
from softcuda.profile.model import Profile
from softcuda.tools.cells import Outcome, State
from softcuda.tools.spread import quantile_of

__all__ = ["MARGIN", "STABLE", "TIE_RULE", "default_backend", "handicaps", "made_for"]

MARGIN: Final = 0.05  # what a GPU must be ahead of the CPU
STABLE: Final = (
    0.15  # and a backend of the one that its device prefers: cells of two runs differ so
)
_MOST: Final = 0.3  # what the spread of samples may ask for at most
TIE_RULE: Final = (
    f"a backend replaces the one that its device prefers where it is more than {STABLE:.0%} ahead, "
    f"and more than their quartiles are apart; the GPU replaces the CPU from {MARGIN:.0%} on"
)
_PREFERRED: Final[Mapping[Kind, str]] = MappingProxyType(
    {
        Kind.CONTRACTION: "cuda_contract",
        Kind.ELEMENTWISE: "cuda_elementwise",
        Kind.REDUCTION: "cuda_reduce",
        Kind.SCAN: "cuda_reduce",
        Kind.COMPOSITE: "cuda_reduce",
        Kind.MOVEMENT: "cuda_permute",
    }
)


def made_for(op: str) -> str:
    """Return the CUDA backend that is made for the kind of an op; a device's reference for others.

    Example:
        >>> made_for("relu"), made_for("uniform")
        ('cuda_elementwise', 'cuda_naive')
    """
    return _PREFERRED.get(OPS[op].kind, "cuda_naive")


def default_backend(default: Profile, op: str, dtype: str, size: int) -> str:
    """Return the backend of a profile's row, "" where the op has none."""
    row = default.lookup(op, dtype, size)
    return "" if row is None else row.backend_id


def handicaps(outcomes: Mapping[str, Outcome], favourite: str, op: str) -> dict[str, float]:
    """Return what each measured backend must be ahead by to be chosen, as log(time / time).

    Nothing for the favourite, MARGIN for the backend that a GPU prefers. Others need STABLE more,
    or as much as their quartiles and those of the one that their device prefers are apart.

    Args:
        outcomes: backend -> what was measured at a size.
        favourite: the backend of DEFAULT.soft, which the CPU prefers.
        op: token of the op.
    """
    measured = {n: o for n, o in outcomes.items() if o.state is State.MEASURED}
    preferred = {"cpu": favourite, "cuda": made_for(op)}
    found = {}
    for name, outcome in measured.items():
        own = preferred.get(outcome.device, "")
        margin = MARGIN if outcome.device == "cuda" else 0.0
        if name != own and own in measured:
            apart = math.hypot(_spread(outcome), _spread(measured[own]))
            margin += min(max(apart, STABLE), _MOST)
        elif name != favourite:
            margin = MARGIN
        found[name] = margin
    return found


def _spread(outcome: Outcome) -> float:
    """Return half the distance of the quartiles over the median."""
    if not outcome.samples:
        return 0.0
    low, middle, high = (quantile_of(outcome.samples, share) for share in (0.25, 0.5, 0.75))
    return (high - low) / (2 * middle) if middle else 0.0
