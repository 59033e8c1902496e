"""The pass `verify`: a graph is what its ops' rules say, before anything is decided."""

from __future__ import annotations

from softcuda.errors import ArgumentError, ShapeError
from softcuda.graph.lines import Graph
from softcuda.graph.op import Kind
from softcuda.graph.shapes import MAX_RANK

__all__ = ["verify"]


def verify(graph: Graph) -> Graph:
    """Return the graph unchanged once every line agrees with its op's rules.

    Raises:
        ShapeError, DTypeError, AxisError: a line breaks its op's rule.
        ArgumentError: no outputs, an unsorted line, or an update that does not fit its variable.
    """
    if not graph.roots:
        raise ArgumentError("compile: there is nothing to compute; give at least one output")
    lines = graph.lines
    for number, line in enumerate(lines):
        op = line.op
        if op.kind is Kind.LEAF:
            continue
        for source in line.inputs:
            if not 0 <= source < number:
                raise ArgumentError(
                    f"verify: line %{number} ({op.name}) reads %{source}, which does not come "
                    f"before it; allowed are %0 to %{number - 1}"
                )
        if op.arity >= 0 and len(line.inputs) != op.arity:
            raise ArgumentError(
                f"{op.name}: {len(line.inputs)} operands given, {op.arity} expected"
            )
        operands = [lines[source] for source in line.inputs]
        dims = op.shape_rule(operands, line.params)
        dtype = op.dtype_rule(operands, line.params)
        if dims != line.dims or dtype is not line.dtype:
            raise ShapeError(
                f"{op.name}: line %{number} claims {list(line.dims)} {line.dtype}, its rule gives "
                f"{list(dims)} {dtype}; both must agree"
            )
        if len(dims) > MAX_RANK:
            raise ShapeError(
                f"{op.name}: the result has rank {len(dims)}; {MAX_RANK} is the largest allowed"
            )
    _verify_updates(graph)
    return graph


def _verify_updates(graph: Graph) -> None:
    seen: set[int] = set()
    for variable, source in graph.updates:
        old, new = graph.lines[variable], graph.lines[source]
        if old.op.name != "variable":
            raise ArgumentError(
                f"updates: the key is a tensor made by {old.op.name!r}; only variables, made by "
                "softcuda.variable, can be updated"
            )
        if variable in seen:
            raise ArgumentError("updates: a variable is named twice; each may be named once")
        seen.add(variable)
        if old.dims != new.dims or old.dtype is not new.dtype:
            raise ShapeError(
                f"updates: the variable is {list(old.dims)} {old.dtype} and its new value "
                f"{list(new.dims)} {new.dtype}; both must be equal; reshape or cast the new value"
            )
