"""Backends: one module a backend_id, and the registry that a user's own joins.

A backend is a module (or any object) with

- `BACKEND_ID`: its name in CONFIG.soft and in every printed table;
- `DEVICE`: "cpu" or "cuda";
- `FUSES`: the kinds of op (softcuda.graph.op.Kind) that it fuses with its neighbours: elementwise
  lines join a chain, and the lines before a reduction join the reduction;
- optionally `EPILOGUES`: the kinds of op behind which it takes elementwise lines into the same
  unit, `absorbs(line, operands, target)`: which lines those may be (default: `supports`), and
  `carries(chain, reads, registers)`: whether that is a chain for its kernels (default: any);
- optionally, with contractions in `FUSES`, `makes(chain, reads, line, operands, number, target)`:
  whether its kernels compute elementwise lines in front of operand `number` of a contraction as
  they load it; a Verdict whose reason the table shows either way. The lines read a value of their
  extents, then numbers of one element each (default: they never do);
- optionally `surrounds(line, operands, target)`: whether it runs elementwise lines around that line
  at all (default: yes);
- optionally `MOST_BEFORE`: the most operands of the lines before an anchor, which are cut off where
  they read more;
- optionally `KEEPS`: True where its chains also write values inside them (`Unit.kept`);
- optionally, on CUDA, `KERNELS`: the softcuda.kernelspec.KernelSpec that inspect_kernels lists, and
  `further_kernels()`: an iterator of those that are compiled only when a graph meets them;
- optionally `in_place(step)`: the step as it may write over operands that it reads element by
  element, as they lie; None where it may not;
- optionally `told(step, target)`: sentences about how a step is computed, for `explain`;
- `supports(line, operands, target)`: a Verdict, with the reason when not. `line` is a
  softcuda.graph.lines.Line, `operands` the Lines it reads; one answer holds for all lines of a
  graph with that op, params, extents and dtypes;
- `prepare(unit, target)`: a tuple of Steps for a Unit;
- `FUNCTIONS`: step kernel name -> function(*inputs, out), called with arrays; a step with params
  passes them after out, then a byte array where it asked for scratch. (CPU backends.)
- optionally `bind(step, inputs, outputs, scratch)`: a list of calls (function, arguments) instead.
"""

from __future__ import annotations

from softcuda.backends.registry import (
    REFERENCE,
    Backend,
    added_devices,
    backends,
    bind,
    register,
    registry_state,
    unregister,
)
from softcuda.backends.steps import Micro, Operand, Step, Unit, Verdict

__all__ = [
    "REFERENCE",
    "Backend",
    "Micro",
    "Operand",
    "Step",
    "Unit",
    "Verdict",
    "added_devices",
    "backends",
    "bind",
    "register",
    "registry_state",
    "unregister",
]
