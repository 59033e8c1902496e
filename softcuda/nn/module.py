"""Modules: what holds variables under names, and saves and loads them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from softcuda.dtype import dtype_of_array
from softcuda.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from softcuda.executor.variables import VARIABLE_LOCKS
from softcuda.graph.node import amend
from softcuda.graph.op import OPS
from softcuda.interrupts import Uninterrupted
from softcuda.nn.tensor_files import load_tensors, save_tensors
from softcuda.tensor import Tensor

__all__ = ["Module"]

_VARIABLE: Final = OPS["variable"]


class Module:
    """A part of a model: its attributes are variables, other modules, and lists and dicts of them.

    A subclass sets them in `__init__` and defines `forward(x, *, is_training=False)`, which makes
    the output of its tensors; `is_training` says whether what acts in training alone, dropout say,
    is to be in the graph.
    """

    forward: Callable[..., Any]

    def __call__(self, *inputs: Any, is_training: bool = False) -> Any:
        """Return what `forward` makes of tensors; nothing is computed."""
        return self.forward(*inputs, is_training=is_training)

    def state(self) -> dict[str, Tensor]:
        """Return all variables by name, in the order of attributes: "layers.0.weight".

        A variable that has several places, a tied weight say, is there under each of their names.

        Raises:
            ArgumentError: two variables have one name, or a module holds itself.
        """
        found: dict[str, Tensor] = {}
        for name, variable in _variables("", self, ()):
            if found.setdefault(name, variable) is not variable:
                raise ArgumentError(
                    f"state: two variables have the name {name!r}; the names of attributes and "
                    "keys on the way to a variable, joined by dots, must tell it apart; rename one"
                )
        return found

    def parameters(self) -> dict[str, Tensor]:
        """Return the variables that are trained, by name: those with requires_grad=True.

        Each is there once, a tied one under the first of its names.

        Raises:
            ArgumentError: as `state`.
        """
        return {name: x for name, x in _once(self.state()).items() if x.requires_grad}

    def name_variables(self, prefix: str = "") -> None:
        """Give each variable that has no name its name in `state()`, behind a prefix.

        It is called before an optimiser is made, which then names what it remembers too, and
        before a graph is compiled: tables, and the leaves of a loaded executable, tell them apart
        by these names. The variables of one graph need different ones.

        Args:
            prefix: what all of the names begin with, "generator." say.

        Raises:
            ArgumentTypeError: the prefix is no text.
            ArgumentError: as `state`.
        """
        if not isinstance(prefix, str):
            raise ArgumentTypeError(f"name_variables: the prefix is {prefix!r}; allowed is text")
        for name, variable in self.state().items():
            if variable.name is None:
                amend(variable, "name", prefix + name)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all variables, as they are now on their devices, to a file of safetensors.

        The file is written beside and renamed: it is the old one or the new one, never a part.
        The values are those of one moment: no run of another thread comes between.

        Args:
            path: the file; a symbolic link is followed.

        Raises:
            OSError: it cannot be written.
            ArgumentError: as `state`.
        """
        save_tensors(path, self.state())

    def load(self, path: str | os.PathLike[str]) -> None:
        """Assign all variables from a file of safetensors; an error changes none.

        Args:
            path: a file with the names, shapes and dtypes of `state()`, no more and no less.

        Raises:
            ArgumentError: the file is no whole file of safetensors, has other names, or two values
                for one variable; as `state`.
            ShapeError: a tensor has another shape than its variable.
            DTypeError: a tensor has another dtype than its variable.
            OSError: it cannot be read.
        """
        state, found = self.state(), load_tensors(path)
        _check_names(path, state, found)
        for name, variable in state.items():
            array = found[name]
            if array.shape != variable.dims:
                raise ShapeError(
                    f"load: {os.fspath(path)}: {name} has shape {list(array.shape)} and the "
                    f"module's {list(variable.dims)}; both must be equal"
                )
            if dtype_of_array(array.dtype) is not variable.dtype:
                raise DTypeError(
                    f"load: {os.fspath(path)}: {name} has dtype {dtype_of_array(array.dtype)} and "
                    f"the module's {variable.dtype}; both must be equal"
                )
        _check_tied(path, state, found)
        with VARIABLE_LOCKS.held([x.data for x in state.values()]), Uninterrupted():
            for name, variable in _once(state).items():
                variable.assign(found[name])


def _check_names(
    path: str | os.PathLike[str], state: Mapping[str, Any], found: Mapping[str, Any]
) -> None:
    absent, foreign = sorted(state.keys() - found), sorted(found.keys() - state)
    if absent or foreign:
        raise ArgumentError(
            f"load: {os.fspath(path)} lacks {', '.join(absent) or 'nothing'} and has, beside the "
            f"module's, {', '.join(foreign) or 'nothing'}; allowed are the names of state()"
        )


def _check_tied(
    path: str | os.PathLike[str], state: Mapping[str, Tensor], found: Mapping[str, Any]
) -> None:
    firsts = {id(variable): name for name, variable in _once(state).items()}
    for name, variable in state.items():
        first = firsts[id(variable)]
        if found[name].tobytes() != found[first].tobytes():
            raise ArgumentError(
                f"load: {os.fspath(path)}: {first} and {name} have different values and are one "
                "variable of the module; both must be equal"
            )


def _once(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return each variable under the first of its names."""
    known: set[int] = set()
    firsts: dict[str, Tensor] = {}
    for name, variable in state.items():
        if id(variable) not in known:
            known.add(id(variable))
            firsts[name] = variable
    return firsts


def _variables(name: str, part: Any, around: tuple[Any, ...]) -> Iterator[tuple[str, Tensor]]:
    """Yield the variables of a part of a module, with the path of each.

    Args:
        name: the path of the part.
        part: a module, a mapping, a list, a variable, or anything else.
        around: the parts that it lies in.
    """
    if isinstance(part, Tensor):
        if part.op is _VARIABLE:
            yield name, part
        return
    inside = _parts(part)
    if inside is None:
        return
    if any(part is other for other in around):
        raise ArgumentError(
            f"state: {name} is the {type(part).__name__} that it lies in; a module cannot hold "
            "itself; keep it where no attribute, list or dict of the module leads to it"
        )
    for key, each in inside.items():
        yield from _variables(f"{name}.{key}" if around else str(key), each, (*around, part))


def _parts(part: Any) -> Mapping[Any, Any] | None:
    """Return what a part of a module holds, by name; None where it holds nothing."""
    if isinstance(part, Module):
        return vars(part)
    if isinstance(part, Mapping):
        return part
    return dict(enumerate(part)) if isinstance(part, (list, tuple)) else None
