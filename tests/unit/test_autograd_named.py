"""Gradients of named-axis operations: by differences, the reported values, and what they are."""

from __future__ import annotations

import numpy as np
import pytest
from gradient_cases import check_gradients, check_second_gradients
from named_gradients import NAMED
from reported_cases import pattern

import softcuda as sc
from softcuda.graph.node import ancestors


@pytest.mark.parametrize("name", NAMED)
def test_gradients_equal_central_differences(name: str) -> None:
    assert check_gradients({name: NAMED[name]}, "default")
    assert check_second_gradients({name: NAMED[name]}, "default")


def test_a_sum_over_axes_that_are_no_neighbours() -> None:  # autograd-242
    x = sc.tensor(pattern((3, 2, 3, 2), 0))
    found = sc.grad(sc.sum(sc.einsum("abcd->bd", x) ** 2), x)
    right = [[[0.5, 4.5]] * 3, [[-3.0, -4.5]] * 3]
    assert np.array_equal(found.numpy(), [right] * 3)


def test_an_operand_read_through_its_diagonal() -> None:  # autograd-510
    x = sc.tensor(np.arange(8.0).reshape(4, 2))
    w = sc.tensor(np.arange(16.0).reshape(4, 4))
    dx, dw = sc.grad(sc.sum(sc.einsum("nd,nn->d", x, w)), (x, w))
    assert np.array_equal(dw.numpy(), np.diag([1.0, 5, 9, 13]))
    assert np.array_equal(dx.numpy(), np.repeat([[0.0], [5], [10], [15]], 2, axis=1))


def test_a_batched_product() -> None:  # mxnet-18102
    a, b = pattern((1, 1, 5, 3), 0), pattern((1, 1, 3, 2), 1)
    g = pattern((1, 1, 5, 2), 2)
    x, y = sc.tensor(a), sc.tensor(b)
    da, db = sc.grad(sc.einsum("bnij,bnjc->bnic", x, y), [x, y], g)
    assert np.array_equal(da.numpy(), g @ b.swapaxes(2, 3))
    assert np.array_equal(db.numpy(), a.swapaxes(2, 3) @ g)
    assert da.numpy()[0, 0, 0].tolist() == [-1.0625, 0.625, 0.25]


def test_a_trace() -> None:  # tenferro-557
    x = sc.tensor(pattern((3, 3), 0))
    assert np.array_equal(sc.grad(sc.einsum("ii->", x), x).numpy(), np.eye(3))
    weighted = sc.einsum("ii->i", x).dot(np.array([1.0, 2, 3]))
    assert np.array_equal(sc.grad(weighted, x).numpy(), np.diag([1.0, 2, 3]))


@pytest.mark.parametrize(
    ("expression", "shapes"),
    [
        ("ij,jk->ik", ((2, 3), (3, 4))),
        ("bik,bkj->bij", ((5, 2, 3), (5, 3, 4))),
        ("ij,kj->ik", ((2, 3), (4, 3))),
        ("ijk,ikl->ijl", ((2, 3, 4), (2, 4, 5))),
    ],
)
def test_gradients_of_contractions_are_contractions(
    expression: str, shapes: tuple[tuple[int, ...], ...]
) -> None:
    operands = [sc.input(shape) for shape in shapes]
    product = sc.einsum(expression, *operands)
    seed = sc.input(product.dims)
    for gradient, operand in zip(sc.grad(product, operands, seed), operands, strict=True):
        made = [node.op.name for node in ancestors([gradient]) if not node.is_leaf]
        assert made.count("matmul") == 1
        assert set(made) <= {"matmul", "reshape", "broadcast_to", "permute"}
        assert gradient.dims == operand.dims
