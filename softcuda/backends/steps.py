"""Steps: what a backend makes of a node or of a fused group. Plain, frozen, picklable data."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from softcuda.dtype import DType
from softcuda.graph.lines import Line
from softcuda.graph.op import Op
from softcuda.graph.params import Dims, Params

if TYPE_CHECKING:  # only CUDA backends make launches, and only they pay for loading them
    from softcuda.backends.launches import KernelLaunch

__all__ = ["Micro", "Operand", "Step", "Unit", "Verdict"]


class Operand(NamedTuple):
    """What a step reads or writes: a window on a value's buffer.

    `value` is the number of the line that owns the buffer; `offset` and `strides` are in
    elements, relative to the first logical element of that value.
    """

    value: int
    offset: int
    dims: Dims
    strides: Dims
    dtype: DType


class Micro(NamedTuple):
    """One op inside a step.

    A source s >= 0 is the step's s-th external operand; a source s < 0 is the result of the
    step's micro number ~s.
    """

    op: Op
    sources: tuple[int, ...]
    dims: Dims
    dtype: DType
    params: Params


class Unit(NamedTuple):
    """A node, or a group of fused nodes, that one backend is asked to prepare.

    Attributes:
        chain: the ops in order; the last one is the anchor and makes the result.
        operands: the external operands that the chain's sources count.
        result: the dense row-major buffer of the last op's value.
        lines: the graph lines that the chain computes, in the same order.
        kept: op inside the chain -> the dense buffer of its value, which others read too; only
            for backends that declare KEEPS.
    """

    chain: tuple[Micro, ...]
    operands: tuple[Operand, ...]
    result: Operand
    lines: tuple[int, ...]
    kept: tuple[tuple[int, Operand], ...] = ()

    @property
    def results(self) -> tuple[Operand, ...]:
        """All buffers that the unit writes, its result first."""
        return (self.result, *(operand for _, operand in self.kept))


class Step(NamedTuple):
    """One piece of execution: a function or kernel by name, and what it reads and writes.

    Attributes:
        backend_id: the module in softcuda/backends/ that made it and binds it.
        kernel: the name of the function (CPU) or kernel, a key of the backend's table.
        inputs: external operands, in the order the function takes them.
        outputs: the windows it writes; all of their elements are written.
        params: what the function takes beside its operands; () for nothing.
        chain: the ops of a fused step, as in Unit; () where the kernel name says all.
        scratch_bytes: memory it needs while it runs; the function gets it as a byte array.
        lines: the graph lines it computes.
        launches: the kernels of a CUDA step, in order; () for a CPU step.
    """

    backend_id: str
    kernel: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    params: Params = ()
    chain: tuple[Micro, ...] = ()
    scratch_bytes: int = 0
    lines: tuple[int, ...] = ()
    launches: tuple[KernelLaunch, ...] = ()


class Verdict(NamedTuple):
    """The answer of `supports`: true or false, and why not."""

    supported: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.supported


def operand_of(line: Line, number: int, strides: Dims, offset: int = 0) -> Operand:
    """Return the window of a whole line's value."""
    return Operand(number, offset, line.dims, strides, line.dtype)
