"""Elementwise ops in front of a contraction: which run in its loads, and what they are there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from computed_lines import check_lines
from op_cases import fast_profile

import softcuda as sc
from softcuda.backends import Step, Unit, cuda_contract, cuda_tiled
from softcuda.backends.cuda.products import PARAMETER_BYTES
from softcuda.compiler.program import Program
from softcuda.compiler.table import decision_table
from softcuda.dtype import DType, bf16, f16, f32, f64, i32, i64
from softcuda.graph.op import Kind
from softcuda.graph.params import value_of

Array = np.ndarray[Any, Any]
BACKENDS = ("cuda_contract", "cuda_tiled")


def leaf(*shape: int, dtype: DType = f32) -> sc.Tensor:
    return sc.input(shape, dtype, device="cuda")


def program_of(*outputs: sc.Tensor, backend: str = "cuda_contract") -> Program:
    made = fast_profile(matmul=backend)
    program = sc.compile(list(outputs), made, target="sm_90a").program
    check_lines(program)
    return program


def products(program: Program) -> list[Step]:
    """Return the steps of contractions."""
    kinds = [{micro.op.kind for micro in step.chain} for step in program.steps]
    return [step for step, own in zip(program.steps, kinds, strict=True) if Kind.CONTRACTION in own]


def made_by(step: Step) -> list[str]:
    """Return the ops in front of a step's contraction."""
    names = [micro.op.name for micro in step.chain]
    return names[: names.index("matmul")]


APPLIED: dict[str, Any] = {
    "exp": np.exp,
    "tanh": np.tanh,
    "neg": np.negative,
    "abs": np.abs,
    "relu": lambda x: np.maximum(x, 0),
    "add": np.add,
    "mul": np.multiply,
    "sub": np.subtract,
    "div": np.divide,
}


def computed(program: Program, given: dict[int, Array]) -> Array:
    """Return the value of the last step, every step computed from its operands' windows in f64.

    Args:
        program: of ops in APPLIED and contractions.
        given: the array of each leaf by its line.
    """
    values = {line: array.astype(np.float64).reshape(-1) for line, array in given.items()}
    for number, line in enumerate(program.graph.lines):
        if line.op.name == "constant":
            values[number] = np.array([float(value_of(line.params.value))])
    last: Any = None
    for step in program.steps:
        read = [
            np.lib.stride_tricks.as_strided(
                values[x.value][x.offset :], x.dims, [8 * stride for stride in x.strides]
            )
            for x in step.inputs
        ]
        made: list[Any] = []
        for micro in step.chain:
            sources = [read[s] if s >= 0 else made[~s] for s in micro.sources]
            if micro.op.kind is Kind.CONTRACTION:
                p: Any = micro.params
                made.append(np.einsum(sources[0], p.a, sources[1], p.b, p.out))
            elif micro.op.name in ("sum", "cast"):
                reduced: Any = micro.params
                made.append(
                    sources[0].sum(axis=reduced.axes) if micro.op.name == "sum" else sources[0]
                )
            else:
                made.append(APPLIED[micro.op.name](*sources))
            assert made[-1].shape == micro.dims
        last = made[-1]
        values[step.outputs[0].value] = np.ascontiguousarray(last).reshape(-1)
    return np.asarray(last)


# ---- what is taken ------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_both_operands_and_the_result(backend: str) -> None:
    a, b, c = leaf(150, 200), leaf(200, 130), leaf(130)
    program = program_of(sc.tanh(sc.relu(a) @ sc.exp(b * 0.5) + c), backend=backend)
    (step,) = program.steps
    assert made_by(step) == ["relu", "mul", "exp"]
    assert [micro.op.name for micro in step.chain[-3:]] == ["matmul", "add", "tanh"]
    text = decision_table(program)
    assert "us in the loads of matmul" in text and "elementwise" not in step.kernel
    assert "_a_relu_b_mul_exp_add_tanh_" in step.kernel


def test_functions_of_a_named_contraction() -> None:
    a, b = leaf(30, 40, 20), leaf(40, 50)
    unary = [sc.UnaryOp.Relu, sc.UnaryOp.Exp]
    program = program_of(sc.contract(a, "ijk", b, "jm", "mki", alpha=0.5, unary=unary))
    (step,) = program.steps
    assert made_by(step) == ["relu", "exp"] and step.chain[-1].op.name == "mul"


