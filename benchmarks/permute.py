"""The suite permute: copies that reorder axes, against the copy rate of the device."""

from __future__ import annotations

from functools import partial

import numpy as np

import softcuda as sc
from benchmarks.accuracy import tolerance
from benchmarks.cases import Bench, Case
from benchmarks.gpu_work import DeviceCase, random_array, run_device_case
from benchmarks.permutations import HPTT, ODD, PLAIN, Permutation, name_of
from benchmarks.results import Row

__all__ = ["CASES"]

PUBLISHED = "Permutations of HPTT, f32"
OTHERS = "Other permutations, f32"
LEAST = 0.68  # of the copy rate, for each of the published ones: 2.9e12 bytes/s on an H200


def _permute(group: str, permutation: Permutation, least: float, bench: Bench) -> Row:
    shape, axes = permutation
    array = random_array(1, *shape)
    case = DeviceCase(
        [array],
        lambda x: sc.permute_dims(x, axes).copy(),
        np.ascontiguousarray(array.transpose(axes)).astype(np.float64),
        0.0,
        2 * array.nbytes,
        torch=lambda torch, x: lambda: x.permute(*axes).contiguous(),
        cupy=lambda cupy, x: lambda: cupy.ascontiguousarray(x.transpose(axes)),
        least=least,
    )
    return run_device_case(bench, group, name_of(permutation), case)


def _scaled_cast(permutation: Permutation, bench: Bench) -> Row:
    shape, axes = permutation
    array = random_array(1, *shape)
    right = 0.5 * np.ascontiguousarray(array.transpose(axes)).astype(np.float64)
    case = DeviceCase(
        [array],
        lambda x: sc.cast(sc.permute_dims(x, axes) * 0.5, sc.bf16),
        right,
        tolerance("bf16", steps=2),
        array.nbytes + array.nbytes // 2,
        torch=lambda torch, x: lambda: (x.permute(*axes) * 0.5).bfloat16().contiguous(),
    )
    return run_device_case(bench, OTHERS, f"{name_of(permutation)}, halved, to bf16", case)


def _cases() -> list[Case]:
    made = []
    for group, listed, least in (
        (PUBLISHED, tuple(HPTT.values()), LEAST),
        (OTHERS, (*PLAIN, *ODD), 0.0),
    ):
        for permutation in listed:
            run = partial(_permute, group, permutation, least)
            made.append(Case(group, name_of(permutation), run))
    for permutation in (PLAIN[0], HPTT["19"]):
        name = f"{name_of(permutation)}, halved, to bf16"
        made.append(Case(OTHERS, name, partial(_scaled_cast, permutation)))
    return made


CASES = tuple(_cases())
