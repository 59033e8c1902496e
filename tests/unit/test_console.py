"""Ctrl-C in the programs of softcuda: a sentence and status 130, at whatever moment it comes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from softcuda import console
from softcuda.console import INTERRUPTED, SCRIPTS, interrupted_text, program_of
from softcuda.tools import conformance, inspect_kernels

ROOT = Path(__file__).parents[2]
PROGRAMS = ("conformance", "inspect_kernels", "soft_init")

# As installers write it.
SCRIPT = """\
import sys
from softcuda.tools.{name} import main
if __name__ == "__main__":
    sys.exit(main())
"""
# Modules that the package imports, in the place of the real ones: Ctrl-C comes while they are read.
# The second is what C code does with an exception that it did not expect.
PRESSED = """\
import os, signal
os.kill(os.getpid(), signal.SIGINT)
for _ in range(99): pass
"""
TURNED = """\
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(99): pass
except KeyboardInterrupt:
    raise ImportError("a C extension failed") from None
"""


def ended(command: list[str], first: Path) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(first), str(ROOT)])
    return subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=first,
        env={**os.environ, "PYTHONPATH": paths},
    )


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
@pytest.mark.parametrize("code", [PRESSED, TURNED], ids=["pressed", "turned"])
@pytest.mark.parametrize(
    ("way", "name"),
    [("module", name) for name in PROGRAMS] + [("script", name) for name in SCRIPTS],
)
def test_ctrl_c_while_the_package_is_imported(
    way: str, name: str, code: str, tmp_path: Path
) -> None:
    (tmp_path / "ml_dtypes.py").write_text(code, encoding="utf-8")
    script = tmp_path / name
    script.write_text(SCRIPT.format(name=name), encoding="utf-8")
    start = [str(script)] if way == "script" else ["-m", f"softcuda.tools.{name}"]
    done = ended(start, tmp_path)
    assert (done.returncode, done.stdout) == (INTERRUPTED, "")
    assert done.stderr == f"{interrupted_text(name)}\n"


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
def test_ctrl_c_in_another_program_is_left_to_it(tmp_path: Path) -> None:
    (tmp_path / "ml_dtypes.py").write_text(PRESSED, encoding="utf-8")
    code = "try:\n    import softcuda\nexcept KeyboardInterrupt:\n    print('mine')\n"
    done = ended(["-c", code], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "mine\n", "")


@pytest.mark.parametrize(
    ("started", "command", "program"),
    [
        ("/opt/bin/inspect_kernels", [], "inspect_kernels"),
        ("soft_init.exe", [], "soft_init"),
        ("-m", ["python", "-X", "dev", "-msoftcuda.tools.soft_init", "--help"], "soft_init"),
        ("-m", ["python", "-m", "pytest", "tests"], ""),
        ("soft_init.py", [], ""),
        ("conformance", [], ""),  # no script: a name that others may have
        ("-c", ["python", "-c", "import softcuda"], ""),
        ("", [], ""),
    ],
)
def test_which_program_a_process_is(started: str, command: list[str], program: str) -> None:
    assert program_of(started, command) == program


def test_scripts_are_those_that_are_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["scripts"] == {name: f"softcuda.tools.{name}:main" for name in SCRIPTS}


def press(*_: object) -> int:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("name", "main"),
    [("inspect_kernels", inspect_kernels.main), ("conformance", conformance.main)],
)
def test_ctrl_c_while_a_program_works(
    name: str,
    main: Callable[[list[str]], int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys.modules[main.__module__], "_run", press)
    before = signal.getsignal(signal.SIGINT)
    assert main([]) == INTERRUPTED
    assert signal.getsignal(signal.SIGINT) is before
    assert capsys.readouterr() == ("", f"{name}: interrupted\n")


def test_the_handler_of_the_import_gives_way_to_that_of_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []

    def work() -> int:
        seen.append(signal.getsignal(signal.SIGINT))
        return 7

    before = signal.signal(signal.SIGINT, console._end)
    try:
        assert console.interruptible("conformance", work) == 7
        assert seen == [signal.default_int_handler]
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGINT, before)
