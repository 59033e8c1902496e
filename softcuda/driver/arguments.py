"""The arguments of a kernel in memory, built once and changed in place.

Source: CUDA Driver API, "Execution Control", cuLaunchKernelEx, parameter kernelParams.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import addressof, c_ubyte, c_void_p, memmove, sizeof
from typing import Any, Final, NamedTuple

from softcuda.driver.types import CUtensorMap
from softcuda.errors import ArgumentError, ArgumentTypeError

__all__ = ["ArgBuffer", "ArgField"]

_ALIGNMENT: Final = 64  # bytes; what a tensor map needs, the most of all arguments


class ArgField(NamedTuple):
    """One parameter of a kernel.

    Attributes:
        name: what it is called when it is set or printed.
        type: its ctypes type: `c_uint64` for a pointer, a number, an array or a struct.
    """

    name: str
    type: type[Any]


def _alignment(kind: type[Any]) -> int:
    return _ALIGNMENT if issubclass(kind, CUtensorMap) else ctypes.alignment(kind)


class ArgBuffer:
    """The arguments of one kernel, each at its own place; nothing is allocated after it is made.

    `fields[i].value = number` is the quickest way to change one; `set` also checks.

    Attributes:
        names: of the parameters, in order.
        fields: a ctypes object for each parameter, which lies in the buffer.
        pointers: the addresses of the fields, as kernelParams; None for a kernel without any.
    """

    __slots__ = ("_index", "_storage", "fields", "names", "pointers")

    def __init__(self, fields: Sequence[ArgField | tuple[str, type[Any]]]) -> None:
        """Lay out the parameters; all begin as zeros.

        Args:
            fields: name and type of each parameter, in order.

        Raises:
            ArgumentError: two have the same name.
        """
        self.names = tuple(name for name, _ in fields)
        self._index = {name: number for number, name in enumerate(self.names)}
        if len(self._index) < len(self.names):
            raise ArgumentError(f"kernel parameters {self.names} are not all named differently")
        offsets, end = [], 0
        for _, kind in fields:
            start = -(-end // _alignment(kind)) * _alignment(kind)
            offsets.append(start)
            end = start + sizeof(kind)
        self._storage = (c_ubyte * (end + _ALIGNMENT))()
        first = -addressof(self._storage) % _ALIGNMENT
        self.fields: tuple[Any, ...] = tuple(
            kind.from_buffer(self._storage, first + offset)
            for (_, kind), offset in zip(fields, offsets, strict=True)
        )
        self.pointers = (
            (c_void_p * len(fields))(*map(addressof, self.fields)) if self.fields else None
        )

    def __repr__(self) -> str:
        values = (
            f"{name}={getattr(field, 'value', type(field).__name__)}"
            for name, field in zip(self.names, self.fields, strict=True)
        )
        return f"ArgBuffer({', '.join(values)})"

    def __getitem__(self, name: str) -> Any:
        """Return the ctypes object of a parameter, which lies in the buffer."""
        return self.fields[self.index(name)]

    def index(self, name: str) -> int:
        """Return the position of a parameter.

        Raises:
            ArgumentError: there is none of this name.
        """
        number = self._index.get(name)
        if number is None:
            raise ArgumentError(f"the kernel has no parameter {name!r}; it has {self.names}")
        return number

    def set(self, name: str, value: Any) -> None:
        """Change one argument in place.

        Args:
            name: the parameter.
            value: a number, a sequence of numbers for an array, or an object of the field's type.

        Raises:
            ArgumentError: the number or the sequence does not fit the parameter.
            ArgumentTypeError: the value is of another kind.
        """
        field = self[name]
        kind = type(field)
        if isinstance(value, kind):
            memmove(addressof(field), addressof(value), sizeof(kind))
        elif isinstance(field, ctypes.Array):
            values = list(value)
            if len(values) != len(field):
                raise ArgumentError(f"{name} takes {len(field)} numbers, {len(values)} were given")
            field[:] = values
            if list(field) != values:
                raise ArgumentError(f"{name}: {values} do not fit {kind._type_.__name__}")
        elif hasattr(field, "value"):
            before = field.value
            try:
                field.value = value
            except TypeError as error:
                raise ArgumentTypeError(f"{name} is {kind.__name__}, not {value!r}") from error
            if isinstance(value, int) and field.value != value:
                field.value = before
                raise ArgumentError(f"{name}: {value} does not fit {kind.__name__}")
        else:
            raise ArgumentTypeError(f"{name} is {kind.__name__}, not {type(value).__name__}")
