"""The table of gradient rules: one row for every op that has a gradient."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from softcuda.autograd.composites import COMPOSITE_RULES
from softcuda.autograd.contractions import CONTRACTION_RULES
from softcuda.autograd.elementwise import ELEMENTWISE_RULES
from softcuda.autograd.movement import MOVEMENT_RULES
from softcuda.autograd.reductions import REDUCTION_RULES
from softcuda.autograd.rule import Rule

__all__ = ["RULES"]

RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        **ELEMENTWISE_RULES,
        **REDUCTION_RULES,
        **MOVEMENT_RULES,
        **CONTRACTION_RULES,
        **COMPOSITE_RULES,
    }
)
