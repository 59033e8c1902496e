"""One node of the lazy graph, and the two ways to make one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Self, TypeVar

import numpy as np

from softcuda.dtype import DType, dtype_of_array
from softcuda.graph.flow import RECORDING, Flow
from softcuda.graph.op import OPS, Kind, Op
from softcuda.graph.params import Constant, Dims, Params, literal
from softcuda.graph.places import HOST, Device
from softcuda.graph.shapes import contiguous_strides
from softcuda.graph.views import view_strides

__all__ = ["Node", "amend", "ancestors", "become", "on_host", "result"]


_NONE: Final = OPS["none"]
_CONSTANT: Final = OPS["constant"]

N = TypeVar("N", bound="Node")

_FREE: Final = Flow.FREE
_TRACED: Final = Flow.TRACED
_STOPPED: Final = Flow.STOPPED
_LOST: Final = Flow.LOST
_is_recording: Final = RECORDING.get  # one look-up less for every node
_new: Final = object.__new__

_FIELDS: Final = (
    *("backend_id", "data", "dims", "dtype", "flow", "grad"),
    *("inputs", "name", "op", "params"),
)


def on_host(data: Any) -> Any:
    """Return a node's data as a host array, fetched from its device where it is there."""
    return data if data is None or isinstance(data, np.ndarray) else data.host()


def amend(node: Node, field: str, value: Any) -> None:
    """Set a field of a node; a Tensor refuses plain assignment, which is what users write."""
    object.__setattr__(node, field, value)


