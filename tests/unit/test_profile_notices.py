"""Profiles that contradict themselves, and such whose end is missing: obeyed, with one warning."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from profile_text import HEAD, WHOLE, profile_of

import softcuda as sc
from softcuda.errors import ConfigError, SoftCudaWarning
from softcuda.paths import packaged_folder
from softcuda.profile.machine import contradiction, device_hash, this_machine
from softcuda.profile.model import DeviceFacts, Profile
from softcuda.profile.notices import END, Notices
from softcuda.profile.resolve import default_profile, read, resolve, warn_if_foreign
from softcuda.profile.writer import render, write
from softcuda.tools.soft_init import main

HERE = this_machine()
OTHER = HERE._replace(cpu="Abacus 9000")
GPU = DeviceFacts("cuda", "RTX", "8.6", "8192", "13.0")


def made(device: DeviceFacts, hashed: DeviceFacts, path: str = "p") -> Profile:
    meta = {"soft_version": "0.1.0", "device_hash": device_hash(hashed)}
    return dataclasses.replace(default_profile(), path=path, device=device, meta=meta)


def said(work: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SoftCudaWarning)
        work()
    return [str(warning.message) for warning in caught]


def test_contradiction() -> None:
    assert contradiction(made(HERE, HERE)) == ""
    assert contradiction(Profile("p", {"soft_version": "0.1.0"}, GPU, ())) == ""
    loud = made(GPU, GPU)
    loud = dataclasses.replace(loud, meta={**loud.meta, "device_hash": device_hash(GPU).upper()})
    assert contradiction(loud) == ""
    edited = contradiction(made(GPU._replace(vram_mb="81920"), GPU))
    for part in (
        device_hash(GPU),
        "vram_mb '81920'",
        "name 'RTX'",
        "edited by hand, or is damaged",
    ):
        assert part in edited


@pytest.mark.parametrize(
    ("device", "hashed", "differs"),
    [(OTHER, HERE, True), (HERE, OTHER, False), (OTHER, HERE._replace(cpu="Slide rule"), True)],
    ids=["edited facts", "edited hash", "both"],
)
def test_facts_against_the_hash_give_one_warning(
    device: DeviceFacts, hashed: DeviceFacts, differs: bool, tmp_path: Path
) -> None:
    file = tmp_path / "CONFIG.soft"
    write(made(device, hashed), file)
    (message,) = said(lambda: resolve(file))
    assert message.startswith(f"{file}") and "run soft_init again" in message
    assert contradiction(read(file)) in message
    assert ("cpu is 'Abacus 9000' in the profile and" in message) == differs
    assert ("was made on another machine" in message) == differs
    assert said(lambda: resolve(file)) == []
    write(made(HERE, HERE), file, force=True)
    assert said(lambda: resolve(file)) == []


def test_facts_of_a_gpu_are_told_without_one_and_compared_with_one(tmp_path: Path) -> None:
    file = tmp_path / "CONFIG.soft"
    edited = GPU._replace(vram_mb="81920")
    write(made(edited, GPU), file)
    (message,) = said(lambda: resolve(file))
    assert message.startswith(f"{file}: its device_hash is") and "another machine" not in message
    assert said(lambda: resolve(file)) == []
    (message,) = said(lambda: warn_if_foreign(resolve(file), lambda: GPU))
    assert "vram_mb is '81920' in the profile and '8192' here" in message
    assert "its device_hash is" not in message  # that was said
    assert said(lambda: warn_if_foreign(resolve(file), lambda: GPU)) == []


def test_a_profile_that_no_file_was_resolved_for_is_looked_at_too() -> None:
    notices, edited = Notices(), made(HERE._replace(cpu_cores="12345"), HERE)
    (message,) = said(lambda: notices.compare(edited, None))
    assert contradiction(edited) in message and "cpu_cores is '12345' in the profile" in message
    assert said(lambda: notices.compare(edited, None)) == []


def test_every_proper_beginning_of_what_is_written_is_known() -> None:
    text = render(profile_of(WHOLE))
    assert not profile_of(text).is_cut
    cut = 0
    for end in range(len(text)):
        try:
            profile = profile_of(text[:end])
        except ConfigError:
            continue
        assert profile.is_cut, text[:end].splitlines()[-1]
        cut += 1
    assert cut > len(text) // 8


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_what_is_edited_or_written_by_hand_is_whole(line_end: str) -> None:
    head, _, pool = WHOLE.partition("[pool]")
    meta, _, rest = head.partition("[device]")
    for text in (
        WHOLE,
        meta + f"[pool]{pool}" + f"[device]{rest}",  # in another order
        meta + f"[pool]{pool}" + f"[device]{rest}".rstrip(),  # where the last line says all
        WHOLE + "# mine",
        WHOLE.replace("generated_at", "; generated_at").replace("[pool]" + pool, ""),
        HEAD + "add | any = cpu_fused",
    ):
        assert not profile_of(text.replace("\n", line_end)).is_cut
    assert profile_of(head.replace("\n", line_end)).is_cut


def test_shipped_profiles_are_whole() -> None:
    for file in Path(packaged_folder("configs")).glob("*.soft"):
        profile = read(file)
        assert not profile.is_cut and contradiction(profile) == ""


def test_an_error_in_the_line_that_a_file_ends_in_names_the_cut() -> None:
    text = render(profile_of(WHOLE))
    place = text.index("\nrelu ") + len("\nrelu | a")
    with pytest.raises(ConfigError, match="ends in this line, and may be cut short"):
        profile_of(text[:place])
    with pytest.raises(ConfigError) as error:
        profile_of(text.replace("\nrelu ", "\nrelu? ", 1))
    assert "cut short" not in str(error.value)


def test_a_file_that_is_cut_short_is_said_once(tmp_path: Path) -> None:
    file = tmp_path / "CONFIG.soft"
    meta = {**made(HERE, HERE).meta, "generated_at": "2026-03-18T09:00:00Z"}
    write(dataclasses.replace(made(HERE, HERE), meta=meta), file)
    whole = file.read_text(encoding="utf-8")
    assert said(lambda: resolve(file)) == []
    lost = whole.index("\nrelu ") + 1
    file.write_text(whole[:lost], encoding="utf-8")

    y = sc.relu(sc.input((3,)))
    (message,) = said(lambda: sc.compile(y, file))
    for part in (str(file), END, "take those of DEFAULT.soft", "copy the file again"):
        assert part in message
    assert said(lambda: sc.compile(y, file)) == []
    assert said(lambda: resolve(read(file))) == []  # the same again
    file.write_text(whole[: whole.index("\nexp ")], encoding="utf-8")  # cut elsewhere: said again
    assert len(said(lambda: resolve(read(file)))) == 1
    assert said(lambda: resolve(file)) == []


def test_soft_init_does_not_go_on_with_a_damaged_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    few = ["--ops", "add,mul", "--dtypes", "f32", "--max-size", "4", "--device", "cpu"]
    assert main(few) == 0
    file = Path("CONFIG.soft")
    whole = file.read_text(encoding="utf-8")
    capsys.readouterr()

    cut = whole[: whole.index("[costs]")]
    edited = whole.replace("cpu_cores = ", "cpu_cores = 9")
    for text, why in ((cut, END), (edited, "it was edited by hand, or is damaged")):
        file.write_text(text, encoding="utf-8")
        assert main(few) == 1
        shown = capsys.readouterr().err
        assert why in shown and "--force measures this machine and replaces it" in shown
        assert main(["--check"]) == 1
        assert why in capsys.readouterr().err
        assert file.read_text(encoding="utf-8") == text
    file.write_text(cut, encoding="utf-8")
    assert main(["--explain", "add", "4"]) == 0
    assert END in capsys.readouterr().out
    assert main([*few, "--force"]) == 0
    assert f"CONFIG.soft is replaced whole: {END}" in capsys.readouterr().out
    assert not read(file).is_cut
