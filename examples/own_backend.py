"""A backend of your own: this module is one, in about 30 lines.

It computes relu of f32 by NumPy and refuses the rest, which then goes to the reference. A row of
a profile that names it, `relu | any = own_backend`, sends the work here, and the printed table
says so.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import softcuda as sc
from softcuda.backends import Step, Unit, Verdict, register
from softcuda.graph.lines import Line
from softcuda.graph.op import Kind
from softcuda.target import Target

BACKEND_ID = "own_backend"
DEVICE = "cpu"
FUSES: frozenset[Kind] = frozenset()  # it takes single nodes, no fused chains


def supports(line: Line, operands: Sequence[Line], target: Target) -> Verdict:
    """Return whether the line is a relu of f32, and why not."""
    if line.op.name == "relu" and line.dtype is sc.f32:
        return Verdict(True)
    return Verdict(False, f"own_backend computes relu of f32, not {line.op.name} of {line.dtype}")


def prepare(unit: Unit, target: Target) -> tuple[Step, ...]:
    """Return the one step of a relu."""
    return (Step(BACKEND_ID, "relu", unit.operands, (unit.result,), lines=unit.lines),)


def relu(x: np.ndarray[Any, Any], out: np.ndarray[Any, Any]) -> None:
    """Write max(x, 0) into `out`; NaN stays NaN and the sign of -0 goes."""
    np.maximum(x, np.float32(0), out=out)
    np.add(out, np.float32(0), out=out)


FUNCTIONS = {"relu": relu}


def main() -> None:
    """Register this module, compile by a profile that names it, print the table and a result."""
    register(sys.modules[__name__])
    x = sc.input((2, 3), sc.f32, name="x")
    executable = sc.compile(sc.sum(sc.relu(x)), Path(__file__).with_suffix(".soft"))
    print(executable)
    print(executable.run(x=np.array([[1, -2, 3], [-4, 5, -6]], np.float32)).item())


if __name__ == "__main__":
    main()
