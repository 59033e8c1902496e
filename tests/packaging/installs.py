"""Commands, built files and a clean environment, for the packaging tests."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(
    *command: str | Path, cwd: Path, env: dict[str, str] | None = None, seconds: int = 300
) -> str:
    """Return what a command prints; it must succeed, with this test run's Python left out."""
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**clean, "SOFTCUDA_CONFIG": "default", **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=seconds,
    )
    assert done.returncode == 0, f"{command} in {cwd}:\n{done.stdout}"
    return done.stdout


@dataclass(frozen=True)
class Environment:
    """A virtual environment with the dependencies of softcuda, and the folder it runs in."""

    folder: Path
    workdir: Path

    @property
    def binaries(self) -> Path:
        return self.folder / ("Scripts" if sys.platform == "win32" else "bin")

    def python(self, *arguments: str | Path, env: dict[str, str] | None = None) -> str:
        return run(self.binaries / "python", *arguments, cwd=self.workdir, env=env)

    def install(self, *arguments: str | Path) -> None:
        """Replace the softcuda that is installed here."""
        self.python("-m", "pip", "install", "-q", "--force-reinstall", "--no-deps", *arguments)


def wheel_of(dist: Path) -> Path:
    (wheel,) = dist.glob("*.whl")
    return wheel


def sdist_of(dist: Path) -> Path:
    (sdist,) = dist.glob("*.tar.gz")
    return sdist
