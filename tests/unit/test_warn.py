"""Where a warning points: at the line outside softcuda that led to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from softcuda.errors import SoftCudaWarning
from softcuda.profile.resolve import resolve
from softcuda.warn import warn


def test_a_warning_points_at_its_cause() -> None:
    with pytest.warns(SoftCudaWarning, match="so it is") as caught:
        warn("so it is")
    assert caught[0].filename == __file__
    inner: dict[str, object] = {"__name__": "softcuda.made_up", "warn": warn}
    exec("def deep(n):\n    deep(n - 1) if n else warn('deep')", inner)
    deep = inner["deep"]
    assert callable(deep)
    with pytest.warns(SoftCudaWarning) as caught:
        deep(3)
    assert caught[0].filename == __file__


def test_only_the_package_itself_is_passed_over() -> None:
    inner: dict[str, object] = {"__name__": "softcudas", "warn": warn}
    with pytest.warns(SoftCudaWarning) as caught:
        exec("warn('x')", inner)
    assert caught[0].filename == "<string>"


@pytest.mark.parametrize("version", ["9", "0.2", "0.2.0", "1.0.0.0"])
def test_a_newer_profile_is_said_once(version: str, tmp_path: Path) -> None:
    file = tmp_path / "CONFIG.soft"
    file.write_text(f"[meta]\nsoft_version = {version}\n[ops]\nadd | any = cpu_fused\n")
    with pytest.warns(SoftCudaWarning, match="written by a newer version") as caught:
        resolve(file)
        resolve(file)
    assert len(caught) == 1
    assert f"soft_version is {version}, " in str(caught[0].message)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("version", ["0", "0.1", "0.1.9", "0.1.0.5", "0.0.9"])
def test_an_older_profile_is_silent(version: str, tmp_path: Path) -> None:
    file = tmp_path / "CONFIG.soft"
    file.write_text(f"[meta]\nsoft_version = {version}\n[ops]\nadd | any = cpu_fused\n")
    assert resolve(file).meta["soft_version"] == version
