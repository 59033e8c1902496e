"""PTX and SASS of kernels: compiled to PTX by NVRTC, disassembled by a tool of the CUDA toolkit."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from softcuda.errors import CompileError
from softcuda.knobs import library_places
from softcuda.nvrtc.compiler import compile_job, make_job
from softcuda.nvrtc.library import NVRTC, Nvrtc
from softcuda.nvrtc.place import debug_options
from softcuda.nvrtc.unit import CompileUnit, Cubin, Image

__all__ = ["INSTALL_HINT", "Disassembler", "find_disassembler", "instructions", "ptx_of", "sass_of"]

INSTALL_HINT: Final = (
    "SASS needs nvdisasm or cuobjdump, and neither is on PATH, in the bin folder of CUDA_PATH or "
    "CUDA_HOME, or among the packages of this Python; install one: pip install "
    "nvidia-cuda-nvdisasm"
)

_TOOLS: Final = {"nvdisasm": "--print-code", "cuobjdump": "--dump-sass"}
_SECONDS: Final = 300
_INSTRUCTION: Final = re.compile(
    r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:\{\s*)?(?:@!?\w+\s+)?([A-Z]\w*)", re.MULTILINE
)


class Disassembler(NamedTuple):
    """A program that turns a cubin into SASS: its path, and the option that asks for the code."""

    path: str
    option: str


def find_disassembler() -> Disassembler | None:
    """Return nvdisasm or cuobjdump, whichever is found first; None where there is neither.

    Looked for on PATH, in the bin folder of CUDA_PATH and CUDA_HOME, and in the bin folders of
    NVIDIA's packages of this Python.
    """
    places = library_places()
    folders = [Path(place, "bin") for k in ("CUDA_PATH", "CUDA_HOME") if (place := places[k])]
    package = find_spec("nvidia")
    for place in (package.submodule_search_locations or ()) if package else ():
        folders.extend(sorted(Path(place).glob("*/bin"), reverse=True))
    suffix = ".exe" if sys.platform == "win32" else ""
    for name, option in _TOOLS.items():
        found = shutil.which(name)
        candidates = [folder / f"{name}{suffix}" for folder in folders]
        path = found or next((str(file) for file in candidates if file.is_file()), None)
        if path is not None:
            return Disassembler(path, option)
    return None


def ptx_of(unit: CompileUnit, arch: str, nvrtc: Nvrtc = NVRTC) -> str:
    """Return the PTX that a unit is compiled to for an architecture; no cache is used.

    Raises:
        CompileError: it does not compile.
        NvrtcNotFound: there is no NVRTC.
    """
    job = make_job(unit, arch, nvrtc.architectures(), debug_options())
    if job.kind is Image.CUBIN:
        job = replace(job, arch=job.arch.replace("sm_", "compute_"), kind=Image.PTX)
    return compile_job(job, nvrtc).image.rstrip(b"\0").decode()


def sass_of(cubin: Cubin, tool: Disassembler) -> str:
    """Return the SASS of a compiled kernel.

    Raises:
        CompileError: the kernel is PTX, or the disassembler fails.
    """
    if cubin.kind is not Image.CUBIN:
        raise CompileError(
            f"{cubin.name} is PTX of {cubin.arch}, which has no SASS until a driver assembles it; "
            "name an architecture that this NVRTC knows"
        )
    with tempfile.TemporaryDirectory(prefix="softcuda-") as folder:
        file = Path(folder, "kernel.cubin")
        file.write_bytes(cubin.image)
        command = [tool.path, tool.option, str(file)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CompileError(f"{tool.path} cannot be run: {error}") from error
    if done.returncode:
        raise CompileError(
            f"{tool.path} failed with status {done.returncode} on a cubin of {cubin.arch}: "
            f"{done.stderr.strip() or done.stdout.strip()}; one as new as NVRTC may know the "
            "architecture"
        )
    return done.stdout


def instructions(sass: str) -> Counter[str]:
    """Return how often each instruction occurs in SASS, without modifiers and predicates.

    Example:
        >>> instructions("        /*0010*/              @P0 LDG.E R2, [R4] ;")
        Counter({'LDG': 1})
    """
    return Counter(_INSTRUCTION.findall(sass))
