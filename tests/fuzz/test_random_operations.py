"""Random expressions and operations of the conformance suite, more of them than a unit run has."""

from __future__ import annotations

import pytest

from softcuda.tools.conformance import failures
from softcuda.tools.conformance_bench import Bench
from softcuda.tools.conformance_mixed import mixed_checks
from softcuda.tools.conformance_values import random_checks

COUNT = 400


@pytest.mark.parametrize("backend_id", ["cpu_blas", "cpu_fallback", "cpu_fused"])
def test_they_hold(backend_id: str) -> None:
    checks = [*random_checks(COUNT), *mixed_checks(COUNT)]
    assert not list(failures(Bench(backend_id, "cpu"), checks))
