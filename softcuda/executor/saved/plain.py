"""The codecs of plain values: numbers, text, bytes, and what a table holds by name."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, Final, NamedTuple, SupportsIndex

from softcuda.dtype import DTYPES, DType
from softcuda.graph.op import OPS, Op

__all__ = ["PLAIN", "Codec", "Misfit", "named_codec"]

_LIMIT: Final = 1 << 63
_SHOWN: Final = 80


class Misfit(ValueError):
    """A value that the type of its place does not allow.

    Attributes:
        place: field names and numbers, from the outside in.
        found: what stands there.
        allowed: what may.
    """

    def __init__(self, found: object, allowed: str) -> None:
        self.place: list[str] = []
        self.found = repr(found) if len(repr(found)) <= _SHOWN else repr(found)[:_SHOWN] + ".."
        self.allowed = allowed
        super().__init__(allowed)

    def __str__(self) -> str:
        where = ".".join(self.place)
        return f"{where} is {self.found}" if where else f"it is {self.found}"


class Codec(NamedTuple):
    """How a type is written and read; both raise Misfit where a value is none of it."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


def _exact(kind: type, what: str) -> Codec:
    def same(value: Any) -> Any:
        if type(value) is not kind:
            raise Misfit(value, what)
        return value

    return Codec(same, same)


def _encoded_int(value: Any) -> int:
    if not isinstance(value, SupportsIndex):
        raise Misfit(value, "a whole number")
    return _decoded_int(operator.index(value))


def _decoded_int(value: Any) -> int:
    if type(value) is not int or not -_LIMIT <= value < _LIMIT:
        raise Misfit(value, "a whole number of 64 bits")
    return value


def named_codec(table: Mapping[str, Any], what: str) -> Codec:
    """Return the codec of what a table holds by its own name."""

    def encode(value: Any) -> str:
        name = getattr(value, "name", None)
        if not isinstance(name, str) or table.get(name) is not value:
            raise Misfit(value, what)
        return name

    def decode(value: Any) -> Any:
        if not isinstance(value, str) or value not in table:
            raise Misfit(value, f"{what}: {', '.join(sorted(table))}")
        return table[value]

    return Codec(encode, decode)


def _encoded_float(value: Any) -> str:
    if not isinstance(value, float):
        raise Misfit(value, "a floating-point number")
    return repr(float(value))


def _decoded_float(value: Any) -> float:
    try:
        number = float(value) if isinstance(value, str) else None
    except ValueError:
        number = None
    if number is None or repr(number) != value:
        raise Misfit(value, "the text of a floating-point number, as Python writes it")
    return number


def _encoded_bytes(value: Any) -> str:
    if not isinstance(value, bytes):
        raise Misfit(value, "bytes")
    return value.hex()


def _decoded_bytes(value: Any) -> bytes:
    try:
        data = bytes.fromhex(value) if isinstance(value, str) else None
    except ValueError:
        data = None
    if data is None or data.hex() != value:
        raise Misfit(value, "bytes in hexadecimal")
    return data


PLAIN: Final[Mapping[Any, Codec]] = {
    bool: _exact(bool, "true or false"),
    str: _exact(str, "text"),
    int: Codec(_encoded_int, _decoded_int),
    float: Codec(_encoded_float, _decoded_float),
    bytes: Codec(_encoded_bytes, _decoded_bytes),
    NoneType: _exact(NoneType, "null"),
    DType: named_codec(DTYPES, "a dtype"),
    Op: named_codec(OPS, "an op"),
}
