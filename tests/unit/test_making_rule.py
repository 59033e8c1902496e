"""Where elementwise ops in front of a product run: the limits of its loads, and the rule."""

from __future__ import annotations

from typing import Any

import pytest
from gemm_units import labels_of, unit_of
from op_cases import fast_profile

import softcuda as sc
from softcuda.backends import Micro, cuda_contract, cuda_tiled
from softcuda.backends.cuda.gemm import plan_cycles, planned_product
from softcuda.backends.cuda.gemm_narrow import narrow_variant
from softcuda.backends.cuda.gemm_tiles import GEMM_TILES, cut_variant
from softcuda.backends.cuda.making_rule import MAX_REGISTERS, loading_code
from softcuda.compiler.table import decision_table
from softcuda.dtype import DType, f16, f32, f64, i64
from softcuda.errors import BackendError
from softcuda.graph.lines import Line
from softcuda.graph.op import OPS
from softcuda.target import Target

H200 = Target("cuda", "sm_90a", 132, 227, 60)
Dims = tuple[int, ...]


def verdict(
    op: str,
    equation: str,
    dims: tuple[Dims, Dims],
    number: int,
    stored: DType = f32,
    count: int = 0,
    scalar: DType = f32,
) -> Any:
    """Return what cuda_contract says of an op, and of `count` numbers, in front of an operand."""
    operands = [Line(OPS["input"], (), own, f32, ()) for own in dims]
    labels = labels_of(equation)
    extents = dict(zip((*labels.a, *labels.b), (*dims[0], *dims[1]), strict=True))
    out = tuple(extents[label] for label in labels.out)
    product = Line(OPS["matmul"], (0, 1), out, f32, labels)
    chain = [Line(OPS[name], (0,), dims[number], f32, ()) for name in op.split()]
    reads = [Line(OPS["input"], (), dims[number], stored, ())]
    reads += [Line(OPS["input"], (), (), scalar, ())] * count
    return cuda_contract.makes(chain, reads, product, operands, number, H200)


@pytest.mark.parametrize(
    ("op", "equation", "a", "b", "number", "is_taken"),
    [
        ("exp", "ij,jk->ik", (8192, 8192), (8192, 8192), 0, False),
        ("relu", "ij,jk->ik", (8192, 8192), (8192, 8192), 0, False),
        ("exp", "ij,jk->ik", (512, 512), (512, 512), 0, True),
        ("exp", "ij,jk->ik", (1024, 1024), (1024, 1024), 0, False),
        ("relu", "ij,jk->ik", (1024, 1024), (1024, 1024), 0, True),
        ("exp", "ij,j->i", (8192, 8192), (8192,), 0, True),
        ("tanh", "ij,jk->ik", (16384, 16384), (16384, 16), 0, True),
        ("tanh", "ij,jk->ik", (16384, 16384), (16384, 16), 1, False),
        ("relu", "ij,jk->ik", (4096, 24), (24, 4096), 0, True),
        ("tanh", "ij,jk->ik", (8192, 24), (24, 8192), 0, False),
        ("relu", "bij,bjk->bik", (64, 128, 128), (64, 128, 128), 1, True),
    ],
)
def test_where_ops_run_sooner(
    op: str, equation: str, a: Dims, b: Dims, number: int, is_taken: bool
) -> None:
    found = verdict(op, equation, (a, b), number)
    assert bool(found) is is_taken
    assert "us in the loads of matmul" in found.reason and "us apart" in found.reason


def test_the_table_tells_why_not() -> None:
    leaves = [sc.input((4096, 4096), f32, device="cuda") for _ in range(2)]
    made = fast_profile(matmul="cuda_contract")
    program = sc.compile(sc.exp(leaves[0]) @ leaves[1], made, target="sm_90a").program
    assert len(program.steps) == 2
    text = next(line for line in decision_table(program).splitlines() if " exp " in line)
    assert "us in the loads of matmul" in text and "us apart" in text


