"""Names that users try and softcuda does not have: the error says what it is called here."""

from __future__ import annotations

from typing import Any, Final, NoReturn

from softcuda.dtype import DTYPES
from softcuda.graph.node import Node
from softcuda.graph.op import OPS, Kind
from softcuda.tensor.interop import NUMPY_NAMES, PUBLIC_NAMES

__all__ = ["OTHER_NAMES", "OtherNames", "absent_name", "refuse_assignment"]

# What PyTorch, and methods of NumPy's arrays, call functions that softcuda has.
_OTHERS: Final[dict[str, str]] = {
    "bmm": "matmul",
    "cpu": "to",
    "cuda": "to",
    "cat": "concat",
    "clamp": "clip",
    "flatten": "reshape(x, -1)",
    "mm": "matmul",
    "ravel": "reshape(x, -1)",
    "unsqueeze": "expand_dims",
    "view": "reshape",
}

# What is the same as a logical function for bools, and something else for integers.
_OF_BOOLS: Final = frozenset(("bitwise_and", "bitwise_or", "bitwise_xor", "invert"))

# What to write instead of a method, where it is no call of a function.
_PHRASES: Final[dict[str, str]] = {
    "tensor[...]": "index it, as in tensor[1:3]",
    "to": "use tensor.to('cuda') or tensor.to('cpu')",
}

# A name that is no public name -> the public name of the same thing.
OTHER_NAMES: Final[dict[str, str]] = {
    **{op.name: op.public for op in OPS.values() if op.kind is not Kind.LEAF},
    "slice": "tensor[...]",
    **NUMPY_NAMES,
    **_OTHERS,
    **{d.numpy.name: name for name, d in DTYPES.items() if d.numpy.name != name},
    "bool": "bool_",
}
for _name in PUBLIC_NAMES & OTHER_NAMES.keys():
    del OTHER_NAMES[_name]


def absent_name(name: str) -> AttributeError:
    """Return the error of a name that the package does not have."""
    known = OTHER_NAMES.get(name)
    own = f"softcuda.{known}" if known != "tensor[...]" else known
    advice = "" if known is None else f"; it is called {own} here"
    if name in _OF_BOOLS:
        advice = f"; of bools it is {own}; integers have no bitwise functions"
    return AttributeError(f"softcuda has no attribute {name!r}{advice}")


class _Absent:
    """A method that tensors do not have: looked up, it says what to write instead.

    Tensors have no `__getattr__`, which would slow every attribute.
    """

    __slots__ = ("advice", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.advice = OTHER_NAMES.get(name, name)

    def __get__(self, tensor: object, owner: type) -> NoReturn:
        method, _, arguments = self.advice.partition("(x, ")
        if self.advice in _PHRASES:
            use = _PHRASES[self.advice]
        elif any(method in vars(base) and base is not OtherNames for base in owner.__mro__):
            use = f"use tensor.{method}({arguments or '...)'}"
        else:
            use = f"use the function softcuda.{method}(tensor, ...)"
        raise AttributeError(f"a Tensor has no attribute {self.name!r}; {use}")


class OtherNames(Node):
    """A node whose class knows the names of functions that are no methods, and other names."""

    __slots__ = ()


for _name in PUBLIC_NAMES | OTHER_NAMES.keys():
    setattr(OtherNames, _name, _Absent(_name))


def refuse_assignment(tensor: Any, name: str) -> NoReturn:
    """Raise the refusal of an assignment to an attribute of a tensor.

    Raises:
        AttributeError: always.
    """
    if not hasattr(type(tensor), name):
        raise AttributeError(
            f"a Tensor takes no attribute {name!r}: it has fixed ones, and no dictionary; keep "
            "what belongs to it in a dictionary of your own"
        )
    raise AttributeError(
        f"{name} of a Tensor cannot be set or deleted: what a tensor is made of never changes; "
        "make another one with softcuda's functions, or use assign for the value of a variable"
    )
