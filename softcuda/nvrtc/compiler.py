"""One unit to one cubin, by NVRTC, without any cache.

    job = make_job(unit, "sm_90a", NVRTC.architectures())
    cubin = compile_job(job)

An architecture that this NVRTC does not know gets PTX of the newest one that it knows and that
is not newer, for the driver to assemble.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from ctypes import byref, c_char_p, c_size_t, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from softcuda.errors import CompileError
from softcuda.nvrtc.failure import compile_failure
from softcuda.nvrtc.headers import SystemHeaders, system_headers
from softcuda.nvrtc.library import NVRTC, Nvrtc
from softcuda.nvrtc.resources import code_names, entry_names, read_resources
from softcuda.nvrtc.source import Source, read_source
from softcuda.nvrtc.unit import CompileUnit, Cubin, Image, as_arch

__all__ = ["BASE_OPTIONS", "Job", "compile_job", "compile_unit", "make_job"]

# Every unit gets these. Minimal: no textures nor surfaces, which saves 6 ms of 43 a unit.
BASE_OPTIONS: Final = (
    "--std=c++17",
    "--device-as-default-execution-space",
    "--minimal",
    "--ptxas-options=-v",
)

_PTX_ENTRY: Final = re.compile(r"^\s*(?:\.(?:visible|weak)\s+)?\.entry\s+([\w$]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Job:
    """A unit with all that decides the outcome.

    Attributes:
        unit: what is compiled.
        source: its text and its own headers.
        system: NVIDIA's headers; None where no file includes them.
        arch: what NVRTC is told, "sm_90a" for a cubin or "compute_90" for PTX.
        kind: which of the two comes out.
        options: all others in their order, without the include path.
    """

    unit: CompileUnit
    source: Source
    system: SystemHeaders | None
    arch: str
    kind: Image
    options: tuple[str, ...]


def make_job(
    unit: CompileUnit,
    arch: str,
    architectures: tuple[int, ...],
    options: tuple[str, ...] = (),
    headers: Callable[[tuple[str, ...]], SystemHeaders] = system_headers,
) -> Job:
    """Return what to compile for a unit; reads its files, calls no NVRTC.

    Args:
        unit: what to compile.
        arch: the architecture of the device, such as "sm_90a".
        architectures: those that NVRTC makes cubins for, as `Nvrtc.architectures` gives them.
        options: beside the unit's own, such as "--generate-line-info".
        headers: names -> NVIDIA's headers, called where a file includes them.

    Raises:
        CompileError: an architecture or an include is not allowed, or a file is missing.
        NvrtcNotFound: a file includes NVIDIA's headers, which are missing.
    """
    wanted = as_arch(arch)
    source = read_source(unit)
    system = headers(source.system) if source.system else None
    known, kind = str(wanted), Image.CUBIN
    if wanted.number not in architectures:
        older = [number for number in architectures if number < wanted.number]
        if not older:
            raise CompileError(
                f"{arch} is older than every architecture of this NVRTC, "
                f"{', '.join(f'sm_{number}' for number in architectures)}; install the extra "
                "cuda12, whose NVRTC knows older ones"
            )
        known, kind = f"compute_{max(older)}", Image.PTX
    return Job(unit, source, system, known, kind, BASE_OPTIONS + unit.options + options)


def compile_unit(
    unit: CompileUnit, arch: str, options: tuple[str, ...] = (), nvrtc: Nvrtc = NVRTC
) -> Cubin:
    """Return a unit compiled for an architecture; no cache is read or written.

    Raises:
        CompileError: it does not compile; shows the lines of the first error.
        NvrtcNotFound: there is no NVRTC.
    """
    return compile_job(make_job(unit, arch, nvrtc.architectures(), options), nvrtc)


def compile_job(job: Job, nvrtc: Nvrtc = NVRTC, failed: Path | None = None) -> Cubin:
    """Return what NVRTC makes of a job.

    Args:
        job: what to compile.
        nvrtc: the compiler.
        failed: where the source of a unit that does not compile is saved; by default, and where
            that cannot be written, a temporary folder.

    Raises:
        CompileError: it does not compile, or holds another global function than the one asked for.
        NvrtcNotFound: there is no NVRTC.
        ForkedProcessError: this process was forked while another thread compiled.
    """
    headers = job.source.headers
    names = (c_char_p * len(headers))(*(header.name.encode() for header in headers))
    texts = (c_char_p * len(headers))(*(header.text.encode() for header in headers))
    text, file = job.source.text.encode(), job.unit.file.encode()
    program = c_void_p()
    with nvrtc.working():
        nvrtc.nvrtcCreateProgram(byref(program), text, file, len(headers), texts, names)
        try:
            return _compile(job, nvrtc, program, failed)
        finally:
            nvrtc.nvrtcDestroyProgram(byref(program))


def _compile(job: Job, nvrtc: Nvrtc, program: c_void_p, failed: Path | None) -> Cubin:
    expression = job.unit.expression.encode()
    nvrtc.nvrtcAddNameExpression(program, expression)
    options = [f"--gpu-architecture={job.arch}", *job.options]
    if job.system is not None:
        options.append(f"--include-path={job.system.folder}")
    given = (c_char_p * len(options))(*(option.encode() for option in options))
    code = nvrtc.nvrtcCompileProgram(program, len(options), given)
    log = _text(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
    log_text = log.rstrip(b"\0").decode(errors="replace")
    if code:
        raise compile_failure(job.unit, job.source, tuple(options), log_text, failed)
    lowered = c_char_p()
    nvrtc.nvrtcGetLoweredName(program, expression, byref(lowered))
    name = (lowered.value or b"").decode()
    if job.kind is Image.CUBIN:
        image = _text(program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
        entries = entry_names(log_text) or code_names(image)
    else:
        image = _text(program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
        entries = tuple(_PTX_ENTRY.findall(image.decode(errors="replace")))
    if entries != (name,):
        raise CompileError(
            f"{job.unit.file} with {job.unit.expression!r} gives the global functions "
            f"{', '.join(entries) or '(none)'}; allowed is {name} alone; make every global "
            "function of the file a template, so that only the one asked for is compiled"
        )
    arch = job.arch.replace("compute_", "sm_")
    return Cubin(image, job.kind, name, arch, log_text, read_resources(log_text, name))


def _text(program: c_void_p, size: Any, read: Any) -> bytes:
    """Return what a pair of functions, one for the size and one for the bytes, gives."""
    count = c_size_t()
    size(program, byref(count))
    buffer = ctypes.create_string_buffer(max(count.value, 1))
    read(program, buffer)
    return buffer.raw[: count.value]
