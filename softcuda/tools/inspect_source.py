"""The source of kernels, and of fused steps of saved executables."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from softcuda.backends.launches import Argument, KernelLaunch
from softcuda.backends.steps import Micro, Operand, Step
from softcuda.errors import ArgumentError
from softcuda.executor.executable import Executable
from softcuda.executor.saved.files import read_executable
from softcuda.graph.node import Node
from softcuda.kernelspec import KernelSpec
from softcuda.nvrtc.source import Source, read_source
from softcuda.nvrtc.unit import CompileUnit, Header
from softcuda.sizes import counted

__all__ = [
    "kernels_of",
    "load_executable",
    "source_record",
    "source_text",
    "step_of",
    "step_record",
    "step_text",
    "unit_of",
]


def _source_of(spec: KernelSpec) -> Source:
    """Return what a kernel was compiled from, of a saved executable, else what it would be."""
    return spec.built.source if spec.built else read_source(spec.unit)


@contextmanager
def unit_of(spec: KernelSpec) -> Iterator[CompileUnit]:
    """Return a context with what NVRTC compiles for a kernel.

    One of a saved executable is compiled from the sources that it was saved with.
    """
    if spec.built is None:
        yield spec.unit
        return
    source = spec.built.source
    with tempfile.TemporaryDirectory(prefix="softcuda-") as folder:
        for name, text in (Header(spec.file, source.text), *source.headers):
            Path(folder, name).write_text(text, encoding="utf-8")
        yield spec.unit._replace(folder=folder)


def source_record(spec: KernelSpec) -> dict[str, Any]:
    """Return the file of a kernel and the closure of what it includes, as JSON has it.

    Raises:
        CompileError: a file is missing, or an include is not allowed.
    """
    source = _source_of(spec)
    given = {header.name for header in spec.headers}
    return {
        "id": spec.id,
        "file": spec.file,
        "expression": spec.expression,
        "options": list(spec.unit.options),
        "source": source.text,
        "headers": [
            {"name": name, "text": text, "is_generated": name in given}
            for name, text in source.headers
        ],
        "system_headers": list(source.system),
    }


def source_text(spec: KernelSpec) -> str:
    """Return the file of a kernel for people: what it includes is listed, generated text shown.

    Raises:
        CompileError: a file is missing, or an include is not allowed.
    """
    record = source_record(spec)
    lines = [
        f"{spec.id}: {spec.expression} of {spec.file}",
        f"options {' '.join(record['options'])}",
        "includes, all that they include among them:",
    ]
    for header in record["headers"]:
        origin = "generated, shown below" if header["is_generated"] else "kernels/"
        count = counted(len(header["text"].splitlines()), "line")
        lines.append(f"  {header['name']}  {count}, {origin}")
    lines.extend(f"  <{name}>  NVIDIA's" for name in record["system_headers"])
    for header in spec.headers:
        lines.extend(_titled(header))
    lines.extend(_titled(Header(spec.file, record["source"])))
    return "\n".join(lines)


def _titled(header: Header) -> list[str]:
    return ["", f"---- {header.name}", header.text.rstrip()]


def load_executable(path: str) -> Executable:
    """Return the executable that `Executable.save` wrote to a file, for whatever device.

    Raises:
        SavedFileError: the file cannot be read, was changed, or holds something else.
    """
    return read_executable(path, Node, is_run=False)


def kernels_of(executable: Executable) -> dict[str, tuple[KernelSpec, ...]]:
    """Return the kernels of an executable by the backends whose steps launch them.

    Raises:
        ArgumentError: it launches none.
    """
    found: dict[str, dict[KernelSpec, None]] = {}
    for step in executable.program.steps:
        for launch in step.launches:
            found.setdefault(step.backend_id, {})[launch.spec] = None
    if not found:
        raise ArgumentError(
            f"--saved: the executable was compiled for {executable.program.target} and launches "
            "no CUDA kernel; allowed is one with CUDA steps"
        )
    return {backend_id: tuple(specs) for backend_id, specs in found.items()}


def step_of(executable: Executable, text: str) -> int:
    """Return the number of a step.

    Raises:
        ArgumentError: the executable has no step of that number; lists those that it has.
    """
    steps = executable.program.steps
    if text.isdecimal() and int(text) < len(steps):
        return int(text)
    there = "; ".join(f"{number}: {_title(step)}" for number, step in enumerate(steps))
    raise ArgumentError(f"--step: there is no step {text!r}; allowed are {there or 'none'}")


def _title(step: Step) -> str:
    return f"{step.backend_id} {step.kernel}"


def step_record(executable: Executable, number: int) -> dict[str, Any]:
    """Return a step, its launches and its generated source, as JSON has it."""
    step = executable.program.steps[number]
    return {
        "step": number,
        "backend_id": step.backend_id,
        "id": step.kernel,
        "ops": [_micro(micro) for micro in step.chain],
        "inputs": [_operand(operand) for operand in step.inputs],
        "outputs": [_operand(operand) for operand in step.outputs],
        "scratch_bytes": step.scratch_bytes,
        "launches": [
            {
                "id": launch.spec.id,
                "file": launch.spec.file,
                "expression": launch.spec.expression,
                "grid": list(launch.grid),
                "block": list(launch.block),
                "shared_bytes": launch.shared_bytes,
                "resources": _resources(launch),
                "arguments": [_argument(argument, is_whole=True) for argument in launch.arguments],
            }
            for launch in step.launches
        ],
        "sources": [
            {"name": header.name, "text": header.text} for header in _generated(step.launches)
        ],
    }


def step_text(executable: Executable, number: int) -> str:
    """Return a step for people: what it computes, its launches, its generated source."""
    step = executable.program.steps[number]
    total = len(executable.program.steps)
    lines = [f"step {number} of {total}: {_title(step)}, target {executable.program.target}"]
    lines.extend(f"  op {k}: {_micro(micro)}" for k, micro in enumerate(step.chain))
    lines.extend(f"  input {k}: {_operand(operand)}" for k, operand in enumerate(step.inputs))
    lines.extend(f"  output {k}: {_operand(operand)}" for k, operand in enumerate(step.outputs))
    if step.scratch_bytes:
        lines.append(f"  scratch {step.scratch_bytes} bytes")
    for k, launch in enumerate(step.launches):
        grid, block = ("x".join(map(str, extents)) for extents in (launch.grid, launch.block))
        lines.append(
            f"launch {k}: {launch.spec.id} grid {grid} block {block} dynamic shared "
            f"{launch.shared_bytes} bytes"
        )
        lines.append(f"  {launch.spec.expression} of {launch.spec.file}")
        found = _resources(launch)
        if found is not None:
            lines.append(
                f"  {found['registers']} registers, spills {found['spill_store_bytes']}/"
                f"{found['spill_load_bytes']} bytes a thread, static shared "
                f"{found['shared_bytes']} bytes"
            )
        told = ", ".join(_argument(argument) for argument in launch.arguments)
        lines.append(f"  arguments: {told or 'none'}")
    sources = _generated(step.launches)
    if not step.launches:
        lines.append("no launches: this step runs no CUDA kernel")
    elif not sources:
        lines.append("no generated source: --source ID shows the files of its kernels")
    if step.launches:
        lines.append("PTX and machine code: --saved FILE --ptx ID, --saved FILE --sass ID")
    for header in sources:
        lines.extend(_titled(header))
    return "\n".join(lines)


def _resources(launch: KernelLaunch) -> dict[str, int] | None:
    """Return what a kernel that was saved takes; None where the compiler did not tell."""
    built = launch.spec.built
    found = built.cubin.resources if built else None
    return found._asdict() if found else None


def _generated(launches: tuple[KernelLaunch, ...]) -> list[Header]:
    """Return the generated headers of launches, each once."""
    return list(dict.fromkeys(header for launch in launches for header in launch.spec.headers))


def _micro(micro: Micro) -> str:
    """Return an op; a source from 0 on is an input, ~k the result of op k."""
    sources = ", ".join(f"input {s}" if s >= 0 else f"op {~s}" for s in micro.sources)
    return f"{micro.op.name}({sources}) -> {_extents(micro.dims)} {micro.dtype.name}"


def _operand(operand: Operand) -> str:
    strides = ", ".join(map(str, operand.strides))
    return (
        f"{_extents(operand.dims)} {operand.dtype.name}, strides ({strides}), value "
        f"{operand.value}{f' from element {operand.offset}' if operand.offset else ''}"
    )


def _extents(dims: tuple[int, ...]) -> str:
    return "x".join(map(str, dims)) or "()"


def _argument(argument: Argument, *, is_whole: bool = False) -> str:
    """Return an argument of a kernel; the bytes of a struct only where `is_whole`."""
    value = argument.value
    if isinstance(value, bytes):
        return f"packed {len(value)} bytes{f' {value.hex()}' if is_whole else ''}"
    return "status" if argument.kind == "status" else f"{argument.kind} {value}"
