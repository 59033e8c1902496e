"""What the launches of a step that was read must be: grids, blocks and arguments within limits."""

from __future__ import annotations

from typing import Final

from softcuda.backends.launches import Argument, KernelLaunch
from softcuda.backends.steps import Step
from softcuda.executor.saved.plain import Misfit

__all__ = ["check_launches"]

# What every architecture from sm_75 on allows.
_GRID: Final = ((1 << 31) - 1, 65535, 65535)
_BLOCK: Final = (1024, 1024, 64)
_BLOCK_THREADS: Final = 1024
_SHARED_BYTES: Final = 227 << 10
_PARAMETER_BYTES: Final = 4096

_INTEGERS: Final = {"i32": 32, "i64": 64}


def check_launches(step: Step) -> None:
    """Check the launches of a CUDA step against the limits of devices and its own operands.

    Raises:
        Misfit: one is beyond them.
    """
    for number, launch in enumerate(step.launches):
        try:
            _check(step, launch)
        except Misfit as error:
            error.place.insert(0, f"launches.{number}")
            raise


def _check(step: Step, launch: KernelLaunch) -> None:
    fits = all(1 <= n <= most for n, most in zip(launch.grid, _GRID, strict=True))
    if not fits:
        raise Misfit(launch.grid, f"1 to {_GRID} blocks")
    x, y, z = launch.block
    fits = all(1 <= n <= most for n, most in zip(launch.block, _BLOCK, strict=True))
    if not fits or x * y * z > _BLOCK_THREADS:
        raise Misfit(launch.block, f"1 to {_BLOCK} threads, {_BLOCK_THREADS} together")
    if not 0 <= launch.shared_bytes <= _SHARED_BYTES:
        raise Misfit(launch.shared_bytes, f"0 to {_SHARED_BYTES} bytes of shared memory")
    for position, argument in enumerate(launch.arguments):
        allowed = _misfit(step, argument)
        if allowed:
            error = Misfit(argument, allowed)
            error.place.append(f"arguments.{position}")
            raise error


def _misfit(step: Step, argument: Argument) -> str:
    """Return what is allowed of an argument that is not; "" for one that is."""
    kind, value = argument
    counts = {"read": len(step.inputs), "write": len(step.outputs)}
    if kind in counts:
        fits = type(value) is int and 0 <= value < counts[kind]
        return "" if fits else f"the number of an operand, below {counts[kind]}"
    if kind == "scratch":
        fits = type(value) is int and 0 <= value < max(step.scratch_bytes, 1)
        return "" if fits else f"a byte of {step.scratch_bytes} of scratch"
    if kind == "status":
        return "" if value == 0 else "0 for status"
    if kind in _INTEGERS:
        limit = 1 << (_INTEGERS[kind] - 1)
        return "" if type(value) is int and -limit <= value < limit else f"a number of {kind}"
    if kind in ("f32", "f64"):
        return "" if type(value) in (int, float) else "a floating-point number"
    if kind == "packed":
        fits = isinstance(value, bytes) and 0 < len(value) <= _PARAMETER_BYTES
        return "" if fits else f"1 to {_PARAMETER_BYTES} bytes"
    return "read, write, scratch, status, i32, i64, f32, f64 or packed as kind"
