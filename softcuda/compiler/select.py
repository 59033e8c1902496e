"""The pass `select`: one row of the profile decides the backend of each line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from softcuda.backends import REFERENCE, Verdict, backends
from softcuda.compiler.program import Choice
from softcuda.compiler.settings import Settings
from softcuda.errors import BackendError, BackendRefused, NoDeviceError
from softcuda.graph.lines import Graph, LeafLayout, Line, row_dtype, row_size
from softcuda.graph.op import Kind

__all__ = ["TRANSFER", "Selector", "select"]

_LEAF = Choice("leaf", "a value of the graph")
_VIEW = Choice("view", "a view does no work")
TRANSFER = Choice("transfer", "a copy between devices")


class Selector:
    """Looks rows up for single lines; `lower` asks it again for the parts of a composite."""

    def __init__(self, settings: Settings) -> None:
        self._profile = settings.profile
        self._default = settings.default
        self._target = settings.target
        self._strict = settings.strict
        self._no_device = settings.no_device
        self._instead = settings.instead
        self._backends: Mapping[str, Any] = backends()
        self._of_device: dict[str, tuple[str, ...]] = {}
        self._made: dict[tuple[Any, ...], Choice] = {}

    def choose(self, line: Line, operands: Sequence[Line]) -> Choice:
        """Return the decision for one line; layers of equal extents are decided once.

        Raises:
            NoDeviceError: the row names a CUDA backend and there is no CUDA device.
            BackendError: the row's backend is not registered, or gives no verdict; no profile has
                a row for the op.
            BackendRefused: the backend refuses, and so does the reference of its device; or
                `strict`, and the backend refuses or the profile has no row.
        """
        kind = line.op.kind
        if kind is Kind.LEAF:
            return _LEAF
        if kind is Kind.VIEW:
            return _VIEW
        if kind is Kind.TRANSFER:
            if line.params.device == "cuda" and self._target.type != "cuda":
                raise NoDeviceError(
                    f"to: no CUDA device can be used here: {self._no_device}; leave the tensor on "
                    "the cpu"
                )
            return TRANSFER
        seen = [(x.op, x.dims, x.dtype) for x in operands]
        key = (line.op, line.dims, line.dtype, line.params, *seen)
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = self._decided(line, operands)
        return made

    def _decided(self, line: Line, operands: Sequence[Line]) -> Choice:
        kind = line.op.kind
        backend_id, reason = self._row(line, operands)
        backend = self._backend(line, backend_id, reason)
        verdict = backend.supports(line, operands, self._target)
        if not isinstance(verdict, Verdict):
            raise BackendError(
                f"{line.op.name}: supports of backend {backend_id} returned {verdict!r} of type "
                f"{type(verdict).__name__}; allowed is a softcuda.backends.Verdict"
            )
        if verdict:
            return Choice(backend_id, reason, _compute_note(line, backend))
        if kind is Kind.COMPOSITE:
            return Choice("expanded", reason, f"{backend_id}: {verdict.reason}")
        if self._strict:
            raise BackendRefused(
                f"{line.op.name}: {reason} names {backend_id}, which refuses {list(line.dims)} "
                f"{line.dtype}: {verdict.reason}; name a backend that takes it, or compile "
                "without strict=True to let the reference stand in"
            )
        stand_in = REFERENCE[backend.DEVICE]
        last = self._backends[stand_in].supports(line, operands, self._target)
        if not last:
            is_other = stand_in != backend_id
            other = f"; {stand_in} refuses it too: {last.reason}" if is_other else ""
            token = f"{line.op.name}[{row_dtype(line, operands)}]"
            raise BackendRefused(
                f"{line.op.name}: {reason} names {backend_id}, which refuses {list(line.dims)} "
                f"{line.dtype}: {verdict.reason}{other}; name a backend of the cpu, as in "
                f"'{token} | any = {REFERENCE['cpu']}', or .cast to a dtype that it takes"
            )
        return Choice(
            stand_in, reason, f"{backend_id} refused ({verdict.reason}); {stand_in} stands in"
        )

    def choose_on(
        self, line: Line, operands: Sequence[Line], device: str, *, by_rows: bool = False
    ) -> Choice | None:
        """Return the decision for one line on a device; None where no backend there takes it.

        The backend of the row nearest in size that names one of the device; else, on the CPU,
        that of DEFAULT.soft, elsewhere the first registered one that takes it, the reference last.

        Args:
            line: the line.
            operands: the lines that it reads.
            device: the device type.
            by_rows: only that of the profile's row; no other stands in.
        """
        dtype, size = row_dtype(line, operands).name, row_size(line, operands)
        named = [self._profile.nearest(line.op.name, dtype, size, self._on(device))]
        if device == "cpu" and not by_rows:
            named.append(self._default.lookup(line.op.name, dtype, size))
        rows = [(row.backend_id, self._profile.label(row)) for row in named if row is not None]
        others = [name for name in self._on(device) if name != REFERENCE[device]]
        # A composite that is refused is sooner by its parts than by the reference.
        last = () if line.op.kind is Kind.COMPOSITE else (REFERENCE[device],)
        unnamed = () if by_rows else (*others, *last)
        for backend_id, reason in (*rows, *((name, "") for name in unnamed)):
            if self._backends[backend_id].supports(line, operands, self._target):
                return Choice(backend_id, reason)
        return None

    def choose_part(
        self, part: Line, operands: Sequence[Line], whole: Line, read: Sequence[Line]
    ) -> Choice:
        """Return the decision for a part of a composite that is expanded.

        It stays on the device of the backend that the row of the composite names, by the row of
        its own op that is nearest there; what that device does not take, by its own row.

        Args:
            part: the line.
            operands: the lines that it reads.
            whole: the composite.
            read: the lines that the composite reads.
        """
        if part.op.kind in (Kind.LEAF, Kind.VIEW):
            return self.choose(part, operands)
        named = self._backends[self._row(whole, read)[0]]
        return self.choose_on(part, operands, named.DEVICE) or self.choose(part, operands)

    def _on(self, device: str) -> tuple[str, ...]:
        """Return the registered backends of a device type, in the registry's order."""
        if device not in self._of_device:
            known = self._backends.items()
            self._of_device[device] = tuple(k for k, m in known if device == m.DEVICE)
        return self._of_device[device]

    def _row(self, line: Line, operands: Sequence[Line]) -> tuple[str, str]:
        op = line.op.name
        dtype = row_dtype(line, operands).name
        size = row_size(line, operands)
        row = self._profile.lookup(op, dtype, size)
        if row is not None:
            return row.backend_id, self._profile.label(row)
        if self._strict and self._profile is not self._default:
            raise BackendRefused(
                f"{op}: {self._profile.path} has no row for it and strict=True forbids that "
                "DEFAULT.soft decides; add a row, or compile without strict=True"
            )
        row = self._default.lookup(op, dtype, size)
        if row is None:
            raise BackendError(
                f"{op}: neither {self._profile.path} nor DEFAULT.soft has a row for it; "
                "add one to the profile"
            )
        where = self._default.label(row)
        name = self._profile.label(row).rsplit(":", 1)[0]
        return row.backend_id, f"{where} (no row in {name})"

    def _backend(self, line: Line, backend_id: str, reason: str) -> Any:
        backend = self._backends.get(backend_id)
        wants_device = (
            backend_id.startswith("cuda") if backend is None else backend.DEVICE == "cuda"
        )
        if wants_device and self._target.type != "cuda":
            raise NoDeviceError(
                f"{line.op.name}: {reason} names {backend_id}, and no CUDA device can be used "
                f"here: {self._no_device}; {self._instead}"
            )
        if backend is not None:
            return backend
        raise BackendError(
            f"{line.op.name}: {reason} names {backend_id}, which is not registered; registered "
            f"are {', '.join(self._backends)}; call softcuda.backends.register first"
        )


