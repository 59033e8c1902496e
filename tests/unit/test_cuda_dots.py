"""Contractions without rows and columns are reductions of products: the chains that are made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import softcuda as sc
from softcuda.backends import Micro, Operand, Unit, cuda_contract, cuda_tiled
from softcuda.backends.cuda.dots import as_reduction
from softcuda.dtype import DType, bf16, f16, f32, f64
from softcuda.graph.op import OPS
from softcuda.graph.params import Contraction
from softcuda.graph.shapes import contiguous_strides
from softcuda.target import Target

TARGET = Target("cuda", "sm_90a", multiprocessors=132)
APPLIED: dict[str, Any] = {"mul": np.multiply, "neg": np.negative, "add": np.add}


def unit_of(
    labels: str, extents: dict[str, int], dtypes: tuple[DType, DType, DType], strides: Any = None
) -> Unit:
    a, b, out = labels.replace("->", ",").split(",")
    dims = [tuple(extents[x] for x in own) for own in (a, b, out)]
    laid = strides or [contiguous_strides(d) for d in dims]
    operands = tuple(Operand(k, 0, dims[k], laid[k], dtypes[k]) for k in range(2))
    params = Contraction(*(tuple(map(ord, own)) for own in (a, b, out)))
    product = Micro(OPS["matmul"], (0, 1), dims[2], dtypes[2], params)
    result = Operand(2, 0, dims[2], contiguous_strides(dims[2]), dtypes[2])
    return Unit((product,), operands, result, (2,))


def computed(unit: Unit, buffers: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """The value of a chain of casts, products and sums in f64."""
    read = [
        np.lib.stride_tricks.as_strided(
            buffers[x.value].reshape(-1)[x.offset :], x.dims, [8 * s for s in x.strides]
        )
        for x in unit.operands
    ]
    values: list[Any] = []
    for micro in unit.chain:
        sources = [read[s] if s >= 0 else values[~s] for s in micro.sources]
        if micro.op.name == "sum":
            values.append(sources[0].sum(axis=micro.params.axes))
        elif micro.op.name == "cast":
            values.append(sources[0])
        else:
            values.append(APPLIED[micro.op.name](*sources))
        assert np.shape(values[-1]) == micro.dims
    return values[-1]


@pytest.mark.parametrize(
    "labels",
    ["ij,ij->i", "ij,ij->", "ij,ji->j", "ij,ij->j", "ii,i->", "ijk,kj->j", "i,i->", "ijk,jk->j"],
)
def test_values(labels: str) -> None:
    extents = {"i": 6, "j": 5, "k": 4}
    if labels.startswith("ijk"):
        extents["i"] = 1  # stretches: a summed label of one alone
    unit = unit_of(labels, extents, (f32, f32, f32))
    made = as_reduction(unit)
    assert made is not None
    rng = np.random.default_rng(1)
    buffers = [rng.normal(size=x.dims) for x in unit.operands]
    right = np.einsum(labels, *buffers)
    np.testing.assert_allclose(computed(made, buffers), right, rtol=1e-12)
    for backend in (cuda_contract, cuda_tiled):
        (step,) = backend.prepare(unit, TARGET)
        assert step.kernel.startswith("reduce_") and step.lines == unit.lines
        again = backend.prepare(Unit(step.chain, step.inputs, step.outputs[0], step.lines), TARGET)
        assert again == (step,), "what is loaded from a file is checked by preparing it again"


def test_memory_is_walked_in_its_order() -> None:
    """The summed label that is contiguous comes last, wherever the equation has it."""
    made = as_reduction(unit_of("jki,jki->j", {"i": 7, "j": 3, "k": 4}, (f32, f32, f32)))
    turned = ((1, 3), (1, 3))
    other = as_reduction(unit_of("ij,ij->", {"i": 3, "j": 4}, (f32, f32, f32), [*turned, ()]))
    assert made is not None and made.operands[0].strides == (28, 7, 1)
    assert other is not None and other.operands[0].strides == (3, 1)


@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64], ids=str)
def test_products_are_not_rounded_to_the_stored_dtype(dtype: DType) -> None:
    made = as_reduction(unit_of("ij,ij->i", {"i": 3, "j": 4}, (dtype, dtype, dtype)))
    assert made is not None
    wide = f64 if dtype is f64 else f32
    kinds = [(micro.op.name, micro.dtype) for micro in made.chain]
    assert ("mul", wide) in kinds and ("sum", wide) in kinds and made.chain[-1].dtype is dtype


def test_a_chain_behind_reads_the_sum() -> None:
    unit = unit_of("ij,ij->i", {"i": 3, "j": 4}, (f16, f16, f16))
    bias = Operand(3, 0, (3,), (1,), f16)
    chain = (
        *unit.chain,
        Micro(OPS["neg"], (~0,), (3,), f16, ()),
        Micro(OPS["add"], (~1, 2), (3,), f16, ()),
    )
    made = as_reduction(unit._replace(chain=chain, operands=(*unit.operands, bias)))
    assert made is not None
    a, b, c = (np.random.default_rng(2).normal(size=s) for s in ((3, 4), (3, 4), (3,)))
    right = c - np.einsum("ij,ij->i", a, b)
    np.testing.assert_allclose(computed(made, [a, b, np.empty(0), c]), right, rtol=1e-12)


@pytest.mark.parametrize("labels", ["ij,jk->ik", "ij,j->i", "i,ij->j", "ij,ij->ij", "i,j->ij"])
def test_others_stay_products(labels: str) -> None:
    assert as_reduction(unit_of(labels, {"i": 4, "j": 5, "k": 6}, (f32, f32, f32))) is None


def test_the_decision_table_names_it() -> None:
    x, y = sc.input((64, 4096), name="x", device="cuda"), sc.input((64, 4096), device="cuda")
    made = sc.compile(sc.einsum("ij,ij->i", x, y), "benchmarks/cuda.soft", target="sm_90a")
    assert "reduce_even_rows.mul" in str(made)
