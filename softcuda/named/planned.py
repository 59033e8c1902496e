"""What plans share: an engine, the checks of what it is given, and runs."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, TypeVar

import numpy as np

from softcuda.compiler.program import Program
from softcuda.compiler.settings import Settings
from softcuda.contraction.path import ContractionPath
from softcuda.dtype import DType
from softcuda.errors import ArgumentError
from softcuda.executor.on_demand import upload, write_array
from softcuda.executor.outputs import Slot
from softcuda.executor.runtime import Runtime
from softcuda.executor.variables import VARIABLE_LOCKS
from softcuda.graph.flow import RECORDING, Flow
from softcuda.graph.node import result
from softcuda.graph.op import OPS
from softcuda.named.checks import (
    check_fits,
    check_layout,
    checked_array,
    checked_list,
    scalar_array,
    wanted_of,
)
from softcuda.named.engine import Engine, retyped
from softcuda.named.operation import OperationDescriptor
from softcuda.named.recipe import Recipe
from softcuda.named.targets import check_apart, own_layout, target_of
from softcuda.named.variants import Ready, Variants, ready, varies
from softcuda.tensor import Tensor

__all__ = ["Planned", "of_engine"]

Array = np.ndarray[Any, Any]

_ON_DEVICE: Final = "softcuda.pool.device"
_HOST: Final = np.ndarray
_KEPT_SCALARS: Final = 16  # sets of scalars that a plan on a device keeps there
_KEPT_LAYOUTS: Final = 16  # of outputs that fit, told by class, shape, strides, dtype
_NOTHING: Final = ()  # no scalars, where none were given
_NAMES: Final = ("alpha", "beta", "gamma")
_VARIABLE: Final = OPS["variable"]
_FREE: Final = Flow.FREE
_TRACED: Final = Flow.TRACED

# Arrays of inputs, those among them that variables hold, what the result knows of gradients.
_Operands = tuple[list[Any], list[Any], Flow]

P = TypeVar("P", bound="Planned")


class Planned:
    """What plans share: an engine, the checks of what it is given, runs."""

    __slots__ = (
        "__weakref__",
        "_count",
        "_dims",
        "_dtype",
        "_engine",
        "_fitting",
        "_flow",
        "_kept",
        "_kind",
        "_layouts",
        "_others",
        "_ready",
        "_scalar_dtypes",
        "_variants",
        "_wanted",
    )

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        operation, lines = engine.operation, engine.recipe.lines
        on_host = engine.device == "cpu"
        on_device = None if on_host else import_module(_ON_DEVICE)
        self._wanted = [
            wanted_of(f"input {number}", operand.tensor_descriptor, engine.device)
            for number, operand in enumerate(operation.operands)
        ]
        self._kind: type[Any] = on_device.DeviceArray if on_device else _HOST
        layouts: list[Any] = [(x.shape, x.strides_bytes, x.stored) for x in self._wanted]
        if on_device:
            layouts = [on_device.layout_of(*layout) for layout in layouts]
        self._layouts = list(enumerate(layouts))
        places = engine.recipe.places[len(self._wanted) :]
        self._scalar_dtypes = [lines[place].dtype for place in places]
        self._count = len(self._wanted)
        self._kept: dict[bytes, list[Any]] = {}
        # An array is bound or copied for one run; a scalar stays on a device while it is equal.
        self._ready = ready(engine.runtime, self._count + len(places) * on_host)
        self._variants = Variants(engine) if varies(engine) else None
        self._others: dict[DType, Ready] = {}
        self._fitting: dict[tuple[Any, ...], DType] = {}
        self._dims, self._dtype = operation.out.extents, operation.out.dtype
        self._flow = Flow.LOST if self._dtype.is_inexact else Flow.FREE

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
        operation, recipe, device, program, _, settings = self._engine
        return _restored, (type(self), operation, recipe, device, program, settings)

    def _checked(self, inputs: Any, scalars: Any) -> _Operands:
        """Return the arrays of the inputs, after every check of them, and of how many scalars."""
        if inputs.__class__ is not list or len(inputs) != self._count:
            checked_list("input", inputs, self._count)
        if scalars is not _NOTHING or self._scalar_dtypes:
            checked_list("scalar", scalars, len(self._scalar_dtypes))
        arrays: list[Any] = []
        variables = []
        flow = _FREE
        kind = self._kind
        for at, layout in self._layouts:
            data = value = inputs[at]
            if value.__class__ is Tensor:
                data, flow = value.data, self._flow
                if value.op is _VARIABLE:
                    variables.append(data)
                if value.flow is _TRACED:
                    _check_history(at)
            if data.__class__ is not kind:
                data = checked_array(value, self._wanted[at])
            elif kind is _HOST:
                shape, strides, stored = layout
                if data.strides != strides or data.shape != shape or data.dtype != stored:
                    data = checked_array(value, self._wanted[at])
            elif data.layout is not layout:
                data = checked_array(value, self._wanted[at])
            arrays.append(data)
        return arrays, variables, flow

    def _with_scalars(self, arrays: list[Any], scalars: Any) -> tuple[Ready, list[Any]]:
        """Return the program for these scalars, and all arrays that it takes."""
        given = self._scalar_arrays(scalars)
        if self._variants is None:
            return self._ready, arrays + given
        return self._variants.chosen(arrays, given)

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
        arrays, variables, flow = self._checked(inputs, scalars)
        program = self._ready
        if self._scalar_dtypes:
            program, arrays = self._with_scalars(arrays, scalars)
        if variables:
            with VARIABLE_LOCKS.held(variables):
                data = program.runtime.run(arrays, (), program.passing)[0]
        else:
            data = program.runtime.run(arrays, (), program.passing)[0]
        made = result(program.op, self._dims, self._dtype, data, program.backend_id, flow)
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
        operands, variables, _ = self._checked(inputs, scalars)
        program, arrays = self._with_scalars(operands, scalars)
        operation = self._engine.operation
        target = target_of(out)
        key = (target.__class__, target.shape, target.strides, target.dtype)
        dtype = self._fitting.get(key)
        if dtype is None:
            dtype = self._checked_target(target, is_free=is_free)
            if len(self._fitting) >= _KEPT_LAYOUTS:
                self._fitting.clear()
            self._fitting[key] = dtype
        is_apart = check_apart(target, operands, operation.c_number)
        if dtype is not operation.out.dtype:
            program = self._retyped(dtype)
        if isinstance(out, Tensor):
            variables.append(target)
        if variables:
            with VARIABLE_LOCKS.held(variables):
                _write(program, arrays, target, is_apart=is_apart)
        else:
            _write(program, arrays, target, is_apart=is_apart)

    def _checked_target(self, target: Any, *, is_free: bool) -> DType:
        """Return the dtype that a result has which is written to memory of this layout."""
        described = self._engine.operation.out
        if is_free:
            described = own_layout(target, described)
        check_fits(target, wanted_of("the output", described, self.device))
        check_layout("Plan", described.extents, described.strides)
        return described.dtype

    def _retyped(self, dtype: DType) -> Ready:
        """Return the program whose result is of another dtype; compiled when it is first needed."""
        found = self._others.get(dtype)
        if found is None:
            found = self._others[dtype] = ready(retyped(self._engine, dtype), self._count)
        return found


def _check_history(number: int) -> None:
    """Refuse an input that gradients are wanted of, outside `no_grad`."""
    if RECORDING.get():
        raise ArgumentError(
            f"Plan: input {number} has requires_grad=True or depends on a tensor that has, and a "
            "plan keeps no history; allowed are inputs without; use einsum, contract or another "
            "function for gradients, or input.detach() or no_grad() where none are wanted"
        )


def _write(program: Ready, arrays: list[Any], target: Any, *, is_apart: bool) -> None:
    """Run a program and write its result to memory, at once where nothing else lies there."""
    on_host = isinstance(target, np.ndarray)
    is_free = on_host and is_apart and target.flags.c_contiguous
    into = Slot(target, target, target.nbytes) if is_free else None
    data = program.runtime.run(arrays, (), program.passing, into)[0]
    if not on_host:
        write_array(target, data)
    elif data is not target:
        np.copyto(target, data)


def of_engine(cls: type[P], engine: Engine) -> P:
    """Return a plan of a class, of an engine that is there already."""
    made = object.__new__(cls)
    Planned.__init__(made, engine)
    return made


def _restored(
    cls: type[Any],
    operation: OperationDescriptor,
    recipe: Recipe,
    device: str,
    program: Program,
    settings: Settings,
) -> Any:
    runtime = Runtime(program)
    return of_engine(cls, Engine(operation, recipe, device, program, runtime, settings))