def _compute_note(line: Line, backend: Any) -> str:
    """Return what the table says where a backend lacks the units that a contraction asks for."""
    asked = line.params.compute if line.op.kind is Kind.CONTRACTION else None
    if asked is None or asked in getattr(backend, "COMPUTES", ()):
        return ""
    return f"{backend.BACKEND_ID} has no units of {asked} and computes in f32"


def select(graph: Graph, selector: Selector) -> tuple[Choice, ...]:
    """Return the decision for every line of the graph."""
    lines = graph.lines
    choose = selector.choose
    choices = [choose(line, [lines[source] for source in line.inputs]) for line in lines]
    for number in _advances(graph):
        operands = [lines[source] for source in lines[number].inputs]
        if backends()[choices[number].backend_id].DEVICE != "cpu":
            choices[number] = selector.choose_on(lines[number], operands, "cpu") or choices[number]
            note = "the state of a generator, which the host keeps"
            choices[number] = choices[number]._replace(note=note)
    return tuple(choices)


def _advances(graph: Graph) -> list[int]:
    """Return the lines that advance a generator behind the numbers that were drawn.

    The device would have to be waited for in every run that draws, for 16 bytes.
    """
    drawn = {line.inputs[0] for line in graph.lines if line.op.kind is Kind.RANDOM}
    found = []
    for variable, source in graph.updates:
        operands = [graph.lines[number] for number in graph.lines[source].inputs]
        on_host = all(
            isinstance(x.params, LeafLayout) and x.params.device == "cpu" for x in operands
        )
        if variable in drawn and graph.lines[source].op.name == "add" and on_host:
            found.append(source)
    return found
