"""Fused elementwise chains on the device: bit for bit the single ops, whatever the layout."""

from __future__ import annotations

from typing import Any

import chain_cases
import numpy as np
import pytest
from chain_cases import array_of, operand_of, random_chain, same_bits, whole
from op_cases import profile_of
from tolerance import EXACT

import softcuda as sc
from softcuda.dtype import REAL_DTYPES, f32
from softcuda.errors import IntegerPowerError
from softcuda.graph.node import Node, on_host
from softcuda.running import compile as compile_nodes

FUSED = profile_of("cuda_elementwise")
SINGLE = profile_of("cuda_naive")
SHAPES = [(), (1,), (7,), (2048,), (100_003,), (5, 7), (64, 256), (3, 8, 64), (4, 3, 5, 2)]
EXACT_OPS = [name for name in chain_cases.ELEMENTWISE_OPS if name in EXACT]


def arrays_for(rng: np.random.Generator, dims: tuple[int, ...]) -> list[Any]:
    """Return arrays of many layouts and dtypes that broadcast to dims; the first one covers it."""
    names = list(REAL_DTYPES)
    arrays = [array_of(rng, dims, REAL_DTYPES[str(rng.choice(names))], int(rng.integers(4)))]
    for _ in range(int(rng.integers(1, 6))):
        lead = int(rng.integers(len(dims) + 1))
        small = tuple(1 if rng.random() < 0.4 else d for d in dims[lead:])
        arrays.append(
            array_of(rng, small, REAL_DTYPES[str(rng.choice(names))], int(rng.integers(4)))
        )
    return arrays


def node_of(chain: Any, arrays: Any) -> Node:
    leaves = [Node.leaf(np.asarray(array)) for array in arrays]
    made: list[Node] = []
    for micro in chain:
        sources = tuple(leaves[s] if s >= 0 else made[~s] for s in micro.sources)
        made.append(Node.apply(micro.op, sources, micro.params))
    return made[-1]


def value_of(node: Node, profile: Any) -> Any:
    return on_host(compile_nodes(node, profile).run().data)


@pytest.mark.sanitize
@pytest.mark.parametrize("seed", range(36))
def test_a_chain_equals_its_ops_one_by_one(seed: int) -> None:
    """All ops, the inexact ones too: one function, whether fused or not."""
    rng = np.random.default_rng(seed)
    dims = SHAPES[seed % len(SHAPES)]
    arrays = arrays_for(rng, dims)
    chain = random_chain(rng, [operand_of(np.asarray(a)) for a in arrays], dims, 10)
    fused = value_of(node_of(chain, arrays), FUSED)
    assert same_bits(fused, value_of(node_of(chain, arrays), SINGLE)), chain


@pytest.mark.parametrize("seed", range(36))
def test_exact_ops_equal_the_host_bit_for_bit(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_cases, "ELEMENTWISE_OPS", EXACT_OPS)
    rng = np.random.default_rng(1000 + seed)
    dims = SHAPES[seed % len(SHAPES)]
    arrays = arrays_for(rng, dims)
    chain = random_chain(rng, [operand_of(np.asarray(a)) for a in arrays], dims, 8)
    assert same_bits(value_of(node_of(chain, arrays), FUSED), whole(chain, arrays)), chain


VIEWS = {
    "odd address": lambda x: x[1:],
    "odd row": lambda x: x[:, 1:65],
    "even row": lambda x: x[:, 4:68],
    "step": lambda x: x[:, ::3],
    "reversed": lambda x: x[::-1, ::-1],
    "transposed": lambda x: x.T,
    "one row": lambda x: x[5:6],
    "one column": lambda x: x[:, 5:6],
}


@pytest.mark.sanitize
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", ["bool", "bf16", "f32", "i64"])
def test_views_on_the_device(view: str, dtype: str) -> None:
    """Views of a value of the device itself: odd addresses, rows that allow vectors or not."""
    array = array_of(np.random.default_rng(3), (130, 76), REAL_DTYPES[dtype])
    cut = VIEWS[view]
    x = sc.tensor(array)
    other = sc.tensor(array_of(np.random.default_rng(4), cut(array).shape[-1:], REAL_DTYPES[dtype]))
    inside = sc.maximum(x, x)
    y = sc.compile(sc.where(cut(inside) == other, other, cut(inside)), FUSED).run()
    right = np.where(cut(array) == other.numpy(), other.numpy(), cut(array))
    assert same_bits(y.numpy(), right)


