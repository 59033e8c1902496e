"""Small values that were taken and are refused: reductions of nothing, digits of other scripts."""

from __future__ import annotations

import numpy as np
import pytest

import softcuda as sc
from softcuda.errors import ArgumentError, ShapeError
from softcuda.knobs import thread_count


@pytest.mark.parametrize("name", ["min", "max", "argmin", "argmax"])
@pytest.mark.parametrize(
    ("dims", "axis"),
    [((0, 0), 0), ((0, 0), 1), ((0, 3), 0), ((0,), None), ((0, 3), 1), ((3, 0), 0)],
)
def test_extremes_of_nothing_raise_as_in_numpy(
    name: str, dims: tuple[int, ...], axis: int | None
) -> None:
    """Also where the result has no element: what counts are the extents reduced."""
    values = np.zeros(dims, np.float32)
    try:
        expected = getattr(np, name)(values, axis=axis).shape
    except ValueError:
        with pytest.raises(ShapeError, match="of nothing has no value"):
            getattr(sc, name)(sc.tensor(values), axis=axis)
    else:
        assert getattr(sc, name)(sc.tensor(values), axis=axis).numpy().shape == expected


def test_digits_of_other_scripts_are_no_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTCUDA_THREADS", "\N{ARABIC-INDIC DIGIT THREE}")
    with pytest.raises(ArgumentError, match="SOFTCUDA_THREADS"):
        thread_count()
