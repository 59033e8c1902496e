"""Descriptors: extents, strides and dtype of a tensor, and the labels and function of an operand.

A descriptor says what a plan will be given; it holds no values.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final

from softcuda.contraction.axes import contiguous_strides
from softcuda.dtype import DType, as_dtype
from softcuda.errors import ArgumentError, ArgumentTypeError, ShapeError
from softcuda.functions.leaves import asarray
from softcuda.graph.params import Dims
from softcuda.graph.shapes import check_dims, numel
from softcuda.named.operators import UnaryOp
from softcuda.tensor.shapes import whole_numbers

__all__ = ["Mode", "Modes", "OperandDescriptor", "TensorDescriptor", "checked_modes"]

Mode = int
"""A label of an axis: an int. Letters, or any other hashable objects, do as well."""

Modes = Sequence[Hashable]


# An element takes at most 16 bytes, and 64 bits hold an offset in bytes.
_STRIDE_LIMIT: Final = 1 << 59


@dataclass(frozen=True, slots=True)
class TensorDescriptor:
    """Where the elements of a tensor lie.

    Attributes:
        extents: of each axis.
        strides: of each axis [elements]; zero and negative ones are allowed.
        dtype: of the elements.

    Raises:
        ShapeError: another number of strides than extents, or ones that no tensor has.
        ArgumentTypeError: extents or strides that are no integers.
        DTypeError: `dtype` names no dtype.
    """

    extents: Dims
    strides: Dims
    dtype: DType

    def __post_init__(self) -> None:
        """Bring the fields into their own types."""
        extents = check_dims("TensorDescriptor", self.extents)
        strides = whole_numbers("TensorDescriptor", "strides", self.strides)
        if len(extents) != len(strides):
            raise ShapeError(
                f"TensorDescriptor: {len(extents)} extents {list(extents)} and {len(strides)} "
                f"strides {list(strides)}; allowed is one stride an extent"
            )
        if any(not -_STRIDE_LIMIT <= stride < _STRIDE_LIMIT for stride in strides):
            raise ShapeError(
                f"TensorDescriptor: the strides {list(strides)} pass 2^59 elements; allowed are "
                "those of tensors, from -2^59 to below 2^59"
            )
        object.__setattr__(self, "extents", extents)
        object.__setattr__(self, "strides", strides)
        object.__setattr__(self, "dtype", as_dtype(self.dtype))

    @classmethod
    def contiguous(cls, extents: int | Sequence[int], dtype: DType | Any) -> TensorDescriptor:
        """Return the descriptor of a dense row-major tensor.

        Raises:
            ShapeError, ArgumentTypeError, DTypeError: extents or a dtype that no tensor has.
        """
        dims = check_dims("TensorDescriptor", extents)
        return cls(dims, contiguous_strides(dims), dtype)

    @classmethod
    def from_tensor(cls, tensor: Any) -> TensorDescriptor:
        """Return the descriptor of a tensor, or of an array.

        Where a tensor has no value yet, it is that of the value to come, which is dense.

        Raises:
            DTypeError, ShapeError, ArgumentTypeError: a value that cannot be a tensor.
        """
        node = asarray(tensor)
        if node.data is None:
            return cls.contiguous(node.dims, node.dtype)
        return cls(node.dims, node.stride, node.dtype)

    @property
    def canonical_strides(self) -> Dims:
        """Strides [elements] in which those that do not count are row-major ones."""
        dense = contiguous_strides(self.extents)
        if not numel(self.extents):
            return dense
        triples = zip(self.extents, self.strides, dense, strict=True)
        return tuple(d if extent == 1 else s for extent, s, d in triples)

    def __str__(self) -> str:
        strides = (
            ""
            if self.canonical_strides == contiguous_strides(self.extents)
            else (f" strides {list(self.strides)}")
        )
        return f"{list(self.extents)} {self.dtype}{strides}"


@dataclass(frozen=True, slots=True)
class OperandDescriptor:
    """An operand: where it lies, a label an axis, a function of its elements.

    Attributes:
        tensor_descriptor: extents, strides, dtype.
        modes: labels, one an axis; a repeated one walks the diagonal.
        unary: what is applied to every element.

    Raises:
        ShapeError: another number of labels than axes.
        ArgumentTypeError: a field of another type.
    """

    tensor_descriptor: TensorDescriptor
    modes: tuple[Hashable, ...]
    unary: UnaryOp = UnaryOp.Identity

    def __post_init__(self) -> None:
        """Bring the labels into a tuple."""
        if not isinstance(self.tensor_descriptor, TensorDescriptor):
            raise ArgumentTypeError(
                f"OperandDescriptor: {self.tensor_descriptor!r} is no TensorDescriptor; use "
                "OperandDescriptor.from_tensor for a tensor"
            )
        if not isinstance(self.unary, UnaryOp):
            raise ArgumentTypeError(
                f"OperandDescriptor: unary is {self.unary!r}; allowed are members of UnaryOp"
            )
        modes = checked_modes("OperandDescriptor", self.modes)
        rank = len(self.tensor_descriptor.extents)
        if len(modes) != rank:
            raise ShapeError(
                f"descriptor error: {len(modes)} labels {list(modes)} for a tensor of rank {rank}, "
                f"shape {list(self.tensor_descriptor.extents)}; allowed is one label an axis"
            )
        object.__setattr__(self, "modes", modes)

    @classmethod
    def from_tensor(cls, tensor: Any, modes: Modes) -> OperandDescriptor:
        """Return the descriptor of a tensor, or of an array, with these labels.

        Raises:
            ShapeError, DTypeError, ArgumentTypeError: as the two descriptors.
        """
        return cls(TensorDescriptor.from_tensor(tensor), checked_modes("OperandDescriptor", modes))

    def with_unary(self, op: UnaryOp) -> OperandDescriptor:
        """Return the operand with a function of its elements.

        Raises:
            ArgumentTypeError: `op` is no UnaryOp.
        """
        return replace(self, unary=op)


def checked_modes(what: str, modes: Modes) -> tuple[Hashable, ...]:
    """Return labels as a tuple; white space in a string is ignored, as in expressions.

    Raises:
        ArgumentTypeError: they are no sequence of hashable objects.
        ArgumentError: an ellipsis stands among them.
    """
    try:
        if isinstance(modes, (Set, Mapping)):
            raise TypeError  # which has no order
        labels = tuple("".join(modes.split()) if isinstance(modes, str) else modes)
        hash(labels)
    except TypeError:
        raise ArgumentTypeError(
            f"{what}: the labels are {modes!r}; allowed is a sequence of ints, or a string of "
            "letters"
        ) from None
    if ... in labels:
        raise ArgumentError(
            f"{what}: the labels {modes!r} hold an ellipsis; allowed is one label an axis; use "
            "einsum for an ellipsis"
        )
    return labels
