"""Records to JSON and back, by the types of their fields: one rule a type, nothing guessed.

A record (a NamedTuple or a dataclass) is an object with exactly its fields, a tuple is a list, a
dict a list of pairs, an enum its member's name, an op and a dtype their tokens, bytes hexadecimal.
A field of type Any holds params: null for (), else {"Reduce": {...}}, by the table PARAMS. Text of
a number where JSON has none: {"float": "inf"}, {"bytes": "00ff"}.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Final

from softcuda.backends.launches import KernelLaunch
from softcuda.executor.saved.plain import PLAIN, Codec, Misfit, named_codec
from softcuda.graph import params
from softcuda.graph.lines import LeafLayout

__all__ = ["PARAMS", "Coder"]

# What a line or a step carries beside its operands: the records of softcuda.graph.params.
PARAMS: Final[Mapping[str, type]] = {
    kind.__name__: kind
    for kind in (*(getattr(params, name) for name in params.__all__), LeafLayout)
    if isinstance(kind, type) and hasattr(kind, "_fields")
}

# Names that modules import for type checkers alone.
_NAMES: Final = {"KernelLaunch": KernelLaunch}


class Coder:
    """The codecs of types, made when they are first asked for.

    Args:
        special: codecs of types that are written in another way than by their fields.
    """

    def __init__(self, special: Mapping[Any, Codec] | None = None) -> None:
        self._codecs: dict[Any, Codec] = {**PLAIN, **(special or {})}

    def encode(self, kind: Any, value: Any) -> Any:
        """Return a value of a type as JSON has it.

        Raises:
            Misfit: something in it is of a type that has no rule.
        """
        return self.of(kind).encode(value)

    def decode(self, kind: Any, value: Any) -> Any:
        """Return the value of a type that JSON tells.

        Raises:
            Misfit: it tells something else.
        """
        return self.of(kind).decode(value)

    def of(self, kind: Any) -> Codec:
        """Return the codec of a type.

        Raises:
            Misfit: the type has no rule.
        """
        known = self._codecs.get(kind)
        if known is None:
            known = self._codecs[kind] = self._made(kind)
        return known

    def _made(self, kind: Any) -> Codec:
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if kind is Any:
            return self._params()
        if origin is tuple:
            return self._tuple(arguments)
        if origin is dict:
            return self._dict(arguments)
        if origin in (UnionType, typing.Union):
            return self._union(arguments)
        if isinstance(kind, type) and issubclass(kind, Enum):
            return named_codec(kind.__members__, f"a member of {kind.__name__}")
        if hasattr(kind, "_fields") or dataclasses.is_dataclass(kind):
            return self._record(kind)
        raise Misfit(kind, "a type that saved executables have a rule for")

    def _record(self, kind: Any) -> Codec:
        names = getattr(kind, "_fields", None) or tuple(f.name for f in dataclasses.fields(kind))
        hints = typing.get_type_hints(kind, localns=_NAMES)
        codecs = [(name, self.of(hints[name])) for name in names]
        fields = frozenset(names)

        def encode(value: Any) -> dict[str, Any]:
            if type(value) is not kind:
                raise Misfit(value, f"a {kind.__name__}")
            made = {}
            for name, codec in codecs:
                try:
                    made[name] = codec.encode(getattr(value, name))
                except Misfit as error:
                    error.place.insert(0, name)
                    raise
            return made

        def decode(value: Any) -> Any:
            if not isinstance(value, dict) or value.keys() != fields:
                raise Misfit(value, f"a {kind.__name__} with the fields {', '.join(names)}")
            made = []
            for name, codec in codecs:
                try:
                    made.append(codec.decode(value[name]))
                except Misfit as error:
                    error.place.insert(0, name)
                    raise
            return kind(*made)

        return Codec(encode, decode)

    def _tuple(self, arguments: tuple[Any, ...]) -> Codec:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return _list_of(self.of(arguments[0]))
        return _row_of([self.of(argument) for argument in arguments])

    def _dict(self, arguments: tuple[Any, ...]) -> Codec:
        pairs = _list_of(self._tuple(arguments))

        def decode(value: Any) -> dict[Any, Any]:
            found = pairs.decode(value)
            made = dict(found)
            if len(made) < len(found):
                raise Misfit([key for key, _ in found], "pairs of different keys")
            return made

        return Codec(lambda value: pairs.encode(tuple(value.items())), decode)

    def _union(self, arguments: tuple[Any, ...]) -> Codec:
        """Return the codec of a choice of types: one of them bare, null, others by their names."""
        bare, *tagged = (kind for kind in arguments if kind is not NoneType)
        by_name = {kind.__name__: (kind, self.of(kind)) for kind in tagged}
        first = self.of(bare)

        def encode(value: Any) -> Any:
            if value is None and NoneType in arguments:
                return None
            for name, (kind, codec) in by_name.items():
                if isinstance(value, kind):
                    return {name: codec.encode(value)}
            return first.encode(value)

        def decode(value: Any) -> Any:
            if value is None and NoneType in arguments:
                return None
            if by_name and isinstance(value, dict) and len(value) == 1:
                (name,) = value
                if name in by_name:
                    return by_name[name][1].decode(value[name])
            return first.decode(value)

        return Codec(encode, decode)

    def _params(self) -> Codec:
        """Return the codec of what an op carries, () or a record of the table."""

        def encode(value: Any) -> Any:
            name = type(value).__name__
            if type(value) is tuple and not value:
                return None
            if PARAMS.get(name) is not type(value):
                raise Misfit(value, f"(), or one of {', '.join(sorted(PARAMS))}")
            return {name: self.of(type(value)).encode(value)}

        def decode(value: Any) -> Any:
            if value is None:
                return ()
            if not isinstance(value, dict) or len(value) != 1 or next(iter(value)) not in PARAMS:
                raise Misfit(value, f"null, or one of {', '.join(sorted(PARAMS))}")
            ((name, record),) = value.items()
            return _placed(name, self.of(PARAMS[name]).decode, record)

        return Codec(encode, decode)


def _list_of(element: Codec) -> Codec:
    """Return the codec of a tuple of any length."""
    encode, decode = element
    return Codec(
        lambda value: [_placed(k, encode, x) for k, x in enumerate(_sequence(value, tuple))],
        lambda value: tuple([_placed(k, decode, x) for k, x in enumerate(_sequence(value, list))]),
    )


def _row_of(codecs: list[Codec]) -> Codec:
    """Return the codec of a tuple with a type for each place."""
    count = len(codecs)

    def encode(value: Any) -> list[Any]:
        row = _sequence(value, tuple, count)
        return [_placed(k, codecs[k].encode, x) for k, x in enumerate(row)]

    def decode(value: Any) -> tuple[Any, ...]:
        row = _sequence(value, list, count)
        return tuple([_placed(k, codecs[k].decode, x) for k, x in enumerate(row)])

    return Codec(encode, decode)


def _sequence(value: Any, kind: type, count: int | None = None) -> Any:
    if type(value) not in (kind,) or count not in (None, len(value)):
        raise Misfit(value, "a list" if count is None else f"a list of {count}")
    return value


def _placed(place: object, function: Callable[[Any], Any], value: Any) -> Any:
    try:
        return function(value)
    except Misfit as error:
        error.place.insert(0, str(place))
        raise
