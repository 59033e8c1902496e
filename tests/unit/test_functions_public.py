"""The public names: one table, a docstring and a signature each."""

from __future__ import annotations

import inspect

import pytest

import softcuda as sc
from softcuda.graph.op import OPS, Kind

FUNCTIONS = [getattr(sc, name) for name in sc.functions.__all__]


def test_every_op_has_its_function() -> None:
    for op in OPS.values():
        if op.kind is not Kind.LEAF and op.name != "slice":
            assert op.public in sc.functions.__all__
            assert callable(getattr(sc, op.public))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_functions_are_documented(function: object) -> None:
    doc = inspect.getdoc(function) or ""
    first = doc.splitlines()[0]
    assert first.startswith(("Return ", "Compute "))
    assert len(first) < 100
    assert first.endswith((".", ","))
    assert "Args:" in doc
    assert "Raises:" in doc or function in (sc.zeros_like, sc.ones_like)
    for name in inspect.signature(function).parameters:  # type: ignore[arg-type]
        assert f"\n    {name}:" in doc or f" {name}: [" in doc, f"{name} is not described"
    assert function.__name__ in sc.functions.__all__  # type: ignore[attr-defined]


def test_methods_are_named_after_functions() -> None:
    values = {"assign", "evaluate", "item", "numpy", "tolist"}
    gradients = {"backward", "detach", "zero_grad"}
    builders = {"apply", "leaf", "number", "settle"}
    methods = {
        name
        for name, value in inspect.getmembers(sc.Tensor, callable)
        if not name.startswith("_") and not isinstance(value, property)
    }
    assert methods - values - gradients - builders <= set(sc.functions.__all__)
    assert {"sum", "mean", "reshape", "astype", "exp", "clip", "take", "matmul"} <= methods


def test_no_name_of_python_is_lost() -> None:
    assert set(sc.__all__) >= {"Tensor", "Generator", "compile", "evaluate", "explain", "errors"}
    assert sc.tensor([1.0]).sum().shape == ()
