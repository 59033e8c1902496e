"""The graph as text: numbered lines, each an op over earlier lines. Frozen, hashable, printable.

Every pass of the compiler reads one Graph and returns another; a Graph knows nothing of the
nodes it was traced from, so equal structures are equal Graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from softcuda.dtype import DType, rank_of
from softcuda.graph.op import Kind, Op, Typed
from softcuda.graph.params import Dims, Params
from softcuda.graph.shapes import numel

__all__ = [
    "Graph",
    "GraphBuilder",
    "LeafLayout",
    "Line",
    "operand_dtypes",
    "row_dtype",
    "row_size",
]


class LeafLayout(NamedTuple):
    """Params of a leaf line: its place among the leaves, its strides [elements], its device."""

    position: int
    strides: Dims
    device: str = "cpu"


class Line(NamedTuple):
    """One value: `inputs` are the numbers of earlier lines."""

    op: Op
    inputs: tuple[int, ...]
    dims: Dims
    dtype: DType
    params: Params

    @property
    def nbytes(self) -> int:
        """Bytes of the value, stored densely."""
        return numel(self.dims) * self.dtype.itemsize

    def over(self, inputs: tuple[int, ...]) -> Line:
        """Return the same op over other lines."""
        if inputs == self.inputs:
            return self
        return Line(self.op, inputs, self.dims, self.dtype, self.params)


class Graph(NamedTuple):
    """A whole computation.

    Attributes:
        lines: every value, inputs before users.
        outputs: the lines that are asked for, in order; a line may be asked for twice.
        updates: pairs (line of the variable, line of its new value).
    """

    lines: tuple[Line, ...]
    outputs: tuple[int, ...]
    updates: tuple[tuple[int, int], ...] = ()

    @property
    def roots(self) -> tuple[int, ...]:
        """The lines that must be computed: outputs, then new values of variables."""
        return self.outputs + tuple(source for _, source in self.updates)

    def users(self) -> list[list[int]]:
        """Return for each line the numbers of the lines that read it, once a read."""
        found: list[list[int]] = [[] for _ in self.lines]
        for number, line in enumerate(self.lines):
            for source in line.inputs:
                found[source].append(number)
        return found

    def __str__(self) -> str:
        rows = []
        for number, line in enumerate(self.lines):
            inputs = ", ".join(f"%{i}" for i in line.inputs)
            params = f" {line.params}" if line.params else ""
            dims = "x".join(map(str, line.dims)) or "()"
            rows.append(f"%{number} = {line.op.name}({inputs}){params} : {dims} {line.dtype}")
        rows.append(f"outputs {list(self.outputs)} updates {list(self.updates)}")
        return "\n".join(rows)


class GraphBuilder:
    """A growing list of lines; passes build their result with it."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def add(self, op: Op, inputs: tuple[int, ...], params: Params = ()) -> int:
        """Append the line of `op` over earlier lines, by the op's rules; return its number."""
        lines = self.lines
        operands = [lines[i] for i in inputs]
        dims = op.shape_rule(operands, params)
        lines.append(Line(op, inputs, dims, op.dtype_rule(operands, params), params))
        return len(lines) - 1

    def append(self, line: Line) -> int:
        """Append a finished line; return its number."""
        self.lines.append(line)
        return len(self.lines) - 1

    def finish(self, outputs: Sequence[int], updates: Sequence[tuple[int, int]]) -> Graph:
        """Return the frozen graph."""
        return Graph(tuple(self.lines), tuple(outputs), tuple(updates))


def row_size(line: Line, operands: Sequence[Line]) -> int:
    """Return the size by which a profile's rows are looked up (DESIGN section 4).

    matmul: the floor of the cube root of batch*m*n*k. Reductions, scans and composites: elements
    of the input. Creation, random, concat, stack, pad, gather, take: of the result. index_add and
    scatter_add: of the result or of the values, whichever are more. All others: of the result,
    which is the broadcast of the inputs.
    """
    kind = line.op.kind
    if kind is Kind.CONTRACTION:
        extents: dict[int, int] = {}
        for operand, labels in zip(operands, (line.params.a, line.params.b), strict=True):
            for label, extent in zip(labels, operand.dims, strict=True):
                extents[label] = max(extents.get(label, extent), extent) if extent else 0
        return _cube_root(numel(tuple(extents.values())))
    if kind in (Kind.REDUCTION, Kind.SCAN, Kind.COMPOSITE):
        return numel(operands[0].dims)
    if line.op.name in ("index_add", "scatter_add"):
        return max(numel(line.dims), numel(operands[2].dims))
    return numel(line.dims)


def _cube_root(value: int) -> int:
    low = round(value ** (1 / 3)) if value < 1 << 900 else 1 << (value.bit_length() // 3)
    while low**3 > value:
        low -= 1
    while (low + 1) ** 3 <= value:
        low += 1
    return low


def row_dtype(line: Line, operands: Sequence[Line]) -> DType:
    """Return the dtype by which a profile's rows are looked up: the widest input's.

    A cast counts its result too; an op without inputs counts its result; indices and the
    condition of where never widen a row.
    """
    kind = line.op.kind
    if kind in (Kind.CREATION, Kind.RANDOM) or not operands:
        return line.dtype
    skipped = 1 if line.op.has_indices else -1
    candidates = [operand.dtype for place, operand in enumerate(operands) if place != skipped]
    if line.op.name == "cast":
        candidates.append(line.dtype)
    return max(candidates, key=rank_of)


def operand_dtypes(op: Op, operands: Sequence[Typed], params: Params) -> tuple[DType, ...]:
    """Return the dtype that each operand is converted to when an op loads it.

    f16 and bf16 are then computed in f32 (softcuda.dtype.compute_dtype) and rounded once.
    """
    if op.operand_rule is None or op.name == "cast":
        return tuple(operand.dtype for operand in operands)
    dtype = op.operand_rule(operands, params)
    if op.name == "where":
        return (operands[0].dtype, dtype, dtype)
    if op.has_indices:
        return (dtype, operands[1].dtype, dtype)
    return (dtype,) * len(operands)
