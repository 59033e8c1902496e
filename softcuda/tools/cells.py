"""What soft_init measures, and what it found: cells, outcomes and the ledger of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from softcuda.dtype import REAL_DTYPES
from softcuda.graph.op import OPS, Kind
from softcuda.profile.vocabulary import work_ops
from softcuda.tools.lines import growth_of
from softcuda.tools.spread import quantile_of

__all__ = [
    "BY_IMPORTANCE",
    "Cell",
    "Ledger",
    "Outcome",
    "Scope",
    "State",
    "largest_size",
    "scopes_of",
]

# What most graphs spend their time in comes first; the rest follows in the table's order.
_FIRST: Final = (
    "matmul add mul relu exp sum softmax sub div max mean tanh sigmoid sqrt square multiply_add "
    "where maximum minimum gelu silu layer_norm log log_softmax neg abs copy cast take concat "
    "uniform normal full cumsum argmax logsumexp"
)
BY_IMPORTANCE: Final = tuple(dict.fromkeys((*_FIRST.split(), *work_ops())))

# Device type -> the largest power of two of elements, and of the extent of a product. 4 Mi
# elements of f32 are beyond the caches of most CPUs; a GPU needs more to be busy.
_LARGEST_POWERS: Final = {"cpu": (22, 11), "cuda": (24, 12)}
# Powers of two of the first sizes, in the order of measuring. With a GPU the second one tells by
# itself on which side of a crossing most sizes are; it is no more than a call of either costs.
_COARSE: Final = {"cpu": (8, 14, 20), "cuda": (8, 16, 13, 20)}
# What is asked for ends where an operand of f64 has 8 GiB.
_MOST_ELEMENTS: Final = 1 << 30
_MOST_EXTENT: Final = 1 << 15
_COARSE_MATMUL: Final = {"cpu": (5, 7, 9), "cuda": (5, 8, 6, 11)}


class State(Enum):
    """What became of a backend at a cell."""

    MEASURED = "measured"
    REFUSED = "refused"  # the backend does not take it
    WRONG = "wrong"  # disqualified: its result is not the reference's
    SKIPPED = "skipped"  # too slow to be worth a measurement


class Outcome(NamedTuple):
    """One backend at one cell: its median, or why there is none.

    Attributes:
        state: what became of it.
        microseconds: the median time of a call, with the data on the backend's device.
        reason: why there is none.
        device: the device type of the backend.
        samples: every time of a call that was taken [microseconds].
        host: the same with the data on the host before and after, copies included; () where
            nothing is to be copied, or it was not measured.
    """

    state: State
    microseconds: float = 0.0
    reason: str = ""
    device: str = "cpu"
    samples: tuple[float, ...] = ()
    host: tuple[float, ...] = ()

    @property
    def host_us(self) -> float | None:
        """The median time with the data on the host [microseconds]; None if not measured."""
        if self.state is not State.MEASURED:
            return None
        if self.host:
            return quantile_of(self.host, 0.5)
        return self.microseconds if self.device == "cpu" else None


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
        coarse: those of the first pass, in the order of measuring.
        growth: the time grows at most like size to this power.
        whole: nothing but the bounds of the table itself ends the sizes.
        exhaustive: every backend is tried at every size, however slow.
        too_large: sizes that were asked for and left out, since an operand would be too large.
    """

    op: str
    dtype: str
    sizes: tuple[int, ...]
    coarse: tuple[int, ...]
    growth: int
    whole: bool
    exhaustive: bool = False
    too_large: tuple[int, ...] = ()


def scopes_of(
    wanted: Mapping[str, Sequence[str]],
    max_size: int | None = None,
    sizes_asked: Sequence[int] = (),
    device: str = "cpu",
    *,
    exhaustive: bool = False,
) -> tuple[Scope, ...]:
    """Return the scopes of ops and dtypes, the important ops first.

    Args:
        wanted: op -> names of dtypes.
        max_size: no size above it; None for the table's own bounds (2^22, matmul 2048; where a
            GPU is measured 2^24, matmul 4096).
        sizes_asked: these sizes, ascending; () for powers of two.
        device: "cuda" where a GPU is measured too.
        exhaustive: try every backend at every size, however slow.
    """
    made = []
    for op in BY_IMPORTANCE:
        contracts = OPS[op].kind is Kind.CONTRACTION
        largest = largest_size(op, device)
        sizes = [1 << power for power in range(largest.bit_length())]
        too_large: tuple[int, ...] = ()
        if sizes_asked:
            most = _MOST_EXTENT if contracts else _MOST_ELEMENTS
            asked = [s for s in sizes_asked if max_size is None or s <= max_size]
            allowed = tuple(size for size in asked if size <= most)
            too_large = tuple(size for size in asked if size > most)
        else:
            allowed = tuple(s for s in sizes if max_size is None or s <= max_size)
        coarse = [1 << power for power in (_COARSE_MATMUL if contracts else _COARSE)[device]]
        first = tuple(s for s in coarse if s in allowed) or allowed[:1]
        for dtype in REAL_DTYPES:
            if dtype in wanted.get(op, ()):
                whole = allowed == tuple(sizes)
                growth = growth_of(op)
                made.append(Scope(op, dtype, allowed, first, growth, whole, exhaustive, too_large))
    return tuple(made)


def largest_size(op: str, device: str) -> int:
    """Return the largest size of an op: elements, or the extent of a product.

    Args:
        op: token of the op.
        device: "cuda" where a GPU is measured too.
    """
    return 1 << _LARGEST_POWERS[device][OPS[op].kind is Kind.CONTRACTION]


@dataclass(frozen=True)
class Ledger:
    """Everything that was measured.

    Attributes:
        outcomes: (op, dtype) -> size -> backend -> outcome.
        copies: (direction, memory) -> bytes -> times [microseconds]; directions are h2d and d2h,
            memory is pageable or pinned.
        load: "others", how many processors other processes kept busy meanwhile, of how many
            "processors" there are; empty where it is not known.
    """

    outcomes: dict[tuple[str, str], dict[int, dict[str, Outcome]]] = field(default_factory=dict)
    copies: dict[tuple[str, str], dict[int, tuple[float, ...]]] = field(default_factory=dict)
    load: dict[str, float] = field(default_factory=dict)

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
