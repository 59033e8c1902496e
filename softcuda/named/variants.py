"""The programs of a plan: its own, and on the host those for scalars that are 0 or 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from softcuda.executor.runtime import Runtime
from softcuda.graph.op import Op
from softcuda.named.engine import Engine, varied
from softcuda.named.recipe import Scalar

__all__ = ["Ready", "Variants", "ready", "varies"]

Array = np.ndarray[Any, Any]
Kinds = tuple[Scalar, ...]

_FACTORS: Final = {1: Scalar.ONE}
_ZERO: Final = {0: Scalar.ZERO}


@dataclass(frozen=True, slots=True)
class Ready:
    """A program that is ready to run, and what its result is made by.

    Attributes:
        runtime: runs it.
        passing: positions of the leaves that are not kept after a run.
        op: the op of the result.
        backend_id: the backend of the result.
    """

    runtime: Runtime
    passing: frozenset[int]
    op: Op
    backend_id: str


def ready(runtime: Runtime, passing: int) -> Ready:
    """Return the program of a runtime, ready to run.

    Args:
        runtime: its runtime.
        passing: how many of its leaves, the first ones, are not kept after a run.
    """
    program = runtime.program
    result = program.output_lines[program.outputs[0]]
    op, backend_id = program.graph.lines[result].op, program.choices[result].backend_id
    return Ready(runtime, frozenset(range(passing)), op, backend_id)


class Variants:
    """The programs of a plan on the host, by what its scalars are.

    A scalar of 1 multiplies nothing, and where beta is 0 nothing is added. Each gives the bits of
    the plan's own program, which takes any scalars: x * 1 is x, and C is not read where beta is 0.
    Complex numbers are multiplied by 1 too: a product of an infinite part by 0 is NaN.
    """

    __slots__ = ("_betas", "_engine", "_factors", "_known")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[Kinds, Ready] = {}
        operation = engine.operation
        is_complex = operation.common_dtype.is_complex
        self._factors = {} if is_complex else _FACTORS
        self._betas = self._factors | _ZERO if operation.has_addend else self._factors

    def chosen(self, operands: list[Any], scalars: Sequence[Array]) -> tuple[Ready, list[Any]]:
        """Return the program for these scalars, and the arrays that it takes."""
        factors, betas = self._factors, self._betas
        kinds = []
        arrays = [*operands]
        for at, scalar in enumerate(scalars):
            kind = (betas if at else factors).get(scalar.item(), Scalar.NUMBER)
            kinds.append(kind)
            if kind is Scalar.NUMBER:
                arrays.append(scalar)
        key = tuple(kinds)
        found = self._known.get(key)
        if found is None:  # compiled when it is first needed
            found = self._known[key] = ready(varied(self._engine, key), len(arrays))
        return found, arrays


def varies(engine: Engine) -> bool:
    """Return whether a plan has variants: it computes floats, on the host alone, with scalars.

    A kernel of a device multiplies by 1 for nothing. Integers and bools may be of another dtype
    once they were multiplied.
    """
    operation = engine.operation
    is_float = operation.common_dtype.is_inexact
    return is_float and operation.scalar_count > 0 and not engine.program.uses_cuda
