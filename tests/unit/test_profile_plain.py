"""Rows that are read all at once: what is wrong with one of them is said as of any other line."""

from __future__ import annotations

import pytest
from profile_text import profile_of

from softcuda.errors import ConfigError


@pytest.mark.parametrize(
    ("rows", "line", "said"),
    [
        ("add | any = cpu_fused\nadd | any = cpu_blas", 5, "duplicate: 'add | any'"),
        ("add | size < 9 = cpu_fused\nadd | size >= 8 = cpu_blas", 5, "overlap: "),
        ("add | size < 8 = cpu_fused\nadd | size >= 9 = cpu_blas", 5, "8 <= size < 9 uncovered"),
        ("add | size < 8 = cpu_fused", 4, "leave size >= 8 uncovered"),
        ("add | 8 <= size < 8 = cpu_fused", 4, "holds no size"),
        ("add[f33] | any = cpu_fused", 4, "unknown dtype 'f33'"),
        ("add | any = cpu_fast  # us at 1", 4, "unknown backend 'cpu_fast'"),
        ("subtract | any = cpu_fused", 4, "unknown op 'subtract'"),
        ("add | any = cpu_fused  # \x07", 4, "control character"),
    ],
)
def test_wrong_rows_among_plain_ones_are_found(rows: str, line: int, said: str) -> None:
    """All of them look as soft_init writes them; where one is wrong, its own line is named."""
    with pytest.raises(ConfigError) as caught:
        profile_of(f"[meta]\nsoft_version = 0.1.0\n[ops]\n{rows}\nsub | any = cpu_fused\n")
    assert caught.value.line == line
    assert said in str(caught.value)


def test_rows_of_an_op_may_stand_in_any_order() -> None:
    head = "[meta]\nsoft_version = 0.1.0\n[ops]\nadd | size >= 8 = cpu_blas\n"
    for between in ("", "sub | any = cpu_fused\n"):
        found = profile_of(f"{head}{between}add | size < 8 = cpu_fused\n").lookup("add", "f32", 7)
        assert found is not None and found.backend_id == "cpu_fused"
