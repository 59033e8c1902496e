"""Shape functions, joining and picking against NumPy; wrong axes and shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import softcuda as sc
from softcuda import errors

A = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
X = sc.tensor(A)


def same(found: sc.Tensor, expected: Any) -> None:
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.numpy(), expected, strict=True)


@pytest.mark.parametrize("shape", [(6, 4), (-1,), (2, -1, 2), 24, (1, 24, 1), [4, 3, 2]])
def test_reshape(shape: Any) -> None:
    same(sc.reshape(X, shape), A.reshape(shape))
    same(X.T.reshape(shape), A.T.reshape(shape))


def test_reshape_forms() -> None:
    same(X.reshape(4, -1), A.reshape(4, -1))
    same(sc.reshape(X, shape=(6, 4)), A.reshape(6, 4))
    assert sc.zeros((0, 3)).reshape(-1).shape == (0,)
    assert sc.zeros((0, 3)).reshape((3, -1)).shape == (3, 0)
    assert sc.ones(1).reshape(()).shape == ()
    assert sc.ones(()).reshape((1, 1)).shape == (1, 1)


@pytest.mark.parametrize("shape", [(5, 5), (-1, -1), (7, -1), (-2, 12), (0, -1)])
def test_wrong_reshapes(shape: Any) -> None:
    with pytest.raises(errors.ShapeError, match="reshape") as caught:
        X.reshape(shape)
    assert str(list(shape)) in str(caught.value)
    with pytest.raises(errors.ArgumentTypeError, match=r"2\.0"):
        X.reshape(2.0, 12)  # type: ignore[arg-type]


def test_permutations() -> None:
    same(sc.permute_dims(X, (2, 0, 1)), A.transpose(2, 0, 1))
    same(X.permute_dims(-1, 0, 1), A.transpose(-1, 0, 1))
    same(sc.transpose(X), A.T)
    same(X.transpose(1, 0, 2), A.transpose(1, 0, 2))
    same(X.T, A.T)
    same(X.mT, A.swapaxes(-1, -2))
    same(sc.swapaxes(X, 0, -1), A.swapaxes(0, -1))
    same(sc.moveaxis(X, 0, -1), np.moveaxis(A, 0, -1))
    same(sc.moveaxis(X, [0, 2], [1, 0]), np.moveaxis(A, [0, 2], [1, 0]))
    assert sc.tensor(1.0).T.shape == ()


@pytest.mark.parametrize(
    "call",
    [
        lambda: X.permute_dims(0, 1),
        lambda: X.permute_dims(0, 1, 1),
        lambda: X.transpose((0, 1, 3)),
        lambda: X.swapaxes(0, 3),
        lambda: X.moveaxis([0, 0], [1, 2]),
        lambda: X.moveaxis([0, 1], [1]),
        lambda: X.squeeze(5),
        lambda: X.expand_dims(5),
        lambda: X.expand_dims((0, 0)),
        lambda: X.flip((0, 0)),
        lambda: X.diagonal(0, 1, 1),
        lambda: X.diagonal(0, 0, 7),
        lambda: sc.concat([X, X], 3),
        lambda: sc.stack([X, X], 5),
        lambda: sc.split(X, 2, -4),
        lambda: X.take([0], 3),
        lambda: X.cumsum(3),
        lambda: sc.concat([1.0, 2.0]),
    ],
)
def test_wrong_axes(call: Any) -> None:
    with pytest.raises(errors.AxisError) as caught:
        call()
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, IndexError)


def test_broadcast_to() -> None:
    row = np.arange(3.0)
    same(sc.broadcast_to(row, (2, 3)), np.broadcast_to(row, (2, 3)))
    assert sc.broadcast_to(row, (0, 3)).shape == (0, 3)
    assert sc.ones(1).broadcast_to(0).shape == (0,)
    for shape in ((3, 2), (1,), (2, 4)):
        with pytest.raises(errors.ShapeError, match=r"\[3\]"):
            sc.broadcast_to(row, shape)


def test_axes_of_extent_1() -> None:
    same(X.expand_dims(0), A[None])
    same(X.expand_dims(-1), A[..., None])
    same(X.expand_dims((0, -1)), np.expand_dims(A, (0, -1)))
    y = X[:, None, :1]
    same(y.squeeze(), np.squeeze(y.numpy()))
    same(y.squeeze(1), np.squeeze(y.numpy(), 1))
    with pytest.raises(errors.ShapeError, match="extent 3"):
        X.squeeze(1)
    with pytest.raises(errors.ShapeError, match="64"):
        sc.zeros((1,) * 64).expand_dims(0)


def test_flip_and_diagonal() -> None:
    same(sc.flip(X), np.flip(A))
    same(sc.flip(X, 1), np.flip(A, 1))
    same(sc.flip(X, (0, -1)), np.flip(A, (0, -1)))
    for offset in (-4, -1, 0, 2, 5):
        same(sc.diagonal(X, offset), np.diagonal(A, offset))
        same(sc.diagonal(X, offset, -1, 0), np.diagonal(A, offset, -1, 0))
    with pytest.raises(errors.ShapeError, match="two axes"):
        sc.diagonal([1.0])
    with pytest.raises(errors.ArgumentTypeError, match="offset"):
        sc.diagonal(X, 0.5)  # type: ignore[arg-type]


def test_concat_and_stack() -> None:
    for axis in (0, 1, -1):
        same(sc.concat([X, X + 1], axis), np.concatenate([A, A + 1], axis))
        same(sc.stack([X, X + 1, X], axis), np.stack([A, A + 1, A], axis))
    same(sc.concat([X, X[0]], None), np.concatenate([A, A[0]], None))
    assert sc.concat([sc.ones((2,), sc.f16), sc.ones((1,), sc.i64)]).dtype is sc.f16
    assert sc.stack([1, 2.5]).tolist() == [1, 2.5]
    assert sc.stack([sc.ones((), sc.f16), 2.5]).dtype is sc.f16
    assert sc.concat([sc.zeros((0, 2)), sc.ones((1, 2))]).shape == (1, 2)
    assert sc.concat(X).shape == (6, 4)
    with pytest.raises(errors.ShapeError, match=r"operand 1 \[2, 2, 4\]"):
        sc.concat([X, X[:, :2]])
    with pytest.raises(errors.ShapeError, match="stack"):
        sc.stack([X, X[0]])
    with pytest.raises(errors.ArgumentError, match="empty"):
        sc.concat([])
    with pytest.raises(errors.ArgumentTypeError, match="list or tuple"):
        sc.stack(3)  # type: ignore[arg-type]


def test_stack_of_thousands() -> None:
    many = [sc.full((28, 28), k % 3, sc.f32) for k in range(6131)]
    assert set(sc.sum(sc.stack(many), 0).numpy().ravel()) == {6130.0}


@pytest.mark.parametrize("cut", [1, 2, 4, [1], [1, 3], [2, 2], [0, 9], [-1], [3, 1], []])
def test_split(cut: Any) -> None:
    parts, expected = sc.split(X, cut, 2), np.split(A, cut, 2)
    assert len(parts) == len(expected)
    for part, wanted in zip(parts, expected, strict=True):
        same(part, wanted)


def test_wrong_splits() -> None:
    with pytest.raises(errors.ShapeError, match=r"extent 3.*2 equal parts"):
        sc.split(X, 2, 1)
    with pytest.raises(errors.ArgumentError, match="0 parts"):
        sc.split(X, 0)
    with pytest.raises(errors.ArgumentTypeError, match=r"0\.5"):
        sc.split(X, 0.5)  # type: ignore[arg-type]


WIDTHS: tuple[Any, ...] = (1, (2, 1), ((1, 0), (0, 2), (3, 3)), ((1, 2),), (2,), 0, {-1: (1, 5)})


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap"])
@pytest.mark.parametrize("width", WIDTHS, ids=str)
def test_pad(mode: Any, width: Any) -> None:
    table = ((0, 0), (0, 0), width[-1]) if isinstance(width, dict) else width
    same(sc.pad(X, width, mode), np.pad(A, table, mode))


def test_pad_values_and_errors() -> None:
    assert sc.pad([1, 2], 1, constant_values=9).tolist() == [9, 1, 2, 9]
    assert sc.pad(sc.zeros((0,)), (2, 0)).tolist() == [0, 0]
    with pytest.raises(errors.ShapeError, match="empty"):
        sc.pad(sc.zeros((0,)), 1, "edge")
    with pytest.raises(errors.DTypeError, match="kind"):
        sc.pad([1, 2], 1, constant_values=0.5)
    with pytest.raises(errors.ArgumentError, match=r"'mirror'.*constant, edge"):
        sc.pad(X, 1, "mirror")
    with pytest.raises(errors.ArgumentError, match="-1"):
        sc.pad(X, -1)
    for width in (1.5, ((1, 2), (3, 4)), "ab", [[[1]]] * 5):
        with pytest.raises(errors.ArgumentTypeError, match="pad_width"):
            sc.pad(X, width)  # type: ignore[arg-type]


def test_triangles() -> None:
    for k in (-5, -1, 0, 2, 5):
        same(sc.tril(X, k), np.tril(A, k))
        same(sc.triu(X, k), np.triu(A, k))
    with pytest.raises(errors.ShapeError, match="two axes"):
        sc.tril([1.0])
    with pytest.raises(errors.ArgumentTypeError, match="k is"):
        sc.triu(X, 0.5)  # type: ignore[arg-type]


def test_take() -> None:
    rows = np.array([[2, 0], [-1, 1]])
    same(sc.take(X, rows, 1), np.take(A, rows, 1))
    same(sc.take(X, rows), np.take(A, rows))
    same(sc.take(X, 1, -1), np.take(A, 1, -1))
    same(sc.take(X, [], 0), A[[]])
    with pytest.raises(errors.DTypeError, match="i32 and i64"):
        sc.take(X, [0.5])
    with pytest.raises(errors.IndexOutOfRange, match="7"):
        sc.take(X, [7], 0).numpy()
    with pytest.raises(errors.ShapeError, match="empty"):
        sc.take(sc.zeros((0,)), [0], 0)


def test_take_along_axis_and_gather() -> None:
    order = np.argsort(-A, 1)
    same(sc.take_along_axis(X, order, 1), np.take_along_axis(A, order, 1))
    same(
        sc.take_along_axis(X, [[[1], [0]]]), np.take_along_axis(A[:, :2], np.array([[[1], [0]]]), 2)
    ) if (A.shape[1] == 2) else None
    one = np.array([[[3, 1]]])
    same(sc.take_along_axis(X, one), np.take_along_axis(A, one, -1))
    same(sc.take_along_axis(X, [5, 7], None), np.take_along_axis(A, np.array([5, 7]), None))
    same(sc.gather(X, [[[1, 0]]], 2), A[:1, :1, [1, 0]])
    with pytest.raises(errors.ShapeError, match="same rank"):
        sc.take_along_axis(X, [1], 0)
    with pytest.raises(errors.ShapeError, match="broadcast"):
        sc.take_along_axis(X, np.zeros((2, 2, 1), int), 2)
    with pytest.raises(errors.ShapeError, match="gather"):
        sc.gather(X, np.zeros((3, 1, 1), int), 2)


def test_one_hot() -> None:
    assert sc.one_hot([1, 0, 5, -1], 3).tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert sc.one_hot(2, 3, sc.bool_).tolist() == [False, False, True]
    assert sc.one_hot([[]], 2).shape == (1, 0, 2)
    with pytest.raises(errors.DTypeError, match=r"integers|i32 and i64"):
        sc.one_hot([0.5], 2)
    with pytest.raises(errors.ArgumentError, match="-1"):
        sc.one_hot([1], -1)


def test_views_are_views() -> None:
    for y in (X.T, X.reshape(6, 4), X.flip(), X.diagonal(), X.expand_dims(0), X[0], X.mT):
        assert y.op.kind.value == "view"
    assert X.flip(0).strides == (-12, 4, 1)
    assert X.broadcast_to((5, 2, 3, 4)).strides == (0, 12, 4, 1)
    assert X.diagonal().strides == (1, 16)
    for part in sc.split(X, 2):
        assert np.prod(part.shape) == 12
