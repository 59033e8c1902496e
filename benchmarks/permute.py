"""The suite permute: copies that reorder axes, against the copy rate of the device."""

from __future__ import annotations

from functools import partial

import numpy as np

import softcuda as sc
from benchmarks.cases import Bench, Case
from benchmarks.gpu_work import DeviceCase, random_array, run_device_case
from benchmarks.results import Row

__all__ = ["CASES"]

GROUP = "Permutations, f32"

# Extents and orders in the manner of Springer, Hammond and Bientinesi, TTC (2016).
PERMUTATIONS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((4096, 4096), (1, 0)),
    ((43408, 1216), (1, 0)),
    ((384, 64, 2144), (1, 0, 2)),
    ((355, 384, 384), (0, 2, 1)),
    ((384, 59, 2320), (2, 1, 0)),
    ((96, 75, 96, 80), (2, 1, 0, 3)),
    ((48, 28, 25, 48, 32), (4, 2, 1, 0, 3)),
)


def _permute(shape: tuple[int, ...], axes: tuple[int, ...], name: str, bench: Bench) -> Row:
    array = random_array(1, *shape)
    case = DeviceCase(
        [array],
        lambda x: sc.permute_dims(x, axes).copy(),
        np.ascontiguousarray(array.transpose(axes)).astype(np.float64),
        0.0,
        2 * array.nbytes,
        torch=lambda torch, x: lambda: x.permute(*axes).contiguous(),
        cupy=lambda cupy, x: lambda: cupy.ascontiguousarray(x.transpose(axes)),
    )
    return run_device_case(bench, GROUP, name, case)


def _name(shape: tuple[int, ...], axes: tuple[int, ...]) -> str:
    return f"{'x'.join(map(str, shape))} -> {','.join(map(str, axes))}"


CASES = tuple(
    Case(GROUP, _name(shape, axes), partial(_permute, shape, axes, _name(shape, axes)))
    for shape, axes in PERMUTATIONS
)
