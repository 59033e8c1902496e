"""The contract of a backend: what is checked of one that a user registers, and of its answers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, SupportsIndex

from softcuda.backends.steps import Operand, Step, Unit
from softcuda.dtype import DType
from softcuda.errors import BackendError
from softcuda.graph.op import Kind
from softcuda.graph.shapes import numel

__all__ = ["RESERVED", "check_backend", "check_calls", "check_steps"]

_NEEDED: Final = ("BACKEND_ID", "DEVICE", "FUSES", "supports", "prepare")

# What tables print where no backend computes a line, and the profile that every machine has.
RESERVED: Final = ("default", "expanded", "folded", "leaf", "transfer", "view")


def check_backend(backend: Any, devices: Sequence[str]) -> None:
    """Refuse what is no backend.

    Args:
        backend: a module or object as the docstring of softcuda.backends describes.
        devices: allowed device types.

    Raises:
        BackendError: a part is missing or wrong, or the id is reserved.
    """
    missing = [name for name in _NEEDED if not hasattr(backend, name)]
    if missing:
        raise BackendError(
            f"register: {backend!r} lacks {', '.join(missing)}; a backend has "
            f"{', '.join(_NEEDED)} and, on the CPU, FUNCTIONS or bind"
        )
    name = backend.BACKEND_ID
    if not isinstance(name, str) or not name.isidentifier() or name in RESERVED:
        raise BackendError(
            f"register: BACKEND_ID is {name!r}; allowed is a Python identifier other than "
            f"{', '.join(RESERVED)}"
        )
    if not isinstance(backend.DEVICE, str) or backend.DEVICE not in devices:
        raise BackendError(
            f"register: {name} has DEVICE {backend.DEVICE!r}; allowed are {', '.join(devices)}"
        )
    for part in ("FUSES", "EPILOGUES"):
        kinds = getattr(backend, part, ())
        is_set = isinstance(kinds, Collection) and not isinstance(kinds, str)
        if not is_set or not all(isinstance(kind, Kind) for kind in kinds):
            raise BackendError(
                f"register: {name} has {part} {kinds!r}; allowed is a frozenset of "
                "softcuda.graph.op.Kind"
            )
    most = getattr(backend, "MOST_BEFORE", 1)
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise BackendError(
            f"register: {name} has MOST_BEFORE {most!r}; allowed is an integer from 1 on"
        )
    _check_callables(backend, name)


def _check_callables(backend: Any, name: str) -> None:
    if not hasattr(backend, "FUNCTIONS") and not hasattr(backend, "bind"):
        raise BackendError(f"register: {name} has neither FUNCTIONS nor bind; one is needed")
    functions = getattr(backend, "FUNCTIONS", {})
    if not isinstance(functions, Mapping) or not all(map(callable, functions.values())):
        raise BackendError(
            f"register: {name} has FUNCTIONS {functions!r}; allowed is a mapping of the names of "
            "kernels to functions"
        )
    for part in (
        "supports",
        "prepare",
        "bind",
        "absorbs",
        "carries",
        "makes",
        "in_place",
        "further_kernels",
        "told",
    ):
        found = getattr(backend, part, callable)
        if not callable(found):
            raise BackendError(f"register: {name} has {part} {found!r}; allowed is a function")


class _Span(NamedTuple):
    """The elements of a value, counted from its first, that operands reach; and its dtype."""

    first: int
    last: int
    dtype: DType


def _span(operand: Operand) -> _Span:
    pairs = () if 0 in operand.dims else zip(operand.dims, operand.strides, strict=True)
    reach = [s * (d - 1) for d, s in pairs]
    low = operand.offset + sum(r for r in reach if r < 0)
    return _Span(low, operand.offset + sum(r for r in reach if r > 0), operand.dtype)


def check_steps(backend_id: str, unit: Unit, made: Any) -> None:
    """Refuse what `prepare` returned where it does not compute the unit.

    Raises:
        BackendError: it is no tuple of steps of this backend, a step reads or writes something
            else than the unit's operands and result, or the result is not written in full.
    """
    asked = f"{unit.chain[-1].op.name}: prepare of backend {backend_id}"
    if not isinstance(made, (tuple, list)) or not all(isinstance(step, Step) for step in made):
        raise BackendError(
            f"{asked} returned {made!r} of type {type(made).__name__}; allowed is a tuple of "
            "softcuda.backends.Step"
        )
    spans: dict[int, _Span] = {}
    for operand in (*unit.operands, unit.result):
        reached = _span(operand)
        known = spans.get(operand.value, reached)
        spans[operand.value] = _Span(
            min(known.first, reached.first), max(known.last, reached.last), reached.dtype
        )
    written = 0
    for step in made:
        _check_form(asked, step, backend_id)
        for operand in (*step.inputs, *step.outputs):
            _check_window(asked, operand, spans)
        written += sum(_written(asked, operand, unit.result) for operand in step.outputs)
    if written < numel(unit.result.dims):
        raise BackendError(
            f"{asked} returned steps that write {written} elements of the result "
            f"{list(unit.result.dims)}; every element is to be written"
        )


def _check_form(asked: str, step: Step, backend_id: str) -> None:
    is_whole = isinstance(step.scratch_bytes, int) and step.scratch_bytes >= 0
    lists = isinstance(step.inputs, tuple) and isinstance(step.outputs, tuple)
    if step.backend_id != backend_id or not (isinstance(step.kernel, str) and is_whole and lists):
        raise BackendError(
            f"{asked} returned {step!r}; allowed are its own backend_id, the name of a kernel, "
            "tuples of inputs and outputs, and scratch_bytes from 0"
        )


def _is_window(operand: object) -> bool:
    return (
        isinstance(operand, Operand)
        and len(operand.dims) == len(operand.strides)
        and all(
            isinstance(number, SupportsIndex)
            for number in (operand.offset, *operand.dims, *operand.strides)
        )
        and all(extent >= 0 for extent in operand.dims)
    )


def _check_window(asked: str, operand: Any, spans: Mapping[int, _Span]) -> None:
    if not _is_window(operand) or operand.value not in spans:
        raise BackendError(
            f"{asked} returned a step with the operand {operand!r}; allowed are "
            "softcuda.backends.Operand of the unit's operands and of its result"
        )
    have, found = spans[operand.value], _span(operand)
    inside = have.first <= found.first and found.last <= have.last
    if found.dtype is not have.dtype or (numel(operand.dims) and not inside):
        raise BackendError(
            f"{asked} returned a step with the operand {operand!r}, elements {found.first} to "
            f"{found.last} of {found.dtype}; of this value the unit has elements {have.first} to "
            f"{have.last} of {have.dtype}"
        )


def _written(asked: str, operand: Operand, result: Operand) -> int:
    """Return how many elements an output of a step writes."""
    if operand.value != result.value:
        raise BackendError(
            f"{asked} returned a step that writes {operand!r}; allowed is the unit's result"
        )
    return numel(operand.dims)


def check_calls(step: Step, made: Any) -> None:
    """Refuse what `bind` returned where it is no list of calls.

    Raises:
        BackendError: it is something else.
    """
    calls = made if isinstance(made, (list, tuple)) else [made]
    if calls is made and all(map(_is_call, calls)):
        return
    raise BackendError(
        f"bind of backend {step.backend_id} returned {made!r} for the step {step.kernel}; allowed "
        "is a list of calls (function, tuple of arguments)"
    )


def _is_call(call: object) -> bool:
    return (
        isinstance(call, tuple)
        and len(call) == 2
        and callable(call[0])
        and isinstance(call[1], Iterable)
    )
