"""cpu_blas: contractions on the OpenBLAS that NumPy carries, called through numpy.matmul.

f32, f64 and complex operands are read where they lie when their strides are those of matrices;
others, and f16 and bf16, go through bounded tiles of scratch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from softcuda.backends.host.products import Method, Product
from softcuda.backends.host.tiling import TileLimits
from softcuda.backends.steps import Operand, Step, Unit, Verdict
from softcuda.dtype import complex64, complex128, f32, f64
from softcuda.graph.lines import Line
from softcuda.graph.op import Kind
from softcuda.graph.params import Contraction
from softcuda.target import Target

__all__ = ["BACKEND_ID", "DEVICE", "FUNCTIONS", "FUSES", "bind", "prepare", "supports"]

Array = np.ndarray[Any, Any]
Call = tuple[Callable[..., Any], tuple[Any, ...]]

BACKEND_ID: Final = "cpu_blas"
DEVICE: Final = "cpu"
FUSES: Final[frozenset[Kind]] = frozenset()
FUNCTIONS: Final[Mapping[str, Any]] = MappingProxyType({})  # every step is bound by `bind`

# 1024 x 1024 x 1024: packing is then a tenth of the product, and tiles take 24 MiB of f32 at most.
# What fits 16 MiB is packed once, as a whole. 2^19 multiplications are fewer than OpenBLAS shares.
_METHOD: Final = Method(
    multiply=np.matmul,
    limits=TileLimits(m=1 << 20, n=1 << 20, k=1 << 11, tile=1 << 20, whole=1 << 22, apart=1 << 19),
    direct=(f32, f64, complex64, complex128),
    by_columns=False,
)


def supports(line: Line, operands: Sequence[Line], target: Target) -> Verdict:
    """Return whether the line is a contraction of floats or complex numbers."""
    if line.op.kind is not Kind.CONTRACTION:
        return Verdict(False, f"cpu_blas computes matmul, not {line.op.name}")
    if not line.dtype.is_inexact:
        return Verdict(False, f"cpu_blas computes floats and complex numbers, not {line.dtype}")
    return Verdict(True)


def prepare(unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step of a contraction; its kernel says how the operands are read."""
    micro = unit.chain[-1]
    inputs = tuple(unit.operands[source] for source in micro.sources)
    params: Any = micro.params
    product = _product(inputs, unit.result, params)
    return (
        Step(
            BACKEND_ID,
            product.kernel,
            inputs,
            (unit.result,),
            params=micro.params,
            scratch_bytes=product.scratch_bytes,
            lines=unit.lines,
        ),
    )


def bind(
    step: Step, inputs: Sequence[Array], outputs: Sequence[Array], scratch: Array | None
) -> list[Call]:
    """Return the calls of a step on these arrays: one numpy.matmul where strides allow."""
    params: Any = step.params
    product = _product(step.inputs, step.outputs[0], params)
    return product.bind(inputs, outputs[0], scratch)


def _product(inputs: Sequence[Operand], out: Operand, params: Contraction) -> Product:
    """Return the plan of a contraction; equal ones share one, whatever buffers they read."""
    return _planned(tuple([_anywhere(x) for x in inputs]), _anywhere(out), params)


def _anywhere(operand: Operand) -> Operand:
    return operand._replace(value=0, offset=0)


@lru_cache(maxsize=256)
def _planned(inputs: tuple[Operand, ...], out: Operand, params: Contraction) -> Product:
    compute = out.dtype if out.dtype in _METHOD.direct else f32
    return Product(inputs, out, params, compute, _METHOD)
