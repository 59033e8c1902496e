"""program.json and profile.json: the frozen decisions, steps and memory plan, and what decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from softcuda.compiler.definition import Definition, deciding_rows
from softcuda.compiler.program import Program
from softcuda.executor.saved.archive import Archive, json_bytes, json_value
from softcuda.executor.saved.checks import check_program
from softcuda.executor.saved.codec import Coder
from softcuda.executor.saved.kernels import kernel_members, spec_codec
from softcuda.executor.saved.plain import Misfit
from softcuda.graph.lines import Graph
from softcuda.kernelspec import KernelSpec
from softcuda.profile.model import DeviceFacts, Profile, Row

__all__ = ["PROFILE_FILE", "PROGRAM_FILE", "program_members", "read_profiles", "read_program"]

PROGRAM_FILE: Final = "program.json"
PROFILE_FILE: Final = "profile.json"


class SavedProfile(NamedTuple):
    """The rows of one profile that decided something.

    Attributes:
        name: of its file.
        version: its soft_version.
        device: what its [device] section says.
        rows: those rows.
    """

    name: str
    version: str
    device: DeviceFacts
    rows: tuple[Row, ...]


def program_members(program: Program, definition: Definition) -> dict[str, bytes]:
    """Return the members of a program: program.json, profile.json, and those of its kernels.

    Raises:
        Misfit: a step holds something that has no rule in the codec.
        CompileError, NvrtcNotFound, CacheMiss: a kernel is not there and cannot be compiled.
    """
    specs = list(dict.fromkeys(launch.spec for step in program.steps for launch in step.launches))
    coder = Coder({KernelSpec: spec_codec(specs)})
    profiles = tuple(
        SavedProfile(found.name, found.meta["soft_version"], found.device, found.rows)
        for found in deciding_rows(program, definition.profiles)
    )
    listed = coder.encode(tuple[SavedProfile, ...], profiles)
    return {
        PROGRAM_FILE: json_bytes(coder.encode(Program, program)),
        PROFILE_FILE: json_bytes({"profiles": listed}),
        **kernel_members(program),
    }


def read_program(archive: Archive, defined: Graph, specs: Sequence[KernelSpec]) -> Program:
    """Return the program of a file, checked.

    Args:
        archive: the file.
        defined: the graph of its graph.json.
        specs: the kernels of its kernels.json.

    Raises:
        Misfit, SoftCudaError: it says something that cannot be.
    """
    coder = Coder({KernelSpec: spec_codec(specs)})
    program: Program = coder.decode(Program, json_value(archive.read(PROGRAM_FILE)))
    check_program(program, defined)
    return program


def read_profiles(archive: Archive) -> tuple[Profile, ...]:
    """Return the profiles of a file, with the rows alone that decided something.

    Raises:
        Misfit: it says something that cannot be.
    """
    listed: Any = json_value(archive.read(PROFILE_FILE))
    if not isinstance(listed, Mapping) or listed.keys() != {"profiles"}:
        raise Misfit(listed, 'an object with the key "profiles"')
    found = Coder().decode(tuple[SavedProfile, ...], listed["profiles"])
    return tuple(
        Profile(saved.name, {"soft_version": saved.version}, saved.device, saved.rows)
        for saved in found
    )
