"""Calls that are bound to other arrays by the views of the first ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import softcuda as sc
from softcuda.executor.templates import CallTemplate, template_of

N = 160  # 100 KiB of f32: read where they lie, so that every run binds to other arrays


def values(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def made(function: Callable[..., object], *arguments: object) -> list:
    return [(function, arguments)]


def test_views_are_made_of_other_arrays() -> None:
    a, b, out = values(1, 4, 6), values(2, 4, 6), np.empty((6, 4), np.float32)
    calls = made(np.multiply, a.T, b[:, ::-1].T[::-1], out) + made(np.add, out, out, out)
    template = template_of(calls, [a, b, out])
    assert template is not None
    others = [values(3, 4, 6), values(4, 4, 6), np.empty((6, 4), np.float32)]
    for function, arguments in template.calls_on(others):
        function(*arguments)
    np.testing.assert_array_equal(others[2], 2 * (others[0].T * others[1].T))
    [(_, arguments), (_, whole)] = template.calls_on(others)
    assert whole[0] is others[2]
    assert arguments[0].base is not None
    others[2][...] = 0
    template(*others)
    np.testing.assert_array_equal(others[2], 2 * (others[0].T * others[1].T))
    template(others[0], others[0], others[2])  # one array twice
    np.testing.assert_array_equal(others[2], 2 * others[0].T ** 2)


def test_what_is_its_own_stays() -> None:
    """Memory beside the operands, numbers, axes, dtypes; views of another dtype."""
    a, out = values(1, 4, 6), np.empty(4, np.float32)
    wide, two = np.empty(4), np.full((), 2, np.float32)
    calls = [
        *made(np.add.reduce, a, (1,), np.dtype(np.float64), wide, False),
        *made(np.copyto, out, wide, "unsafe"),
        *made(np.multiply, out, two, out),
        *made(np.negative, out, out.view(np.int32).view(np.float32)),
        *made(np.bitwise_and, out.view(np.int32), 0x7FFFFFFF, out.view(np.int32)),
    ]
    template = template_of(calls, [a, out])
    assert template is not None
    for seed in (3, 4):
        others = [values(seed, 4, 6), np.full(4, np.nan, np.float32)]
        template(*others)
        expected = np.abs(2 * others[0].astype(np.float64).sum(1).astype(np.float32))
        np.testing.assert_array_equal(others[1], expected)
    assert template.only is None


def test_what_has_no_template() -> None:
    a, out = values(1, 4, 6), np.empty((4, 6), np.float32)
    assert template_of(made(np.negative, a, out), [a, out]).only is np.negative
    assert template_of(made(np.negative, a[::-1], out), [a, out]).only is None
    assert template_of(made(np.copyto, out, a), [a, out]).only is None  # the result comes first
    assert template_of(made(np.multiply, a, values(2, 4, 6), out), [a, out]) is not None
    large = np.empty((1 << 18, 1), np.float32)
    assert template_of(made(np.add, a[0, 0:1], large, large), [a, out]) is None  # much of its own
    assert template_of(made(lambda x, y: None, a, out), [a, out]) is None  # may keep something
    assert template_of(made(np.multiply, a, [2.0] * 6, out), [a, out]) is None  # may be changed
    assert template_of(made(np.negative, a, a), [a, a]) is None  # which of the two
    assert template_of(made(np.negative, a[:2], a[1:3]), [a[:2], a[1:3]]) is None
    assert template_of(made(np.negative, a.T, out.T), [a.T, out]) is None  # strided
    none = np.empty((0, 6), np.float32)
    assert template_of(made(np.negative, none, none.copy()), [none, none.copy()]) is None


@pytest.mark.parametrize("expression", ["ij,jk->ik", "ji,kj->ik", "ij,ij->", "ij,ij->ij", "ij,kj"])
def test_every_run_reads_and_writes_its_own_arrays(expression: str) -> None:
    held = []
    for seed in range(4):
        pair = [sc.asarray(values(seed + k, N, N)) for k in (0, 50)]
        executable = sc.compile(sc.einsum(expression, *pair))
        held.append((sc.einsum(expression, *pair).evaluate(), executable.run()))
    for found, expected in held:
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


WORK: dict[str, Callable[[sc.Tensor], sc.Tensor]] = {
    "relu": lambda x: sc.relu(x) + 1.0,
    "exp": lambda x: sc.exp(x) * sc.tanh(x) + x,
    "turned": lambda x: sc.permute_dims(x, (2, 1, 0)) * 2.0,
    "where": lambda x: sc.where(x > 0.5, x, 0.0),
    "rows": lambda x: sc.sum(x * x, axis=2),
    "columns": lambda x: sc.max(x, axis=0),
    "all": lambda x: sc.mean(x - 1.0),
    "places": lambda x: sc.argmax(x, axis=1),
    "var": lambda x: sc.var(x, axis=(0, 2)),
    "softmax": lambda x: sc.softmax(x, axis=-1),
    "joined": lambda x: sc.concat([x, x * 2.0]),
}


@pytest.mark.parametrize("shape", [(3, 4, 5), (30, 30, 30), (40, 51, 60), (7, 400, 100)], ids=str)
@pytest.mark.parametrize("name", WORK)
def test_every_evaluation_reads_and_writes_its_own_arrays(
    name: str, shape: tuple[int, ...]
) -> None:
    held = []
    for seed in range(4):
        x = sc.tensor(values(seed, *shape))
        held.append((WORK[name](x).evaluate(), sc.compile(WORK[name](x)).run()))
    for found, expected in held:
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
    assert not np.array_equal(held[0][0].numpy(), held[1][0].numpy())


def test_operands_that_overlap() -> None:
    block = values(1, 2 * N, N)
    for start in (1, 7, N):  # what was bound first lies within the other operand
        pair = [sc.asarray(block[:N]), sc.asarray(block[start : start + N])]
        expected = sc.compile(sc.einsum("ij,jk->ik", *pair)).run().numpy()
        np.testing.assert_array_equal(sc.einsum("ij,jk->ik", *pair).numpy(), expected)
    alone = sc.asarray(block[:N])
    expected = sc.compile(alone @ alone).run().numpy()
    np.testing.assert_array_equal((alone @ alone).numpy(), expected)


def test_a_plan_of_read_only_operands() -> None:
    a, b = values(1, N, N), values(2, N, N)
    a.flags.writeable = False
    plan = sc.EinsumPlan("ij,jk->ik", [sc.TensorDescriptor.from_tensor(x) for x in (a, b)])
    expected = plan.execute([a, b]).numpy().copy()
    for pair in ((b, a), (a, b)):
        plan.execute(list(pair))
    np.testing.assert_array_equal(plan.execute([a, b]).numpy(), expected)


@pytest.mark.parametrize(
    ("expression", "shapes", "kind"),
    [
        ("ij,jk->ik", ((8, 6), (6, 4)), np.ufunc),
        ("bij,bjk->bik", ((3, 8, 6), (3, 6, 4)), np.ufunc),
        ("i,i->", ((9,), (9,)), np.ufunc),
        ("ij,j->i", ((8, 6), (6,)), np.ufunc),
        ("j,jk->k", ((6,), (6, 4)), np.ufunc),
        ("jk,ij->ik", ((6, 4), (8, 6)), CallTemplate),  # the operands in another order
        ("ij,jk->ik", ((1, 6), (6, 4)), CallTemplate),  # its label i is put back by a copy
        ("ij,kj->ik", ((8, 6), (4, 6)), CallTemplate),  # a view of an operand
        ("ij,jk,kl->il", ((8, 6), (6, 4), (4, 5)), CallTemplate),  # two calls
        ("ij,jk,kl,lm,mn->in", ((2, 6), (6, 4), (4, 5), (5, 3), (3, 7)), CallTemplate),
        ("i,j->ij", ((8,), (6,)), CallTemplate),
        ("ij->i", ((8, 6),), CallTemplate),
        ("ij->ji", ((8, 6),), CallTemplate),
        ("ija,ajk->aik", ((5, 4, 3), (3, 4, 6)), CallTemplate),
    ],
)
def test_a_small_program_takes_the_operands_themselves(
    expression: str, shapes: tuple[tuple[int, ...], ...], kind: type
) -> None:
    described = [sc.TensorDescriptor.contiguous(shape, sc.f32) for shape in shapes]
    plan = sc.EinsumPlan(expression, described, config="default")
    held = []
    for seed in range(5):
        arrays = [values(10 * seed + k, *shape) for k, shape in enumerate(shapes)]
        held.append((plan.execute(arrays), arrays))
        arrays[0] = arrays[0].copy()
        held.append((plan.execute(arrays), arrays))
    assert isinstance(plan._ready.runtime._calls.direct, kind)
    for found, arrays in held:
        expected = np.einsum(expression, *(x.astype(np.float64) for x in arrays))
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)
        tensors = [sc.asarray(x) for x in arrays]
        executable = sc.compile(sc.einsum(expression, *tensors), "default")
        np.testing.assert_array_equal(found.numpy(), executable.run().numpy())


@pytest.mark.parametrize("expression", ["ij,jk->ik", "ij,kj->ik", "ij,jk->i", "ij,jk->ki"])
def test_strides_of_extent_one(expression: str) -> None:
    a, b = values(1, 1, 6), values(2, 6, 6)
    plan = sc.EinsumPlan(expression, [sc.TensorDescriptor.from_tensor(x) for x in (a, b)])
    expected = plan.execute([a, b]).numpy().copy()
    for stride in (4, -400, 0, 1 << 40):
        odd = np.lib.stride_tricks.as_strided(a, a.shape, (stride, 4))
        np.testing.assert_array_equal(plan.execute([odd, b]).numpy(), expected)


def test_operands_that_are_not_aligned() -> None:
    described = [sc.TensorDescriptor.contiguous((4, 4), sc.f32)] * 2
    plan = sc.EinsumPlan("ij,jk->ik", described, config="default")
    a, b = values(1, 4, 4), values(2, 4, 4)
    room = np.empty(a.nbytes + 1, np.uint8)
    odd = room[1:].view(np.float32).reshape(4, 4)
    odd[...] = a
    for _ in range(3):
        np.testing.assert_array_equal(plan.execute([odd, b]).numpy(), plan.execute([a, b]).numpy())
