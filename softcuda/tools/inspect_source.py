"""The source of kernels, and of fused steps of saved executables."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, Final

from softcuda.backends.launches import Argument, KernelLaunch
from softcuda.backends.steps import Micro, Operand, Step
from softcuda.errors import ArgumentError
from softcuda.executor.executable import Executable
from softcuda.kernelspec import KernelSpec
from softcuda.nvrtc.source import read_source
from softcuda.nvrtc.unit import Header

__all__ = [
    "load_executable",
    "source_record",
    "source_text",
    "step_of",
    "step_record",
    "step_text",
]

# What unpickling raises where the file is something else, or its classes are gone.
_UNREADABLE: Final = (
    pickle.UnpicklingError,
    EOFError,
    AttributeError,
    ImportError,
    IndexError,
    KeyError,
    TypeError,
    ValueError,
)


def source_record(spec: KernelSpec) -> dict[str, Any]:
    """Return the file of a kernel and the closure of what it includes, as JSON has it.

    Raises:
        CompileError: a file is missing, or an include is not allowed.
    """
    source = read_source(spec.unit)
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
        lines.append(f"  {header['name']}  {len(header['text'].splitlines())} lines, {origin}")
    lines.extend(f"  <{name}>  NVIDIA's" for name in record["system_headers"])
    for header in spec.headers:
        lines.extend(_titled(header))
    lines.extend(_titled(Header(spec.file, record["source"])))
    return "\n".join(lines)


def _titled(header: Header) -> list[str]:
    return ["", f"---- {header.name}", header.text.rstrip()]


def load_executable(path: str) -> Executable:
    """Return the executable that `pickle.dump` wrote to a file.

    Unpickling runs what the file says: load only files that you trust.

    Raises:
        ArgumentError: the file cannot be read, or holds something else.
    """
    try:
        with Path(path).open("rb") as file:
            found = pickle.load(file)
    except OSError as error:
        raise ArgumentError(
            f"--step: {path} cannot be read: {error.strerror or error}; allowed is a file that "
            "pickle.dump(executable, file) wrote"
        ) from error
    except _UNREADABLE as error:
        raise ArgumentError(
            f"--step: {path} is no pickle that can be loaded here: {error!r}; allowed is a file "
            "that pickle.dump(executable, file) wrote"
        ) from error
    if not isinstance(found, Executable):
        raise ArgumentError(
            f"--step: {path} holds an object of type {type(found).__name__}; allowed is a "
            "softcuda.Executable, as softcuda.compile returns it"
        )
    return found


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
                "arguments": [_argument(argument) for argument in launch.arguments],
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
    lines.extend(f"  op {~k}: {_micro(micro)}" for k, micro in enumerate(step.chain))
    lines.extend(f"  input {k}: {_operand(operand)}" for k, operand in enumerate(step.inputs))
    lines.extend(f"  output {k}: {_operand(operand)}" for k, operand in enumerate(step.outputs))
    if step.scratch_bytes:
        lines.append(f"  scratch {step.scratch_bytes} bytes")
    for k, launch in enumerate(step.launches):
        grid, block = ("x".join(map(str, extents)) for extents in (launch.grid, launch.block))
        lines.append(
            f"launch {k}: {launch.spec.id} grid {grid} block {block} shared "
            f"{launch.shared_bytes} bytes"
        )
        lines.append(f"  {launch.spec.expression} of {launch.spec.file}")
        told = ", ".join(_argument(argument) for argument in launch.arguments)
        lines.append(f"  arguments: {told or 'none'}")
    sources = _generated(step.launches)
    if not step.launches:
        lines.append("no launches: this step runs no kernel")
    elif not sources:
        lines.append("no generated source: --source ID shows the files of its kernels")
    for header in sources:
        lines.extend(_titled(header))
    return "\n".join(lines)


def _generated(launches: tuple[KernelLaunch, ...]) -> list[Header]:
    """Return the generated headers of launches, each once."""
    return list(dict.fromkeys(header for launch in launches for header in launch.spec.headers))


def _micro(micro: Micro) -> str:
    """Return an op; a source from 0 on is an input, a negative one the op of that number."""
    sources = ", ".join(map(str, micro.sources))
    return f"{micro.op.name}({sources}) -> {_extents(micro.dims)} {micro.dtype.name}"


def _operand(operand: Operand) -> str:
    strides = ", ".join(map(str, operand.strides))
    return (
        f"value {operand.value}+{operand.offset} {_extents(operand.dims)} {operand.dtype.name} "
        f"strides ({strides})"
    )


def _extents(dims: tuple[int, ...]) -> str:
    return "x".join(map(str, dims)) or "()"


def _argument(argument: Argument) -> str:
    value = argument.value
    if isinstance(value, bytes):
        return f"packed {len(value)} bytes {value.hex()}"
    return "status" if argument.kind == "status" else f"{argument.kind} {value}"
