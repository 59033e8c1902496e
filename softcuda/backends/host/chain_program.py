"""The micro-program of a chain: plain calls over numbered registers, no shapes in it.

Registers 0 .. E-1 are the step's external operands, register E is the step's output, the rest
are slots of block-sized scratch. A value of f16 or bf16 is held as the f32 that it rounds to,
so that every value is rounded to its dtype once, and read again without a conversion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from softcuda.backends.host.chain_slots import FULL, MicroProgram, PlannedCall, Value, give_slots
from softcuda.backends.host.conversion import convert
from softcuda.backends.host.elementwise import function_for
from softcuda.backends.steps import Micro, Operand
from softcuda.dtype import DType, bool_, compute_dtype
from softcuda.graph.dtype_rules import floating
from softcuda.graph.lines import operand_dtypes
from softcuda.graph.params import Dims

__all__ = ["build_program", "relu_beside"]

Array = np.ndarray[Any, Any]

# Results of these need no rounding: they are values of an operand, or exact in its dtype.
_EXACT: Final = frozenset(
    (
        *("copy", "conj", "real", "imag", "neg", "abs", "sign", "relu", "floor", "ceil", "round"),
        *("minimum", "maximum", "clip", "where"),
    )
)
_IDENTITY: Final = frozenset(("copy", "conj", "real"))  # of real numbers


def relu_beside(x: Array, zeros: Array, out: Array) -> None:
    """Write the elements of `x` above 0, and 0 for the others, given a block of zeros."""
    np.maximum(x, zeros, out=out)
    np.add(out, 0.0, out)  # -0 becomes +0 whichever operand a tie gave


class _Builder:
    """Values 0 .. E-1 are the externals; every other value is the target of one call."""

    def __init__(self, inputs: Sequence[Operand], dims: Dims) -> None:
        self.inputs = inputs
        self.values = [
            Value(x.dtype.numpy, FULL if _covers(x, dims) else n) for n, x in enumerate(inputs)
        ]
        self.calls: list[PlannedCall] = []
        self.converted: dict[tuple[int, DType], int] = {}
        self.copies: dict[int, int] = {}
        self.zeros: dict[DType, int] = {}

    def call(
        self, function: Callable[..., Any], sources: Sequence[int], dtype: DType, extents_of: int
    ) -> int:
        self.values.append(Value(dtype.numpy, extents_of))
        target = len(self.values) - 1
        self.calls.append(PlannedCall(function, tuple(sources), target))
        return target

    def held(self, value: int, have: DType, want: DType) -> int:
        """Return `value` of dtype `have`, converted to `want`, as its compute dtype."""
        computed = compute_dtype(want)
        if self.values[value].dtype == computed.numpy and (have is want or want is computed):
            return value
        key = (value, want)
        if key not in self.converted:
            narrow = want is not computed and have is not want and have is not bool_
            space = self.values[value].extents_of
            source = self.call(convert, (value,), want, space) if narrow else value
            self.converted[key] = self.call(convert, (source,), computed, space)
        return self.converted[key]

    def forward(self, value: int) -> int:
        """Return a value without negative strides: NumPy's vector loops do not take them.

        The loops that it takes instead differ in the last bit; values may not depend on layout.
        """
        if value >= len(self.inputs) or not _runs_backwards(self.inputs[value]):
            return value
        if value not in self.copies:
            space = self.values[value].extents_of
            self.copies[value] = self.call(convert, (value,), self.inputs[value].dtype, space)
        return self.copies[value]

    def zero_block(self, dtype: DType) -> int:
        """Return a value of zeros: NumPy's maximum takes twice as long with a single number."""
        if dtype not in self.zeros:
            self.values.append(Value(dtype.numpy, FULL))
            self.zeros[dtype] = len(self.values) - 1
        return self.zeros[dtype]

    def rounded(self, value: int, dtype: DType) -> int:
        """Return a value held as f32, rounded to the f16 or bf16 `dtype`."""
        narrow = self.call(convert, (value,), dtype, FULL)
        return self.call(convert, (narrow,), compute_dtype(dtype), FULL)

    def micro(self, micro: Micro, sources: Sequence[int], typed: Sequence[Any]) -> int:
        """Add one op; return the value that holds its result."""
        name, dtype = micro.op.name, micro.dtype
        computed = compute_dtype(dtype)
        is_identity = name in _IDENTITY and typed[0].dtype is dtype and not dtype.is_complex
        if name in ("cast", "copy") or is_identity:
            return self.held(sources[0], typed[0].dtype, dtype)
        wanted = operand_dtypes(micro.op, typed, micro.params)
        operands = [
            self.held(value, operand.dtype, want)
            for value, operand, want in zip(sources, typed, wanted, strict=True)
        ]
        is_complex = wanted[-1].is_complex  # whose products have such loops too
        if micro.op.operand_rule is floating or name == "pow" or is_complex:
            operands = [self.forward(value) for value in operands]
        function = function_for(name, compute_dtype(wanted[-1]))
        if name == "relu" and computed.is_float:
            function = relu_beside
            operands.append(self.zero_block(computed))
        value = self.call(function, operands, computed, FULL)
        if computed is not dtype and name not in _EXACT:
            value = self.rounded(value, dtype)
        return value


def _covers(operand: Operand, dims: Dims) -> bool:
    """Return whether an operand has an element of its own for every element of the space."""
    return operand.dims == dims and not any(
        s == 0 and d != 1 for d, s in zip(dims, operand.strides, strict=True)
    )


def _runs_backwards(operand: Operand) -> bool:
    return any(s < 0 and d > 1 for d, s in zip(operand.dims, operand.strides, strict=True))


def build_program(
    chain: Sequence[Micro], inputs: Sequence[Operand], out: DType | None
) -> MicroProgram:
    """Return the program of elementwise ops.

    Args:
        chain: the ops in order; may be empty where a reduction follows.
        inputs: the external operands.
        out: dtype of the array that takes the last value; None to leave that value, in its
            compute dtype, in the program's `result` register (external 0 for an empty chain).
    """
    builder = _Builder(inputs, chain[-1].dims if chain else inputs[0].dims)
    made: list[int] = []
    for micro in chain:
        typed = [inputs[s] if s >= 0 else chain[~s] for s in micro.sources]
        sources = [s if s >= 0 else made[~s] for s in micro.sources]
        made.append(builder.micro(micro, sources, typed))
    if out is None:
        last = made[-1] if made else builder.held(0, inputs[0].dtype, inputs[0].dtype)
    else:
        last = _deliver(builder, made[-1], out)
    return give_slots(
        len(inputs),
        builder.values,
        builder.calls,
        tuple(builder.zeros.values()),
        last,
        into_out=out is not None,
    )


def _deliver(builder: _Builder, value: int, out: DType) -> int:
    """Return the value to store, written by the last call itself wherever it can."""
    calls, values = builder.calls, builder.values
    if calls and calls[-1].target == value and calls[-1].function is convert:
        source = calls[-1].sources[0]
        if values[source].dtype == out.numpy != values[value].dtype:
            calls.pop()  # 16 bits that were widened: store the 16 bits
            value = source
    if calls and calls[-1].target == value and values[value] == (out.numpy, FULL):
        return value
    return builder.call(convert, (value,), out, FULL)
