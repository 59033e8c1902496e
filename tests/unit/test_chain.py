"""Elementwise chains: bit for bit the whole-array values, whatever the blocks and threads."""

from __future__ import annotations

import numpy as np
import pytest
from chain_cases import (
    ELEMENTWISE_OPS,
    array_of,
    micro_of,
    operand_of,
    random_chain,
    run,
    same_bits,
    whole,
)

from softcuda.backends.host.chain import bind_chain, chain_scratch_bytes
from softcuda.dtype import REAL_DTYPES, bf16, f16, f32, f64, i32, i64
from softcuda.errors import DTypeError, IntegerPowerError
from softcuda.graph.op import OPS
from softcuda.graph.params import Cast

SHAPES = [(), (1,), (0,), (7,), (1000,), (3, 0, 2), (5, 7), (16, 16), (1, 9, 1), (4, 3, 5, 2)]


def check(chain, arrays, block_elems, threads):
    operands = [operand_of(x) for x in arrays]
    expected = whole(chain, arrays)
    out = np.empty(chain[-1].dims, chain[-1].dtype.numpy)
    calls = bind_chain(chain, operands, arrays, out, None, block_elems=block_elems, threads=threads)
    for _ in range(2):
        out.fill(1)
        run(calls)
        assert same_bits(out, expected), [(m.op.name, m.dtype, m.sources) for m in chain]


def operands_for(rng, dims):
    """Return arrays of many layouts that broadcast to dims; the first one covers it."""
    names = list(REAL_DTYPES)
    arrays = [array_of(rng, dims, REAL_DTYPES[str(rng.choice(names))], int(rng.integers(4)))]
    for _ in range(int(rng.integers(1, 5))):
        lead = int(rng.integers(len(dims) + 1))
        small = tuple(1 if rng.random() < 0.4 else d for d in dims[lead:])
        arrays.append(
            array_of(rng, small, REAL_DTYPES[str(rng.choice(names))], int(rng.integers(4)))
        )
    if dims and rng.random() < 0.5:
        first = array_of(rng, (1, *dims[1:]), f32)
        arrays.append(np.broadcast_to(first, dims))
    return arrays


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("seed", range(60))
def test_random_chain_equals_whole_arrays(seed, threads):
    rng = np.random.default_rng(seed)
    dims = SHAPES[seed % len(SHAPES)]
    arrays = operands_for(rng, dims)
    operands = [operand_of(x) for x in arrays]
    chain = random_chain(rng, operands, dims, int(rng.integers(1, 13)))
    for block_elems in (None, 1, 13, 64):
        check(chain, arrays, block_elems, threads)


NO_BOOLS = frozenset(
    ("neg", "square", "add", "sub", "mul", "floor_divide", "remainder", "pow", "multiply_add")
)


@pytest.mark.parametrize("dtype", REAL_DTYPES)
@pytest.mark.parametrize("name", ELEMENTWISE_OPS)
def test_every_op_and_dtype_alone(name, dtype):
    rng = np.random.default_rng(5)
    for layout in (0, 1):
        made = [array_of(rng, (33, 41), REAL_DTYPES[dtype], layout) for _ in range(OPS[name].arity)]
        if name == "where":
            made[0] = array_of(rng, (33, 41), REAL_DTYPES["bool"], layout)
        if name == "pow" and REAL_DTYPES[dtype].is_integer:
            made[1] = np.abs(made[1])
        operands = [operand_of(x) for x in made]
        if dtype == "bool" and name in NO_BOOLS:
            with pytest.raises(DTypeError, match="bool"):
                micro_of(name, range(len(made)), operands)
            return
        chain = [micro_of(name, range(len(made)), operands)]
        for block_elems in (None, 100):
            check(chain, made, block_elems, 2)


@pytest.mark.parametrize("target", REAL_DTYPES)
@pytest.mark.parametrize("source", REAL_DTYPES)
def test_every_cast(source, target):
    array = array_of(np.random.default_rng(1), (300,), REAL_DTYPES[source])
    chain = [micro_of("cast", (0,), [operand_of(array)], Cast(REAL_DTYPES[target]))]
    for block_elems in (None, 17):
        check(chain, [array], block_elems, 2)


def test_a_16_bit_chain_rounds_every_value():
    a = np.full(100, 2048, np.float16)
    one = np.ones(100, np.float16)
    operands = [operand_of(a), operand_of(one)]
    first = micro_of("add", (0, 1), operands)
    chain = [first, micro_of("add", (~0, 1), [first, operands[1]])]
    check(chain, [a, one], None, 1)
    out = np.empty(100, np.float16)
    run(bind_chain(chain, operands, [a, one], out, None))
    assert (out == 2048).all()  # 2049 rounds to 2048, twice; 2050 in f32


