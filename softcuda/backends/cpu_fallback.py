"""cpu_fallback: every op on vectorised NumPy without BLAS, the reference of correctness.

Nothing is fused; every result is computed in pieces of the size of a cache and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from softcuda.backends.host import composites, creation, indexing, movement, positions, random
from softcuda.backends.host.conversion import convert
from softcuda.backends.host.elementwise import ELEMENTWISE
from softcuda.backends.host.mapped import bind_elementwise
from softcuda.backends.host.products import Method, Product
from softcuda.backends.host.reductions import REDUCTIONS, bind_reduce
from softcuda.backends.host.scattering import bind_scatter, scatter_scratch_bytes
from softcuda.backends.host.tiling import TileLimits
from softcuda.backends.steps import Operand, Step, Unit, Verdict
from softcuda.dtype import DType, complex128, f64, i64
from softcuda.errors import BackendError
from softcuda.graph.lines import Line, operand_dtypes
from softcuda.graph.op import OPS, Kind
from softcuda.target import Target

__all__ = [
    "BACKEND_ID",
    "DEVICE",
    "FUNCTIONS",
    "FUSES",
    "bind",
    "in_place",
    "prepare",
    "supports",
]

Array = np.ndarray[Any, Any]
Call = tuple[Callable[..., Any], tuple[Any, ...]]
Binder = Callable[[Step, Sequence[Array], Array], list[Call]]

BACKEND_ID: Final = "cpu_fallback"
DEVICE: Final = "cpu"
FUSES: Final[frozenset[Kind]] = frozenset()
FUNCTIONS: Final[Mapping[str, Any]] = MappingProxyType({})  # every step is bound by `bind`


def _einsum(a: Array, b: Array, out: Array) -> None:
    np.einsum("...mk,...kn->...mn", a, b, out=out, optimize=False)


_SCATTERS: Final = ("index_add", "scatter_add")
_WITH_SCRATCH: Final = ("matmul", *_SCATTERS)  # bound beside the table, for their scratch
_METHOD: Final = Method(
    multiply=_einsum,
    limits=TileLimits(m=128, n=128, k=1 << 16, tile=1 << 16, whole=1 << 16),
    direct=(),
    by_columns=True,
)


def supports(line: Line, operands: Sequence[Line], target: Target) -> Verdict:
    """Return whether the line is work at all: leaves, views and transfers are not."""
    if not line.op.does_work:
        return Verdict(False, f"{line.op.name} is a {line.op.kind.value} and needs no backend")
    return Verdict(True)


def prepare(unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step of a node; its kernel is the op's token."""
    micro = unit.chain[-1]
    inputs = tuple(unit.operands[source] for source in micro.sources)
    scratch = 0
    if micro.op.kind is Kind.CONTRACTION:
        scratch = _product(inputs, unit.result, micro.params).scratch_bytes
    elif micro.op.name in _SCATTERS:
        scratch = scatter_scratch_bytes(unit.result)
    return (
        Step(
            BACKEND_ID,
            micro.op.name,
            inputs,
            (unit.result,),
            params=micro.params,
            scratch_bytes=scratch,
            lines=unit.lines,
        ),
    )


def in_place(step: Step) -> Step | None:
    """Return the step of an elementwise op itself: its functions may write what they read."""
    return step if step.kernel in ELEMENTWISE else None


def bind(
    step: Step, inputs: Sequence[Array], outputs: Sequence[Array], scratch: Array | None
) -> list[Call]:
    """Return the calls of a step on these arrays.

    None where the result has no elements, but for ops that check indices.

    Raises:
        BackendError: the step names no op.
    """
    out = outputs[0]
    if step.kernel not in _BINDERS and step.kernel not in _WITH_SCRATCH:
        raise BackendError(
            f"cpu_fallback has no op {step.kernel!r}; it has "
            f"{', '.join((*sorted(_BINDERS), *_WITH_SCRATCH))}"
        )
    if not out.size and not OPS[step.kernel].has_indices:
        return []
    if step.kernel == "matmul":
        return _product(step.inputs, step.outputs[0], step.params).bind(inputs, out, scratch)
    if step.kernel in _SCATTERS:
        return bind_scatter(step.kernel, inputs, out, step.params, scratch)
    binder: Binder = _BINDERS[step.kernel]
    return binder(step, inputs, out)


