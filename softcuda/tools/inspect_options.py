"""The command line of inspect_kernels: what was asked for."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from softcuda.errors import ArgumentError
from softcuda.executor.on_demand import cuda_target, nvrtc_architectures
from softcuda.target import Target, named_arch
from softcuda.tools.inspect_rows import Tables
from softcuda.tools.inspect_source import kernels_of, load_executable

__all__ = ["InspectOptions", "parsed_options"]

_WITHOUT_DEVICE: Final = "sm_90a"

# What an action does not look at, and what it does.
_IGNORED: Final = {
    "ptx": ("patterns",),
    "sass": ("patterns",),
    "source": ("arch", "patterns"),
    "step": ("arch", "backend", "saved", "patterns"),
    "diff": ("arch", "saved"),
}
_BESIDE: Final = {
    "ptx": "--arch, --backend, --saved and --json",
    "sass": "--arch, --backend, --saved and --json",
    "source": "--backend, --saved and --json",
    "step": "--json",
    "diff": "--backend, --json and the NAMEs",
}


@dataclass(frozen=True, slots=True)
class InspectOptions:
    """What was asked for.

    Attributes:
        action: "list", "ptx", "sass", "source", "step" or "diff".
        words: what the action takes: a name; a number and a file; names to compare.
        patterns: which kernels are listed or compared; () for all.
        backend_ids: of which backends; () for all.
        archs: the architectures, at least one.
        as_json: print JSON instead of text.
        tables: the kernels of a saved executable; None for all that there are.
    """

    action: str
    words: tuple[str, ...]
    patterns: tuple[str, ...]
    backend_ids: tuple[str, ...]
    archs: tuple[str, ...]
    as_json: bool
    tables: Tables | None = None


def parsed_options(argv: Sequence[str] | None) -> InspectOptions:
    """Return what the options ask for.

    Args:
        argv: the options; None for those of the command line.

    Raises:
        ArgumentError: an architecture, or what --diff or --saved takes, is not allowed.
        SavedFileError: the file of --saved is no saved executable.
    """
    parser = argparse.ArgumentParser(
        prog="inspect_kernels",
        description="List the kernels of the CUDA backends and what they take, compiled for any "
        "architecture; no device is needed.",
        epilog="NAME and PATTERN are a kernel's id, such as gemm_tiled.f32_128x256x8_any, or a "
        "regular expression found in ids. The first listing of all kernels compiles them, which "
        "takes minutes; later ones read the cache.",
    )
    add = parser.add_argument
    add("patterns", metavar="PATTERN", nargs="*", help="kernels to list; default: all")
    add("--backend", metavar="ID", action="append", default=[], help="of this backend only")
    add(
        "--arch",
        metavar="ARCH",
        action="append",
        default=[],
        help="such as sm_90a, several times for several; default: the device's, else "
        f"{_WITHOUT_DEVICE}",
    )
    add("--saved", metavar="FILE", help="the kernels of an executable that was saved to a file")
    add("--json", action="store_true", help='print {"kernels": [...]}')
    add = parser.add_mutually_exclusive_group().add_argument
    add("--ptx", metavar="NAME", help="show the PTX of a kernel")
    add("--sass", metavar="NAME", help="show the machine code of a kernel")
    add("--source", metavar="NAME", help="show the source of a kernel and what it includes")
    add(
        "--step",
        metavar=("N", "FILE"),
        nargs=2,
        help="show step N of an executable that was saved to a file: its launches and the "
        "source that was generated for it",
    )
    add(
        "--diff",
        metavar=("ARCH ARCH", "NAME"),
        nargs="+",
        help="compare what kernels take on two architectures",
    )
    given = parser.parse_args(argv)
    action, words = "list", ()
    for name in ("ptx", "sass", "source", "step", "diff"):
        value = getattr(given, name)
        if value is not None:
            action, words = name, (value,) if isinstance(value, str) else tuple(value)
    _check_beside(action, given)
    patterns, archs = tuple(given.patterns), tuple(dict.fromkeys(given.arch))
    if action == "diff":
        archs, patterns = _compared(words, patterns)
    tables = None
    if given.saved is not None:
        executable = load_executable(given.saved)
        tables, own = kernels_of(executable), executable.program.target.arch
        archs = _only(archs or (own,), own)
    return InspectOptions(
        action=action,
        words=words,
        patterns=patterns,
        backend_ids=tuple(dict.fromkeys(given.backend)),
        archs=tuple(named_arch(arch, nvrtc_architectures) for arch in archs) or (_own_arch(),),
        as_json=given.json,
        tables=tables,
    )


def _check_beside(action: str, given: argparse.Namespace) -> None:
    """Refuse options and words that an action does not look at."""
    shown = {
        "arch": " ".join(f"--arch {arch}" for arch in given.arch),
        "backend": " ".join(f"--backend {name}" for name in given.backend),
        "saved": f"--saved {given.saved}",
        "patterns": f"the PATTERN {' '.join(given.patterns)}",
    }
    for name in _IGNORED.get(action, ()):
        if getattr(given, name):
            raise ArgumentError(
                f"--{action} does not look at {shown[name]}; allowed beside it are "
                f"{_BESIDE[action]}; leave it out"
            )


def _only(archs: tuple[str, ...], own: str) -> tuple[str, ...]:
    """Return the architecture of a saved executable, where no other was asked for."""
    if archs != (own,):
        raise ArgumentError(
            f"--saved: the executable holds kernels for {own}, and {', '.join(archs)} was asked "
            f"for; allowed is {own} alone, for which --arch can be left out"
        )
    return archs


def _compared(
    words: tuple[str, ...], patterns: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the architectures to compare, and which kernels."""
    if len(set(words[:2])) < 2:
        raise ArgumentError(
            f"--diff takes two architectures and NAMEs behind them, not {' '.join(words)!r}; "
            "allowed is for example --diff sm_80 sm_90a gemm_tiled"
        )
    return words[:2], (*patterns, *words[2:])


def _own_arch() -> str:
    """Return the architecture of the device; of an H200 where there is no device."""
    found = cuda_target()
    return found.arch if isinstance(found, Target) else _WITHOUT_DEVICE
