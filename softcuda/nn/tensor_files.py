"""Tensors in a file: the format of safetensors, written and read without executing anything.

A file is the length of its header [8 bytes, little endian], the header in JSON (name -> dtype,
shape, begin and end of its bytes, and `__metadata__`), then the bytes, row-major, without gaps.

Source: https://github.com/huggingface/safetensors, the section "Format".
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from softcuda.dtype import REAL_DTYPES, DType, dtype_of_array
from softcuda.errors import ArgumentError, ArgumentTypeError, DTypeError
from softcuda.executor.saved.archive import json_value
from softcuda.executor.variables import VARIABLE_LOCKS
from softcuda.functions import evaluate
from softcuda.functions.operands import TensorLike, as_tensor
from softcuda.graph.op import OPS
from softcuda.graph.shapes import MAX_RANK
from softcuda.tensor import Tensor
from softcuda.whole_files import path_text, whole_file

__all__ = ["load_tensors", "save_tensors"]

Array = np.ndarray[Any, Any]

_NAMES: Final[dict[str, DType]] = {name.upper(): dtype for name, dtype in REAL_DTYPES.items()}
_NAME_OF: Final = {dtype: name for name, dtype in _NAMES.items()}
_VARIABLE: Final = OPS["variable"]
_METADATA: Final = "__metadata__"
_LENGTH_BYTES: Final = 8
_HEADER_LIMIT: Final = 100_000_000  # what readers of the format accept [bytes]


def save_tensors(path: str | os.PathLike[str], tensors: Mapping[str, TensorLike]) -> None:
    """Write tensors to a file of safetensors; those on a device are fetched.

    It is written beside and renamed: the file is the old one or the new one, never a part. All
    values are those of one moment: no run of another thread changes variables between them.

    Args:
        path: the file; a symbolic link is followed.
        tensors: by name, any shapes, any dtypes.

    Raises:
        OSError: it cannot be written.
        ArgumentTypeError: `tensors` is no mapping, a name no text, or the path no path.
        ArgumentError: a name is one that a file cannot hold.
        DTypeError, ShapeError, ArgumentTypeError: a value cannot be a tensor, or is complex.
        FeedError: a value depends on an input, which has none.
    """
    header: dict[str, Any] = {}
    named, arrays = path_text("save_tensors", path), _values(tensors)
    at = 0
    for name, array in arrays.items():
        span = [at, at + array.nbytes]
        header[name] = {
            "dtype": _NAME_OF[dtype_of_array(array.dtype)],
            "shape": list(array.shape),
            "data_offsets": span,
        }
        at = span[1]
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _LENGTH_BYTES)
    with whole_file(named) as file:
        file.write(len(text).to_bytes(_LENGTH_BYTES, "little"))
        file.write(text)
        for array in arrays.values():
            file.write(array.tobytes())


def _values(tensors: Mapping[str, TensorLike]) -> dict[str, Array]:
    """Return the values of tensors at one moment, [their shapes], by name."""
    if not isinstance(tensors, Mapping):
        raise ArgumentTypeError(
            f"save_tensors: the tensors are of type {type(tensors).__name__}; allowed is a mapping "
            "of names to tensors"
        )
    nodes: dict[str, Tensor] = {}
    for name, value in tensors.items():
        _check_name(name)
        node = as_tensor("save_tensors", value)
        if node.dtype not in _NAME_OF:
            raise DTypeError(
                f"save_tensors: {name} is {node.dtype}; allowed are {', '.join(REAL_DTYPES)}; save "
                "its real and its imag"
            )
        nodes[name] = node
    if any(not node.evaluated for node in nodes.values()):  # one run sees variables as they are
        nodes = {name: x.copy() if x.op is _VARIABLE else x for name, x in nodes.items()}
        evaluate(*nodes.values())
    with VARIABLE_LOCKS.held([x.data for x in nodes.values() if x.op is _VARIABLE]):
        return {name: x.numpy() for name, x in nodes.items()}


def _check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise ArgumentTypeError(
            f"save_tensors: the name {name!r} is of type {type(name).__name__}; allowed is text"
        )
    if name == _METADATA:
        raise ArgumentError(
            f"save_tensors: the name {name!r} is where the format keeps other things; allowed is "
            "any other text"
        )
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise ArgumentError(
            f"save_tensors: the name {name!r} cannot be written in UTF-8 ({error.reason}); allowed "
            "is text without lone surrogates"
        ) from None


def load_tensors(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Return the arrays of a file of safetensors by name.

    Args:
        path: the file.

    Returns:
        name -> array [its shape], of the NumPy dtype of its dtype.

    Raises:
        ArgumentError: the file is shorter or longer than it says, its header is none, or a dtype
            is none of softcuda's.
        ArgumentTypeError: the path is no path.
        OSError: it cannot be read.
    """
    named = path_text("load_tensors", path)
    content = Path(named).read_bytes()
    length = int.from_bytes(content[:_LENGTH_BYTES], "little")
    start = _LENGTH_BYTES + length
    if len(content) < _LENGTH_BYTES or length > min(_HEADER_LIMIT, len(content)):
        raise _foreign(named, f"{len(content)} bytes with a header of {length}")
    try:
        header = json_value(content[_LENGTH_BYTES:start])
        _check_metadata(header.pop(_METADATA, {}))
        entries = {name: _Entry(given) for name, given in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _foreign(named, f"its header cannot be read ({error!r})") from None
    data = memoryview(content)[start:]
    end = 0
    for name, entry in sorted(entries.items(), key=lambda pair: (pair[1].begin, pair[1].end)):
        if entry.begin != end or entry.end - entry.begin != entry.nbytes:
            raise _foreign(
                named,
                f"{name} has bytes {entry.begin} to {entry.end}, not {entry.nbytes} after {end}",
            )
        end = entry.end
    if end != len(data):
        raise _foreign(named, f"{len(data)} bytes of data where its header tells of {end}")
    try:
        return {name: entry.array(data) for name, entry in entries.items()}
    except (ValueError, OverflowError) as error:  # extents beside a zero that no array has
        raise _foreign(named, f"a shape cannot be ({error})") from None


def _check_metadata(found: Any) -> None:
    if not isinstance(found, dict) or not all(isinstance(x, str) for x in found.values()):
        raise ValueError(f"{_METADATA} is {found!r}; allowed are texts by name")


class _Entry:
    """What a header tells of a tensor."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.dtype = _NAMES[given["dtype"]]
        self.shape = tuple(given["shape"])
        self.begin, self.end = given["data_offsets"]
        for number in (*self.shape, self.begin, self.end):
            if type(number) is not int or number < 0:
                raise ValueError(f"{number!r} is no extent and no place")
        if len(self.shape) > MAX_RANK:
            raise ValueError(f"a shape has rank {len(self.shape)}, {MAX_RANK} is the largest")
        self.nbytes = math.prod(self.shape) * self.dtype.itemsize

    def array(self, data: memoryview) -> Array:
        """Return a copy of the tensor's elements."""
        span = data[self.begin : self.end]
        stored = np.dtype(np.uint8) if self.dtype.is_bool else self.dtype.numpy
        flat: Array = np.frombuffer(span, stored).reshape(self.shape)
        return flat.astype(self.dtype.numpy)


def _foreign(path: str, what: str) -> ArgumentError:
    return ArgumentError(
        f"load: {path} is no whole file of safetensors: {what}; it was cut off, "
        "changed, or written in another format"
    )
