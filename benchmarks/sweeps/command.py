"""The command line of a sweep, and the files that it writes."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["asked", "parser_of", "write_rows", "write_text"]


def parser_of(about: str | None, seconds: float, only: str = "") -> argparse.ArgumentParser:
    """Return the options of a sweep.

    Args:
        about: the docstring of its module.
        seconds: how long it takes if nothing else is asked.
        only: what of its cases is searched for a text, such as "names"; "" for nothing.
    """
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=seconds)
    if only:
        parser.add_argument("--only", default="", help=f"cases with this text in their {only}")
    return parser


def asked(
    parser: argparse.ArgumentParser, arguments: Sequence[str] | None = None
) -> argparse.Namespace:
    """Return what a sweep was asked for; its folder is made.

    Args:
        parser: of `parser_of`.
        arguments: of the command line; None for those of the process.
    """
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    return options


def write_rows(out: Path, sweep: str, rows: Sequence[dict[str, Any]], text: str) -> None:
    """Write what a sweep measured and what it says of it: SWEEP_sweep.json and .txt."""
    (out / f"{sweep}_sweep.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    write_text(out / f"{sweep}_sweep.txt", text)


def write_text(path: Path, text: str) -> None:
    """Write a text that ends with a line break."""
    path.write_text(text + "\n", encoding="utf-8")
