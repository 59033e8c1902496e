"""Environment variables: a change is seen by the next look, whatever dict is looked at."""

from __future__ import annotations

import os

import pytest

from softcuda import knobs


@pytest.mark.parametrize("has_bytes", [True, False])
def test_changes_of_the_environment_are_seen(
    has_bytes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_bytes:
        monkeypatch.setattr(knobs, "_BYTES", None)
    for value in ("default", "/tmp/ordner/größe.soft", "other"):
        monkeypatch.setenv("SOFTCUDA_CONFIG", value)
        monkeypatch.setenv("XDG_CONFIG_HOME", value)
        assert knobs.config_path() == value == os.environ["SOFTCUDA_CONFIG"]
        assert knobs.user_home("XDG_CONFIG_HOME") == value
    for name in ("SOFTCUDA_CONFIG", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, "")
        assert knobs.config_path() is None or name == "XDG_CONFIG_HOME"
        monkeypatch.delenv(name)
    assert knobs.config_path() is None
    assert knobs.user_home("XDG_CONFIG_HOME") is None
