"""The wheel, the sdist, an editable install and a checkout all work outside the tree."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from installs import Environment, sdist_of, wheel_of

# Run from the clean environment: the small graph, and the files that the package brings along.
CHECK = """
import os
import sys
import softcuda
from softcuda.paths import DEFAULT_NAME, packaged_folder
a = softcuda.tensor([[1.0, 2.0], [3.0, 4.0]])
total = softcuda.sum(softcuda.relu(a @ a - 8.0))
assert total.item() == 2.0 + 7.0 + 14.0, total.item()
assert os.path.isfile(os.path.join(packaged_folder("configs"), DEFAULT_NAME))
assert os.path.isdir(packaged_folder("kernels"))
print(softcuda.__file__)
"""

Install = Callable[[Environment, Path, Path], dict[str, str] | None]


def from_wheel(environment: Environment, tree: Path, dist: Path) -> None:
    environment.install(wheel_of(dist))


def from_sdist(environment: Environment, tree: Path, dist: Path) -> None:
    environment.install(sdist_of(dist))


def editable(environment: Environment, tree: Path, dist: Path) -> None:
    environment.install("-e", tree)


def checkout(environment: Environment, tree: Path, dist: Path) -> dict[str, str]:
    environment.python("-m", "pip", "uninstall", "-q", "-y", "softcuda")
    return {"PYTHONPATH": str(tree)}


@pytest.mark.parametrize("install", [from_wheel, from_sdist, editable, checkout])
def test_graph_runs_and_files_are_found(
    install: Install, environment: Environment, tree: Path, dist: Path
) -> None:
    env = install(environment, tree, dist)
    where = Path(environment.python("-c", CHECK, env=env).strip())
    in_tree = install in (editable, checkout)
    assert where.is_relative_to(tree if in_tree else environment.folder)
    if install is checkout:
        assert "--budget" in environment.python("-m", "softcuda.tools.soft_init", "--help", env=env)
    else:
        script = environment.binaries / "soft_init"
        assert "--budget" in environment.python("-c", run_script(script))


def run_script(script: Path) -> str:
    return f"import subprocess; subprocess.run([{str(script)!r}, '--help'], check=True)"


def test_contents(dist: Path) -> None:
    wheel = set(zipfile.ZipFile(wheel_of(dist)).namelist())
    assert {
        "softcuda/py.typed",
        "softcuda/configs/DEFAULT.soft",
        "softcuda/configs/nvidia-h200.csv",
        "softcuda/configs/nvidia-h200.soft",
        "softcuda/kernels/README.md",
    } <= wheel
    assert not [name for name in wheel if name.startswith(("tests/", "configs/", "kernels/"))]
    with tarfile.open(sdist_of(dist)) as archive:
        sdist = {name.split("/", 1)[-1] for name in archive.getnames()}
    assert {
        "pyproject.toml",
        "LICENSE",
        "README.md",
        "configs/DEFAULT.soft",
        "kernels/README.md",
        "tests/conftest.py",
        "tests/packaging/test_install.py",
        "examples/quickstart.py",
    } <= sdist


def test_metadata(dist: Path) -> None:
    archive = zipfile.ZipFile(wheel_of(dist))
    (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
    lines = archive.read(name).decode().splitlines()
    assert "License-Expression: BSD-2-Clause" in lines
    required = [line for line in lines if line.startswith("Requires-Dist: cuda-python")]
    assert required
    assert all("sys_platform" in line for line in required)
