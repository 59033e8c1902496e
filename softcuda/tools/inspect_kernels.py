"""The console script inspect_kernels: every kernel, what it takes, its source, PTX and SASS."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from softcuda.errors import ArgumentError, NvrtcNotFound, SoftCudaError
from softcuda.executor.on_demand import cuda_target
from softcuda.nvrtc.cache import KernelCache
from softcuda.target import Target, named_arch
from softcuda.tools.inspect_diff import Comparison, compare, comparison_table, histogram_table
from softcuda.tools.inspect_disassembly import INSTALL_HINT, find_disassembler, ptx_of, sass_of
from softcuda.tools.inspect_display import compile_progress, kernel_table, summary, table_text
from softcuda.tools.inspect_rows import (
    KernelEntry,
    KernelRow,
    chosen_kernels,
    compile_rows,
    one_kernel,
)
from softcuda.tools.inspect_source import (
    load_executable,
    source_record,
    source_text,
    step_of,
    step_record,
    step_text,
)

__all__ = ["main"]

_WITHOUT_DEVICE: Final = "sm_90a"
_INTERRUPTED: Final = 130  # 128 + SIGINT, as shells report it


@dataclass(frozen=True, slots=True)
class _Options:
    """What was asked for.

    Attributes:
        action: "list", "ptx", "sass", "source", "step" or "diff".
        words: what the action takes: a name; a number and a file; names to compare.
        patterns: which kernels are listed or compared; () for all.
        backend_ids: of which backends; () for all.
        archs: the architectures, at least one.
        as_json: print JSON instead of text.
    """

    action: str
    words: tuple[str, ...]
    patterns: tuple[str, ...]
    backend_ids: tuple[str, ...]
    archs: tuple[str, ...]
    as_json: bool


def main(argv: Sequence[str] | None = None) -> int:
    """Print what was asked for; return the exit status.

    0: printed. 1: a kernel could not be compiled or disassembled. 2: an option or a name is not
    allowed. 130: interrupted.

    Args:
        argv: the options; None for those of the command line.
    """
    try:
        options = _options(argv)
        return _ACTIONS[options.action](options)
    except ArgumentError as error:
        print(f"inspect_kernels: {error}", file=sys.stderr)
        return 2
    except SoftCudaError as error:
        print(f"inspect_kernels: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("inspect_kernels: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except SystemExit as stop:  # argparse has said why, or shown the help
        return int(stop.code or 0)


def _options(argv: Sequence[str] | None) -> _Options:
    parser = argparse.ArgumentParser(
        prog="inspect_kernels",
        description="List every kernel of every CUDA backend and what it takes, compiled for any "
        "architecture; no device is needed.",
        epilog="NAME and PATTERN are a kernel's id, such as gemm_tiled.f32_64x64x8, or a regular "
        "expression found in it.",
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
    add("--json", action="store_true", help='print {"kernels": [...]}')
    add = parser.add_mutually_exclusive_group().add_argument
    add("--ptx", metavar="NAME", help="show the PTX of a kernel")
    add("--sass", metavar="NAME", help="show the machine code of a kernel")
    add("--source", metavar="NAME", help="show the source of a kernel and what it includes")
    add(
        "--step",
        metavar=("N", "FILE"),
        nargs=2,
        help="show step N of an executable that was pickled to a file: its launches and the "
        "source that was generated for it; load only files that you trust",
    )
    add(
        "--diff",
        metavar=("ARCH", "NAME"),
        nargs="+",
        help="ARCH ARCH [NAME]: compare what kernels take on two architectures",
    )
    given = parser.parse_args(argv)
    action, words = "list", ()
    for name in ("ptx", "sass", "source", "step", "diff"):
        value = getattr(given, name)
        if value is not None:
            action, words = name, (value,) if isinstance(value, str) else tuple(value)
    patterns, archs = tuple(given.patterns), tuple(dict.fromkeys(given.arch))
    if action == "diff":
        archs, patterns = _compared(words, patterns)
    return _Options(
        action=action,
        words=words,
        patterns=patterns,
        backend_ids=tuple(dict.fromkeys(given.backend)),
        archs=tuple(named_arch(arch) for arch in archs) or (_own_arch(),),
        as_json=given.json,
    )


def _compared(
    words: tuple[str, ...], patterns: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the architectures to compare, and which kernels."""
    if len(words) not in (2, 3):
        raise ArgumentError(
            f"--diff takes two architectures and possibly a NAME, not {len(words)} words: "
            f"{' '.join(words)}; allowed is for example --diff sm_80 sm_90a gemm_tiled"
        )
    return words[:2], (*patterns, *words[2:])


