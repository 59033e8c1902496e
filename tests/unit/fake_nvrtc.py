"""A libnvrtc of Python: counts calls, and its cubins say what went in."""

from __future__ import annotations

import ctypes
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from softcuda.nvrtc.cache import KernelCache
from softcuda.nvrtc.library import LoadedNvrtc, Nvrtc
from softcuda.nvrtc.unit import CompileUnit, Header

ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)


class FakeLibrary:
    """The functions of NVRTC by name; a text that holds "broken" does not compile."""

    def __init__(self, version: tuple[int, int] = (13, 0)) -> None:
        self.version = version
        self.calls: Counter[str] = Counter()
        self.options: list[list[str]] = []
        self.programs: dict[int, dict[str, Any]] = {}
        self.lock = threading.Lock()

    def __getitem__(self, name: str) -> Any:
        method = getattr(self, name)

        def function(*arguments: Any) -> int:
            with self.lock:
                self.calls[name] += 1
                return int(method(*arguments) or 0)

        return function

    @property
    def compiled(self) -> int:
        return self.calls["nvrtcCompileProgram"]

    def nvrtcVersion(self, major: Any, minor: Any) -> None:
        major._obj.value, minor._obj.value = self.version

    def nvrtcGetNumSupportedArchs(self, count: Any) -> None:
        count._obj.value = len(ARCHITECTURES)

    def nvrtcGetSupportedArchs(self, values: Any) -> None:
        values[:] = ARCHITECTURES

    def nvrtcCreateProgram(
        self, program: Any, text: bytes, name: bytes, count: int, texts: Any, names: Any
    ) -> None:
        number = self.calls["nvrtcCreateProgram"]
        program._obj.value = number
        self.programs[number] = {"text": text, "name": name, "log": b"\0"}

    def nvrtcDestroyProgram(self, program: Any) -> None:
        del self.programs[program._obj.value]

    def nvrtcAddNameExpression(self, program: Any, expression: bytes) -> None:
        self.programs[program.value]["expression"] = expression

    def nvrtcCompileProgram(self, program: Any, count: int, options: Any) -> int:
        state = self.programs[program.value]
        given = [options[index].decode() for index in range(count)]
        self.options.append(given)
        if b"broken" in state["text"]:
            state["log"] = state["name"] + b'(1): error: "broken" is broken\n\0'
            return 6
        state["arch"] = given[0].partition("=")[2].encode()
        state["lowered"] = b"_Z" + state["expression"].replace(b"<", b"_").replace(b">", b"_")
        state["log"] = (
            b"ptxas info    : Compiling entry function '" + state["lowered"] + b"' for 'x'\n"
            b"ptxas info    : Used 8 registers\n\0"
        )
        return 0

    def nvrtcGetLoweredName(self, program: Any, expression: bytes, lowered: Any) -> None:
        lowered._obj.value = self.programs[program.value]["lowered"]

    def nvrtcGetProgramLogSize(self, program: Any, size: Any) -> None:
        size._obj.value = len(self.programs[program.value]["log"])

    def nvrtcGetProgramLog(self, program: Any, buffer: Any) -> None:
        self._give(buffer, self.programs[program.value]["log"])

    def nvrtcGetCUBINSize(self, program: Any, size: Any) -> None:
        size._obj.value = len(self._image(program))

    def nvrtcGetCUBIN(self, program: Any, buffer: Any) -> None:
        self._give(buffer, self._image(program))

    def nvrtcGetPTXSize(self, program: Any, size: Any) -> None:
        size._obj.value = len(self._image(program))

    def nvrtcGetPTX(self, program: Any, buffer: Any) -> None:
        self._give(buffer, self._image(program))

    def _image(self, program: Any) -> bytes:
        state = self.programs[program.value]
        version = ".".join(map(str, self.version)).encode()
        entry = b"\n.visible .entry " + state["lowered"] + b"()\n"
        image: bytes = version + b" " + state["arch"] + entry + state["text"]
        return image

    @staticmethod
    def _give(buffer: Any, content: bytes) -> None:
        ctypes.memmove(buffer, content, len(content))


def fake_nvrtc(version: tuple[int, int] = (13, 0), path: str = "") -> tuple[Nvrtc, FakeLibrary]:
    """Return an Nvrtc over a fake library, and the library; `path` is told as its file."""
    library = FakeLibrary(version)
    return Nvrtc(lambda: LoadedNvrtc(library, path, True)), library


def name_cache(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Name a cache folder by the environment, and leave the other knobs unset."""
    monkeypatch.setenv("SOFTCUDA_CACHE_DIR", str(folder))
    for name in ("SOFTCUDA_JIT", "SOFTCUDA_LINEINFO", "SOFTCUDA_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    return folder


def make_unit(folder: Path, text: str, variant: str = "f32") -> CompileUnit:
    """Return a unit whose file, with that text, is written to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "k.cu").write_text(f'#include "chain.cuh"\n{text}\n', encoding="utf-8")
    header = Header("chain.cuh", f"chain of {variant}")
    return CompileUnit("k.cu", variant, "k<f32>", (), (header,), str(folder))


def new_cache(version: tuple[int, int] = (13, 0)) -> tuple[KernelCache, FakeLibrary]:
    """Return a cache as a new process would make it, and the library it compiles with."""
    nvrtc, library = fake_nvrtc(version)
    return KernelCache(nvrtc), library


def entries(place: Path) -> list[Path]:
    """Return the folders of compiled kernels in a cache."""
    return sorted(path for path in place.iterdir() if path.name.startswith("k."))
