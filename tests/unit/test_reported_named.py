"""Named axes as a trial of them met them: each finding with its right behaviour."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import softcuda as sc
from softcuda import (
    EinsumPlan,
    OperandDescriptor,
    OperationDescriptor,
    Plan,
    ReductionOp,
    TensorDescriptor,
)
from softcuda.contraction import greedy
from softcuda.contraction.network import Network
from softcuda.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
)

A = np.arange(6.0).reshape(2, 3)
S = np.array([[1.0, 2], [3, 4]])
CHAIN = ("ij,jk,kl->il", S, S, S)


def plan_of(expression: str, *given: Any, **options: Any) -> EinsumPlan:
    described = [TensorDescriptor.from_tensor(x) for x in given]
    return EinsumPlan.with_options(expression, described, **options)


# ---- paths --------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [87, 100, 127])
@pytest.mark.parametrize("optimize", ["auto", "greedy", "random-greedy"])
def test_many_private_labels(count: int, optimize: str) -> None:
    pairs = [argument for k in range(count) for argument in (np.ones(1 + k % 2), [k])]
    path = sc.einsum_path(*pairs, [], optimize=optimize)
    assert len(path.positions) == count - 1
    sums = 2 * (count // 2)  # of the operands of extent 2
    assert path.flops == sums + count - 1


@pytest.mark.parametrize("dangling", [80, 120])
def test_a_chain_with_private_labels(dangling: int) -> None:
    count = 120
    pairs: list[Any] = []
    for k in range(count):
        extra = [1000 + k] if k < dangling else []
        pairs += [np.full((2, 2) + (2,) * len(extra), 0.5), [k, k + 1, *extra]]
    found = sc.einsum(*pairs, [0, count])
    assert np.array_equal(found.numpy(), np.full((2, 2), 2.0 ** (dangling - 1)))


def test_a_shared_label_and_many_private_ones() -> None:
    count = 90
    pairs = [argument for k in range(count) for argument in (np.full((4, 3), 1 / 3), ["b", k])]
    assert np.allclose(sc.einsum(*pairs, ["b"]).numpy(), np.ones(4))


def test_a_panic_of_the_search_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    panic = type("PanicException", (BaseException,), {})

    def search(*network: Any) -> Any:
        raise panic("index out of bounds")

    monkeypatch.setattr(greedy, "_library", lambda: SimpleNamespace(optimize_greedy=search))
    network = Network((frozenset({0}), frozenset({0})), frozenset(), (2,))
    with pytest.raises(ArgumentError, match=r"optimize_greedy failed on 2 .*left-to-right"):
        greedy.greedy_positions(network)


@pytest.mark.parametrize(
    "path",
    [
        np.einsum_path(*CHAIN),
        np.einsum_path(*CHAIN)[0],
        ((0, 1), [0, 1]),
        ([0, 1], [0, 1]),
        [[0, 1], [0, 1], ["sliced", "j"]],
        np.True_,
        np.False_,
    ],
    ids=lambda path: type(path).__name__,
)
def test_paths_in_every_form(path: Any) -> None:
    expected = S @ S @ S
    assert np.array_equal(sc.einsum(*CHAIN, optimize=path).numpy(), expected)
    found = plan_of("ij,jk,kl->il", S, S, S, optimize=path).execute([S, S, S])
    assert np.array_equal(found.numpy(), expected)


@pytest.mark.parametrize("path", [{}, {(0, 1)}, [(False, True), (0, 1)]], ids=str)
def test_what_is_no_path(path: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="path is"):
        sc.einsum(*CHAIN, optimize=path)


# ---- plans --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.T,
        lambda x: x[:, ::2],
        lambda x: x[::-1],
        lambda x: sc.broadcast_to(x[0], (4, 3)),
        lambda x: (x + x).T,
    ],
)
def test_a_plan_takes_the_tensor_it_was_made_from(view: Callable[[sc.Tensor], sc.Tensor]) -> None:
    x = view(sc.tensor(A))
    plan = plan_of("ij->ji", x)
    assert np.array_equal(plan.execute([x]).numpy(), x.numpy().T)
    again = plan_of("ij->ji", x)  # evaluated by now
    assert np.array_equal(again.execute([x]).numpy(), x.numpy().T)


def test_variables_do_not_tear() -> None:
    size, rounds = 400, 40
    variable = sc.variable(np.zeros((size, size)), "v")
    writes = plan_of("ij->ij", np.zeros((size, size)))
    sums = plan_of("ij,j->i", variable, np.ones(size))
    is_over = threading.Event()

    def write() -> None:
        k = 0
        while not is_over.is_set():
            k += 1
            value = np.full((size, size), float(k))
            if k % 2:
                variable.assign(value)
            else:
                writes.execute_into([value], variable)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        seen = [sums.execute([variable, np.ones(size)]).numpy() for _ in range(rounds)]
        seen += [variable.numpy() for _ in range(rounds)]
    finally:
        is_over.set()
        thread.join()
    assert all(x.min() == x.max() for x in seen)


def test_a_wider_output_is_rounded_once() -> None:
    x, out = np.array([300], np.float16), np.zeros(1, np.float32)
    plan = plan_of("i,i->i", x, x)
    assert np.isinf(plan.execute([x, x]).numpy())
    plan.execute_into([x, x], out)
    assert out == 90000
    wide = np.zeros((2, 3), np.float64)
    half = np.full((3, 2), 1 / 3, np.float32)
    plan_of("ij->ji", half).execute_into([half], wide[:, ::-1])
    assert np.array_equal(wide, half.T.astype(np.float64)[:, ::-1])


def test_an_output_of_a_lower_kind_is_refused() -> None:
    whole = np.arange(3, dtype=np.int32)
    for x, out in ((whole, np.zeros(3, bool)), (A[0], whole), (A[0] * 1j, A[0].copy())):
        with pytest.raises(DTypeError, match=r"the output has dtype .* and the result is"):
            plan_of("i,i->i", x, x).execute_into([x, x], out)


def test_a_byte_swapped_output_is_named() -> None:
    with pytest.raises(DTypeError, match=r"the output has dtype '>f8', which no tensor has"):
        plan_of("ij->ji", A).execute_into([A], np.zeros((3, 2), ">f8"))


def test_a_plan_does_not_drop_gradients_in_silence() -> None:
    x = sc.tensor(S, requires_grad=True)
    plan = plan_of("ij->ji", S)
    for given in (x, x * 2):
        with pytest.raises(ArgumentError, match=r"^Plan: input 0 .*no history.*detach"):
            plan.execute([given])
        with pytest.raises(ArgumentError, match=r"^Plan: input 0 .*no history"):
            plan.execute_into([given], np.zeros((2, 2)))
        with sc.no_grad():
            assert plan.execute([given]).shape == (2, 2)
        assert plan.execute([given.detach()]).shape == (2, 2)
    plain = sc.tensor(S)
    with pytest.raises(ArgumentError, match="has dropped what it was computed from"):
        sc.grad(sc.sum(plan.execute([plain]) * 2), [plain])


def test_a_complex_scalar_of_one_is_a_product() -> None:
    x = np.array([complex(np.inf, 1)])
    described = OperandDescriptor.from_tensor(x, "i")
    operation = OperationDescriptor.permutation(described, described.tensor_descriptor, "i")
    plan = Plan(operation)
    with np.errstate(all="ignore"):
        expected = x * np.complex128(1)
    assert np.array_equal(plan.execute([x], [1]).numpy(), expected, equal_nan=True)
    assert np.array_equal(sc.permute(x, "i", "i").numpy(), x)


# ---- scalars ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "beta, dtype", [(1e-50, "f4"), (1e-50j, "c8"), (0.0, "f4"), (-1e-60, "f4")]
)
def test_a_beta_that_is_0_when_rounded(beta: complex, dtype: str) -> None:
    x, c = S.astype(dtype), np.full((2, 2), np.nan, dtype)
    found = sc.contract(x, "ij", x, "jk", "ik", c=c, c_modes="ik", beta=beta)
    assert np.array_equal(found.numpy(), x @ x)
    found = sc.reduce(x, "ij", "i", c=c[0], c_modes="i", beta=beta)
    assert np.array_equal(found.numpy(), x.sum(1))


def test_the_gradient_of_a_beta_of_0() -> None:
    """C is not read where beta is 0, so that nothing is known of what beta would add."""
    beta = sc.tensor(np.float64(0), requires_grad=True)
    c = np.full((2, 2), np.nan)
    value = sc.sum(sc.contract(S, "ij", S, "jk", "ik", c=c, c_modes="ik", beta=beta))
    assert value.item() == (S @ S).sum()
    [found] = sc.grad(value, [beta])
    assert found.item() == 0


def test_a_reduction_that_drops_no_label() -> None:
    x = np.array([-2, 0], np.int32)
    found = {op: sc.reduce(x, "i", "i", op) for op in ReductionOp}
    assert found[ReductionOp.Sum].dtype is found[ReductionOp.Product].dtype is sc.i64
    assert found[ReductionOp.Max].dtype is sc.i32
    assert found[ReductionOp.Any].tolist() == found[ReductionOp.All].tolist() == [True, False]
    assert found[ReductionOp.Norm1].tolist() == [2, 0]
    assert found[ReductionOp.ArgMax].tolist() == [0, 0]
    assert found[ReductionOp.Sum].tolist() == found[ReductionOp.Min].tolist() == x.tolist()


# ---- limits of functions ------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_functions_at_infinity(dtype: Any) -> None:
    x = np.array([-np.inf, np.inf, np.nan], dtype)
    limits = {"silu": np.inf, "mish": np.inf, "gelu": np.inf, "softsign": 1.0}
    for name, above in limits.items():
        below, high, unknown = getattr(sc, name)(x).tolist()
        assert below == (-1 if name == "softsign" else 0), name
        assert np.signbit(below)
        assert high == above
        assert np.isnan(unknown)
