"""What the packaging tests share: a wheel, an sdist, and one clean environment outside the tree."""

from __future__ import annotations

import shutil
import sys
import venv
from pathlib import Path

import pytest
from installs import ROOT, Environment, run, wheel_of

LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "CONFIG.soft")


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the checkout, so that nothing is written into it."""
    return Path(
        shutil.copytree(ROOT, tmp_path_factory.mktemp("tree") / "softcuda", ignore=LEFT_OUT)
    )


@pytest.fixture(scope="session")
def dist(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the sdist, and the wheel that was built from the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, tree, cwd=folder)
    return folder


@pytest.fixture(scope="session")
def environment(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return a clean environment in which the wheel was installed as a user does it."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder / "venv", with_pip=True)
    workdir = folder / "elsewhere"
    workdir.mkdir()
    made = Environment(folder / "venv", workdir)
    made.python("-m", "pip", "install", "-q", "--no-compile", wheel_of(dist))
    return made
