"""Measured crossings beside those that the model predicts, and how far they agree."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from softcuda.profile.model import Crossing, Profile
from softcuda.tools.cells import Ledger
from softcuda.tools.display import crossing_text
from softcuda.tools.report_curves import Figure
from softcuda.tools.report_model import Constants, own_constants, predicted
from softcuda.tools.thresholds import modelled_at, races

__all__ = ["Compared", "Pair", "agreement_rows", "beside_model", "is_rough"]

_DEVICES: Final = "the device's"
_OWN: Final = "the operation's own"


class Pair(NamedTuple):
    """A crossing as it was measured, and as the model has it.

    Attributes:
        measured: from the samples.
        model: the prediction.
        modelled: the CPU was not tried at the size above `measured`, which it was too slow for.
    """

    measured: Crossing | None
    model: Crossing | None
    modelled: bool = False

    @property
    def ratio(self) -> float | None:
        """How many times larger the measured one is; None where one of them is not there."""
        if not (self.measured and self.model and self.measured.found and self.model.found):
            return None
        return max(self.measured.size, 1) / max(self.model.size, 1)

    def texts(self) -> tuple[str, str]:
        """Return both as cells of a table, the ratio in brackets."""
        said = crossing_text(self.model._replace(uncertainty=None)) if self.model else ""
        ratio = "" if self.ratio is None else f" ({self.ratio:.2g})"
        about = "~" if self.measured is not None and is_rough(self.measured) else ""
        how = ", modelled" if self.modelled else ""
        return f"{about}{crossing_text(self.measured)}{how}", f"{said}{ratio}"


def is_rough(crossing: Crossing) -> bool:
    """Return whether the uncertainty of a crossing is as large as the crossing is.

    Example:
        >>> is_rough(Crossing(601, 1792)), is_rough(Crossing(55, 8)), is_rough(Crossing(1, 1))
        (True, False, False)
    """
    return crossing.found and (crossing.uncertainty or 0) >= max(crossing.size, 2)


class Compared(NamedTuple):
    """Both crossings of an op and a dtype, beside those of a device's constants and of its own."""

    op: str
    dtype: str
    host: Pair
    resident: Pair
    own_host: Pair
    own_resident: Pair


def beside_model(
    profile: Profile,
    ledger: Ledger,
    constants: Mapping[str, dict[str, Constants]],
    found: Sequence[Figure],
) -> list[Compared]:
    """Return the crossings of all figures that have one, beside the model's.

    Args:
        profile: whose [transfer] counts.
        ledger: what was measured; gives each op constants of its own.
        constants: dtype -> device type -> the model's constants.
        found: the figures.
    """
    rows = []
    for figure in found:
        if figure.host is None and figure.resident is None:
            continue
        sizes = sorted({point.size for curve in figure.curves for point in curve.points})
        pairs = []
        for known in (
            constants[figure.dtype],
            own_constants(ledger, figure.op, figure.dtype),
        ):
            host, resident = predicted(profile, known, figure.op, figure.dtype, sizes)
            sure = [
                figure.host is not None
                and figure.host.found
                and modelled_at(races(ledger, figure.op, figure.dtype, on_host=True)),
                figure.resident is not None
                and figure.resident.found
                and modelled_at(races(ledger, figure.op, figure.dtype, on_host=False)),
            ]
            pairs += [Pair(figure.host, host, sure[0]), Pair(figure.resident, resident, sure[1])]
        rows.append(Compared(figure.op, figure.dtype, *pairs))
    return rows


def agreement_rows(rows: Sequence[Compared]) -> Iterator[str]:
    """Yield how far measured and predicted crossings agree, as a table of Markdown."""
    if not rows:
        return
    yield (
        "| crossings | constants | both found | one alone | ratio, geometric mean | within 2 | "
        "within 4 |"
    )
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
    for dtype in dict.fromkeys(row.dtype for row in rows):
        of_dtype = [row for row in rows if row.dtype == dtype]
        for word, whose, pairs in (
            ("data on the host", _DEVICES, [row.host for row in of_dtype]),
            ("data on the host", _OWN, [row.own_host for row in of_dtype]),
            ("data resident", _DEVICES, [row.resident for row in of_dtype]),
            ("data resident", _OWN, [row.own_resident for row in of_dtype]),
        ):
            if any(pair.model is not None for pair in pairs):
                yield f"| {dtype}, {word} | {whose} | {' | '.join(_cells(pairs))} |"
    yield ""


def _cells(pairs: Sequence[Pair]) -> tuple[str, ...]:
    ratios = [pair.ratio for pair in pairs if pair.ratio is not None]
    one = sum(
        pair.measured is not None
        and pair.model is not None
        and pair.measured.found != pair.model.found
        for pair in pairs
    )
    if not ratios:
        return ("0", str(one), "-", "-", "-")
    logs = [math.log2(ratio) for ratio in ratios]
    within = [sum(abs(each) <= power for each in logs) / len(logs) for power in (1, 2)]
    mean = 2 ** (sum(logs) / len(logs))
    return (str(len(ratios)), str(one), f"{mean:.2g}", *(f"{share:.0%}" for share in within))
