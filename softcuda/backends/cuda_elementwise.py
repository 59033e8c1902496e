"""cuda_elementwise: elementwise ops and fused chains of them, over operands of any layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from softcuda.backends.cuda.elementwise import (
    Variant,
    chain_spec,
    in_place_spec,
    prepare_chain,
)
from softcuda.backends.cuda.layouts import Lies, Tile, fitted_tile
from softcuda.backends.cuda.permute_kinds import TileKind
from softcuda.backends.cuda.turned import TurnedVariant, turned_spec
from softcuda.backends.steps import Micro, Step, Unit, Verdict
from softcuda.dtype import REAL_DTYPES, DType, f32
from softcuda.graph.lines import Line
from softcuda.graph.op import OPS, Kind
from softcuda.kernelspec import KernelSpec
from softcuda.target import Target

__all__ = [
    "BACKEND_ID",
    "DEVICE",
    "EPILOGUES",
    "FUSES",
    "KEEPS",
    "KERNELS",
    "in_place",
    "prepare",
    "supports",
]

BACKEND_ID: Final = "cuda_elementwise"
DEVICE: Final = "cuda"
FUSES: Final = frozenset({Kind.ELEMENTWISE})
EPILOGUES: Final[frozenset[Kind]] = frozenset()
KEEPS: Final = True


def _chain(dtype: DType) -> tuple[Micro, ...]:
    return (Micro(OPS["copy"], (0,), (), dtype, ()),)


def _copy(dtype: DType, shape: Variant | None = None) -> KernelSpec:
    chain = _chain(dtype)
    made = shape or Variant((Lies.DENSE,), fitted_tile(chain, (dtype,), 1))
    return chain_spec(chain, (dtype,), made)


def _turned(rows: int, columns: int, items: int) -> KernelSpec:
    kind = TileKind(4, rows, columns, items, 3, 0)
    return turned_spec(_chain(f32), (f32,), TurnedVariant(("Turned<f32>",), kind, 2, 4))


# The shortest chain in every variant; those of a graph are generated for it.
KERNELS: Final[tuple[KernelSpec, ...]] = (
    *(_copy(dtype) for dtype in REAL_DTYPES.values()),
    in_place_spec(_copy(f32)),
    _copy(f32, Variant((Lies.SINGLE,), Tile(4, 2))),
    _copy(f32, Variant((Lies.ROW,), Tile(4, 2), 2)),
    _copy(f32, Variant((Lies.LEVEL,), Tile(4, 2), 2)),
    _copy(f32, Variant((Lies.STRIDED,), Tile(4, 2), 2, wraps=True)),
    _copy(f32, Variant((Lies.STRIDED,), Tile(4, 2), 2, True)),
    _copy(f32, Variant((Lies.STRIDED,), Tile(4, 2), 64, True, wraps=True)),
    _turned(4, 4, 1),
    _turned(1, 1, 8),
)


def supports(line: Line, operands: Sequence[Line], target: Target) -> Verdict:
    """Return whether the line is elementwise; every dtype and layout is supported."""
    if line.op.kind is Kind.ELEMENTWISE:
        return Verdict(True)
    return Verdict(
        False,
        f"{line.op.name} is a {line.op.kind.value}; cuda_elementwise computes elementwise ops",
    )


def prepare(unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step that computes the unit."""
    return prepare_chain(BACKEND_ID, unit, target)


def in_place(step: Step) -> Step | None:
    """Return a step of one dense kernel with the variant that may write what it reads."""
    families = [launch.spec.family for launch in step.launches]
    if families == ["elementwise_in_place"]:
        return step
    if families != ["elementwise_dense"]:
        return None
    (launch,) = step.launches
    meant = replace(launch, spec=in_place_spec(launch.spec))
    return step._replace(kernel=meant.spec.id, launches=(meant,))
