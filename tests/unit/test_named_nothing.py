"""Named axes over nothing, and over diagonals: sums, extremes, positions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import softcuda as sc
from softcuda import EinsumPlan, ReductionOp, TensorDescriptor
from softcuda.errors import ShapeError


@pytest.mark.parametrize("modes", ["cce", "cec", "ecc"])
@pytest.mark.parametrize("op", [ReductionOp.ArgMin, ReductionOp.ArgMax])
def test_positions_count_in_the_order_of_the_operand(modes: str, op: ReductionOp) -> None:
    extents = {"c": 2, "e": 3}
    x = np.sin(1 + 2.0 * np.arange(12)).reshape([extents[m] for m in modes])
    for out in ("", "c", "e"):
        order = "".join(dict.fromkeys(modes))
        diagonal = np.einsum(f"{modes}->{order}", x)
        kept = [order.index(m) for m in out]
        rows = np.moveaxis(diagonal, kept, range(len(kept)))
        rows = rows.reshape(*rows.shape[: len(kept)], -1)
        expected = rows.argmin(-1) if op is ReductionOp.ArgMin else rows.argmax(-1)
        assert np.array_equal(sc.reduce(x, modes, out, op).numpy(), expected), out


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "?"])
def test_a_reduction_of_nothing_into_nothing_is_empty(dtype: str) -> None:
    x = np.zeros((0, 0), dtype)
    for op in ReductionOp:
        if "Arg" in op.name:
            with pytest.raises(ShapeError, match="of nothing"):
                sc.reduce(x, "ab", "a", op)
            continue
        found = sc.reduce(x, "ab", "a", op)
        assert found.shape == (0,)
        assert found.dtype is sc.reduce(np.ones((2, 2), dtype), "ab", "a", op).dtype


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16"])
def test_a_sum_over_nothing_is_0_beside_nan(dtype: str) -> None:
    x, nothing = np.array([np.nan, np.inf, 1], dtype), np.zeros(0, dtype)
    cases = (
        ("a,b->a", (x, nothing)),
        ("ab,b->a", (x[:, None], nothing)),
        ("a,b,c->ca", (x, nothing, x)),
        ("a,b->", (x, nothing)),
        ("a,b->ab", (x, nothing)),
    )
    for text, operands in cases:
        expected = np.einsum(text, *operands)
        plan = EinsumPlan(text, [TensorDescriptor.from_tensor(x) for x in operands])
        for found in (
            sc.einsum(text, *operands),
            sc.einsum(text, *operands, memory_limit=64),
            plan.execute(list(operands)),
        ):
            assert np.array_equal(found.numpy(), expected), text
            assert not np.signbit(found.numpy().real).any()


def test_alpha_and_c_of_a_sum_over_nothing() -> None:
    x, c = sc.tensor([np.nan, np.inf, 1], requires_grad=True), sc.tensor(np.ones(3))
    nothing = np.zeros(0)
    given: dict[str, Any] = {"c": c, "c_modes": "a", "beta": 2}
    found = sc.contract(x, "a", nothing, "b", "a", **given)
    assert found.tolist() == [2, 2, 2]
    assert np.isnan(sc.contract(x, "a", nothing, "b", "a", alpha=np.inf, **given).numpy()).all()
    [slope] = sc.grad(sc.sum(found), [x])
    assert slope.tolist() == [0, 0, 0]
