"""What plans share: an engine, the checks of what it is given, and runs."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, TypeVar

import numpy as np

from softcuda.backends.host.conversion import convert
from softcuda.contraction.path import ContractionPath
from softcuda.executor.on_demand import upload, write_array
from softcuda.graph.node import Node
from softcuda.named.checks import (
    check_apart,
    check_fits,
    checked_array,
    checked_list,
    scalar_array,
    wanted_of,
)
from softcuda.named.engine import Engine
from softcuda.named.operation import OperationDescriptor, check_layout
from softcuda.named.plan_runtime import PlanRuntime
from softcuda.named.targets import own_layout, target_of
from softcuda.tensor import Tensor

__all__ = ["Planned", "of_engine"]

Array = np.ndarray[Any, Any]

_ON_DEVICE: Final = "softcuda.pool.device"
_KEPT_SCALARS: Final = 16  # sets of scalars that a plan on a device keeps there
_NAMES: Final = ("alpha", "beta", "gamma")

P = TypeVar("P", bound="Planned")


class Planned:
    """What plans share: an engine, the checks of what it is given, runs."""

    __slots__ = (
        "__weakref__",
        "_backend_id",
        "_dims",
        "_dtype",
        "_engine",
        "_kept",
        "_layouts",
        "_op",
        "_passing",
        "_runtime",
        "_scalar_dtypes",
        "_wanted",
    )

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        operation, lines = engine.operation, engine.recipe.lines
        on_host = engine.device == "cpu"
        self._wanted = [
            wanted_of(f"input {number}", operand.tensor_descriptor, engine.device)
            for number, operand in enumerate(operation.operands)
        ]
        kind = np.ndarray if on_host else import_module(_ON_DEVICE).DeviceArray
        self._layouts = [(kind, x.shape, x.strides_bytes, x.stored) for x in self._wanted]
        places = engine.recipe.places[len(self._wanted) :]
        self._scalar_dtypes = [lines[place].dtype for place in places]
        # An array is bound or copied for one run; a scalar stays on a device while it is equal.
        count = len(self._wanted)
        self._passing = frozenset(range(count + len(places) if on_host else count))
        self._kept: dict[bytes, list[Any]] = {}
        program = engine.program
        result = program.output_lines[program.outputs[0]]
        self._backend_id = program.choices[result].backend_id
        self._op = program.graph.lines[result].op
        self._dims, self._dtype = operation.out.extents, operation.out.dtype
        self._runtime = engine.runtime

    @property
    def operation(self) -> OperationDescriptor:
        """What the plan computes."""
        return self._engine.operation

    @property
    def device(self) -> str:
        """Where operands and result are: "cpu" or "cuda"."""
        return self._engine.device

    @property
    def path(self) -> ContractionPath | None:
        """The order of the pairs of a contraction; None for other operations."""
        return self._engine.recipe.path

    @property
    def workspace_bytes(self) -> int:
        """Bytes that a run takes beside its operands and its result."""
        return self._engine.workspace_bytes

    def describe(self) -> str:
        """Return what is computed, by which steps, on which backends, with how much memory."""
        return self._engine.describe()

    def __str__(self) -> str:
        return self.describe()

    def __repr__(self) -> str:
        return f"<softcuda.{type(self).__name__} {self.operation.equation} on {self.device}>"

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        operation, recipe, device, program, _ = self._engine
        return _restored, (type(self), operation, recipe, device, program)

    def _checked(self, inputs: Any, scalars: Any) -> list[Any]:
        """Return the arrays of inputs, then of scalars, after every check of them."""
        layouts = self._layouts
        if not isinstance(inputs, (list, tuple)) or len(inputs) != len(layouts):
            checked_list("inputs", inputs, len(layouts))
        if not isinstance(scalars, (list, tuple)) or len(scalars) != len(self._scalar_dtypes):
            checked_list("scalars", scalars, len(self._scalar_dtypes))
        arrays = []
        for value, (kind, shape, strides, stored) in zip(inputs, layouts, strict=True):
            data = value.data if value.__class__ is Tensor else value
            if (
                data.__class__ is kind
                and data.dtype is stored
                and data.shape == shape
                and data.strides == strides
            ):
                arrays.append(data)
            else:
                arrays.append(checked_array(value, self._wanted[len(arrays)]))
        return arrays + self._scalar_arrays(scalars) if self._scalar_dtypes else arrays

    def _scalar_arrays(self, scalars: Sequence[Any]) -> list[Any]:
        made = [
            scalar_array(name, value, dtype)
            for name, value, dtype in zip(_NAMES, scalars, self._scalar_dtypes, strict=False)
        ]
        if self.device == "cpu":
            return made
        key = b"".join(array.tobytes() for array in made)
        known = self._kept.get(key)
        if known is None:
            if len(self._kept) >= _KEPT_SCALARS:
                self._kept.clear()
            known = self._kept[key] = [upload(array) for array in made]
        return known

    def executed(self, inputs: Any, scalars: Any) -> Tensor:
        """Run, and return the result as an evaluated tensor."""
        data = self._runtime.execute(self._checked(inputs, scalars), self._passing)
        made = Node(self._op, (), self._dims, self._dtype, (), data)
        made.backend_id = self._backend_id
        made.__class__ = Tensor  # as in Tensor.apply
        return made  # type: ignore[return-value]

    def executed_into(self, inputs: Any, out: Any, scalars: Any, *, is_free: bool) -> None:
        """Run, and write the result into an array or a variable.

        Args:
            inputs: as in `execute`.
            out: where the result is written.
            scalars: as in `execute`.
            is_free: whether `out` may have any layout and dtype.
        """
        arrays = self._checked(inputs, scalars)
        operation = self._engine.operation
        target = target_of(out)
        described = operation.out
        if is_free:
            described = own_layout(target, described)
        check_fits(target, wanted_of("the output", described, self.device))
        check_layout("Plan", described.extents, described.strides)
        count = len(self._wanted)
        check_apart(target, arrays[:count], count - 1 if operation.has_addend else None)
        data = self._runtime.execute(arrays, self._passing)
        if isinstance(target, np.ndarray):
            with np.errstate(all="ignore"):
                convert(data, target)
        else:
            write_array(target, data)


def of_engine(cls: type[P], engine: Engine) -> P:
    """Return a plan of a class, of an engine that is there already."""
    made = object.__new__(cls)
    Planned.__init__(made, engine)
    return made


def _restored(cls: type[Any], operation: Any, recipe: Any, device: str, program: Any) -> Any:
    return of_engine(cls, Engine(operation, recipe, device, program, PlanRuntime(program)))
