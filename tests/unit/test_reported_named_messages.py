"""Errors of named axes as a trial met them: each says who was called, with what."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import softcuda as sc
from softcuda import BinaryOp, EinsumPlan, TensorDescriptor, UnaryOp
from softcuda.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    NumberRangeError,
    ShapeError,
    SoftCudaError,
)
from softcuda.tools.conformance import main

ON_CUDA = str(Path(__file__).parents[2] / "benchmarks" / "cuda.soft")
S = np.array([[1.0, 2], [3, 4]])
WHOLE, TRUE = S.astype(np.int32), np.ones((2, 2), bool)


def plan(expression: str, count: int) -> EinsumPlan:
    return EinsumPlan(expression, [TensorDescriptor.from_tensor(S)] * count)


@pytest.mark.parametrize(
    "call, kind, says",
    [
        (
            lambda: sc.contract(S, "ij", S, "jk", "ik", unary=UnaryOp.Sqrt),  # type: ignore[arg-type]
            ArgumentTypeError,
            r"^contract: unary is .*Sqrt.*list of members",
        ),
        (lambda: TensorDescriptor((2, 2), (2**70, 1), sc.f32), ShapeError, r"strides .*2\^59"),
        (lambda: sc.einsum("ij", S, S), SoftCudaError, "1 input expected, 2 given"),
        (lambda: plan("ij", 1).execute([S, S]), ArgumentError, "1 input expected, 2 given"),
        (lambda: sc.einsum("ij,jk", TRUE, TRUE), DTypeError, r"^ij,jk.*: all operands .* bool"),
        (
            lambda: sc.contract(WHOLE, "ij", WHOLE, "jk", "ik", alpha=1.5),
            DTypeError,
            r"^contract: alpha: the number 1\.5",
        ),
        (
            lambda: sc.elementwise_binary(S, "ij", S, "ij", "ij", BinaryOp.Add, beta=2j),
            DTypeError,
            r"^elementwise_binary: beta: the number 2j",
        ),
        (
            lambda: sc.permute(WHOLE, "ij", "ji", alpha=2**70),
            NumberRangeError,
            r"^permute: alpha: the number",
        ),
        (
            lambda: plan("ij,jk,kl", 3).execute([S, None, S]),
            ArgumentTypeError,
            r"^Plan: input 1 cannot be a tensor",
        ),
        (
            lambda: sc.einsum("ij,jk->ik", S, None),
            ArgumentTypeError,
            r"^einsum: operand 1: a value of type NoneType cannot be a tensor",
        ),
        (
            lambda: sc.einsum("ij,jk->ik", S.astype("u8"), S),
            DTypeError,
            r"^einsum: operand 0: an array of dtype uint64 cannot be a tensor",
        ),
        (
            lambda: sc.contract(S, "ij", S.astype(object), "jk", "ik"),
            DTypeError,
            r"^contract: operand 1: an array of dtype object cannot be a tensor",
        ),
        (
            lambda: sc.einsum("ij,jk->ik", S, [[1], [1, 2]]),
            ShapeError,
            r"^einsum: operand 1: the nested list is ragged",
        ),
        (
            lambda: sc.einsum_with_options("ij,jk", S * 1j, S, output_dtype="i32"),
            DTypeError,
            r"complex128 give complex numbers .* i32; allowed are complex64 and complex128",
        ),
        (lambda: sc.einsum(b"ij->ji", S), ArgumentTypeError, r"expression is b'ij->ji' .*a str"),
        (
            lambda: sc.contract(S, "ij", S, "jk", "ik", beta=2),
            ArgumentError,
            r"^contract: beta=2 and no c",
        ),
        (
            lambda: sc.reduce(S, "ij", "i", c_modes="i"),
            ArgumentError,
            r"^reduce: c_modes='i' and no c",
        ),
        (
            lambda: sc.permute(S, {"i", "j"}, "ij"),  # type: ignore[arg-type]
            ArgumentTypeError,
            r"^permute: the labels are \{",
        ),
        (lambda: sc.einsum(S, {0, 1}, [1, 0]), ArgumentTypeError, "labels of operand 0 are"),
        (
            lambda: sc.einsum_path("ij,jk", S, S, config=ON_CUDA),
            SoftCudaError,
            "pass config='default', or target='sm_90a' or another to softcuda.compile",
        ),
    ],
)
def test_errors_say_who_and_what(call: Callable[[], Any], kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        call()


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["cuda_naive"], "cuda_naive runs on a CUDA device and none can be used here"),
        (["nosuch"], "there is no backend 'nosuch'; allowed are cpu_fallback"),
        (["--random", "-3"], "--random is -3; allowed are 0 and more"),
    ],
)
def test_the_conformance_command_refuses(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert says in capsys.readouterr().err