def _own_arch() -> str:
    """Return the architecture of the device; of an H200 where there is no device."""
    found = cuda_target()
    return found.arch if isinstance(found, Target) else _WITHOUT_DEVICE


def _print_json(records: Sequence[dict[str, Any]]) -> None:
    print(json.dumps({"kernels": list(records)}, indent=1))


def _compiled(
    options: _Options, entries: Sequence[KernelEntry], cache: KernelCache
) -> tuple[KernelRow, ...]:
    with compile_progress(sys.stderr) as report:
        return compile_rows(entries, options.archs, cache, report)


def _status(rows: Sequence[KernelRow]) -> int:
    return int(any(row.problem for row in rows))


def _list(options: _Options) -> int:
    entries, cache = chosen_kernels(options.patterns, options.backend_ids), KernelCache()
    rows = _compiled(options, entries, cache)
    if options.as_json:
        _print_json([row.record() for row in rows])
    else:
        print(table_text(kernel_table(rows), sys.stdout))
    print(
        summary(rows, cache.compiled, cache.folder),
        file=sys.stderr if options.as_json else sys.stdout,
    )
    return _status(rows)


def _ptx(options: _Options) -> int:
    entry = one_kernel("--ptx", options.words[0], options.backend_ids)
    texts = [(arch, ptx_of(entry.spec.unit, arch)) for arch in _possible(entry, options.archs)]
    return _show_code("ptx", entry, texts, options.as_json)


def _sass(options: _Options) -> int:
    entry = one_kernel("--sass", options.words[0], options.backend_ids)
    tool = find_disassembler()
    if tool is None:
        raise NvrtcNotFound(INSTALL_HINT)
    cache = KernelCache()
    texts = [
        (arch, sass_of(cache.get(entry.spec.unit, arch), tool))
        for arch in _possible(entry, options.archs)
    ]
    return _show_code("sass", entry, texts, options.as_json)


def _possible(entry: KernelEntry, archs: Sequence[str]) -> Sequence[str]:
    """Return the architectures, once the kernel exists on all of them.

    Raises:
        ArgumentError: it does not.
    """
    for arch in archs:
        refusal = entry.spec.refusal(arch)
        if refusal:
            raise ArgumentError(f"{refusal}; name another architecture with --arch")
    return archs


def _show_code(
    kind: str, entry: KernelEntry, texts: Sequence[tuple[str, str]], as_json: bool
) -> int:
    if as_json:
        _print_json([{"id": entry.spec.id, "arch": arch, kind: text} for arch, text in texts])
        return 0
    for arch, text in texts:
        if len(texts) > 1:
            print(f"---- {entry.spec.id} for {arch}")
        print(text.rstrip())
    return 0


def _source(options: _Options) -> int:
    entry = one_kernel("--source", options.words[0], options.backend_ids)
    if options.as_json:
        _print_json([source_record(entry.spec)])
    else:
        print(source_text(entry.spec))
    return 0


def _step(options: _Options) -> int:
    number, path = options.words
    executable = load_executable(path)
    position = step_of(executable, number)
    if options.as_json:
        _print_json([step_record(executable, position)])
    else:
        print(step_text(executable, position))
    return 0


def _diff(options: _Options) -> int:
    entries, cache = chosen_kernels(options.patterns, options.backend_ids), KernelCache()
    rows = _compiled(options, entries, cache)
    tool = find_disassembler()
    comparisons: tuple[Comparison, ...] = compare(rows, tool)
    if options.as_json:
        _print_json([comparison.record() for comparison in comparisons])
        return _status(rows)
    print(f"{options.archs[0]} > {options.archs[1]}")
    print(table_text(comparison_table(comparisons), sys.stdout))
    histogram = histogram_table(comparisons, options.archs)
    if histogram is not None:
        print(table_text(histogram, sys.stdout))
    if tool is None:
        print(f"no instructions: {INSTALL_HINT}")
    print(summary(rows, cache.compiled, cache.folder))
    return _status(rows)


_ACTIONS: Final[dict[str, Callable[[_Options], int]]] = {
    "list": _list,
    "ptx": _ptx,
    "sass": _sass,
    "source": _source,
    "step": _step,
    "diff": _diff,
}


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