@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64], ids=str)
def test_every_dtype(dtype: DType) -> None:
    (step,) = program_of(sc.relu(leaf(70, 90, dtype=dtype)) @ leaf(90, 60, dtype=dtype)).steps
    launch = step.launches[0]
    rows, columns = f"<Made<{dtype}, ChainA>, {dtype}, ", f"<{dtype}, Made<{dtype}, ChainB>, "
    assert rows in launch.spec.expression or columns in launch.spec.expression


def test_casts_are_loads() -> None:
    """What is stored is read: of i32 and f16 no wider copy is made."""
    a, b = leaf(70, 90, dtype=i32), leaf(90, 60, dtype=f16)
    (step,) = program_of(sc.sqrt(sc.cast(a, f32)) @ sc.cast(sc.exp(b), f32)).steps
    expression = step.launches[0].spec.expression
    assert "<Made<i32, ChainA>, Made<f16, ChainB>, f32, " in expression


def test_numbers_come_behind_the_operands_of_the_chain_behind() -> None:
    """Their places: those of the rows, then those of the columns; strides of none."""
    a, b, c = leaf(150, 200), leaf(200, 130), leaf(130)
    s, t = leaf(), leaf(1, 1)
    program = program_of(((1 - a) * s) @ sc.maximum(b, t) * c)
    (step,) = program.steps
    (launch,) = step.launches
    assert "<Made<f32, ChainA, f32, f32>, Made<f32, ChainB, f32>, " in launch.spec.expression
    assert launch.spec.expression.endswith(", Chain, 1, f32, f32, f32, f32>")
    names = {x.value: program.graph.lines[x.value] for x in step.inputs}
    read = [step.inputs[int(x.value)] for x in launch.arguments if x.kind == "read"]
    assert [names[x.value].dims for x in read[:3]] == [(150, 200), (200, 130), (130,)]
    assert [names[x.value].op.name for x in read[3:]] == ["constant", "input", "input"]
    assert [names[x.value].dims for x in read[3:]] == [(), (), (1, 1)]


