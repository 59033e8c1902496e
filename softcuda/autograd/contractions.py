"""The gradient rule of contractions: again a contraction.

D[out] = sum A[a] B[b] gives dA[a] = sum g[out] conj(B[b]) over the labels that are not in a. A
label of a alone, which was summed, is repeated; one along which A was stretched is summed.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from softcuda.autograd.expressions import broadcasted, called, conjugated, reshaped
from softcuda.autograd.rule import Rule, Use, each
from softcuda.graph.node import Node
from softcuda.graph.params import Contraction

__all__ = ["CONTRACTION_RULES"]


def _contraction(u: Use) -> Node:
    params = u.params
    sides = ((params.a, u.inputs[0]), (params.b, u.inputs[1]))
    (labels, x), (other_labels, other) = sides[u.number], sides[1 - u.number]
    beside = dict.fromkeys(params.out, 1)
    for have, operand in ((params.out, u.g), (other_labels, other)):
        for label, extent in zip(have, operand.dims, strict=True):
            beside[label] = max(beside.get(label, 1), extent) if extent else 0
    own = dict(zip(labels, x.dims, strict=True))
    found = tuple(
        label
        for label, extent in own.items()
        if label in beside and not (extent == 1 and beside[label] != 1)
    )
    # A stated dtype is that of D; g has it, and the sum is converted to the operand's once.
    asked = Contraction(params.out, other_labels, found, None, params.compute)
    made = called("matmul", u.g, conjugated(other), params=asked)
    extents = dict(zip(found, made.dims, strict=True))
    made = reshaped(made, tuple(extents.get(label, 1) for label in labels))
    return broadcasted(made, x.dims)


CONTRACTION_RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {"matmul": each(_contraction, is_linear=True)}
)
