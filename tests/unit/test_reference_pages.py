"""The generated pages of docs agree with the tables that they are read from."""

from __future__ import annotations

import pytest
from reference_pages import DOCS, PAGES

import softcuda as sc
from softcuda.graph.op import OPS, Kind
from softcuda.knobs import KNOBS


@pytest.mark.parametrize("name", PAGES)
def test_generated_pages_are_up_to_date(name: str) -> None:
    written = (DOCS / name).read_text(encoding="utf-8")
    assert written == PAGES[name](), "run python tests/unit/reference_pages.py"


def test_every_function_token_and_knob_has_its_line() -> None:
    ops = (DOCS / "ops.md").read_text(encoding="utf-8")
    for name in sc.functions.__all__:
        assert f"\n| `{name}` |" in ops
    for op in OPS.values():
        assert op.kind is Kind.LEAF or f"`{op.name}`" in ops
    knobs = (DOCS / "knobs.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in knobs for name in KNOBS)
