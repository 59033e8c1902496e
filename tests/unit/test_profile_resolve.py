"""Which profile is used, when it is read again, and what a foreign machine is told."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import threading
import warnings
from pathlib import Path

import pytest
from profile_text import HEAD, WHOLE, profile_of

from softcuda.errors import ArgumentTypeError, ConfigError, SoftCudaWarning
from softcuda.profile import machine as machines
from softcuda.profile.machine import Difference, device_hash, mismatch, this_machine
from softcuda.profile.model import DeviceFacts, Profile
from softcuda.profile.resolve import ProfileStore, default_profile, resolve
from softcuda.profile.writer import write

ROW = HEAD + "add | any = {}\n"


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with home, cwd and a file, no profile named by the environment."""
    for name in ("home", "cwd"):
        (tmp_path / name).mkdir()
    monkeypatch.delenv("SOFTCUDA_CONFIG", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("APPDATA", str(tmp_path / "home"))
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.chdir(tmp_path / "cwd")
    return tmp_path


def put(path: Path, backend: str = "cpu_fused") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(ROW.format(backend), encoding="utf-8")
    return path


def test_the_order(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve() is default_profile()
    user = put(places / "home" / ".config" / "softcuda" / "CONFIG.soft")
    assert resolve().path == str(user)
    put(places / "cwd" / "CONFIG.soft")
    assert resolve().path == "CONFIG.soft"
    monkeypatch.setenv("SOFTCUDA_CONFIG", str(put(places / "knob.soft")))
    assert resolve().path == str(places / "knob.soft")
    argument = put(places / "argument.soft")
    assert resolve(argument).path == resolve(str(argument)).path == str(argument)
    assert resolve(os.fsencode(argument)).path == str(argument)  # type: ignore[arg-type]
    assert resolve("default") is default_profile()
    monkeypatch.setenv("SOFTCUDA_CONFIG", "default")
    assert resolve() is default_profile()
    monkeypatch.setenv("SOFTCUDA_CONFIG", "")
    assert resolve().path == "CONFIG.soft"
    given = profile_of(WHOLE)
    assert resolve(given) is given


def test_a_named_file_that_is_missing(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"none\.soft: there is no such file, named by the arg"):
        resolve("none.soft")
    monkeypatch.setenv("SOFTCUDA_CONFIG", "gone.soft")
    with pytest.raises(ConfigError) as caught:
        resolve()
    for part in ("gone.soft", "SOFTCUDA_CONFIG", "./CONFIG.soft", "config=", "'default'"):
        assert part in str(caught.value)
    for wrong in ("", "a\0b", "x" * 5000):
        with pytest.raises(ConfigError):
            resolve(wrong)
    with pytest.raises(ArgumentTypeError, match="3 of type int"):
        resolve(3)  # type: ignore[arg-type]


def test_a_broken_file_in_an_implied_place_is_an_error(places: Path) -> None:
    (places / "cwd" / "CONFIG.soft").write_text("[ops]\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"CONFIG\.soft: there is no \[meta\]"):
        resolve()
    (places / "cwd" / "CONFIG.soft").unlink()
    (places / "cwd" / "CONFIG.soft").mkdir()
    with pytest.raises(ConfigError, match=r"CONFIG\.soft: this is a folder"):
        resolve()


def test_no_home_and_no_working_folder(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(places / "absent"))
    assert resolve() is default_profile()
    put(places / "file")
    monkeypatch.setenv("HOME", str(places / "file"))
    assert resolve() is default_profile()
    gone = places / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert resolve() is default_profile()


def test_a_folder_that_may_not_be_entered(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(places / "cwd" / "CONFIG.soft")
    look = os.stat

    def refuse(path: str, **rest: bool) -> os.stat_result:
        if str(path).endswith("CONFIG.soft"):
            raise PermissionError(13, "Permission denied")
        return look(path, **rest)

    monkeypatch.setattr("os.stat", refuse)
    assert resolve() is default_profile()
    with pytest.raises(ConfigError, match="cannot be read, named by the argument config: Perm"):
        resolve("CONFIG.soft")


def test_a_file_is_read_again_when_it_changed(places: Path) -> None:
    file = put(places / "a.soft", "cpu_fused")
    os.utime(file, (1e9, 1e9))
    first = resolve(file)
    assert resolve(file) is first
    os.utime(file, (2e9, 2e9))
    assert resolve(file) is not first
    for backend in ("cpu_blas1", "cpu_blas2", "cpu_blas3") * 3:  # the same size, at once
        put(file, backend)
        known = {f"cpu_blas{n}": "cpu" for n in (1, 2, 3)}
        assert resolve(file, known).rows[0].backend_id == backend
    with pytest.raises(ConfigError, match="unknown backend 'cpu_blas3'"):
        resolve(file)
    file.unlink()
    with pytest.raises(ConfigError, match="no such file"):
        resolve(file)


def test_many_files_and_threads(places: Path) -> None:
    store = ProfileStore()
    files = [put(places / f"{number}.soft") for number in range(70)]
    seen: list[Profile] = []

    def load() -> None:
        seen.extend(store.find(str(file), None, None) for file in files)

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 280
    assert len(set(seen)) == 1


def test_device_hash_is_made_of_what_is_written() -> None:
    cuda = DeviceFacts("cuda", "NVIDIA H200", "9.0", "143771", "13.0", cpu="x", cpu_cores="8")
    assert device_hash(cuda) == hashlib.sha256(b"NVIDIA H200|9.0|143771|13.0").hexdigest()
    assert device_hash(DeviceFacts(cpu="x", cpu_cores="8")) == hashlib.sha256(b"x|8").hexdigest()


def foreign(path: Path, device: DeviceFacts, **meta: str) -> Profile:
    profile = dataclasses.replace(
        default_profile(), device=device, meta={"soft_version": "0.1.0", **meta}
    )
    write(profile, path)
    return profile


def test_one_warning_compares_the_machines(places: Path) -> None:
    here = this_machine()
    other = DeviceFacts(cpu="Abacus 9000", cpu_cores=here.cpu_cores)
    file = places / "other.soft"
    foreign(file, other, device_hash=device_hash(other))
    with pytest.warns(SoftCudaWarning) as caught:
        resolve(file)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    message = str(caught[0].message)
    for part in (str(file), "cpu is 'Abacus 9000' in the profile", here.cpu, "run soft_init again"):
        assert part in message
    assert "cpu_cores" not in message
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resolve(file)
        resolve(file, {"mine": "cpu"})
        foreign(places / "fits.soft", here, device_hash=device_hash(here))
        resolve(places / "fits.soft")
        foreign(places / "free.soft", other)
        resolve(places / "free.soft")


def test_mismatch() -> None:
    here = DeviceFacts("cpu", cpu="x", cpu_cores="8")
    gpu = DeviceFacts("cuda", "RTX", "8.6", "8192", "13.0", cpu="x", cpu_cores="8")

    def against(device: DeviceFacts, machine: DeviceFacts) -> list[Difference]:
        meta = {"soft_version": "0.1.0", "device_hash": device_hash(device)}
        return mismatch(Profile("p", meta, device, ()), machine)

    assert against(here, here) == []
    assert against(here, gpu) == []
    assert against(gpu, gpu) == []
    assert against(gpu, here) == []  # no device here: another error says so when it is needed
    newer = gpu._replace(driver="13.1", vram_mb="8188")
    assert against(gpu, newer) == [("vram_mb", "8192", "8188"), ("driver", "13.0", "13.1")]
    assert against(DeviceFacts(), here) == [("cpu", "", "x"), ("cpu_cores", "", "8")]
    assert mismatch(Profile("p", {"soft_version": "0.1.0"}, gpu, ()), newer) == []


def test_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = this_machine()
    assert here.type == "cpu"
    assert here.cpu
    assert here.cpu_cores == str(os.cpu_count())
    assert here == this_machine()
    # The file of a machine must be able to hold the name, whatever it is.
    for text, name in (
        ("processor: 0\nmodel name\t: AMD\t EPYC # 7B13 ;x\n", "AMD EPYC 7B13 x"),
        ("CPU implementer : 0x41\nCPU part : 0xd0c\n", "0x41 0xd0c"),
        ("Hardware : BCM2711\nModel : Raspberry Pi 4\n", "Raspberry Pi 4"),
    ):
        (tmp_path / "cpuinfo").write_text(text, encoding="utf-8")
        found = machines._name_in_cpuinfo(str(tmp_path / "cpuinfo"))
        assert machines._plain(found) == name
        profile_of(HEAD + f"add | any = cpu_fused\n[device]\ncpu = {machines._plain(found)}")
    assert machines._name_in_cpuinfo(str(tmp_path / "absent")) == ""
    assert machines._plain(" \x00 # ") == "unknown"
    assert machines._cpu_name("win32")
