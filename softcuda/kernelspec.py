"""KernelSpec: a row of a backend's kernel table, one entry point of one file. Pure data.

    KERNELS = (
        KernelSpec("fill", "f32", "fill.cu", "fill<f32>", dtypes=("f32",), threads=256),
    )

The loader compiles `spec.unit` and `inspect_kernels` lists the rows; neither needs a device.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from softcuda.errors import ArgumentError
from softcuda.nvrtc.source import Built
from softcuda.nvrtc.unit import CompileUnit, Header, as_arch

__all__ = ["FastDivisor", "KernelSpec", "Rounding", "fast_divisor"]

_IEEE: Final = ("--ftz=false", "--prec-div=true", "--prec-sqrt=true")


class Rounding(Enum):
    """What the compiler may do with floating point: its value is a tuple of options.

    EXACT: every operation rounds; elementwise, reductions, movement. FMA: a product and a sum may
    become one operation; contractions. Neither flushes subnormals nor approximates / and sqrt.
    """

    EXACT = ("--fmad=false", *_IEEE)
    FMA = ("--fmad=true", *_IEEE)


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """One kernel: where it is, what it takes, how it is launched.

    Attributes:
        family: the name of the kernel function, such as "gemm_tiled".
        variant: what tells it from others of the family, such as "f32_128x128x8".
        file: its file in kernels/, or in `folder`.
        expression: the name expression, such as "gemm_tiled<f32, 128, 128, 8>".
        dtypes: tokens of the dtypes it reads and writes, in the order of the file's head.
        threads: threads a block.
        tile: elements that a block makes, an axis each; () where a block has no tile.
        rounding: what the compiler may do with floating point.
        shared_bytes: dynamic shared memory a block [bytes]; static memory is not counted.
        min_arch: the oldest architecture, such as 80 for sm_80.
        only_arch: the one architecture with the features it needs, such as "sm_90a"; "" for all.
        spill_bytes: spilled registers that its compilation may store [bytes a thread].
        headers: generated text that the file includes by name, such as a fused chain.
        is_deterministic: False for kernels whose name ends in _atomic.
        folder: where the file lies; "" for the packaged kernels.
        built: the kernel itself, of an executable that was saved; None where it is compiled.
    """

    family: str
    variant: str
    file: str
    expression: str
    dtypes: tuple[str, ...]
    threads: int
    tile: tuple[int, ...] = ()
    rounding: Rounding = Rounding.EXACT
    shared_bytes: int = 0
    min_arch: int = 75
    only_arch: str = ""
    spill_bytes: int = 0
    headers: tuple[Header, ...] = ()
    is_deterministic: bool = True
    folder: str = ""
    built: Built | None = None

    def __str__(self) -> str:
        return self.id

    @property
    def id(self) -> str:
        """Family and variant, such as "gemm_tiled.f32_128x128x8"; the key of a step's kernel."""
        return f"{self.family}.{self.variant}"

    @property
    def unit(self) -> CompileUnit:
        """What NVRTC compiles for it."""
        stem = self.file.removesuffix(".cu")
        variant = self.variant if self.family == stem else f"{self.family}_{self.variant}"
        return CompileUnit(
            self.file,
            variant,
            self.expression,
            self.rounding.value,
            self.headers,
            self.folder,
        )

    def refusal(self, arch: str) -> str:
        """Return why it cannot run on an architecture such as "sm_90a", or "" where it can.

        Raises:
            CompileError: `arch` is no architecture that softcuda supports.

        Example:
            >>> spec = KernelSpec("mma", "f16", "mma.cu", "mma<f16>", ("f16",), 128, min_arch=80)
            >>> spec.refusal("sm_75")
            'mma.f16 needs sm_80 or newer, this is sm_75'
        """
        if self.only_arch and arch != self.only_arch:
            return f"{self.id} needs {self.only_arch}, this is {arch}"
        if as_arch(arch).number < self.min_arch:
            return f"{self.id} needs sm_{self.min_arch} or newer, this is {arch}"
        return ""


class FastDivisor(NamedTuple):
    """What `FastDivisor` of common.cuh holds: three u32, in this order."""

    divisor: int
    multiplier: int
    shift: int


def fast_divisor(divisor: int) -> FastDivisor:
    """Return the numbers by which the device divides without dividing.

    n // divisor == (((n * multiplier) >> 32) + n) >> shift, in 32-bit unsigned arithmetic, for
    0 <= n < 2^31.

    Args:
        divisor: at least 1, below 2^31.

    Raises:
        ArgumentError: the divisor is outside that range.

    Source: Granlund and Montgomery, Division by Invariant Integers using Multiplication (1994),
    figure 4.1.

    Example:
        >>> fast_divisor(7)
        FastDivisor(divisor=7, multiplier=613566757, shift=3)
    """
    if not 1 <= divisor < 2**31:
        raise ArgumentError(
            f"fast division by {divisor} is not possible; allowed are 1 to {2**31 - 1}"
        )
    shift = (divisor - 1).bit_length()
    multiplier = (2**32 * (2**shift - divisor)) // divisor + 1
    return FastDivisor(divisor, multiplier, shift)
