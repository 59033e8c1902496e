"""What soft_init measures, and what it found: cells, outcomes and the ledger of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from softcuda.dtype import DTYPES
from softcuda.graph.op import OPS, Kind
from softcuda.profile.vocabulary import work_ops

__all__ = ["BY_IMPORTANCE", "Cell", "Ledger", "Outcome", "Scope", "State", "scopes_of"]

# What most graphs spend their time in comes first; the rest follows in the table's order.
_FIRST: Final = (
    "matmul add mul relu exp sum softmax sub div max mean tanh sigmoid sqrt square multiply_add "
    "where maximum minimum gelu silu layer_norm log log_softmax neg abs copy cast take concat "
    "uniform normal full cumsum argmax logsumexp"
)
BY_IMPORTANCE: Final = tuple(dict.fromkeys((*_FIRST.split(), *work_ops())))

_LARGEST_POWER: Final = 22  # sizes up to 4 Mi elements: 16 MiB of f32, beyond most caches
_LARGEST_MATMUL_POWER: Final = 11
_COARSE: Final = (8, 14, 20)
_COARSE_MATMUL: Final = (5, 7, 9)


class State(Enum):
    """What became of a backend at a cell."""

    MEASURED = "measured"
    REFUSED = "refused"  # the backend does not take it
    WRONG = "wrong"  # disqualified: its result is not the reference's
    SKIPPED = "skipped"  # too slow to be worth a measurement


class Outcome(NamedTuple):
    """One backend at one cell: its median [microseconds], or why there is none."""

    state: State
    microseconds: float = 0.0
    reason: str = ""


class Cell(NamedTuple):
    """One question: how fast is an op at a row's dtype and size?"""

    op: str
    dtype: str
    size: int


@dataclass(frozen=True, slots=True)
class Scope:
    """All questions of an op and a dtype.

    Attributes:
        op: token of the op.
        dtype: name of the row's dtype.
        sizes: powers of two, ascending.
        coarse: those of the first pass.
        growth: the time grows at most like size to this power.
        whole: nothing but the bounds of the table itself ends the sizes.
    """

    op: str
    dtype: str
    sizes: tuple[int, ...]
    coarse: tuple[int, ...]
    growth: int
    whole: bool


def scopes_of(
    wanted: Mapping[str, Sequence[str]], max_size: int | None = None
) -> tuple[Scope, ...]:
    """Return the scopes of ops and dtypes, the important ops first.

    Args:
        wanted: op -> names of dtypes.
        max_size: no size above it; None for the table's own bounds (2^22; matmul 2048).
    """
    made = []
    for op in BY_IMPORTANCE:
        contracts = OPS[op].kind is Kind.CONTRACTION
        largest = _LARGEST_MATMUL_POWER if contracts else _LARGEST_POWER
        sizes = [1 << power for power in range(largest + 1)]
        allowed = tuple(s for s in sizes if max_size is None or s <= max_size)
        coarse = {1 << power for power in (_COARSE_MATMUL if contracts else _COARSE)}
        first = tuple(s for s in allowed if s in coarse) or allowed[-1:]
        for dtype in DTYPES:
            if dtype in wanted.get(op, ()):
                whole = len(allowed) == len(sizes)
                growth = 3 if contracts else 1
                made.append(Scope(op, dtype, allowed, first, growth, whole))
    return tuple(made)


@dataclass(frozen=True)
class Ledger:
    """Every outcome so far: (op, dtype) -> size -> backend -> outcome."""

    outcomes: dict[tuple[str, str], dict[int, dict[str, Outcome]]] = field(default_factory=dict)

    def note(self, cell: Cell, found: Mapping[str, Outcome]) -> None:
        """Write down what was found at a cell."""
        self.outcomes.setdefault((cell.op, cell.dtype), {})[cell.size] = dict(found)

    def has(self, cell: Cell) -> bool:
        """Return whether a cell was looked at."""
        return cell.size in self.outcomes.get((cell.op, cell.dtype), {})

    def at(self, op: str, dtype: str) -> list[tuple[int, dict[str, Outcome]]]:
        """Return (size, outcomes) of an op and a dtype, sizes ascending."""
        return sorted(self.outcomes.get((op, dtype), {}).items())

    def times(self, op: str, dtype: str) -> list[tuple[int, dict[str, float]]]:
        """Return (size, backend -> microseconds), sizes where something was measured."""
        found = []
        for size, outcomes in self.at(op, dtype):
            times = {
                backend: outcome.microseconds
                for backend, outcome in outcomes.items()
                if outcome.state is State.MEASURED
            }
            if times:
                found.append((size, times))
        return found
