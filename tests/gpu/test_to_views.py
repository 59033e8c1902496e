"""Views that `to` sends between host and device arrive with the values that they show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_cases import profile_of

import softcuda as sc

VIEWS = {
    "flipped": lambda x: sc.permute_dims(x, (1, 0)),
    "rows": lambda x: x[3:5],
    "columns": lambda x: x[:, 2:9],
    "every-second": lambda x: x[::2],
    "rows-of-flipped": lambda x: sc.permute_dims(x, (1, 0))[5:11],
}


@pytest.mark.parametrize("by", ["cuda_naive", "cpu_fallback"])
@pytest.mark.parametrize("name", VIEWS)
def test_views_arrive_as_they_look(name: str, by: str) -> None:
    view: Any = VIEWS[name]
    value = np.arange(37 * 23, dtype=np.float32).reshape(37, 23)
    x = sc.tensor(value)
    made = x * 2.0
    outputs = [
        view(made).to("cpu"),
        view(made).to("cuda"),
        view(made.to("cuda")).to("cpu"),
        view(made).to("cuda").to("cpu"),
        view(made.to("cuda").to("cpu")),
        view(made).to("cuda") + view(made),
    ]
    found = sc.compile(outputs, profile_of(by)).run()
    right = np.asarray(view(sc.tensor(value * 2)).numpy())
    for each in found[:-1]:
        np.testing.assert_array_equal(each.numpy(), right)
    np.testing.assert_array_equal(found[-1].numpy(), right * 2)


def test_views_of_device_tensors_come_back() -> None:
    value = np.arange(37 * 23, dtype=np.float32).reshape(37, 23)
    there = sc.tensor(value).to("cuda").evaluate()
    for view in VIEWS.values():
        right = np.asarray(view(sc.tensor(value)).numpy())
        np.testing.assert_array_equal(view(there).to("cpu").evaluate().numpy(), right)
