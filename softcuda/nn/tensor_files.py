"""Tensors in a file: the format of safetensors, written and read without executing anything.

A file is the length of its header [8 bytes, little endian], the header in JSON (name -> dtype,
shape, begin and end of its bytes, and `__metadata__`), then the bytes, row-major, without gaps.

Source: https://github.com/huggingface/safetensors, the section "Format".
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np

from softcuda.dtype import REAL_DTYPES, DType
from softcuda.errors import ArgumentError, DTypeError
from softcuda.functions.operands import TensorLike, as_tensor

__all__ = ["load_tensors", "save_tensors"]

Array = np.ndarray[Any, Any]

_NAMES: Final[dict[str, DType]] = {name.upper(): dtype for name, dtype in REAL_DTYPES.items()}
_NAME_OF: Final = {dtype: name for name, dtype in _NAMES.items()}
_LENGTH_BYTES: Final = 8
_HEADER_LIMIT: Final = 100_000_000  # what readers of the format accept [bytes]


def save_tensors(path: str | os.PathLike[str], tensors: Mapping[str, TensorLike]) -> None:
    """Write tensors to a file of safetensors; those on a device are fetched.

    It is written beside and renamed: the file is the old one or the new one, never a part.

    Args:
        path: the file.
        tensors: by name, any shapes, any dtypes.

    Raises:
        OSError: it cannot be written.
        DTypeError, ShapeError, ArgumentTypeError: a value cannot be a tensor, or is complex.
    """
    header: dict[str, Any] = {}
    arrays = []
    at = 0
    for name, value in tensors.items():
        node = as_tensor("save_tensors", value)
        if node.dtype not in _NAME_OF:
            raise DTypeError(
                f"save_tensors: {name} is {node.dtype}; allowed are {', '.join(REAL_DTYPES)}; save "
                "its real and its imag"
            )
        array = np.ascontiguousarray(node.numpy()).reshape(node.dims)
        span = [at, at + array.nbytes]
        header[name] = {
            "dtype": _NAME_OF[node.dtype],
            "shape": list(node.dims),
            "data_offsets": span,
        }
        arrays.append(array)
        at = span[1]
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _LENGTH_BYTES)
    target = Path(path)
    handle, beside = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(len(text).to_bytes(_LENGTH_BYTES, "little"))
            file.write(text)
            for array in arrays:
                file.write(array.tobytes())
        Path(beside).replace(target)
    except BaseException:
        with suppress(OSError):
            Path(beside).unlink()
        raise


def load_tensors(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Return the arrays of a file of safetensors by name.

    Args:
        path: the file.

    Returns:
        name -> array [its shape], of the NumPy dtype of its dtype.

    Raises:
        ArgumentError: the file is shorter or longer than it says, its header is none, or a dtype
            is none of softcuda's.
        OSError: it cannot be read.
    """
    content = Path(path).read_bytes()
    length = int.from_bytes(content[:_LENGTH_BYTES], "little")
    start = _LENGTH_BYTES + length
    if len(content) < _LENGTH_BYTES or length > min(_HEADER_LIMIT, len(content)):
        raise _foreign(path, f"{len(content)} bytes with a header of {length}")
    try:
        header = json.loads(content[_LENGTH_BYTES:start].decode())
        entries = {name: _Entry(given) for name, given in header.items() if name != "__metadata__"}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _foreign(path, f"its header cannot be read ({error!r})") from None
    data = memoryview(content)[start:]
    end = 0
    for name, entry in sorted(entries.items(), key=lambda pair: (pair[1].begin, pair[1].end)):
        if entry.begin != end or entry.end - entry.begin != entry.nbytes:
            raise _foreign(
                path,
                f"{name} has bytes {entry.begin} to {entry.end}, not {entry.nbytes} after {end}",
            )
        end = entry.end
    if end != len(data):
        raise _foreign(path, f"{len(data)} bytes of data where its header tells of {end}")
    return {name: entry.array(data) for name, entry in entries.items()}


class _Entry:
    """What a header tells of a tensor."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.dtype = _NAMES[given["dtype"]]
        self.shape = tuple(given["shape"])
        self.begin, self.end = given["data_offsets"]
        for number in (*self.shape, self.begin, self.end):
            if type(number) is not int or number < 0:
                raise ValueError(f"{number!r} is no extent and no place")
        self.nbytes = math.prod(self.shape) * self.dtype.itemsize

    def array(self, data: memoryview) -> Array:
        """Return a copy of the tensor's elements."""
        span = data[self.begin : self.end]
        stored = np.dtype(np.uint8) if self.dtype.is_bool else self.dtype.numpy
        flat: Array = np.frombuffer(span, stored).reshape(self.shape)
        return flat.astype(self.dtype.numpy)


def _foreign(path: str | os.PathLike[str], what: str) -> ArgumentError:
    return ArgumentError(
        f"load: {os.fspath(path)} is no whole file of safetensors: {what}; it was cut off, "
        "changed, or written in another format"
    )
