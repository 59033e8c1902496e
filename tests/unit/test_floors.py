"""The imports of every module: downward between floors, at the top, and few inside functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2] / "softcuda"

# Floor by floor, the folders and top modules that live there; "" is softcuda/__init__.py, which
# gathers the public names of the floors below it.
FLOORS = (
    ("errors", "dtype", "knobs", "paths"),
    ("contraction",),
    ("graph", "target"),
    ("profile", "pool"),
    ("backends",),
    ("compiler",),
    ("executor",),
    ("tensor", "functions", "running", "cache"),
    ("nn",),
    ("",),
    ("tools",),
)

# Heavy or optional packages, imported where they are used.
LATE_IMPORTS = ("scipy", "rich", "cuda.pathfinder", "cotengrust", "matplotlib")

MODULES = sorted(ROOT.rglob("*.py"))


class Import(NamedTuple):
    """One imported module: its dotted name, the line, and whether a function does it."""

    name: str
    line: int
    is_late: bool


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def dotted(path: Path) -> str:
    parts = ("softcuda", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def group(module: str) -> str:
    """Return the folder or top module below softcuda that a dotted name lies in."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def floor(module: str) -> int:
    found = [n for n, members in enumerate(FLOORS) if group(module) in members]
    assert len(found) == 1, f"{module} is on floors {found}; exactly one is allowed"
    return found[0]


def is_folder(name: str) -> bool:
    return (ROOT / name).is_dir()


def imports(path: Path) -> Iterator[Import]:
    """Yield every import of a module; `from package import module` names the module."""
    tree = parsed(path)
    late = {
        id(inner)
        for outer in ast.walk(tree)
        if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for inner in ast.walk(outer)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, id(node) in late)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import; write softcuda...."
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                name = inner if is_module(inner) else str(node.module)
                yield Import(name, node.lineno, id(node) in late)


def is_module(name: str) -> bool:
    parts = name.split(".")
    if parts[0] != "softcuda":
        return name in LATE_IMPORTS
    path = ROOT.joinpath(*parts[1:])
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def by_module(path: Path) -> str:
    return dotted(path)


each_module = pytest.mark.parametrize("path", MODULES, ids=by_module)


@each_module
def test_module_is_on_one_floor(path: Path) -> None:
    assert floor(dotted(path)) >= 0


@each_module
def test_imports_go_down(path: Path) -> None:
    importer = dotted(path)
    home = group(importer)
    for found in imports(path):
        if found.name.split(".")[0] != "softcuda":
            continue
        where = f"{path}:{found.line}: {importer} imports {found.name}"
        other = group(found.name)
        here, there = floor(importer), floor(found.name)
        assert there <= here, f"{where}, which is on floor {there}, above floor {here}"
        if there == here and other != home:
            both_top = not is_folder(other) and not is_folder(home)
            assert both_top, f"{where}: sideways on floor {here}, from one folder to another"


@each_module
def test_imports_inside_functions(path: Path) -> None:
    for found in imports(path):
        if found.is_late:
            allowed = any(
                found.name == name or found.name.startswith(name + ".") for name in LATE_IMPORTS
            )
            assert allowed, (
                f"{path}:{found.line}: {found.name} is imported inside a function; "
                f"allowed there are {', '.join(LATE_IMPORTS)}"
            )


@pytest.mark.parametrize(
    "path", [p for p in MODULES if dotted(p) != "softcuda.knobs"], ids=by_module
)
def test_environment_is_read_in_knobs_only(path: Path) -> None:
    readers = {"environ", "environb", "getenv", "getenvb", "expandvars"}
    for node in ast.walk(parsed(path)):
        name = node.attr if isinstance(node, ast.Attribute) else None
        names = {alias.name for alias in node.names} if isinstance(node, ast.ImportFrom) else {name}
        assert not names & readers, f"{path}: reads the environment; knobs.py alone does that"


@each_module
def test_no_blanket_except(path: Path) -> None:
    for node in ast.walk(parsed(path)):
        if not isinstance(node, ast.ExceptHandler):
            continue
        caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        names = {c.id if isinstance(c, ast.Name) else None for c in caught if c is not None}
        assert node.type is not None, f"{path}:{node.lineno}: bare except"
        assert "Exception" not in names, f"{path}:{node.lineno}: except Exception"


@each_module
def test_no_assert(path: Path) -> None:
    lines = [node.lineno for node in ast.walk(parsed(path)) if isinstance(node, ast.Assert)]
    assert not lines, f"{path}: assert on lines {lines}; raise an error of softcuda.errors"


@each_module
def test_no_del_no_private_keywords(path: Path) -> None:
    for node in ast.walk(parsed(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            where = f"{path}:{node.lineno}: {node.name}"
            assert node.name != "__del__", f"{where}: use weakref.finalize"
            private = [a.arg for a in node.args.kwonlyargs if a.arg.startswith("_")]
            assert not private, f"{where}: keyword arguments {private} begin with _"
