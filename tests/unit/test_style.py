"""The style that linters do not know: lengths, names, and what a docstring owes its reader."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import softcuda
from softcuda.graph.op import OPS, Kind

ROOT = Path(__file__).parents[2]
FILE_LINES, FUNCTION_LINES = 300, 80

# path, or path:function -> why it may be longer.
LONGER: dict[str, str] = {}

# Public names that several modules define on purpose -> why.
SHARED_NAMES: dict[str, str] = {
    "main": "every console script has one",
    "supports": "the contract of a backend",
    "prepare": "the contract of a backend",
    "bind": "the contract of a backend",
    "BACKEND_ID": "the contract of a backend",
    "DEVICE": "the contract of a backend",
    "FUSES": "the contract of a backend",
    "FUNCTIONS": "the contract of a backend",
    "EPILOGUES": "the contract of a backend",
    "KERNELS": "the contract of a backend",
    "further_kernels": "the contract of a backend",
    "absorbs": "the contract of a backend",
    "carries": "the contract of a backend",
    "makes": "the contract of a backend",
    "told": "the contract of a backend",
    "in_place": "the contract of a backend",
    "i32": "the dtype, and a kernel's argument of it",
    "i64": "the dtype, and a kernel's argument of it",
    "f32": "the dtype, and a kernel's argument of it",
    "f64": "the dtype, and a kernel's argument of it",
    "read": "a profile's file, and a kernel's pointer it reads",
    "write": "a profile's file, and a kernel's pointer it writes",
    "session": "executor/on_demand.py names what executor/devices.py has, and loads it late",
    "cuda_target": "executor/on_demand.py names what executor/devices.py has, and loads it late",
    "cuda_facts": "executor/on_demand.py names what executor/devices.py has, and loads it late",
}

# Modules whose functions are named after the ops they serve, and raise what those ops refuse.
NAMED_AFTER_OPS = ("softcuda/graph/dtype_rules.py", "softcuda/graph/shape_rules.py")

PACKAGE = sorted((ROOT / "softcuda").rglob("*.py"))
WRITTEN = sorted(
    path
    for folder in ("softcuda", "examples", "tests", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def exported(path: Path) -> list[str]:
    """Return `__all__` of a module, or what has no leading underscore where there is none."""
    tree = parsed(path)
    for node in tree.body:
        if isinstance(node, ast.Assign) and "__all__" in [ast.unparse(t) for t in node.targets]:
            return [ast.literal_eval(name) for name in getattr(node.value, "elts", [])]
    return [name for name in defined(tree) if not name.startswith("_")]


def defined(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module itself defines: classes, functions and constants."""
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (t.id for t in node.targets if isinstance(t, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def public_functions(path: Path) -> Iterator[tuple[str, Function]]:
    """Yield the public functions of a module and the public methods of its public classes.

    A method without a docstring may inherit one, where its class has a base that can hold it.
    """
    names = set(exported(path))
    for node in parsed(path).body:
        if isinstance(node, ast.ClassDef) and node.name in names:
            for method in node.body:
                if not isinstance(method, Function) or method.name.startswith("_"):
                    continue
                if ast.get_docstring(method) or not inherits(node):
                    yield f"{node.name}.{method.name}", method
        elif isinstance(node, Function) and node.name in names:
            yield node.name, node


def inherits(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base) not in ("NamedTuple", "Protocol", "Enum") for base in node.bases)


def function_lengths(path: Path) -> Iterator[tuple[str, int]]:
    """Yield (name, lines) of every function of a file."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, Function):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def own_nodes(function: Function) -> Iterator[ast.AST]:
    """Yield the nodes of a function's body, without those of functions inside it."""
    stack: list[ast.AST] = list(function.body)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            stack.extend(ast.iter_child_nodes(node))


def test_files_are_short() -> None:
    lengths = {name_of(p): len(p.read_text(encoding="utf-8").splitlines()) for p in WRITTEN}
    long = {name: n for name, n in lengths.items() if n > FILE_LINES and name not in LONGER}
    assert not long


def test_functions_are_short() -> None:
    long = [
        f"{name_of(path)}:{name}: {lines} lines"
        for path in WRITTEN
        for name, lines in function_lengths(path)
        if lines > FUNCTION_LINES and f"{name_of(path)}:{name}" not in LONGER
    ]
    assert not long


def test_exceptions_are_still_needed() -> None:
    for entry in LONGER:
        path, _, function = entry.partition(":")
        text = (ROOT / path).read_text(encoding="utf-8")
        if not function:
            assert len(text.splitlines()) > FILE_LINES, f"{entry} is short again"
            continue
        lengths = [n for name, n in function_lengths(ROOT / path) if name == function]
        assert max(lengths, default=0) > FUNCTION_LINES, f"{entry} is short again"


def used_elsewhere() -> set[tuple[str, str]]:
    """Return (module, name) of what a module of another folder imports."""
    used = set()
    for path in PACKAGE:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("softcuda"):
                module = f"{str(node.module).replace('.', '/')}.py"
                if Path(module).parent != path.relative_to(ROOT).parent:
                    used |= {(module, alias.name) for alias in node.names}
    return used


def test_a_public_name_has_one_meaning() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in PACKAGE:
        own = set(defined(parsed(path)))
        for name in exported(path):
            if name in own and name not in SHARED_NAMES and name_of(path) not in NAMED_AFTER_OPS:
                places[name].append(name_of(path))
    used = used_elsewhere()
    twice = {}
    for name, modules in places.items():
        folders = [Path(module).parent for module in modules]
        abroad = [module for module in modules if (module, name) in used]
        if len(abroad) > 1 or len(set(folders)) < len(folders):
            twice[name] = modules
    assert not twice, f"one name for two things: {twice}"


def test_exported_names_are_there_once() -> None:
    twice = [name_of(path) for path in PACKAGE if len(set(exported(path))) < len(exported(path))]
    assert not twice


def owed(path: Path, name: str, function: Function) -> Iterator[str]:
    """Yield what the docstring of a public function lacks."""
    decorators = {ast.unparse(d) for d in function.decorator_list}
    if any(d == "overload" or d.endswith(".setter") for d in decorators):
        return
    where = f"{name_of(path)}:{function.lineno}: {name}"
    text = ast.get_docstring(function)
    if text is None:
        yield f"{where} has no docstring"
        return
    nodes = list(own_nodes(function))
    gives = any(
        isinstance(n, (ast.Yield, ast.YieldFrom)) or (isinstance(n, ast.Return) and n.value)
        for n in nodes
    )
    is_property = any("property" in d for d in decorators)
    summary = text.split("\n\n")[0].lower()
    says = any(word in summary for word in ("return", "yield")) or "Returns:" in text
    if gives and not is_property and not says:
        yield f"{where} gives back a value and does not say which"
    raises = any(isinstance(n, ast.Raise) and n.exc is not None for n in nodes)
    if raises and "raises" not in text.lower() and name_of(path) not in NAMED_AFTER_OPS:
        yield f"{where} raises and does not say when"


def test_docstrings_say_what_is_returned_and_raised() -> None:
    lacking = [
        line
        for path in PACKAGE
        for name, function in public_functions(path)
        for line in owed(path, name, function)
    ]
    assert not lacking


def test_an_op_has_one_public_name() -> None:
    owners: dict[str, list[str]] = defaultdict(list)
    for op in OPS.values():
        owners[op.public].append(op.name)
    shared = {public: names for public, names in owners.items() if len(names) > 1}
    assert shared == {"tensor": ["none", "constant"]}


# Tokens of ops that are names of public functions which do something else -> what.
OTHER_FUNCTIONS = {"permute": "permutes named axes and makes a new tensor; the op is a view"}


def test_a_token_is_no_second_public_name() -> None:
    meant = {op.public for op in OPS.values()} | OTHER_FUNCTIONS.keys()
    for op in OPS.values():
        if op.name != op.public and op.name not in meant and op.kind is not Kind.LEAF:
            assert not hasattr(softcuda, op.name), (
                f"softcuda.{op.name} is a second name of softcuda.{op.public}"
            )
