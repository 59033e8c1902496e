"""An operand as the result needs it: a dense copy in the dtype of the result."""

from __future__ import annotations

from softcuda.backends.cuda.elementwise import chain_launches
from softcuda.backends.cuda.planned import Launches, redirected
from softcuda.backends.launches import Argument, read
from softcuda.backends.steps import Micro, Operand, Unit
from softcuda.dtype import DType
from softcuda.graph.op import OPS
from softcuda.graph.params import Cast
from softcuda.graph.shapes import contiguous_strides

__all__ = ["dense_operand", "write_operand"]


def dense_operand(operand: Operand, dtype: DType) -> Operand:
    """Return an operand as `write_operand` leaves it: its elements in order, in a dtype."""
    strides = contiguous_strides(operand.dims)
    return operand._replace(offset=0, strides=strides, dtype=dtype)


def write_operand(unit: Unit, number: int, out: Argument) -> Launches:
    """Return what writes an operand densely to `out`, converted to the dtype of the result.

    Args:
        unit: whose operand it is.
        number: of the operand, which has elements.
        out: the pointer to its first element there.
    """
    operand, dtype = unit.operands[number], unit.result.dtype
    name, params = ("copy", ()) if operand.dtype is dtype else ("cast", Cast(dtype))
    micro = Micro(OPS[name], (0,), operand.dims, dtype, params)
    alone = Unit((micro,), (operand,), dense_operand(operand, dtype), unit.lines)
    return redirected(chain_launches(alone)[0], [read(number)], out)
