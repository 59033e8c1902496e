"""The registry of backends: the shipped ones, and those that a user adds."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, Protocol

import numpy as np

from softcuda.backends.contract import check_backend, check_calls
from softcuda.backends.steps import Step, Unit, Verdict
from softcuda.errors import BackendError
from softcuda.forks import renew_in_child
from softcuda.graph.lines import Line
from softcuda.graph.op import Kind
from softcuda.target import Target

__all__ = [
    "REFERENCE",
    "Backend",
    "added_devices",
    "backends",
    "bind",
    "register",
    "registry_state",
    "unregister",
]

Array = np.ndarray[Any, Any]
Call = tuple[Any, tuple[Any, ...]]

REFERENCE: Mapping[str, str] = MappingProxyType({"cpu": "cpu_fallback", "cuda": "cuda_naive"})

_SHIPPED: Final = (
    "cpu_fallback",
    "cpu_blas",
    "cpu_fused",
    "cuda_naive",
    "cuda_tiled",
    "cuda_contract",
    "cuda_elementwise",
    "cuda_reduce",
    "cuda_permute",
)


class Backend(Protocol):
    """What the compiler and the executor need of a backend module."""

    BACKEND_ID: str
    DEVICE: str
    FUSES: frozenset[Kind]
    FUNCTIONS: Mapping[str, Any]

    def supports(self, line: Line, operands: Sequence[Line], target: Target) -> Verdict:
        """Return whether the backend can compute the line, and why not."""

    def prepare(self, unit: Unit, target: Target) -> tuple[Step, ...]:
        """Return the steps that compute the unit."""


class _Backends(Mapping[str, Any]):
    """Backends by id; one that softcuda ships is imported when it is first asked for."""

    def __init__(self, added: Mapping[str, Any]) -> None:
        self._ids = (*_SHIPPED, *added)
        self._present = dict(added)

    def __getitem__(self, backend_id: str) -> Any:
        found = self._present.get(backend_id)
        if found is None:
            if backend_id not in _SHIPPED:
                raise KeyError(backend_id)
            found = import_module(f"softcuda.backends.{backend_id}")
            self._present[backend_id] = found
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)


class _Registry:
    """The backends by id; writers replace the whole mapping, so readers need no lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._added: dict[str, Any] = {}
        self.by_id: Mapping[str, Any] = _Backends({})
        self.added: Mapping[str, str] = MappingProxyType({})
        self.state: tuple[Mapping[str, str], int] = (self.added, 0)
        renew_in_child(self)

    def after_fork(self) -> None:
        """Make the lock anew in a forked child."""
        self._lock = threading.Lock()

    def replace(self, add: Any = None, drop: str | None = None) -> None:
        with self._lock:
            changed = {k: m for k, m in self._added.items() if k != drop}
            if add is not None and add.BACKEND_ID not in _SHIPPED:
                changed[add.BACKEND_ID] = add
            self._added = changed
            self.by_id = _Backends(changed)
            self.added = MappingProxyType({k: m.DEVICE for k, m in changed.items()})
            self.state = (self.added, self.state[1] + 1)


_registry = _Registry()


def backends() -> Mapping[str, Any]:
    """Return every registered backend by its id."""
    return _registry.by_id


def registry_state() -> tuple[Mapping[str, str], int]:
    """Return what `added_devices` does, and how often a backend was added or removed.

    Compiled graphs depend on both.
    """
    return _registry.state


def added_devices() -> Mapping[str, str]:
    """Return backend_id -> device type of the backends that `register` added."""
    return _registry.added


def register(backend: Any) -> None:
    """Add a backend of your own; it joins profiles, soft_init and the printed tables.

    Args:
        backend: a module or object as this module's docstring describes.

    Raises:
        BackendError: a part is missing or wrong, or the id is reserved or taken by another.
    """
    check_backend(backend, tuple(REFERENCE))
    name = backend.BACKEND_ID
    present = backends().get(name)
    if present is not None and present is not backend:
        raise BackendError(
            f"register: the id {name!r} is taken by {present!r}; choose another id, or unregister "
            "it first"
        )
    _registry.replace(add=backend)


def unregister(backend_id: str) -> None:
    """Remove a backend that `register` added.

    Raises:
        BackendError: it is one of the shipped backends, or not registered.
    """
    added = added_devices()
    if backend_id not in added:
        raise BackendError(
            f"unregister: {backend_id!r} was not added by register; added are "
            f"{', '.join(added) or 'none'}"
        )
    _registry.replace(drop=backend_id)


def bind(
    step: Step, inputs: Sequence[Array], outputs: Sequence[Array], scratch: Array | None
) -> list[Call]:
    """Return the calls that carry out a CPU step on these arrays.

    Raises:
        BackendError: the backend or its function is gone, or its bind gives no calls.
    """
    backend = backends().get(step.backend_id)
    if backend is None:
        raise BackendError(
            f"the step {step.kernel} was made by backend {step.backend_id!r}, which is not "
            "registered; register it again, or compile the graph again"
        )
    special = getattr(backend, "bind", None)
    if special is not None:
        made: list[Call] = special(step, inputs, outputs, scratch)
        if step.backend_id in _registry.added:
            check_calls(step, made)
        return made
    function = backend.FUNCTIONS.get(step.kernel)
    if function is None:
        raise BackendError(
            f"backend {step.backend_id} has no function {step.kernel!r}; it has "
            f"{', '.join(sorted(backend.FUNCTIONS))}"
        )
    extra: tuple[Any, ...] = (step.params,) if step.params else ()
    if scratch is not None:
        extra = (*extra, scratch)
    return [(function, (*inputs, *outputs, *extra))]