def test_many_strides_and_numbers_are_parameters() -> None:
    a, b = leaf(3, 4, 5, 6, 7, 8), leaf(8, 7, 9, 10, 3, 2)
    x = sc.minimum(sc.maximum(a * 2.0, -1.0), 1.0)
    y = sc.einsum("abcdef,feghai->adgbhci", x, sc.minimum(sc.maximum(b * 3.0, -2.0), 2.0))
    for number in range(8):
        y = y + sc.permute_dims(leaf(*y.shape[::-1]), (6, 5, 4, 3, 2, 1, 0)) * float(number + 2)
    program = program_of(y)
    (step,) = products(program)
    for launch in step.launches:
        sizes = [len(x.value) if isinstance(x.value, bytes) else 8 for x in launch.arguments]
        assert sum(sizes) <= PARAMETER_BYTES


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("equation", "a", "b"),
    [
        ("ij,jk->ik", (15, 20), (20, 13)),
        ("bij,bkj->kbi", (3, 15, 20), (3, 13, 20)),
        ("afbce,df->edcba", (4, 17, 6, 5, 3), (4, 17)),
        ("ij,ij->i", (9, 30), (9, 30)),
        ("ij,j->i", (90, 30), (30,)),
        ("ij,kj->ik", (9, 1), (12, 1)),
    ],
)
def test_values(equation: str, a: tuple[int, ...], b: tuple[int, ...], backend: str) -> None:
    """The unit computes the expression, also as a reduction of products."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=a), rng.normal(size=b)
    program = program_of(
        sc.einsum(equation, 1 - sc.exp(leaf(*a)), sc.relu(leaf(*b))) * 2.0, backend=backend
    )
    (step,) = program.steps
    inputs = [k for k, line in enumerate(program.graph.lines) if line.op.name == "input"]
    found = computed(program, dict(zip(inputs, (x, y), strict=True)))
    right = 2 * np.einsum(equation, 1 - np.exp(x), np.maximum(y, 0))
    np.testing.assert_allclose(found, right, rtol=1e-12)
    assert [micro.op.name for micro in step.chain[:3]] == ["exp", "sub", "relu"]
    prepared = cuda_contract.prepare if backend == "cuda_contract" else cuda_tiled.prepare
    again = Unit(step.chain, step.inputs, step.outputs[0], step.lines)
    assert prepared(again, program.target) == (step,), (
        "what is loaded from a file is prepared again"
    )


TURNED = {
    "turned": lambda x: sc.permute_dims(x, (1, 0)),
    "sliced": lambda x: x[1:11:3, ::-1],
    "reshaped": lambda x: sc.reshape(x, (20, 6)),
    "stretched": lambda x: sc.broadcast_to(x[:1], (7, 10)),
    "a new axis": lambda x: sc.expand_dims(x[3], 0),
}


@pytest.mark.parametrize("view", TURNED)
@pytest.mark.parametrize("turns", [False, True])
def test_views_behind_the_ops(view: str, turns: bool) -> None:
    """Ops are computed on the same views of what they read, which may be a view itself."""
    x = leaf(10, 12) if turns else leaf(12, 10)
    array = np.random.default_rng(2).normal(size=x.shape)
    value = sc.permute_dims(x, (1, 0)) if turns else x
    right = (array.T if turns else array).copy()
    seen = TURNED[view](sc.exp(value * 2.0))
    other = leaf(seen.shape[1], 9)
    program = program_of(seen @ other)
    is_apart = turns and view == "reshaped"  # of a turned array a reshape would be a copy
    assert len(program.steps) == (2 if is_apart else 1)
    y = np.random.default_rng(3).normal(size=other.shape)
    inputs = [k for k, line in enumerate(program.graph.lines) if line.op.name == "input"]
    found = computed(program, dict(zip(inputs, (array, y), strict=True)))
    expected = np.exp(right * 2)
    numpy_views: dict[str, Any] = {
        "turned": expected.T,
        "sliced": expected[1:11:3, ::-1],
        "reshaped": expected.reshape(20, 6),
        "stretched": np.broadcast_to(expected[:1], (7, 10)),
        "a new axis": expected[3][None],
    }
    np.testing.assert_allclose(found, numpy_views[view] @ y, rtol=1e-12)


# ---- what is left -------------------------------------------------------------------------------


def test_several_readers() -> None:
    """A value that others read, or that is asked for, is written once and read as it lies."""
    a, b, c = leaf(70, 90), leaf(90, 60), leaf(90, 50)
    x = sc.exp(a)
    for outputs in ([x @ b, x @ c], [x @ b, x], [x @ b, sc.sum(x)], [sc.einsum("ij,kj->ik", x, x)]):
        assert not any(made_by(step) for step in products(program_of(*outputs)))
    turned = sc.permute_dims(x, (1, 0))
    assert not any(made_by(step) for step in products(program_of(x @ b, turned)))


def test_ops_of_two_arrays() -> None:
    a, b, row = leaf(70, 90), leaf(90, 60), leaf(90)
    for x in (a * leaf(70, 90), sc.exp(a + row), sc.where(leaf(70, 90) > 0, a, 0.0)):
        (_, step) = program_of(x @ b).steps
        assert made_by(step) == []


def test_one_value_is_read_several_times() -> None:
    a, b = leaf(70, 90), leaf(90, 60)
    (step,) = program_of((a / (1 + sc.exp(-a))) @ b).steps
    assert made_by(step) == ["neg", "exp", "add", "div"] and len(step.inputs) == 3


def test_a_chain_behind_a_product_stays_there() -> None:
    """It is computed once for each element, and written as the product would be."""
    a, b, c = leaf(70, 90), leaf(90, 60), leaf(60, 50)
    first, second = program_of(sc.exp(a @ b) @ c).steps
    assert [micro.op.name for micro in first.chain] == ["matmul", "exp"]
    assert made_by(second) == []
    first, second = program_of(sc.exp(sc.sum(leaf(70, 90, 8), axis=2)) @ b).steps
    assert made_by(second) == []


def test_behind_a_kept_product() -> None:
    """What a product writes for others is read as it lies, and made in the loads."""
    a, b, c = leaf(70, 90), leaf(90, 60), leaf(60, 50)
    h = a @ b
    steps = program_of(sc.exp(h) @ c, h).steps
    assert [made_by(step) for step in steps] == [[], ["exp"]]


def test_labels_of_one_operand_alone() -> None:
    """They are summed in front of the product, where einsum makes a reduction with these ops."""
    first, second = program_of(sc.einsum("ijp,jk->ik", sc.exp(leaf(20, 30, 4)), leaf(30, 9))).steps
    assert [micro.op.name for micro in first.chain] == ["exp", "sum"] and made_by(second) == []


def test_complex_numbers() -> None:
    a, b = leaf(20, 30, dtype=sc.complex64), leaf(30, 9)
    program = program_of(sc.abs(a) @ b)
    assert len(program.steps) == 2
    assert "cuda_contract computes abs of reals, not complex64" in decision_table(program)


def test_integers_and_errors() -> None:
    """Powers of integers report errors, which products do not."""
    a = leaf(20, 30, dtype=i64)
    program = program_of((a**a) @ leaf(30, 9, dtype=f32))
    assert len(program.steps) == 2 and "a power of integers reports errors" in decision_table(
        program
    )
