"""What NVRTC is asked to compile, and what comes out. Plain, frozen, picklable data."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final, NamedTuple

from softcuda.errors import CompileError

__all__ = [
    "FIRST_OF_SUFFIX",
    "Arch",
    "CompileUnit",
    "Cubin",
    "Header",
    "Image",
    "Resources",
    "as_arch",
]

OLDEST: Final = 75
# a: features of one architecture, f: of its family. Source: CUDA C++ Programming Guide, "Feature
# Availability".
FIRST_OF_SUFFIX: Final = {"a": 90, "f": 100}

_ARCH: Final = re.compile(r"sm_([0-9]{2,3})([af]?)")


class Image(Enum):
    """What a compiled unit is: machine code of one architecture, or PTX for the driver."""

    CUBIN = "cubin"
    PTX = "ptx"


class Header(NamedTuple):
    """A header given as text, such as a generated chain of operations."""

    name: str
    text: str


class Arch(NamedTuple):
    """An architecture: 90 and "a" for sm_90a."""

    number: int
    suffix: str

    def __str__(self) -> str:
        return f"sm_{self.number}{self.suffix}"


def as_arch(name: str) -> Arch:
    """Return the architecture that a name such as "sm_90a" means.

    Raises:
        CompileError: it is no architecture, one older than sm_75, or has a suffix that it lacks.

    Example:
        >>> as_arch("sm_90a")
        Arch(number=90, suffix='a')
    """
    match = _ARCH.fullmatch(name)
    if match is None:
        raise CompileError(
            f"{name!r} is no architecture; allowed are names such as 'sm_75', 'sm_90a', 'sm_120'"
        )
    arch = Arch(int(match[1]), match[2])
    if arch.number < OLDEST:
        raise CompileError(
            f"{name} is not supported; the oldest architecture is sm_{OLDEST} (compute capability "
            "7.5); run on the CPU instead: config='default', or SOFTCUDA_CONFIG=default"
        )
    first = FIRST_OF_SUFFIX.get(arch.suffix, OLDEST)
    if arch.number < first:
        raise CompileError(
            f"sm_{arch.number} has no variant {arch.suffix}, architectures from sm_{first} on have "
            f"one; name it sm_{arch.number}"
        )
    return arch


class CompileUnit(NamedTuple):
    """One kernel to compile: one file, one name expression, one global function.

    Attributes:
        file: the name of the file, such as "gemm_tiled.cu".
        variant: what tells this kernel from the file's others, such as "f32_128x128".
        expression: the name expression, such as "gemm_tiled<f32, 128, 128, 8>".
        options: beside those that every unit gets, one entry an option, in order.
        headers: given as text; they win over files of the same name.
        folder: where the file and its own headers lie; "" for the packaged kernels.
    """

    file: str
    variant: str
    expression: str
    options: tuple[str, ...] = ()
    headers: tuple[Header, ...] = ()
    folder: str = ""

    @property
    def id(self) -> str:
        """File and variant, such as "gemm_tiled.f32_128x128"."""
        return f"{self.file.removesuffix('.cu')}.{self.variant}"


class Resources(NamedTuple):
    """What one kernel takes, as the assembler reports it; bytes are a thread's or a block's."""

    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    shared_bytes: int
    barriers: int


class Cubin(NamedTuple):
    """A compiled kernel.

    Attributes:
        image: the bytes that the driver loads.
        kind: machine code, or PTX where the device is newer than NVRTC.
        name: the lowered name of its function.
        arch: what it was compiled for, such as "sm_90a"; of PTX the newest that NVRTC knows.
        log: what the compiler said.
        resources: None for PTX, which the driver assembles.
        folder: its entry in the disk cache; "" where it is in memory only.
    """

    image: bytes
    kind: Image
    name: str
    arch: str
    log: str
    resources: Resources | None
    folder: str = ""
