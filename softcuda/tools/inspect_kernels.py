"""The console script inspect_kernels: every kernel, what it takes, its source, PTX and SASS."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TextIO

from softcuda.console import interruptible
from softcuda.errors import (
    ArgumentError,
    NvrtcNotFound,
    SavedFileError,
    SoftCudaError,
    SoftCudaWarning,
)
from softcuda.nvrtc.cache import KernelCache
from softcuda.tools.inspect_compiled import KernelRow, compile_rows, cubin_of
from softcuda.tools.inspect_diff import Comparison, compare, comparison_table, histogram_table
from softcuda.tools.inspect_disassembly import INSTALL_HINT, find_disassembler, ptx_of, sass_of
from softcuda.tools.inspect_display import (
    compile_progress,
    kernel_table,
    problems,
    summary,
    table_text,
)
from softcuda.tools.inspect_options import InspectOptions, parsed_options
from softcuda.tools.inspect_rows import KernelEntry, chosen_kernels, one_kernel
from softcuda.tools.inspect_source import (
    load_executable,
    source_record,
    source_text,
    step_of,
    step_record,
    step_text,
    unit_of,
)
from softcuda.tools.standard_output import until_pipe_ends

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Print what was asked for; return the exit status.

    0: printed. 1: a kernel could not be compiled or disassembled. 2: an option, a name or a file
    is not allowed. 130: interrupted. 141: nobody reads standard output any more.

    Args:
        argv: the options; None for those of the command line.
    """
    return interruptible("inspect_kernels", lambda: _told(argv))


def _told(argv: Sequence[str] | None) -> int:
    try:
        with _told_warnings():
            return until_pipe_ends(lambda: _run(argv))
    except (ArgumentError, SavedFileError) as error:
        print(f"inspect_kernels: {error}", file=sys.stderr)
        return 2
    except SoftCudaError as error:
        print(f"inspect_kernels: {error}", file=sys.stderr)
        return 1


def _run(argv: Sequence[str] | None) -> int:
    options = parsed_options(argv)
    return _ACTIONS[options.action](options)


@contextmanager
def _told_warnings() -> Iterator[None]:
    """Return a context in which warnings are lines of this program, without a place in its code."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", SoftCudaWarning)
        warnings.showwarning = _tell
        yield


def _tell(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Say a warning in place of `warnings.showwarning`."""
    print(f"inspect_kernels: warning: {message}", file=sys.stderr)


def _print_json(records: Sequence[dict[str, Any]]) -> None:
    print(json.dumps({"kernels": list(records)}, indent=1))


def _compiled(
    options: InspectOptions, entries: Sequence[KernelEntry], cache: KernelCache
) -> tuple[KernelRow, ...]:
    with compile_progress(sys.stderr) as report:
        return compile_rows(entries, options.archs, cache, report)


def _status(rows: Sequence[KernelRow]) -> int:
    return int(any(row.problem for row in rows))


def _tell_problems(rows: Sequence[KernelRow]) -> None:
    """Say what could not be compiled before the rows are shown, so that no long table hides it."""
    told = problems(rows)
    if told:
        sys.stdout.flush()
        print(told, file=sys.stderr, flush=True)


def _chosen(options: InspectOptions) -> tuple[KernelEntry, ...]:
    return chosen_kernels(options.patterns, options.backend_ids, options.tables)


def _one(option: str, options: InspectOptions) -> KernelEntry:
    """Return the kernel that a word means; one that is not its id is said on standard error."""
    name = options.words[0]
    entry = one_kernel(option, name, options.backend_ids, options.tables)
    if entry.spec.id != name:
        print(f"inspect_kernels: {name} is {entry.spec.id}", file=sys.stderr)
    return entry


def _list(options: InspectOptions) -> int:
    entries, cache = _chosen(options), KernelCache()
    rows = _compiled(options, entries, cache)
    _tell_problems(rows)
    if options.as_json:
        _print_json([row.record() for row in rows])
    else:
        print(table_text(kernel_table(rows), sys.stdout))
    print(
        summary(rows, cache.compiled, cache.folder),
        file=sys.stderr if options.as_json else sys.stdout,
    )
    return _status(rows)


def _ptx(options: InspectOptions) -> int:
    entry = _one("--ptx", options)
    with unit_of(entry.spec) as unit:
        texts = [(arch, ptx_of(unit, arch)) for arch in _possible(entry, options.archs)]
    return _show_code("ptx", entry, texts, options.as_json)


def _sass(options: InspectOptions) -> int:
    entry = _one("--sass", options)
    tool = find_disassembler()
    if tool is None:
        raise NvrtcNotFound(INSTALL_HINT)
    cache = KernelCache()
    texts = [
        (arch, sass_of(cubin_of(entry.spec, arch, cache), tool))
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


def _source(options: InspectOptions) -> int:
    entry = _one("--source", options)
    if options.as_json:
        _print_json([source_record(entry.spec)])
    else:
        print(source_text(entry.spec))
    return 0


def _step(options: InspectOptions) -> int:
    number, path = options.words
    executable = load_executable(path)
    position = step_of(executable, number)
    if options.as_json:
        _print_json([step_record(executable, position)])
    else:
        print(step_text(executable, position))
    return 0


def _diff(options: InspectOptions) -> int:
    entries, cache = _chosen(options), KernelCache()
    rows = _compiled(options, entries, cache)
    _tell_problems(rows)
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
        print(f"instructions are not counted: {INSTALL_HINT}")
    print(summary(rows, cache.compiled, cache.folder))
    return _status(rows)


_ACTIONS: Final[dict[str, Callable[[InspectOptions], int]]] = {
    "list": _list,
    "ptx": _ptx,
    "sass": _sass,
    "source": _source,
    "step": _step,
    "diff": _diff,
}


if __name__ == "__main__":
    sys.exit(main())
