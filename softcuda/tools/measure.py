"""Measuring one cell: every backend checked first, then timed in turns; a quantile counts."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from softcuda.backends import REFERENCE, backends
from softcuda.dtype import DTYPES
from softcuda.errors import SoftCudaError
from softcuda.executor.executable import Executable
from softcuda.graph.node import Node
from softcuda.graph.op import Kind
from softcuda.graph.trace import trace
from softcuda.profile.model import DeviceFacts, Profile, Row
from softcuda.profile.vocabulary import SOFT_VERSION, work_ops
from softcuda.running import compile as compile_nodes
from softcuda.target import CPU
from softcuda.tools.agreement import disagreement
from softcuda.tools.cells import Cell, Outcome, State
from softcuda.tools.workloads import typical
from softcuda.tools.workloads_base import Workload
from softcuda.tools.workloads_inputs import Source

__all__ = ["Meter"]

Array = np.ndarray[Any, Any]

_SAMPLE_NS: Final = 100_000  # calls are repeated until a sample takes this long
_MOST_CALLS: Final = 200
_ROUNDS: Final = 15
_FEWEST_ROUNDS: Final = 3
_WHOLE_PRODUCT: Final = 96  # matmul up to this size is checked whole, beyond in a few rows
_CHECKED_ROWS: Final = 4

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
    """Measures cells on the CPU backends that are registered when it is made.

    Attributes:
        backend_ids: the candidates, in the order of the registry.
    """

    def __init__(self, seed: int = 0, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._seed = seed
        self._clock = clock
        self._modules = {k: m for k, m in backends().items() if m.DEVICE == "cpu"}
        self.backend_ids = tuple(self._modules)
        self._profiles = {name: _profile_of(name) for name in self._modules}

    def measure(
        self, cell: Cell, backend_ids: Iterable[str], allowance_s: float, quantile: float = 0.5
    ) -> dict[str, Outcome]:
        """Return the outcome of each backend that is asked for.

        Args:
            cell: op, dtype and size.
            backend_ids: which backends to try.
            allowance_s: when to stop repeating [seconds]; three rounds are done in any case.
            quantile: which of a backend's times counts; 0.5 for the median, 0 for the least.
        """
        seed = (self._seed, zlib.crc32(f"{cell.op} {cell.dtype}".encode()), cell.size)
        source = Source(np.random.default_rng(seed))
        workload = typical(cell.op, cell.size, DTYPES[cell.dtype], source)
        found: dict[str, Outcome] = {}
        runs: dict[str, Callable[[], Any]] = {}
        reference: _Reference | None = None
        for name in backend_ids:
            refusal = self._refusal(name, workload)
            if refusal:
                found[name] = Outcome(State.REFUSED, reason=refusal)
                continue
            if reference is None:
                reference = self._reference(workload)
            executable, fault = self._checked(name, workload, reference)
            if executable is None or fault:
                found[name] = Outcome(State.WRONG, reason=fault)
            else:
                runs[name] = executable.run
        taken = _samples(runs, allowance_s, self._clock)
        for name, nanoseconds in taken.items():
            found[name] = Outcome(State.MEASURED, float(np.quantile(nanoseconds, quantile)) / 1e3)
        return {name: found[name] for name in self.backend_ids if name in found}

    def _refusal(self, backend_id: str, workload: Workload) -> str:
        graph = trace([workload.node(Node)]).graph
        line = graph.lines[graph.outputs[0]]
        operands = [graph.lines[number] for number in line.inputs]
        verdict = self._modules[backend_id].supports(line, operands, CPU)
        return "" if verdict else verdict.reason or "it does not say why"

    def _compiled(self, backend_id: str, workload: Workload) -> Executable:
        return compile_nodes(workload.node(Node), self._profiles[backend_id])

    def _checked(
        self, backend_id: str, workload: Workload, reference: _Reference
    ) -> tuple[Executable | None, str]:
        """Return a backend's executable, and what is wrong with it."""
        try:
            executable = self._compiled(backend_id, workload)
            maker = _maker(executable)
            if maker != backend_id:
                return None, f"{maker} stands in for it"
            result = executable.run()
        except _FAULTS as error:
            return None, f"it raised {type(error).__name__}: {error}"
        values = result.data if reference.rows is None else result.data[reference.rows]
        return executable, disagreement(values, reference.values, result.dtype, reference.terms)

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


def _profile_of(backend_id: str) -> Profile:
    """Return a profile that gives every op to one backend."""
    rows = tuple(Row(op, None, 0, None, backend_id) for op in work_ops())
    return Profile(f"soft_init/{backend_id}", {"soft_version": SOFT_VERSION}, DeviceFacts(), rows)


def _samples(
    runs: Mapping[str, Callable[[], Any]], allowance_s: float, clock: Callable[[], int]
) -> dict[str, list[float]]:
    """Return the times of a call of each [nanoseconds], measured in turns."""
    begin = clock()
    calls = {name: _calls_a_sample(run, clock) for name, run in runs.items()}
    samples: dict[str, list[float]] = {name: [] for name in runs}
    order: Sequence[str] = list(runs)
    for turn in range(_ROUNDS):
        if turn >= _FEWEST_ROUNDS and clock() - begin > allowance_s * 1e9:
            break
        for name in order if turn % 2 == 0 else order[::-1]:
            run, count = runs[name], calls[name]
            start = clock()
            for _ in range(count):
                run()
            samples[name].append((clock() - start) / count)
    return samples


def _calls_a_sample(run: Callable[[], Any], clock: Callable[[], int]) -> int:
    """Warm up; return how many calls fill a sample."""
    start = clock()
    run()
    took = max(clock() - start, 1)
    return min(max(_SAMPLE_NS // took, 1), _MOST_CALLS)
