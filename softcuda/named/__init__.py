"""Named axes: einsum, contractions, reductions, permutations and elementwise operations by label.

The functions make ordinary nodes of the graph. Descriptors say what an operation is, and a `Plan`
is an executable of one operation. `arithmetic` decides dtypes, `pairs` turns a contraction path
into nodes, `recipe` an operation into a graph that is made once and used often.
"""

from __future__ import annotations

from softcuda.dtype import ComputeType
from softcuda.named.descriptors import Mode, OperandDescriptor, TensorDescriptor
from softcuda.named.einsums import EinsumPath, einsum, einsum_path, einsum_with_options
from softcuda.named.lazy import contract, elementwise_binary, elementwise_trinary, permute, reduce
from softcuda.named.operation import OperationDescriptor
from softcuda.named.operators import BinaryOp, ReductionOp, UnaryOp
from softcuda.named.plans import EinsumPlan, Plan

__all__ = [
    "BinaryOp",
    "ComputeType",
    "EinsumPath",
    "EinsumPlan",
    "Mode",
    "OperandDescriptor",
    "OperationDescriptor",
    "Plan",
    "ReductionOp",
    "TensorDescriptor",
    "UnaryOp",
    "contract",
    "einsum",
    "einsum_path",
    "einsum_with_options",
    "elementwise_binary",
    "elementwise_trinary",
    "permute",
    "reduce",
]
