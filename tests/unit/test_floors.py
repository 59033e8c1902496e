"""The imports of every module: downward between floors, at the top, and few inside functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2] / "softcuda"

# Floor by floor, the folders and top modules that live there; "" is softcuda/__init__.py, which
# gathers the public names of the floors below it.
FLOORS = (
    (
        "console",
        "errors",
        "dtype",
        "numbers",
        "knobs",
        "paths",
        "version",
        "sizes",
        "warn",
        "forks",
        "interrupts",
        "whole_files",
    ),
    ("driver", "nvrtc", "contraction"),
    ("graph", "target", "kernelspec"),
    ("profile", "pool", "loader", "autograd"),
    ("backends",),
    ("compiler",),
    ("interop",),
    ("executor",),
    ("running", "cache", "evaluating"),
    ("tensor",),
    ("generator",),
    ("functions",),
    ("named", "gradients", "saved"),
    ("optim", "nn"),
    ("",),
    ("tools",),
)

# Heavy or optional packages, imported where they are used.
LATE_IMPORTS = ("scipy", "rich", "cuda.pathfinder", "cotengrust", "matplotlib")

ENVIRONMENT = {"environ", "environb", "getenv", "getenvb", "expandvars"}

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


def floors(module: str) -> list[int]:
    """Return the floors that a module is on; one, where the table is right."""
    return [number for number, members in enumerate(FLOORS) if group(module) in members]


def is_module(name: str) -> bool:
    parts = name.split(".")
    if parts[0] != "softcuda":
        return name in LATE_IMPORTS
    path = ROOT.joinpath(*parts[1:])
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


@cache
def imports(path: Path) -> tuple[Import, ...]:
    """Return every import of a module; `from package import module` names the module."""
    return tuple(_imports(parsed(path)))


def _imports(tree: ast.Module) -> Iterator[Import]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    late = {
        id(inner)
        for outer in ast.walk(tree)
        if isinstance(outer, functions)
        for inner in ast.walk(outer)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, id(node) in late)
        elif isinstance(node, ast.ImportFrom):
            package = "." * node.level + (node.module or "")
            for alias in node.names:
                inner = f"{package}.{alias.name}"
                yield Import(inner if is_module(inner) else package, node.lineno, id(node) in late)


def own_imports() -> Iterator[tuple[Path, Import]]:
    for path in MODULES:
        for found in imports(path):
            if found.name.split(".")[0] == "softcuda":
                yield path, found


def test_every_module_is_on_one_floor() -> None:
    wrong = {dotted(p): floors(dotted(p)) for p in MODULES if len(floors(dotted(p))) != 1}
    assert not wrong, "each module belongs on exactly one floor of the table above"


def test_imports_are_absolute() -> None:
    relative = [f"{p}:{i.line}" for p in MODULES for i in imports(p) if i.name.startswith(".")]
    assert not relative


def test_imports_go_down() -> None:
    upward = [
        f"{path}:{found.line}: imports {found.name} from above"
        for path, found in own_imports()
        if floors(found.name)[0] > floors(dotted(path))[0]
    ]
    assert not upward


def test_imports_on_one_floor_stay_in_one_folder() -> None:
    sideways = []
    for path, found in own_imports():
        home, other = group(dotted(path)), group(found.name)
        folders = (ROOT / home).is_dir() or (ROOT / other).is_dir()
        if home != other and folders and floors(found.name) == floors(dotted(path)):
            sideways.append(f"{path}:{found.line}: imports {found.name} of the same floor")
    assert not sideways


def test_imports_inside_functions() -> None:
    late = [
        f"{path}:{found.line}: {found.name}"
        for path in MODULES
        for found in imports(path)
        if found.is_late and not f"{found.name}.".startswith(tuple(f"{n}." for n in LATE_IMPORTS))
    ]
    assert not late, f"inside functions only {LATE_IMPORTS} may be imported"


def test_the_environment_is_read_in_knobs_only() -> None:
    readers = []
    for path in MODULES:
        if dotted(path) == "softcuda.knobs":
            continue
        for node in ast.walk(parsed(path)):
            names = {node.attr} if isinstance(node, ast.Attribute) else set()
            if isinstance(node, ast.ImportFrom):
                names = {alias.name for alias in node.names}
            readers.extend(f"{path}: {name}" for name in names & ENVIRONMENT)
    assert not readers


def test_no_blanket_except() -> None:
    blanket = []
    for path in MODULES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ExceptHandler):
                caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
                names = {c.id for c in caught if isinstance(c, ast.Name)}
                if node.type is None or "Exception" in names:
                    blanket.append(f"{path}:{node.lineno}")
    assert not blanket


def test_no_assert() -> None:
    found = [
        f"{path}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Assert)
    ]
    assert not found, "raise an error of softcuda.errors instead"


def test_no_del_and_no_private_keywords() -> None:
    wrong = []
    for path in MODULES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                private = [a.arg for a in node.args.kwonlyargs if a.arg.startswith("_")]
                if private or node.name == "__del__":
                    wrong.append(f"{path}:{node.lineno}: {node.name}, {private}")
    assert not wrong
