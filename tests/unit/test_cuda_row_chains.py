"""Softmax and layer_norm with ops around them as the compiler sees them: what is one kernel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from chain_cases import array_of, micro_of, operand_of, unit_of
from computed_lines import check_lines
from op_cases import fast_profile
from reduce_steps import H200
from row_chain_cases import CASES, RowCase, leaves_of

import softcuda as sc
from softcuda.backends import cuda_reduce
from softcuda.backends.steps import Step
from softcuda.compiler.program import Program
from softcuda.dtype import DType, bf16, f16, f32, f64
from softcuda.graph.params import Softmax
from softcuda.profile.model import Row


def program_of(*outputs: sc.Tensor) -> Program:
    return sc.compile(outputs, fast_profile(), target="sm_90a").program


def families(step: Step) -> list[str]:
    return [launch.spec.family for launch in step.launches]


def leaf(*dims: int, dtype: DType = f32) -> sc.Tensor:
    return sc.input(dims, dtype, device="cuda")


@pytest.mark.parametrize("length", [2, 128, 1000, 4096])
@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64], ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_one_kernel(case: RowCase, dtype: DType, length: int) -> None:
    program = program_of(case.build(leaves_of(case, length, dtype)))
    check_lines(program)
    if case.name == "middle":  # rows that do not lie innermost are left alone
        assert len(program.steps) == (3 if length < 4096 else 5)
        return
    if case.name == "two_axes" and dtype is f64 and length == 4096:  # rows of 8192 are not held
        assert len(program.steps) == 3
        return
    (step,) = program.steps
    assert step.backend_id == "cuda_reduce"
    if case.name == "wide" and dtype is f64 and length == 4096:  # nor are those of 7 operands
        assert len(step.launches) == 2 and step.scratch_bytes >= 3 * 5 * 4096 * 8
        return
    family = "layer_norm" if case.op == "layer_norm" else "softmax"
    assert families(step) == [f"{family}_chain"]
    assert not step.scratch_bytes


def test_lengths_that_are_held() -> None:
    for dtype, most in ((f32, 16384), (bf16, 16384), (f64, 4096)):
        held = program_of(sc.softmax(leaf(8, most, dtype=dtype) * 2.0))
        assert len(held.steps) == 1
        longer = program_of(sc.softmax(leaf(4096, most + 8, dtype=dtype) * 2.0))
        assert len(longer.steps) == 2
    single = program_of(sc.softmax(leaf(8, 1) * 2.0))
    assert len(single.steps) == 2


def test_values_that_others_read_end_a_chain() -> None:
    x = leaf(8, 64)
    shared = x * 2.0
    made = sc.softmax(shared)
    assert len(program_of(made, shared).steps) == 2
    assert len(program_of(made + 1.0, made).steps) == 2
    assert len(program_of(sc.softmax(shared) + shared).steps) == 2


def test_ops_between_a_product_and_a_softmax_are_behind_the_product() -> None:
    scores = leaf(256, 64) @ leaf(64, 512)
    product, rows = program_of(sc.softmax(scores * 0.125 + leaf(512)) * 2.0).steps
    assert (product.backend_id, len(product.lines)) == ("cuda_contract", 3)
    assert families(rows) == ["softmax_chain"] and len(rows.lines) == 2


def test_a_chain_may_not_make_the_weight() -> None:
    x, w = leaf(8, 64), leaf(8, 64) * 2.0
    program = program_of(sc.layer_norm(x, w, None, 2))
    assert len(program.steps) == 2
    assert families(program.steps[-1])[-1].startswith("layer_norm")
    both = leaf(8, 64) * 3.0
    assert len(program_of(sc.layer_norm(both, both, None, 2)).steps) == 2


def test_a_large_turned_operand_is_brought_by_tiles() -> None:
    for rows, wanted in ((8, ["softmax_chain"]), (4096, ["turned", "softmax_held"])):
        program = program_of(sc.softmax(leaf(1000, rows).T + leaf(rows, 1000)))
        (step,) = program.steps
        assert [name.partition("<")[0] for name in families(step)][-1] == wanted[-1]
        assert len(step.launches) == len(wanted)
        assert (step.scratch_bytes > 0) == (len(wanted) > 1)


def test_chains_on_both_sides_of_rows_that_are_not_held() -> None:
    """What fusion promised and registers do not hold becomes launches with scratch between."""
    rng = np.random.default_rng(0)
    arrays = [array_of(rng, (6, 8000), f32) for _ in range(8)]
    chain = [micro_of("add", (0, 1), [operand_of(x) for x in arrays[:2]])]
    for k in range(2, 7):
        chain.append(micro_of("add", (~(k - 2), k), [chain[-1], operand_of(arrays[k])]))
    chain.append(micro_of("softmax", (~5,), [chain[-1]], Softmax(1)))
    chain.append(micro_of("mul", (~6, 7), [chain[-1], operand_of(arrays[7])]))
    (step,) = cuda_reduce.prepare(unit_of(chain, arrays), H200)
    names = families(step)
    assert names[0] == "elementwise_dense" == names[2] and names[1].startswith("softmax")
    assert step.scratch_bytes >= 2 * 6 * 8000 * 4
    read = {a.value for launch in step.launches for a in launch.arguments if a.kind == "read"}
    assert read == set(range(8))


@pytest.mark.parametrize(
    ("dims", "axis", "is_whole"),
    [
        ((1, 10_000_000), -1, False),
        ((10_000_000, 3), 0, False),
        ((1024, 50_257), -1, True),
        ((1, 16_384), -1, True),
        ((3, 40_000), -1, False),
        ((64, 1 << 20), -1, False),
        ((100_000, 8000), 0, True),
        ((0, 5), -1, True),
    ],
    ids=str,
)
def test_few_long_rows_are_computed_by_their_parts(
    dims: tuple[int, ...], axis: int, is_whole: bool
) -> None:
    for function in (sc.softmax, sc.log_softmax):
        executable = sc.compile(function(leaf(*dims), axis), fast_profile(), target="sm_90a")
        steps = executable.program.steps
        assert (len(steps) == 1) == is_whole
        if not is_whole:
            assert "would keep few blocks busy" in str(executable)
            assert all(families(step)[0] != "softmax_rows" for step in steps)


def test_parts_of_long_rows_stay_on_their_device() -> None:
    """The row of the composite names the device; strict asks for no rows of its parts."""
    for node in (sc.layer_norm(leaf(2, 1 << 22)), sc.log_softmax(leaf(2, 1 << 22))):
        made = sc.compile(node, "nvidia-h200", target="sm_90a").program
        assert {step.backend_id for step in made.steps} <= {"cuda_reduce", "cuda_elementwise"}
    rows = (Row("softmax", None, 0, None, "cuda_reduce"),)
    profile = replace(fast_profile(), rows=rows)
    for strict in (False, True):
        long = sc.compile(sc.softmax(leaf(2, 1 << 22)), profile, target="sm_90a", strict=strict)
        assert all(step.backend_id.startswith("cuda") for step in long.program.steps)
        assert len(long.program.steps) == 4


@pytest.mark.parametrize("result", ["bool", "f16", "bf16", "f64"])
def test_no_access_is_wider_than_16_bytes(result: str) -> None:
    """Operands that are read element by element are held as vectors too."""
    turned = sc.transpose(leaf(64, 96))
    wide = sc.cast(sc.transpose(leaf(64, 96, dtype=f64)), "f16")
    for made in (sc.softmax(turned), sc.softmax(wide), sc.softmax(leaf(96, 128)[:, ::2])):
        node = made > 0.5 if result == "bool" else sc.cast(made, result)
        (step,) = program_of(node).steps
        (launch,) = step.launches
        read = (operand.dtype.itemsize for operand in step.inputs if operand.dims)
        assert launch.spec.tile[0] * max(step.outputs[0].dtype.itemsize, *read) <= 16


def test_functions_hold_fewer_elements_of_16_bits() -> None:
    for function, elements in ((sc.abs, 32), (sc.gelu, 16), (sc.sin, 16)):
        (step,) = program_of(sc.softmax(function(leaf(64, 8192, dtype=bf16)))).steps
        width, vectors = step.launches[0].spec.tile
        assert width * vectors == elements


def test_launches_of_their_own_do_not_write_what_they_read() -> None:
    (held,) = program_of(sc.softmax(leaf(64, 100)) + leaf(64, 100)).steps
    assert cuda_reduce.in_place(held) is held
    turned = sc.transpose(leaf(1000, 4096))
    (apart,) = program_of(sc.softmax(leaf(4096, 1000)) + turned).steps
    assert len(apart.launches) > 1 and cuda_reduce.in_place(apart) is None


def test_few_long_rows_of_layer_norm() -> None:
    long = program_of(sc.layer_norm(leaf(2, 1 << 20), leaf(1 << 20)))
    assert len(long.steps) > 1
    assert len(program_of(sc.layer_norm(leaf(4096, 1 << 15), leaf(1 << 15))).steps) == 1
