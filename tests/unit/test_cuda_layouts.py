"""Which kernel the layouts of a chain's operands get: its vectors, its tiles, what leads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from chain_cases import array_of, micro_of, operand_of, unit_of

from softcuda.backends import cuda_elementwise
from softcuda.backends.launches import KernelLaunch
from softcuda.dtype import f16, f32, f64
from softcuda.target import Target

H200 = Target("cuda", "sm_90a", 132, 227, 60)
RNG = np.random.default_rng(2)


def sum_of(arrays: Any) -> list[Any]:
    typed = [operand_of(array) for array in arrays]
    chain = [micro_of("add", (0, 1), typed[:2])]
    for k in range(2, len(arrays)):
        chain.append(micro_of("add", (~(k - 2), k), [chain[-1], typed[k]]))
    return chain


def launched(chain: Any, arrays: Any) -> KernelLaunch:
    (step,) = cuda_elementwise.prepare(unit_of(chain, arrays), H200)
    (launch,) = step.launches
    return launch


LAYOUTS = {
    "dense": lambda: (array_of(RNG, (64, 32), f16), array_of(RNG, (), f32)),
    "row": lambda: (array_of(RNG, (64, 32), f32), array_of(RNG, (32,), f32)),
    "level": lambda: (array_of(RNG, (64, 32), f64), array_of(RNG, (64, 1), f64)),
    "odd": lambda: (array_of(RNG, (64, 33), f32), array_of(RNG, (33,), f32)),
    "even": lambda: (array_of(RNG, (64, 34), f32), array_of(RNG, (34,), f32)),
    "step": lambda: (array_of(RNG, (64, 32), f32), array_of(RNG, (64, 64), f32)[:, ::2]),
}
CHOSEN = {
    "dense": "elementwise_dense<Chain, 4, 2, Dense<f16>, Single<f32>>",
    "row": "elementwise_strided<Chain, 2, 4, 2, false, i32, Dense<f32>, Row<f32>>",
    "level": "elementwise_strided<Chain, 2, 2, 2, false, i32, Dense<f64>, Level<f64>>",
    "odd": "elementwise_strided<Chain, 2, 4, 2, true, i32, Dense<f32>, Strided<f32>>",
    "even": "elementwise_strided<Chain, 2, 2, 4, false, i32, Dense<f32>, Row<f32>>",
    "step": "elementwise_strided<Chain, 1, 4, 1, false, i32, Dense<f32>, Strided<f32>>",
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_variant_of_a_layout(name: str) -> None:
    arrays = LAYOUTS[name]()
    launch = launched(sum_of(arrays), arrays)
    assert launch.spec.expression.replace("128, ", "") == CHOSEN[name]
    assert launch.grid == (-(-arrays[0].size // launch.spec.tile[0]), 1, 1)


TURNED = {
    "alone": (lambda x: (x((40, 48)).T,), "4, 4, 1, 3, i32, 2, Turned<f32>"),
    "beside a dense one": (
        lambda x: (x((48, 40)), x((40, 48)).T),
        "4, 4, 1, 3, i32, 2, Dense<f32>, Turned<f32>",
    ),
    "two alike, a row and a number": (
        lambda x: (x((40, 48)).T, x((40,)), x((40, 48)).T, x(())),
        "4, 4, 1, 2, i32, 3, Turned<f32>, Beside<f32, 2>, Turned<f32>, Single<f32>",
    ),
    "odd on both sides": (
        lambda x: (x((41, 39)), x((39, 41)).T),
        "1, 1, 8, 3, i32, 2, Dense<f32>, Turned<f32>",
    ),
    "odd on its own": (
        lambda x: (x((39, 48)), x((48, 39)).T),
        "4, 1, 2, 3, i32, 2, Dense<f32>, Turned<f32>",
    ),
}


@pytest.mark.parametrize("name", TURNED)
def test_operands_that_are_turned_lead_the_tiles(name: str) -> None:
    make, right = TURNED[name]
    arrays = make(lambda dims: array_of(RNG, dims, f32))
    exp = micro_of("exp", (0,), [operand_of(arrays[0])])
    chain = sum_of(arrays) if len(arrays) > 1 else [exp]
    assert launched(chain, arrays).spec.expression == f"elementwise_turned<Chain, {right}>"


@pytest.mark.parametrize(
    ("offsets", "block"), [((0, 4), "4, 4"), ((0, 1), "4, 1"), ((2, 8), "1, 4")]
)
def test_where_operands_begin_decides_on_vectors(offsets: Any, block: str) -> None:
    arrays = [array_of(RNG, (480, 400), f32), array_of(RNG, (400, 480), f32).T]
    unit = unit_of(sum_of(arrays), arrays)
    moved = [x._replace(offset=at) for x, at in zip(unit.operands, offsets, strict=True)]
    (step,) = cuda_elementwise.prepare(unit._replace(operands=tuple(moved)), H200)
    (launch,) = step.launches
    assert launch.spec.expression.startswith(f"elementwise_turned<Chain, {block}, ")


def test_no_tiles_where_sectors_are_whole_on_every_side() -> None:
    for other in (array_of(RNG, (30, 40, 8), f32).transpose(1, 0, 2), array_of(RNG, (40, 1), f32)):
        arrays = [array_of(RNG, (40, 30, 8)[: other.ndim], f32), other]
        assert launched(sum_of(arrays), arrays).spec.family == "elementwise_strided"