def test_double_rounding_does_not_happen_in_a_cast():
    value = np.array([1 + 2**-11 + 2**-40], np.float64)  # just above the f16 tie
    chain = [micro_of("cast", (0,), [operand_of(value)], Cast(f16))]
    check(chain, [value], None, 1)


@pytest.mark.parametrize("name", ["exp", "expm1", "asin", "sinh", "pow"])
def test_values_do_not_depend_on_layout(name):
    a = np.random.default_rng(9).random(5000)
    reverse = np.ascontiguousarray(a[::-1])[::-1]
    results = []
    for made in ([a, a], [reverse, reverse]):
        chain = [micro_of(name, range(OPS[name].arity), [operand_of(x) for x in made])]
        arrays = made[: OPS[name].arity]
        check(chain, arrays, 700, 2)
        results.append(whole(chain, arrays))
    assert same_bits(*results)


def test_one_block_is_the_bare_calls():
    a = np.ones(8, np.float32)
    operands = [operand_of(a), operand_of(a)]
    first = micro_of("add", (0, 1), operands)
    second = micro_of("mul", (~0, 0), [first, operands[0]])
    calls = bind_chain([first, second], operands, [a, a], np.empty(8, np.float32), None)
    assert [function for function, _ in calls] == [np.add, np.multiply]


def test_scratch_of_the_arena_is_enough_and_used():
    rng = np.random.default_rng(2)
    arrays = [array_of(rng, (64, 5), f64), array_of(rng, (5,), f32), array_of(rng, (), bf16)]
    operands = [operand_of(x) for x in arrays]
    chain = random_chain(rng, operands, (64, 5), 9)
    nbytes = chain_scratch_bytes(chain, operands)
    scratch = np.empty(nbytes, np.uint8)
    out = np.empty((64, 5), chain[-1].dtype.numpy)
    calls = bind_chain(chain, operands, arrays, out, scratch)
    for _ in range(2):
        scratch.fill(0xFF)  # others use it between two runs
        run(calls)
        assert same_bits(out, whole(chain, arrays))
    written = [arguments[-1] for _, arguments in calls]
    assert all(np.shares_memory(x, scratch) or np.shares_memory(x, out) for x in written)


def test_a_chain_of_256_ops_needs_few_slots():
    a = array_of(np.random.default_rng(3), (50,), f32)
    operand = operand_of(a)
    chain = [micro_of("sin", (0,), [operand])]
    for n in range(255):
        chain.append(micro_of("add", (~n, 0), [chain[-1], operand]))
    assert chain_scratch_bytes(chain, [operand]) <= 2 * 256
    check(chain, [a], 16, 2)


def test_large_and_unaligned_spaces():
    rng = np.random.default_rng(4)
    n = 300_007
    arrays = [array_of(rng, (n,), f32), array_of(rng, (n,), f32), np.float32(0.5).reshape(())]
    operands = [operand_of(x) for x in arrays]
    chain = random_chain(rng, operands, (n,), 6)
    expected = whole(chain, arrays)
    for offset in (0, 1, 3):
        out = np.empty(n + 8, chain[-1].dtype.numpy)[offset : offset + n]
        for threads in (1, 2, None):
            run(bind_chain(chain, operands, arrays, out, None, threads=threads))
            assert same_bits(out, expected)
            out[...] = 0


def test_output_may_be_a_dying_input():
    a = array_of(np.random.default_rng(6), (1000,), f32)
    operand = operand_of(a)
    first = micro_of("relu", (0,), [operand])
    chain = [first, micro_of("sub", (0, ~0), [operand, first])]
    expected = whole(chain, [a])
    run(bind_chain(chain, [operand], [a], a, None, block_elems=64, threads=2))
    assert same_bits(a, expected)


@pytest.mark.parametrize("dtype", [i32, i64])
def test_an_error_in_a_block_reaches_the_caller(dtype):
    a = np.arange(1000, dtype=dtype.numpy)
    b = np.ones(1000, dtype.numpy)
    b[777] = -1
    operands = [operand_of(a), operand_of(b)]
    chain = [micro_of("pow", (0, 1), operands)]
    out = np.empty_like(a)
    with pytest.raises(IntegerPowerError, match="-1"):
        run(bind_chain(chain, operands, [a, b], out, None, block_elems=50, threads=2))
    b[777] = 1
    run(bind_chain(chain, operands, [a, b], out, None, block_elems=50, threads=2))
    assert (out == a).all()