EDGES = [(64, 128), (63, 129), (96, 63), (63, 96), (65, 31, 7), (128, 6, 24), (3, 1000), (1000, 4)]


@pytest.mark.sanitize
@pytest.mark.parametrize("shape", EDGES, ids=str)
@pytest.mark.parametrize(
    "names", [("f32", "f32"), ("bf16", "f32"), ("f64", "i32"), ("bool", "f16")]
)
def test_operands_that_are_turned(names: tuple[str, str], shape: tuple[int, ...]) -> None:
    """Beside dense ones, rows, columns and numbers; alone, and with their casts."""
    rng = np.random.default_rng(6)
    x = sc.tensor(array_of(rng, shape[::-1], REAL_DTYPES[names[0]]))
    y, row, column = (
        sc.tensor(array_of(rng, dims, REAL_DTYPES[names[1]]))
        for dims in (shape, shape[-1:], (*shape[:-1], 1))
    )
    turned = sc.permute_dims(x, tuple(range(len(shape)))[::-1])
    nodes = [
        turned * 2 + y,
        sc.maximum(turned, row) + column,
        sc.cast(turned, sc.f32),
        sc.where(y == row, turned, turned) * column,
    ]
    for node in nodes:
        executable = sc.compile(node, FUSED)
        kernels = [x.spec.family for step in executable.program.steps for x in step.launches]
        assert kernels == ["elementwise_turned"]
        assert same_bits(executable.run().numpy(), sc.compile(node, SINGLE).run().numpy())


@pytest.mark.sanitize
@pytest.mark.parametrize("shape", [(1000,), (37, 41), (64, 66), (48, 64), (5, 3, 1001)], ids=str)
def test_values_inside_a_chain_are_results_too(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(7)
    x, y = (sc.tensor(array_of(rng, shape, REAL_DTYPES[name])) for name in ("f32", "bf16"))
    row = sc.tensor(array_of(rng, shape[-1:], f32))
    turned = sc.permute_dims(sc.tensor(array_of(rng, shape[::-1], f32)), range(len(shape))[::-1])
    for other in (y, row, turned):
        first = x * other
        second = sc.cast(first + y, sc.bf16)
        nodes = [first, second, sc.relu(second) - row]
        executable = sc.compile(nodes, FUSED)
        assert [len(step.outputs) for step in executable.program.steps if step.launches] == [3]
        right = sc.compile(nodes, SINGLE).run()
        for found, wanted in zip(executable.run(), right, strict=True):
            assert same_bits(found.numpy(), wanted.numpy())


@pytest.mark.sanitize
def test_sixty_four_operands_of_sixteen_axes() -> None:
    """More strides than a kernel takes: some operands are copied first."""
    rng = np.random.default_rng(5)
    arrays = [
        rng.standard_normal((2,) * 12).astype(np.float32).transpose(rng.permutation(12))
        for _ in range(64)
    ]
    total, right = sc.asarray(arrays[0]), arrays[0]
    for array in arrays[1:]:
        total, right = total + sc.asarray(array), right + array
    assert same_bits(sc.compile(total, FUSED).run().numpy(), right)


def test_negative_integer_powers_are_errors_of_the_fetch() -> None:
    x = sc.input((1000,), sc.i64, "x")
    executable = sc.compile((x + 1) ** x * 2, FUSED)
    exponents = np.arange(1000) % 13
    right = (exponents + 1) ** exponents * 2
    assert np.array_equal(executable.run(x=exponents).numpy(), right)
    with pytest.raises(IntegerPowerError, match="-5"):
        executable.run(x=np.where(exponents == 3, -5, exponents)).numpy()
    assert np.array_equal(executable.run(x=exponents).numpy(), right)


def test_another_size_needs_no_other_kernel() -> None:
    kernels = set()
    for count in (1000, 4096, 99_999):
        x = sc.tensor(array_of(np.random.default_rng(count), (count,), f32))
        executable = sc.compile(sc.relu(x * 0.5 + 1.0), FUSED)
        assert same_bits(executable.run().numpy(), np.maximum(x.numpy() * np.float32(0.5) + 1, 0))
        kernels |= {launch.spec for step in executable.program.steps for launch in step.launches}
    assert len(kernels) == 1
