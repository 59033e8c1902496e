"""Children forked while another thread runs, compiles or holds a lock: they go on, none hangs."""

from __future__ import annotations

import ast
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_nvrtc import FakeLibrary, make_unit, name_cache, new_cache
from forked import in_child

import softcuda as sc
from softcuda import forks
from softcuda.pool import HostPool

ROOT = Path(__file__).parents[2] / "softcuda"
SECONDS = 20  # after which a child that hangs is ended

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def child(work: Callable[[], object]) -> str:
    """Return what a child finds; "" where it hangs."""

    def limited() -> object:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS)
        return work()

    return in_child(limited)


@contextmanager
def amid(executable: sc.Executable, *run: Any) -> Iterator[Any]:
    """Have another thread amid a run, all locks taken; yields the calls of the runtime."""
    executable.run(*run)
    calls = executable._ready()._calls
    entered, leave = threading.Event(), threading.Event()

    def wait() -> None:
        entered.set()
        leave.wait()

    calls.make = wait  # type: ignore[method-assign]
    calls.direct = None  # which would not wait
    thread = threading.Thread(target=executable.run, args=run)
    thread.start()
    assert entered.wait(SECONDS)
    try:
        yield calls
    finally:
        leave.set()
        thread.join()
        del calls.make  # type: ignore[method-assign]


def test_a_child_forked_amid_an_updating_run_can_run_and_assign() -> None:
    """What the parent's thread held is neither waited for nor asked for again."""
    v = sc.variable(np.zeros(3, np.float32))
    step = sc.compile(v, "default", updates={v: v + 1.0})
    with amid(step) as calls:

        def work() -> object:
            del calls.make
            found = [step.run().tolist()]
            v.assign(np.full(3, 7, np.float32))
            return [*found, step.run().tolist(), v.tolist()]

        expected = [[1.0] * 3, [7.0] * 3, [8.0] * 3]
        assert child(work) == str(expected)


@pytest.mark.parametrize("size", [8, 1 << 16])
def test_a_child_forked_amid_a_run_can_run_the_same_graph(size: int) -> None:
    """The context of the run is the child's own, with an arena of its own or a shared one."""
    x = sc.input((size,), name="x")
    values = np.arange(size, dtype=np.float32)
    executable = sc.compile(sc.sum(sc.softmax(x * 2.0 + 1.0)), "default")
    with amid(executable, {"x": values}) as calls:

        def work() -> object:
            del calls.make
            return [round(executable.run(x=values).item(), 3) for _ in range(2)]

        assert child(work) == "[1.0, 1.0]"


def locks_of(tree: ast.Module) -> Iterator[tuple[str, set[str], set[str]]]:
    """Yield for each class its name, its methods, and its fields that are locks from the start."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        methods = {part.name: part for part in node.body if isinstance(part, ast.FunctionDef)}
        start = methods.get("__init__")
        made = [part for part in ast.walk(start) if isinstance(part, ast.Assign)] if start else []
        fields = {
            ast.unparse(target)
            for part in made
            for target in part.targets
            if ast.unparse(part.value) in ("threading.Lock()", "threading.RLock()")
        }
        yield node.name, set(methods), fields


def test_every_lock_that_lives_on_is_made_anew_in_a_child() -> None:
    found, forgotten = 0, []
    for path in sorted(ROOT.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for name, methods, fields in locks_of(tree):
            found += len(fields)
            if fields and "after_fork" not in methods:
                forgotten.append(f"{path.relative_to(ROOT)}: {name} has {', '.join(fields)}")
    assert found > 10
    assert not forgotten, f"softcuda.forks.renew_in_child makes them anew: {forgotten}"


def test_locks_that_other_threads_hold_are_free_in_a_child() -> None:
    pool = HostPool()
    owners = list(forks._owners)
    kinds = (type(threading.Lock()), type(threading.RLock()))
    taken: list[Any] = []
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        for owner in owners:
            names = [*getattr(owner, "__dict__", ()), *getattr(type(owner), "__slots__", ())]
            for lock in (getattr(owner, name, None) for name in names):
                if isinstance(lock, kinds) and lock.acquire(blocking=False):
                    taken.append(lock)
        entered.set()
        leave.wait()
        for lock in reversed(taken):
            lock.release()

    thread = threading.Thread(target=hold)
    thread.start()
    assert entered.wait(SECONDS)
    try:

        def work() -> object:
            a = sc.tensor([1.0, 2.0])
            sc.uniform((2,)).numpy()
            pool.allocate(8)
            return ((a + 1.0).tolist(), sc.compile(a * 2.0, "default").run().tolist())

        assert len(taken) > 5
        assert child(work) == "([2.0, 3.0], [2.0, 4.0])"
    finally:
        leave.set()
        thread.join()


def test_a_child_forked_amid_a_compile_is_told_of_spawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NVRTC's locks stay held for ever there; what the cache has is still found."""
    name_cache(monkeypatch, tmp_path / "cache")
    unit, other = (make_unit(tmp_path / name, name) for name in ("one", "two"))
    entered, leave = threading.Event(), threading.Event()
    compiles = FakeLibrary.nvrtcCompileProgram

    def wait(self: FakeLibrary, program: Any, count: int, options: Any) -> int:
        if b"two" in self.programs[program.value]["text"]:
            entered.set()
            leave.wait()
        return compiles(self, program, count, options)

    monkeypatch.setattr(FakeLibrary, "nvrtcCompileProgram", wait)
    cache, library = new_cache()
    known = cache.get(unit, "sm_90a")
    thread = threading.Thread(target=cache.get, args=(other, "sm_90a"))
    thread.start()
    assert entered.wait(SECONDS)
    try:
        said = child(lambda: cache.get(other, "sm_90a"))
        assert said.startswith("ForkedProcessError: no kernel can be compiled")
        assert "spawn" in said
        assert child(lambda: cache.get(unit, "sm_90a") == known) == "True"
    finally:
        leave.set()
        thread.join()
    assert child(lambda: cache.get(other, "sm_80").arch) == "sm_80"
    assert library.compiled == 2
