"""The user's Tensor: a node of the lazy graph with operators, methods and values."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn, Self

import numpy as np

from softcuda import evaluating
from softcuda.dtype import DType, as_dtype, f64
from softcuda.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    FeedError,
    SoftCudaError,
)
from softcuda.graph.dtype_rules import check_parts
from softcuda.graph.node import Node, become, on_host
from softcuda.graph.op import OPS, Op
from softcuda.graph.params import Dims, Params, Transfer
from softcuda.graph.places import named_device
from softcuda.graph.shapes import numel
from softcuda.pool.buffers import dense_copy
from softcuda.tensor.elementwise import Elementwise
from softcuda.tensor.exchange import Exchange, assign_value, value_now
from softcuda.tensor.gradients import Gradients
from softcuda.tensor.indexing import Indexing
from softcuda.tensor.interop import OPERATOR_OF_UFUNC, is_foreign_scalar, refuse_numpy_function
from softcuda.tensor.names import OtherNames, refuse_assignment
from softcuda.tensor.operators import Operators
from softcuda.tensor.pickling import copied_graph, copied_variable, reduced
from softcuda.tensor.reductions import Reductions
from softcuda.tensor.shapes import Shapes
from softcuda.tensor.values import converted

__all__ = ["Tensor"]

Array = np.ndarray[Any, Any]

_VARIABLE: Final = OPS["variable"]
_INPUT: Final = OPS["input"]
_TRANSFER: Final = OPS["transfer"]


class Tensor(Operators, Elementwise, Reductions, Shapes, Indexing, Exchange, Gradients, OtherNames):
    """One value of a lazy graph: nothing is computed before its value is asked for.

    Made by softcuda.tensor and the other functions, by operators and methods; never changed.
    Its fields are those of softcuda.graph.node.Node. A variable alone has a value that `assign`
    changes. Hashes by identity, since == is elementwise.
    """

    __slots__ = ()

    __array_priority__ = 1000.0

    def __new__(
        cls,
        op: Op,
        inputs: tuple[Any, ...],
        dims: Dims,
        dtype: DType,
        params: Params,
        data: Any = None,
        name: str | None = None,
    ) -> Self:
        return become(cls, Node(op, inputs, dims, dtype, params, data, name))

    def __init__(self, *made: Any) -> None:
        """Do nothing: `__new__` has set every field, as a Node, which refuses no assignment."""

    @classmethod
    def apply(cls, op: Op, inputs: tuple[Any, ...], params: Params = ()) -> Self:
        """Return the tensor of `op` over `inputs`, its shape and dtype by the op's rules.

        Raises:
            ShapeError, DTypeError, AxisError: a rule refuses the operands.
        """
        made = Node(
            op, inputs, op.shape_rule(inputs, params), op.dtype_rule(inputs, params), params
        )
        if cls is not Tensor:
            return become(cls, made)
        made.__class__ = Tensor  # `become`, without its call: every operator comes here
        return made  # type: ignore[return-value]

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        refuse_assignment(self, name)

    def __delattr__(self, name: str) -> NoReturn:
        refuse_assignment(self, name)

    @property
    def ndim(self) -> int:
        """The rank."""
        return len(self.dims)

    @property
    def shape(self) -> Dims:
        """The extents."""
        return self.dims

    @property
    def strides(self) -> Dims:
        """The strides, in elements."""
        return self.stride

    @property
    def size(self) -> int:
        """The number of elements."""
        return numel(self.dims)

    @property
    def nbytes(self) -> int:
        """Bytes of the value, stored densely."""
        return numel(self.dims) * self.dtype.itemsize

    def evaluate(self) -> Self:
        """Compute the value, unless it is there, and return the tensor.

        Raises:
            FeedError: it depends on an input, which has no value of its own.
        """
        if self.data is None:
            if self.op is _INPUT:
                raise FeedError(
                    f"the input {self.name or '(unnamed)'} of shape {list(self.dims)} has no "
                    "value; compile what depends on it and run that with feeds"
                )
            evaluating.evaluate_nodes([self])
        return self

    def numpy(self) -> Array:
        """Return the value as a read-only array, computing it if needed; a variable's is a copy.

        Returns:
            [shape], the NumPy dtype of this dtype; bf16 is ml_dtypes.bfloat16.

        Raises:
            FeedError: it depends on an input, which has no value of its own.
        """
        if self.op is _VARIABLE:
            return value_now(self)
        data: Array = on_host(self.evaluate().data)
        view = data.view()
        view.flags.writeable = False
        return view

    def to(self, device: str) -> Self:
        """Return softcuda.to(self, device).

        Raises:
            ArgumentError: there is no device of this name.
        """
        return self.apply(_TRANSFER, (self,), Transfer(named_device("to", device)))

    def item(self) -> Any:
        """Return the value of a tensor of one element as a Python bool, int, float or complex.

        Raises:
            ArgumentError: it has another number of elements.
        """
        return self._single("item")

    def tolist(self) -> Any:
        """Return the value as nested lists of Python numbers."""
        return self.numpy().tolist()

    def assign(self, value: Any) -> None:
        """Give a variable a new value, on its device; what was evaluated keeps the old one.

        Args:
            value: [shape of the variable], of its dtype; Python numbers and lists of them may
                also be of a lower kind.

        Raises:
            ArgumentTypeError: this tensor is no variable.
            ShapeError: the value has another shape.
            DTypeError: the value has another dtype.
        """
        assign_value(self, value)

    def _single(self, what: str) -> Any:
        if numel(self.dims) != 1:
            raise ArgumentError(
                f"{what}: the tensor has shape {list(self.dims)} with {numel(self.dims)} "
                "elements and only one has a single value; use any, all, or an index"
            )
        return self.numpy().reshape(()).tolist()

    def _real(self, what: str) -> Any:
        check_parts(what, self.dtype, f64)
        return self._single(what)

    def __bool__(self) -> bool:
        return bool(self._single("bool"))

    def __int__(self) -> int:
        return int(self._real("int"))

    def __float__(self) -> float:
        return float(self._real("float"))

    def __complex__(self) -> complex:
        return complex(self._single("complex"))

    def __index__(self) -> int:
        if not self.dtype.is_integer:
            raise DTypeError(
                f"index: the tensor has dtype {self.dtype}; allowed are i32 and i64; cast it first"
            )
        return operator.index(self._single("index"))

    def __len__(self) -> int:
        if not self.dims:
            raise ArgumentTypeError("len: the tensor has rank 0; allowed is rank 1 and above")
        return self.dims[0]

    def __iter__(self) -> Iterator[Self]:
        if not self.dims:
            raise ArgumentTypeError("iter: the tensor has rank 0; allowed is rank 1 and above")
        return (self[i] for i in range(self.dims[0]))

    def __contains__(self, value: Any) -> bool:
        found = self == value
        return bool(found.any()) if isinstance(found, Tensor) else False

    def __repr__(self) -> str:
        about = (
            f"shape={self.dims}, dtype={self.dtype.name}, op={self.op.name}, "
            f"backend_id={self.backend_id}"
        )
        if self.name is not None:
            about = f"{about}, name={self.name!r}"
        if self.data is None:
            return f"Tensor({about})"
        try:
            held = on_host(self.data)
        except SoftCudaError as error:
            return f"Tensor({type(error).__name__}, {about})"
        with np.errstate(all="ignore"):
            values = np.array2string(held, separator=", ", prefix="Tensor(", threshold=1000)
        return f"Tensor({values}, {about})"

    def __format__(self, spec: str) -> str:
        return format(self._single("format"), spec) if spec else str(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        held = self.evaluate().data
        if copy is False and (self.op is _VARIABLE or not isinstance(held, np.ndarray)):
            what = "a variable, which changes" if self.op is _VARIABLE else "a tensor on a device"
            raise ArgumentError(
                f"__array__: an array of {what} is a copy, and copy=False forbids it; allow the "
                "copy, or use np.from_dlpack"
            )
        array = self.numpy()
        if dtype is not None and np.dtype(dtype) != array.dtype:
            if copy is False:
                raise ArgumentError(
                    f"__array__: a {np.dtype(dtype)} array of a {self.dtype} tensor needs a copy, "
                    "and copy=False forbids it; allow the copy, or ask for the tensor's dtype"
                )
            try:
                wanted = as_dtype(dtype)
            except DTypeError:
                with np.errstate(all="ignore"):
                    return array.astype(dtype)
            return converted(array, wanted)
        return dense_copy(array) if copy else array

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        name = OPERATOR_OF_UFUNC.get(ufunc)
        left = inputs[0]
        if method != "__call__" or options or name is None or isinstance(left, Tensor):
            called = method if method != "__call__" else ""
            reason = f" with {', '.join(options)}=" if options else ""
            refuse_numpy_function(ufunc.__name__, f" by .{called}" if called else reason)
        if name in ("__eq__", "__ne__") and is_foreign_scalar(left):
            return name == "__ne__"
        return getattr(self, name)(left)

    def __array_function__(
        self, function: Any, types: Any, arguments: Any, options: Mapping[str, Any]
    ) -> NoReturn:
        refuse_numpy_function(function.__name__, "")

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return reduced(self)

    def __copy__(self) -> Self:
        return copied_variable(self) if self.op is _VARIABLE else self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return copied_graph(self, memo)