def test_limits() -> None:
    square = (70, 90), (90, 60)
    assert verdict("exp", "ij,jk->ik", square, 0, count=MAX_REGISTERS)
    found = verdict("exp", "ij,jk->ik", square, 0, count=MAX_REGISTERS + 1)
    assert (
        "4 registers of numbers in the loads of a product; cuda_contract holds up to 3"
        in found.reason
    )
    assert verdict("exp", "ij,jk->ik", square, 0, count=1, scalar=f64)
    found = verdict("exp", "ij,jk->ik", square, 0, count=2, scalar=f64)
    assert "4 registers of numbers in the loads of a product" in found.reason
    assert verdict("tanh erf", "ij,jk->ik", square, 0)
    found = verdict("tanh erf exp", "ij,jk->ik", square, 0)
    assert "56 instructions in the loads of a product" in found.reason
    assert verdict("cast", "ij,jk->ik", square, 1, stored=f16)
    for stored in (f64, i64):
        found = verdict("cast", "ij,jk->ik", square, 1, stored=stored)
        assert "8 bytes an element in the loads of a product" in found.reason


def test_labels_of_one_operand_alone() -> None:
    dims = (20, 30, 4), (30, 9)
    found = verdict("exp", "ijp,jk->ik", dims, 0)
    assert "labels of operand 0 alone are summed in front of the product" in found.reason
    assert verdict("exp", "ijp,jk->ik", dims, 1)


def made_unit(shapes: tuple[Dims, Dims], dtype: DType, op: str, equation: str) -> Any:
    """Return the unit of a product whose operand 0 is made by an op."""
    unit = unit_of(equation, shapes, dtype)
    (product,) = unit.chain
    first = Micro(OPS[op], (0,), shapes[0], dtype, ())
    chain = (first, product._replace(sources=(~0, 1)))
    return unit._replace(chain=chain, lines=(90, *unit.lines))


def test_what_making_costs() -> None:
    """The rules of both kernels count it for every tile that loads an element."""
    shapes = (4096, 256), (256, 4096)
    plain = planned_product(unit_of("ij,jk->ik", shapes, f32))[1]
    made = planned_product(made_unit(shapes, f32, "exp", "ij,jk->ik"))[1]
    assert loading_code(plain.a) == 0 < loading_code(made.a) and loading_code(made.b) == 0
    small, large = (cut_variant(made.size, tile, 1 << 20, 1) for tile in GEMM_TILES[f32][3:0:-2])
    more = [
        plan_cycles(made, variant, 132) - plan_cycles(plain, variant, 132)
        for variant in (small, large)
    ]
    assert more[0] == pytest.approx(2 * more[1])


@pytest.mark.parametrize("equation", ["ij,jk->ik", "ij,kj->ik"])
def test_a_few_rows(equation: str) -> None:
    """More than 4 rows are not made where lanes share out k: registers would not do."""
    for rows in (1, 4, 8):
        wide = (700, 264) if equation == "ij,jk->ik" else (264, 700)
        plan = planned_product(made_unit(((rows, 700), wide), f64, "exp", equation))[1]
        assert (narrow_variant(plan, 132) is None) is (rows == 8 and equation == "ij,kj->ik")


def test_copies_are_of_what_is_stored() -> None:
    """Where an operand is copied in front of a long product, ops are in the loads of the copy."""
    shapes = (72,) * 4, (72,) * 4
    (step,) = cuda_contract.prepare(made_unit(shapes, f32, "relu", "fbea,cedf->dcba"), H200)
    *copies, main, _ = step.launches
    assert [launch.spec.family.partition("_")[0] for launch in copies] == ["permute"] * 2
    assert "Made<f32, Chain" in main.spec.expression
    assert [argument.kind for argument in main.arguments[2:4]] == ["scratch"] * 2


@pytest.mark.parametrize("backend", [cuda_contract, cuda_tiled])
def test_what_is_refused(backend: Any) -> None:
    """Units that fusing never makes."""
    unit = made_unit(((20, 30, 4), (30, 9)), f32, "exp", "ijp,jk->ik")
    with pytest.raises(BackendError, match="labels of its own"):
        backend.prepare(unit, H200)
    unit = unit_of("ij,jk->ik", [(20, 30), (30, 9), (20, 30)], f32)
    add = Micro(OPS["add"], (0, 2), (20, 30), f32, ())
    chain = (add, unit.chain[0]._replace(sources=(~0, 1)))
    with pytest.raises(BackendError, match="allowed are one operand of these extents"):
        backend.prepare(unit._replace(chain=chain, lines=(90, *unit.lines)), H200)
