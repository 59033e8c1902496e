"""Measuring one cell: every backend checked first, then timed in turns; the median counts."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np

from softcuda.backends import REFERENCE, backends
from softcuda.dtype import REAL_DTYPES
from softcuda.errors import SoftCudaError
from softcuda.executor.executable import Executable
from softcuda.graph.node import Node
from softcuda.graph.op import Kind
from softcuda.graph.trace import trace
from softcuda.profile.model import DeviceFacts, PoolSettings, Profile, Row
from softcuda.profile.vocabulary import SOFT_VERSION, work_ops
from softcuda.running import compile as compile_nodes
from softcuda.target import CPU
from softcuda.tools.agreement import disagreement
from softcuda.tools.cells import Cell, Outcome, State
from softcuda.tools.device_bench import DeviceBench
from softcuda.tools.spread import median_of
from softcuda.tools.turns import Timed, take_turns
from softcuda.tools.workloads import typical
from softcuda.tools.workloads_base import Workload
from softcuda.tools.workloads_inputs import Source

__all__ = ["Meter"]

Array = np.ndarray[Any, Any]

_WHOLE_PRODUCT: Final = 96  # matmul up to this size is checked whole, beyond in a few rows
_CHECKED_ROWS: Final = 4
_PREPARED: Final = 1 << 14  # kernels are compiled ahead for cells up to this size

# What a backend that does not keep its contract may raise beside softcuda's own errors.
_FAULTS: Final = (
    SoftCudaError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)


class _Reference(NamedTuple):
    """The right result of a workload, or of some rows of it."""

    rows: Array | None
    values: Array
    terms: int


class Meter:
    """Measures cells on the backends that are registered when it is made.

    Attributes:
        backend_ids: the candidates, in the order of the registry.
        device: the device that is measured beside the CPU; None for the CPU alone.
    """

    def __init__(
        self,
        device: DeviceBench | None = None,
        seed: int = 0,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self.device = device
        self._seed = seed
        self._clock = clock
        types = ("cpu",) if device is None else ("cpu", "cuda")
        self._modules = {k: m for k, m in backends().items() if m.DEVICE in types}
        self.backend_ids = tuple(self._modules)

    def measure(
        self, cell: Cell, backend_ids: Iterable[str], allowance_s: float
    ) -> dict[str, Outcome]:
        """Return the outcome of each backend that is asked for.

        A CUDA backend's data is on the device; a sample is several calls and one wait for them.
        The fastest one is timed with its data on the host, too.

        Args:
            cell: op, dtype and size.
            backend_ids: which backends to try.
            allowance_s: when to stop repeating [seconds]; three rounds are done in any case.
        """
        try:
            workload = self._workload(cell)
        except (MemoryError, ValueError, OverflowError) as error:
            return self._impossible(cell, backend_ids, error)
        found: dict[str, Outcome] = {}
        runs: dict[str, Timed] = {}
        reference: _Reference | None = None
        there: tuple[Node, ...] | None = None
        for name in backend_ids:
            device = self._modules[name].DEVICE
            refusal = self._refusal(name, workload)
            if refusal:
                found[name] = Outcome(State.REFUSED, reason=refusal, device=device)
                continue
            if reference is None:
                try:
                    reference = self._reference(workload)
                except (MemoryError, SoftCudaError) as error:
                    return self._impossible(cell, backend_ids, error)
            try:
                if device == "cuda" and self.device is not None and there is None:
                    there = self.device.leaves(workload)
                leaves = there if device == "cuda" else None
                executable, fault = self._checked(name, workload, leaves, reference)
            except _FAULTS as error:
                executable, fault = None, f"it raised {type(error).__name__}: {error}"
            if executable is None or fault:
                found[name] = Outcome(State.WRONG, reason=fault, device=device)
            else:
                settle = self.device.settle if self.device and device == "cuda" else None
                runs[name] = Timed(executable.run, settle)
        taken = take_turns(runs, allowance_s, self._clock)
        for name, times in taken.items():
            device = self._modules[name].DEVICE
            found[name] = Outcome(State.MEASURED, median_of(times), device=device, samples=times)
        self._measure_host(found, workload, allowance_s)
        return {name: found[name] for name in self.backend_ids if name in found}

    def _impossible(
        self, cell: Cell, backend_ids: Iterable[str], error: Exception
    ) -> dict[str, Outcome]:
        """Return that a cell cannot be measured here, for every backend."""
        reason = f"{cell.op}[{cell.dtype}] of size {cell.size} cannot be made here: {error}"
        return {
            name: Outcome(State.REFUSED, reason=" ".join(reason.split()),
                          device=self._modules[name].DEVICE)
            for name in backend_ids
        }  # fmt: skip

    def prepare(self, cells: Sequence[Cell]) -> None:
        """Compile the kernels of the CUDA backends for some cells, in parallel.

        Large cells are left out: they launch the kernels of small ones, or few more.
        """
        if self.device is None:
            return
        made = []
        for cell in cells:
            if cell.size > _PREPARED:
                continue
            try:
                workload = self._workload(cell)
            except (MemoryError, ValueError):
                continue  # measuring the cell says so
            for name, module in self._modules.items():
                if module.DEVICE == "cuda" and not self._refusal(name, workload):
                    try:
                        made.append(self._compiled(name, workload))
                    except _FAULTS:
                        continue  # measuring the cell says so
        self.device.compile_kernels(made)

    def _workload(self, cell: Cell) -> Workload:
        seed = (self._seed, zlib.crc32(f"{cell.op} {cell.dtype}".encode()), cell.size)
        source = Source(np.random.default_rng(seed))
        return typical(cell.op, cell.size, REAL_DTYPES[cell.dtype], source)

    def _refusal(self, backend_id: str, workload: Workload) -> str:
        graph = trace([workload.node(Node)]).graph
        line = graph.lines[graph.outputs[0]]
        operands = [graph.lines[number] for number in line.inputs]
        module = self._modules[backend_id]
        target = self.device.target if self.device and module.DEVICE == "cuda" else CPU
        verdict = module.supports(line, operands, target)
        return "" if verdict else verdict.reason or "it does not say why"

    def _compiled(
        self,
        backend_id: str,
        workload: Workload,
        leaves: tuple[Node, ...] | None = None,
        outputs_on: str = "cpu",
    ) -> Executable:
        """Return the executable of a workload, over its own leaves or those that are given."""
        node = workload.node(Node) if leaves is None else workload.build(Node, leaves)
        return compile_nodes(node, _profile_of(backend_id, outputs_on))

    def _checked(
        self,
        backend_id: str,
        workload: Workload,
        leaves: tuple[Node, ...] | None,
        reference: _Reference,
    ) -> tuple[Executable | None, str]:
        """Return a backend's executable, and what is wrong with it."""
        outputs_on = self._modules[backend_id].DEVICE
        executable = self._compiled(backend_id, workload, leaves, outputs_on)
        maker = _maker(executable)
        if maker != backend_id:
            return None, f"{maker} stands in for it"
        result = executable.run()
        data = result.data if self.device is None else self.device.fetch(result.data)
        values = data if reference.rows is None else data[reference.rows]
        return executable, disagreement(values, reference.values, result.dtype, reference.terms)

    def _measure_host(
        self, found: dict[str, Outcome], workload: Workload, allowance_s: float
    ) -> None:
        """Time the fastest CUDA backend with its data on the host, copies included."""
        times = {
            name: outcome.microseconds
            for name, outcome in found.items()
            if outcome.state is State.MEASURED and outcome.device == "cuda"
        }
        if not times:
            return
        name = min(times, key=lambda each: (times[each], each))
        try:
            executable = self._compiled(name, workload)
            executable.run()
            taken = take_turns({name: Timed(executable.run)}, allowance_s, self._clock)
        except _FAULTS as error:
            reason = f"with its data on the host it raised {type(error).__name__}: {error}"
            found[name] = Outcome(State.WRONG, reason=reason, device="cuda")
            return
        found[name] = found[name]._replace(host=taken[name])

    def _reference(self, workload: Workload) -> _Reference:
        """Return the result of the device's reference, in float64 where there are floats."""
        rows = None
        arrays = list(workload.arrays)
        if workload.op.kind is Kind.CONTRACTION and len(arrays[0]) > _WHOLE_PRODUCT:
            rows = np.linspace(0, len(arrays[0]) - 1, _CHECKED_ROWS).astype(np.int64)
            arrays[0] = arrays[0][rows]
        wide = tuple(_widened(array) for array in arrays)
        executable = self._compiled(REFERENCE["cpu"], Workload(workload.op, wide, workload.params))
        values = executable.run().data
        read = max((array.size for array in workload.arrays), default=1)
        if workload.op.kind is Kind.CONTRACTION:
            terms = arrays[0].shape[-1]
        elif workload.op.kind is Kind.REDUCTION:
            terms = read // max(values.size, 1)
        elif workload.op.kind in (Kind.SCAN, Kind.COMPOSITE):
            terms = values.shape[-1]
        else:
            terms = 1
        return _Reference(rows, values, terms)


def _maker(executable: Executable) -> str:
    """Return the backend whose step writes the output."""
    program = executable.program
    result = program.output_lines[0]
    makers = (
        step.backend_id
        for step in program.steps
        if any(operand.value == result for operand in step.outputs)
    )
    return next(makers, "nothing")


def _widened(array: Array) -> Array:
    return array if array.dtype.kind in "bi" else array.astype(np.float64)


@cache
def _profile_of(backend_id: str, outputs_on: str) -> Profile:
    """Return a profile that gives every op to one backend."""
    rows = tuple(Row(op, None, 0, None, backend_id) for op in work_ops())
    name, meta = f"soft_init/{backend_id}", {"soft_version": SOFT_VERSION}
    return Profile(name, meta, DeviceFacts(), rows, pool=PoolSettings(outputs_on))
