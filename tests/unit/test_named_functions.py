"""Lazy operations on named axes: nodes of the graph, dtypes, paths, rounding, slices."""

from __future__ import annotations

import numpy as np
import pytest
from tolerance import assert_close

import softcuda as sc
from softcuda import BinaryOp, ComputeType, ReductionOp, UnaryOp
from softcuda.dtype import DType, bf16, f16, f32, f64, i32, i64
from softcuda.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from softcuda.graph.node import ancestors
from softcuda.named import pairs

A = np.arange(6.0).reshape(2, 3)
B = np.arange(12.0).reshape(3, 4)
S = np.array([[1.0, 2], [3, 4]])


def ops_of(tensor: sc.Tensor) -> list[str]:
    return [node.op.name for node in ancestors([tensor]) if not node.is_leaf]


def test_an_einsum_is_made_of_ordinary_nodes() -> None:
    a, b, c = sc.tensor(A), sc.tensor(B), sc.tensor(B[0])
    assert ops_of(sc.einsum("ij,jk,k->i", a, b, c)) == ["matmul", "matmul"]
    assert ops_of(sc.einsum("ij->ji", a)) == ["permute"]
    assert ops_of(sc.einsum("ij->j", a)) == ["sum"]
    total = sc.einsum("ij,jk->ik", a, b).exp().sum()
    assert np.array_equal(total.numpy(), np.exp(A @ B).sum())


def test_numbers_and_lists_are_operands() -> None:
    assert sc.einsum(",ij->ij", 2, sc.tensor(A, f32)).dtype is f32
    assert sc.einsum("i,i", [1, 2, 3], [4, 5, 6]).item() == 32
    assert sc.einsum("ij,jk", [A, B]).numpy().tolist() == (A @ B).tolist()
    assert sc.einsum(A, [0, 1], B, [1, 2]).numpy().tolist() == (A @ B).tolist()
    assert sc.einsum(A, [0, 1], B, [1, 2], [2, 0]).numpy().tolist() == (A @ B).T.tolist()


@pytest.mark.parametrize(
    ("dtypes", "result"),
    [
        ((f16, f16), f16),
        ((f16, bf16), f32),
        ((i32, i64), i64),
        ((i32, f16), f16),
        ((f32, f64), f64),
    ],
    ids=str,
)
def test_dtypes(dtypes: tuple[DType, DType], result: DType) -> None:
    a, b = (x.astype(d.numpy) for x, d in zip((A, B), dtypes, strict=True))
    found = sc.einsum("ij,jk->ik", a, b)
    assert found.dtype is result
    assert np.array_equal(found.numpy().astype(float), A @ B)


def test_integers_wrap_and_keep_their_dtype() -> None:
    big = np.full(4, 2**30, np.int32)
    with np.errstate(over="ignore"):
        assert sc.einsum("i->", big).item() == big.sum(dtype=np.int32)
        assert sc.einsum("i,i->", big, big).item() == (big * big).sum(dtype=np.int32)
    assert sc.einsum("i->", big).dtype is i32


def test_bools_are_not_added_up() -> None:
    flags = sc.tensor([[True, False], [True, True]])
    assert sc.einsum("ii->i", flags).tolist() == [True, True]
    for text, operands in (("ij->j", (flags,)), ("ij,jk", (flags, flags))):
        with pytest.raises(DTypeError, match="bool"):
            sc.einsum(text, *operands)
    assert sc.reduce(flags, "ij", "j", ReductionOp.All).tolist() == [True, False]


def test_one_rounding_of_a_path() -> None:
    a = np.array([[1, 1]], np.float16)
    b = np.array([[2048, -2048], [1, 0]], np.float16)
    c = np.ones((2, 1), np.float16)
    assert sc.einsum("ij,jk,kl->il", a, b, c, optimize=[(0, 1), (0, 1)]).item() == 1
    assert (sc.tensor(a) @ b @ c).item() == 0


def test_compute_and_output_types() -> None:
    third = np.full((1, 3), 1 / 3, np.float32)
    wide = sc.einsum_with_options("ij,kj->ik", third, third, compute=ComputeType.F64)
    assert wide.dtype is f32
    exact = (third.astype(float) @ third.T.astype(float)).astype(np.float32)
    assert np.array_equal(wide.numpy(), exact)
    asked = sc.einsum_with_options("ij,kj->ik", third, third, output_dtype="f64")
    assert asked.dtype is f64
    assert float(asked.item()) == float(np.float32(asked.item()))
    narrow = sc.einsum_with_options("ij,kj->ik", third, third, output_dtype=bf16)
    assert_close(narrow.numpy(), exact.astype(float), bf16, "matmul", k_extent=3)


def test_a_lesser_compute_type_is_noted_where_there_are_no_units() -> None:
    a = sc.tensor(A, f32)
    made = sc.einsum_with_options("ij,kj->ik", a, a, compute=ComputeType.TF32)
    table = str(sc.compile(made, "default"))
    assert "cpu_blas has no units of tf32 and computes in f32" in table
    assert np.array_equal(made.numpy(), A @ A.T)


def test_a_path_prints_its_steps() -> None:
    path = sc.einsum_path("ij,jk,k->i", A, B, B[0], config="default")
    text = str(path)
    assert text.splitlines()[1].split()[:4] == ["step", "operands", "expression", "kind"]
    assert text.count("cpu_blas") == 2
    again = sc.einsum("ij,jk,k->i", A, B, B[0], optimize=path)
    assert np.array_equal(again.numpy(), A @ B @ B[0])
    assert path.positions == ((1, 2), (0, 1))