def _product(inputs: Sequence[Operand], out: Operand, params: Any) -> Product:
    compute: DType = f64 if out.dtype.is_float else complex128 if out.dtype.is_complex else i64
    return Product(inputs, out, params, compute, _METHOD)


def _bind_elementwise(step: Step, inputs: Sequence[Array], out: Array) -> list[Call]:
    operands: Any = step.inputs
    dtypes = operand_dtypes(OPS[step.kernel], operands, step.params)
    return bind_elementwise(step.kernel, dtypes, step.outputs[0].dtype, inputs, out)


def _bind_cast(step: Step, inputs: Sequence[Array], out: Array) -> list[Call]:
    return [(convert, (inputs[0], out))]


def _reducing(function: Callable[..., list[Call]]) -> Binder:
    """Return the binder of an op over one operand that is told which op it is."""

    def binder(step: Step, inputs: Sequence[Array], out: Array) -> list[Call]:
        return function(step.kernel, inputs[0], out, step.params)

    return binder


def _along(function: Callable[..., list[Call]], *extra: Any) -> Binder:
    """Return the binder of an op over one operand."""

    def binder(step: Step, inputs: Sequence[Array], out: Array) -> list[Call]:
        return function(inputs[0], out, step.params, *extra)

    return binder


def _calling(function: Callable[..., Any]) -> Binder:
    """Return the binder of one call f(*inputs, out, params)."""

    def binder(step: Step, inputs: Sequence[Array], out: Array) -> list[Call]:
        return [(function, (*inputs, out, step.params))]

    return binder


def _placing(function: Callable[..., list[Call]], *extra: Any) -> Binder:
    """Return the binder of an op whose calls work on views made once."""

    def binder(step: Step, inputs: Sequence[Array], out: Array) -> list[Call]:
        return function(inputs, out, step.params, *extra)

    return binder


def _creating(function: Callable[..., list[Call]]) -> Binder:
    """Return the binder of a creation op whose calls work on views made once."""

    def binder(step: Step, inputs: Sequence[Array], out: Array) -> list[Call]:
        return function(out, step.params)

    return binder


_BINDERS: Final[Mapping[str, Binder]] = MappingProxyType(
    {
        **dict.fromkeys(ELEMENTWISE, _bind_elementwise),
        "cast": _bind_cast,
        **dict.fromkeys(REDUCTIONS, _reducing(bind_reduce)),
        "argmin": _reducing(positions.bind_argument),
        "argmax": _reducing(positions.bind_argument),
        "cumsum": _along(positions.bind_cumsum),
        "concat": _placing(movement.bind_concat),
        "stack": _placing(movement.bind_stack),
        "pad": _placing(movement.bind_pad),
        "tril": _placing(movement.bind_triangle, True),
        "triu": _placing(movement.bind_triangle, False),
        "take": _calling(indexing.take_into),
        "gather": _calling(indexing.gather_into),
        "one_hot": _calling(indexing.one_hot_into),
        "full": _creating(creation.bind_full),
        "eye": _creating(creation.bind_eye),
        "arange": _calling(creation.arange_into),
        "linspace": _calling(creation.linspace_into),
        "uniform": _calling(random.uniform_into),
        "normal": _calling(random.normal_into),
        "softmax": _along(composites.bind_softmax, False),
        "log_softmax": _along(composites.bind_softmax, True),
        "layer_norm": _placing(composites.bind_layer_norm),
    }
)
