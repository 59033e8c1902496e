"""What tests of planners replace in them is used: units are planned anew."""

from __future__ import annotations

import pytest

from softcuda.compiler import patterns

__all__ = ["plan_anew"]


def plan_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan every unit of a graph, also one that was planned before, until the test ends."""
    monkeypatch.setattr(patterns, "_planned", lambda prepare, unit, target: prepare(unit, target))