def test_a_memory_limit_is_met_by_slices() -> None:
    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(-3, 4, shape).astype(float) for shape in ((6, 8), (8, 9), (9, 4)))
    path = sc.einsum_path("ij,jk,kl->il", a, b, c, memory_limit=64)
    assert path.largest_bytes <= 64
    assert "sliced: " in str(path)
    made = sc.einsum("ij,jk,kl->il", a, b, c, memory_limit=64)
    assert np.array_equal(made.numpy(), a @ b @ c)


def test_too_many_slices_are_refused() -> None:
    big = sc.input((512, 512), f32)
    with pytest.raises(ArgumentError, match="slices of 2 steps"):
        sc.einsum("ij,jk,kl->il", big, big, big, memory_limit=4)
    assert pairs.MOST_LINES > 1 << 10


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "1"])
def test_limits_that_are_none(limit: object) -> None:
    with pytest.raises((ArgumentError, ArgumentTypeError), match="memory_limit"):
        sc.einsum("ij,jk", A, B, memory_limit=limit)  # type: ignore[arg-type]


def test_contract() -> None:
    c = np.ones((2, 4))
    found = sc.contract(A, "ik", B, "kj", "ij", c=c, c_modes="ij", alpha=2, beta=3)
    assert np.array_equal(found.numpy(), 2 * A @ B + 3)
    unread = sc.contract(A, "ik", B, "kj", "ij", c=c * np.nan, c_modes="ij", beta=0)
    assert np.array_equal(unread.numpy(), A @ B)
    zero = sc.input((), f64, name="beta")
    given = sc.contract(A, [0, 1], B, [1, 2], [0, 2], c=c * np.nan, c_modes=[0, 2], beta=zero)
    executable = sc.compile(given)
    assert np.array_equal(executable.run(beta=0.0).numpy(), A @ B)
    assert np.isnan(executable.run(beta=1.0).numpy()).all()
    roots = sc.contract(A, "ik", B, "kj", "ij", unary=[UnaryOp.Sqrt])
    assert_close(roots.numpy(), np.sqrt(A) @ B, f64, "matmul", k_extent=3)
    wide = sc.contract(A[:1], "ik", B, "kj", "ij", out_shape=(5, 4))
    assert np.array_equal(wide.numpy(), np.repeat(A[:1] @ B, 5, 0))


def test_reduce() -> None:
    assert sc.reduce(A, "ij", "j").numpy().tolist() == A.sum(0).tolist()
    assert np.array_equal(sc.reduce(A, "ij", "ji").numpy(), A.T)
    assert sc.reduce(A, "ij", "i", ReductionOp.Max, alpha=-1).numpy().tolist() == [-2, -5]
    assert sc.reduce(A.astype("i4"), "ij", "").dtype is i64
    assert sc.reduce(np.zeros((0,), np.int32), "i", "", ReductionOp.Min).item() == 2**31 - 1
    assert sc.reduce(np.zeros((0,), bool), "i", "", ReductionOp.Min).item() is True
    assert sc.reduce(A, "ij", "j", ReductionOp.ArgMax).tolist() == [1, 1, 1]
    with pytest.raises(ShapeError, match="argmin"):
        sc.reduce(np.zeros((2, 0)), "ij", "i", ReductionOp.ArgMin)


def test_permute_is_a_tensor_of_its_own() -> None:
    made = sc.permute(A, "ij", "ji", alpha=2)
    assert np.array_equal(made.numpy(), 2 * A.T)
    assert made.numpy().flags.c_contiguous
    with pytest.raises(ArgumentError, match="takes no diagonal"):
        sc.permute(S, "ii", "i")


def test_elementwise() -> None:
    v = np.array([10.0, 20, 30])
    found = sc.elementwise_binary(A, "ij", v, "j", "ji", BinaryOp.Add, alpha=2)
    assert np.array_equal(found.numpy(), (2 * A + v).T)
    third = sc.elementwise_trinary(
        A, "ij", v, "j", [1.0, 2], "i", "ij", BinaryOp.Mul, BinaryOp.Sub, gamma=3
    )
    assert np.array_equal(third.numpy(), A * v - np.array([[3.0], [6]]))
    half = sc.elementwise_binary(v.astype("f2"), "i", v.astype("f2"), "i", "i", BinaryOp.Mul)
    assert half.dtype is f16
    flags = sc.elementwise_binary([True, False], "i", [True, True], "i", "i", BinaryOp.And)
    assert flags.tolist() == [True, False]


def test_labels_in_messages() -> None:
    with pytest.raises(ArgumentError, match="output label x is in no input"):
        sc.contract(A, "ik", B, "kj", "ix")
    with pytest.raises(ShapeError, match="label k has extent 3 in operand 0"):
        sc.contract(A, "ik", A, "kj", "ij")
    with pytest.raises(ArgumentError, match="2 unary functions for 1 operands"):
        sc.reduce(A, "ij", "i", unary=[UnaryOp.Abs, UnaryOp.Abs])
    with pytest.raises(ArgumentTypeError, match="alpha is None"):
        sc.permute(A, "ij", "ji", alpha=None)
    with pytest.raises(ShapeError, match="beta has shape"):
        sc.contract(A, "ik", B, "kj", "ij", c=B[0], c_modes="j", beta=sc.tensor([1.0, 2]))


def test_a_definition_is_made_once() -> None:
    first = sc.einsum("ij,jk->ik", A, B)
    second = sc.einsum("ij,jk->ik", A, B)
    assert first is not second
    assert first.params is second.params
