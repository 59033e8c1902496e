"""Reductions that graphs make: ops around them, pairs of dtypes that no row of the table names.

The rows themselves are compiled by test_all_kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from chain_cases import array_of, micro_of, operand_of, unit_of

from softcuda.backends import cuda_reduce
from softcuda.backends.cuda.naive_reduce import NAIVE_REDUCE
from softcuda.backends.steps import Micro
from softcuda.dtype import REAL_DTYPES, bool_, f16, f32, i32
from softcuda.graph.params import Norm, Reduce
from softcuda.kernelspec import KernelSpec
from softcuda.nvrtc.compiler import compile_unit
from softcuda.target import Target

SMALL = Target("cuda", "sm_75", 2, 64, 4)


def launched(chain: Sequence[Micro], arrays: Sequence[np.ndarray]) -> Iterator[KernelSpec]:
    """Yield the kernels of a unit that reads these arrays."""
    (step,) = cuda_reduce.prepare(unit_of(chain, arrays), SMALL)
    for launch in step.launches:
        yield launch.spec


def made_by_fusion() -> Iterator[KernelSpec]:
    """Yield kernels with ops before and behind the reduction, wide and narrow."""
    rng = np.random.default_rng(0)
    x, row = array_of(rng, (64, 96), f16), array_of(rng, (96,), f32)
    column = array_of(rng, (64, 1), i32)
    for axis in (0, 1):
        product = micro_of("mul", (0, 1), [operand_of(x), operand_of(row)])
        rest = micro_of("maximum", (~0, 2), [product, operand_of(column)])
        for name in ("sum", "max", "argmax", "logsumexp"):
            total = micro_of(name, (~1,), [rest], Reduce((axis,), True))
            tail = micro_of("add", (~2, 3), [total, operand_of(np.float32(1))])
            yield from launched([product, rest, total, tail], [x, row, column, np.float32(1)])
    many = array_of(rng, (2,) * 20, f32).transpose(rng.permutation(20))
    total = micro_of("sum", (0,), [operand_of(many)], Reduce(tuple(range(0, 20, 2)), False))
    yield from launched([total], [many])


def of_other_dtypes() -> Iterator[KernelSpec]:
    """Yield kernels of pairs that the table leaves to the rest of it."""
    rng = np.random.default_rng(1)
    for dims, axis in (((300, 64), 0), ((64, 300), 1)):
        for dtype in (bool_, i32, f16):
            x = array_of(rng, dims, dtype)
            for name in ("mean", "argmin", "logsumexp"):
                params = Reduce((axis,), False)
                yield from launched([micro_of(name, (0,), [operand_of(x)], params)], [x])
            for order in ("inf", "3.0"):
                params = Norm((axis,), False, order)
                yield from launched([micro_of("norm", (0,), [operand_of(x)], params)], [x])


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
def test_kernels_that_graphs_make(arch: str) -> None:
    specs = {spec.id: spec for spec in (*made_by_fusion(), *of_other_dtypes())}
    assert {spec.family for spec in specs.values()} >= {
        "reduce_rows",
        "reduce_columns",
        "reduce_parts",
    }
    for spec in specs.values():  # registers are the graph's own affair
        compiled = compile_unit(spec.unit, arch)
        assert compiled.resources is not None
        assert "warning" not in compiled.log


def test_rows_cover_families_and_dtypes() -> None:
    ids = [spec.id for spec in (*cuda_reduce.KERNELS, *NAIVE_REDUCE)]
    assert len(ids) == len(set(ids))
    for family in {spec.family for spec in cuda_reduce.KERNELS}:
        read = {name for s in cuda_reduce.KERNELS if s.family == family for name in s.dtypes}
        floats = {name for name, dtype in REAL_DTYPES.items() if dtype.is_float}
        assert read >= (set() if family in ("reduce_parts", "scan_carries") else floats), family
