"""Executables to files and back: what a file holds, and how its errors are told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from softcuda.compiler.definition import Definition
from softcuda.compiler.program import Program
from softcuda.errors import SavedFileError, SoftCudaError
from softcuda.executor.executable import Executable
from softcuda.executor.saved.archive import META, Archive, open_archive, refused, write_archive
from softcuda.executor.saved.definition import GRAPH_FILE, Defined, graph_members, read_defined
from softcuda.executor.saved.frozen import (
    PROFILE_FILE,
    PROGRAM_FILE,
    program_members,
    read_profiles,
    read_program,
)
from softcuda.executor.saved.kernels import KERNELS_FILE, read_kernels
from softcuda.executor.saved.machine import (
    check_needs,
    differences,
    frozen_for,
    stated_facts,
)
from softcuda.executor.saved.plain import Misfit
from softcuda.graph.node import Node

__all__ = ["read_definition", "read_executable", "write_executable"]

_AGAIN: Final = "save the executable again"
_RECOMPILE: Final = (
    "load it with recompile=True, which compiles its graph for this machine, or save it again here"
)


def write_executable(
    path: str, program: Program, leaves: Sequence[Node], skeleton: Any, definition: Definition
) -> None:
    """Write an executable to a file, whole or not at all; see `Executable.save`.

    Raises:
        SavedFileError: it cannot be written, or holds something that no file can.
        CompileError, NvrtcNotFound, CacheMiss: a kernel is not there and cannot be compiled.
    """
    try:
        members = {
            **graph_members(definition, leaves, skeleton),
            **program_members(program, definition),
        }
    except Misfit as error:
        raise SavedFileError(
            f"save: {path}: the executable holds what a file cannot: {error}; allowed is "
            f"{error.allowed}; pickle keeps what Python alone knows"
        ) from error
    dtypes = {line.dtype.name for line in (*definition.graph.lines, *program.graph.lines)}
    write_archive(path, {**frozen_for(program), "dtypes": sorted(dtypes)}, members)


@contextmanager
def _reading(path: str, member: str) -> Iterator[None]:
    """Turn what is wrong with a member into an error that names the file and the member."""
    try:
        yield
    except SavedFileError:
        raise
    except Misfit as error:
        raise refused(path, member, str(error), f"allowed is {error.allowed}; {_AGAIN}") from error
    except (SoftCudaError, ValueError, TypeError, RecursionError) as error:
        raise refused(path, member, str(error) or type(error).__name__, _AGAIN) from error


def read_definition(path: str, kind: type[Node]) -> Defined:
    """Return what an executable was compiled from; nothing else of the file is looked at.

    Args:
        path: the file.
        kind: the class of the leaves.

    Raises:
        SavedFileError: the file cannot be read, was changed, or holds something that cannot be.
    """
    return _defined(open_archive(path), kind)


def _defined(archive: Archive, kind: type[Node]) -> Defined:
    with _reading(archive.path, GRAPH_FILE):
        return read_defined(archive, kind)


def read_executable(path: str, kind: type[Node], *, is_run: bool = True) -> Executable:
    """Return the executable of a file, as it was frozen.

    Args:
        path: the file.
        kind: the class of its leaves and of the tensors that its runs return.
        is_run: whether it shall be run; then the machine must be the one it was frozen for.

    Raises:
        SavedFileError: the file cannot be read, was changed, holds something that cannot be, or
            was frozen for another machine.
    """
    archive = open_archive(path)
    with _reading(path, META):
        stated = stated_facts(archive.meta)
    unlike = differences(stated) if is_run else []
    if unlike:
        found = f"it was frozen for another machine: {'; '.join(unlike)}"
        raise refused(path, META, found, _RECOMPILE)
    defined = _defined(archive, kind)
    with _reading(path, PROFILE_FILE):
        profiles = read_profiles(archive)
    with _reading(path, KERNELS_FILE):
        specs = read_kernels(archive)
    with _reading(path, PROGRAM_FILE):
        program = read_program(archive, defined.graph, specs)
    archive.check_all_read()
    with _reading(path, META):
        check_needs(stated, program)
    with _reading(path, GRAPH_FILE):
        definition = Definition(defined.graph, profiles, defined.strict, defined.recompute)
        return Executable(program, defined.leaves, defined.skeleton, definition, tensor=kind)