class Node:
    """One value of the graph: an op over inputs, or a leaf.

    What a node is made of never changes; what is set later, once, is its data. A Tensor is a Node
    with operators, and refuses assignment.

    Attributes:
        op: the row of the op table that made it; `none`, `input`, `variable` and `constant`
            are leaves.
        inputs: all input nodes; empty for leaves, and dropped once the node is evaluated unless
            it has gradient history.
        dims: extents.
        dtype: element type.
        params: what the op carries beside its inputs.
        data: None until evaluated, then the host array.
        name: the name of an input or a variable, else None.
        backend_id: the backend that the last compile froze for it; None before.
        flow: whether gradients flow through it.
        grad: its gradient node, else None.
    """

    __slots__ = ("__weakref__", *_FIELDS)

    op: Op
    inputs: tuple[Self, ...]
    dims: Dims
    dtype: DType
    params: Params
    data: Any
    name: str | None
    backend_id: str | None
    flow: Flow
    grad: Self | None

    def __init__(
        self,
        op: Op,
        inputs: tuple[Self, ...],
        dims: Dims,
        dtype: DType,
        params: Params,
        data: Any = None,
        name: str | None = None,
    ) -> None:
        self.op = op
        self.inputs = inputs
        self.dims = dims
        self.dtype = dtype
        self.params = params
        self.data = data
        self.name = name
        self.backend_id = None
        self.grad = None
        self.flow = _FREE
        if inputs:
            for source in inputs:
                if source.flow is _TRACED and dtype.is_inexact:
                    self.flow = _TRACED
                    break
            if not _is_recording():
                self.flow = _STOPPED

    @classmethod
    def apply(cls, op: Op, inputs: tuple[Self, ...], params: Params = ()) -> Self:
        """Return the node of `op` over `inputs`, its shape and dtype by the op's rules.

        Raises:
            ShapeError, DTypeError, AxisError: a rule refuses the operands.
        """
        return cls(op, inputs, op.shape_rule(inputs, params), op.dtype_rule(inputs, params), params)

    @classmethod
    def leaf(cls, array: Any, op: Op = _NONE, name: str | None = None) -> Self:
        """Return an evaluated leaf that owns `array` (a NumPy array of a softcuda dtype)."""
        return cls(op, (), array.shape, dtype_of_array(array.dtype), (), array, name)

    @classmethod
    def number(cls, value: bool | int | float | complex, dtype: DType) -> Self:
        """Return a number of the graph, rank 0: a constant, part of the structure."""
        return cls(_CONSTANT, (), (), dtype, Constant(literal(value), dtype))

    @property
    def a(self) -> Self | None:
        """The first input, or None."""
        return self.inputs[0] if self.inputs else None

    @property
    def b(self) -> Self | None:
        """The second input, or None."""
        return self.inputs[1] if len(self.inputs) > 1 else None

    @property
    def ndims(self) -> int:
        """The rank."""
        return len(self.dims)

    @property
    def stride(self) -> Dims:
        """Strides in elements: those of the data, of the view, or row-major."""
        data, inputs = self.data, self.inputs
        if data is not None:
            return tuple(s // data.itemsize for s in data.strides)
        if self.op.kind is Kind.VIEW and inputs:
            return _strides_through_views(self)
        return contiguous_strides(self.dims)

    @property
    def evaluated(self) -> bool:
        """True once its value exists."""
        return self.data is not None

    @property
    def device(self) -> Device | None:
        """The device that owns its data; None before it is evaluated."""
        data = self.data
        if data is None:
            return None
        return HOST if isinstance(data, np.ndarray) else Device("cuda", data.ordinal)

    @property
    def is_leaf(self) -> bool:
        """True for a tensor with a value, an input, a variable or a number."""
        return self.data is not None or self.op.kind is Kind.LEAF

    def settle(self, data: Any) -> None:
        """Give the node its value, once; later calls change nothing.

        Without gradient history it drops its inputs then.
        """
        if self.data is not None:
            return
        _set_data(self, data)
        flow = self.flow
        if flow is _TRACED:
            return
        if flow is _FREE and self.dtype.is_inexact:
            for source in self.inputs:
                if source.dtype.is_inexact:
                    _set_flow(self, _LOST)
                    break
        _set_inputs(self, ())


# What `amend` does, in half of the time.
_set_data, _set_flow, _set_inputs = (
    vars(Node)[field].__set__ for field in ("data", "flow", "inputs")
)


def result(
    op: Op, dims: Dims, dtype: DType, data: Any, backend_id: str | None, flow: Flow = Flow.FREE
) -> Node:
    """Return a node that a run gave its value, without inputs, in less time than by its class.

    Args:
        op: what computed it.
        dims: extents.
        dtype: element type.
        data: its value.
        backend_id: the backend that computed it.
        flow: what it knows of gradients.
    """
    made = _new(Node)
    made.op = op
    made.inputs = ()
    made.dims = dims
    made.dtype = dtype
    made.params = ()
    made.data = data
    made.name = None
    made.backend_id = backend_id
    made.grad = None
    made.flow = flow
    return made


def _strides_through_views(node: Node) -> Dims:
    chain = []
    inputs = node.inputs
    while node.data is None and node.op.kind is Kind.VIEW and inputs:
        chain.append(node)
        node = inputs[0]
        inputs = node.inputs
    dims, strides = node.dims, node.stride
    for view in reversed(chain):
        found = view_strides(view.op.name, view.params, dims, strides)
        strides = contiguous_strides(view.dims) if found is None else found.strides
        dims = view.dims
    return strides


def become(cls: type[N], made: Node) -> N:
    """Return a node that was just made as one of another class, without making it again.

    A plain Node takes assignment at full speed and a Tensor refuses it, so a tensor begins as a
    plain node.
    """
    try:
        made.__class__ = cls
    except TypeError:  # the class has fields of its own, so the node must be made anew
        fresh = object.__new__(cls)
        for field in _FIELDS:
            amend(fresh, field, getattr(made, field))
        return fresh
    return made  # type: ignore[return-value]


def ancestors(roots: Sequence[Node]) -> list[Node]:
    """Return every node that `roots` depend on, and them, each once, inputs first.

    An evaluated node comes without what it was computed from. No recursion: chains of any length
    are fine.
    """
    found: list[Node] = []
    seen: set[int] = set()
    for root in roots:
        if id(root) in seen:
            continue
        seen.add(id(root))
        inputs = root.inputs
        stack = [(root, iter(() if root.data is not None else inputs))]
        while stack:
            node, pending = stack[-1]
            for source in pending:
                if id(source) in seen:
                    continue
                seen.add(id(source))
                inputs = source.inputs  # before data: settle() sets data, then drops the inputs
                if inputs and source.data is None:
                    stack.append((source, iter(inputs)))
                    break
                found.append(source)
            else:
                stack.pop()
                found.append(node)
    return found
