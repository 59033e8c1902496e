"""The pages of docs that are generated: what they say is read from the tables of the code.

`python tests/unit/reference_pages.py` writes them; test_reference_pages.py compares.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np

import softcuda as sc
from softcuda.dtype import DTYPES
from softcuda.graph.op import OPS, Kind
from softcuda.knobs import KNOBS
from softcuda.tensor.interop import NUMPY_NAMES
from softcuda.tensor.names import OTHER_NAMES

__all__ = ["DOCS", "PAGES"]

DOCS = Path(__file__).parents[2] / "docs"


def tokens_of(function: str) -> list[str]:
    """Return the tokens of the op table whose public name is this function."""
    return [op.name for op in OPS.values() if op.public == function]


def numpy_names(function: str) -> list[str]:
    """Return NumPy's names of a function: the same one where NumPy has it, then others."""
    same = [function] if hasattr(np, function) and function not in ("input", "variable") else []
    return same + sorted(name for name, own in NUMPY_NAMES.items() if own == function)


def other_names(function: str) -> list[str]:
    """Return the names that are answered with this function, NumPy's and tokens left out."""
    known = {*NUMPY_NAMES, *OPS}
    return sorted(
        name
        for name, own in OTHER_NAMES.items()
        if own.partition("(")[0] == function and name not in known
    )


def code(names: list[str]) -> str:
    """Return names as a cell of code words."""
    return " ".join(f"`{name}`" for name in names)


def ops_page() -> str:
    """Return docs/ops.md."""
    rows = [
        "# Functions and tokens",
        "",
        "Every public function of softcuda, alphabetically. The **token** names the op in "
        "CONFIG.soft,",
        "in `tensor.op` and in printed tables; a function without one is built of others. Names of "
        "NumPy and",
        "of PyTorch that softcuda lacks are answered with an error that says the name here.",
        "`help(softcuda.NAME)` tells formulas, shapes, dtypes and errors.",
        "",
        "| function | token | NumPy | also asked for as | it returns, or does |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name in sorted(sc.functions.__all__):
        doc = (inspect.getdoc(getattr(sc, name)) or "").splitlines()[0]
        said = doc.removeprefix("Return ").replace("|", "\\|").rstrip(".,")
        cells = (code(tokens_of(name)), code(numpy_names(name)), code(other_names(name)), said)
        rows.append(f"| `{name}` | " + " | ".join(cells) + " |")
    views = [op.name for op in OPS.values() if op.kind is Kind.VIEW]
    rows += [
        "",
        "Indexing, `tensor[...]`, is the view `slice`, and `take` where an index is a list or a "
        "tensor.",
        f"Views do no work and have no rows in a profile: {code(views)}.",
        "",
        "| dtype | NumPy's name | bytes |",
        "| --- | --- | --- |",
        *(
            f"| `{'bool_' if name == 'bool' else name}` | `{d.numpy.name}` | {d.itemsize} |"
            for name, d in DTYPES.items()
        ),
    ]
    return "\n".join(rows) + "\n"


def knobs_page() -> str:
    """Return docs/knobs.md."""
    rows = [
        "# Environment variables",
        "",
        "Every environment variable that softcuda reads. A value that is not allowed is an error "
        "that says",
        "what is.",
        "",
        "| variable | meaning |",
        "| --- | --- |",
        *(f"| `{name}` | {meaning} |" for name, meaning in KNOBS.items()),
    ]
    return "\n".join(rows) + "\n"


PAGES = {"ops.md": ops_page, "knobs.md": knobs_page}


if __name__ == "__main__":
    for page, text in PAGES.items():
        (DOCS / page).write_text(text(), encoding="utf-8")
