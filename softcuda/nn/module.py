"""Modules: what holds variables under names, and saves and loads them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from softcuda.dtype import dtype_of_array
from softcuda.errors import ArgumentError, DTypeError, ShapeError
from softcuda.graph.op import OPS
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
        """Return all variables by name, in the order of attributes: "layers.0.weight"."""
        return dict(_variables("", vars(self)))

    def parameters(self) -> dict[str, Tensor]:
        """Return the variables that are trained, by name: those with requires_grad=True."""
        return {name: x for name, x in self.state().items() if x.requires_grad}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all variables, as they are now on their devices, to a file of safetensors.

        The file is written beside and renamed: it is the old one or the new one, never a part.

        Args:
            path: the file.

        Raises:
            OSError: it cannot be written.
        """
        save_tensors(path, self.state())

    def load(self, path: str | os.PathLike[str]) -> None:
        """Assign all variables from a file of safetensors; an error changes none.

        Args:
            path: a file with the names, shapes and dtypes of `state()`, no more and no less.

        Raises:
            ArgumentError: the file is no whole file of safetensors, or has other names.
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
        for name, variable in state.items():
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


def _variables(prefix: str, parts: Mapping[Any, Any]) -> Iterator[tuple[str, Tensor]]:
    for key, part in parts.items():
        name = f"{prefix}{key}"
        if isinstance(part, Tensor):
            if part.op is _VARIABLE:
                yield name, part
        elif isinstance(part, Module):
            yield from _variables(f"{name}.", vars(part))
        elif isinstance(part, Mapping):
            yield from _variables(f"{name}.", part)
        elif isinstance(part, (list, tuple)):
            yield from _variables(f"{name}.", dict(enumerate(part)))
