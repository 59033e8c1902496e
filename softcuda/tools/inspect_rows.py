"""Which kernels a word means: ids, regular expressions, tables of backends, kernels made on demand.

The table of a backend has the kernels that are compiled ahead for every architecture. Others, such
as a product of another tile, are made when a graph meets them, and have ids too; those of a chain
are generated for one graph, and are in its saved executable alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from softcuda.backends import backends
from softcuda.errors import ArgumentError
from softcuda.kernelspec import KernelSpec

__all__ = ["KernelEntry", "Tables", "chosen_kernels", "cuda_backends", "one_kernel"]

Tables = Mapping[str, tuple[KernelSpec, ...]]

_SHOWN: Final = 20
_OF_A_CHAIN: Final = re.compile(r"_[0-9a-f]{8}(?:_|$)")  # the digest of a generated source


class KernelEntry(NamedTuple):
    """A kernel, and the backend whose it is."""

    backend_id: str
    spec: KernelSpec


def cuda_backends() -> dict[str, tuple[KernelSpec, ...]]:
    """Return the kernel table of every registered CUDA backend by its id."""
    return {
        backend_id: tuple(getattr(module, "KERNELS", ()))
        for backend_id, module in backends().items()
        if module.DEVICE == "cuda"
    }


def _further(backend_ids: Sequence[str]) -> Iterator[KernelEntry]:
    """Yield the kernels that some backends make on demand."""
    for backend_id in backend_ids:
        further = getattr(backends().get(backend_id), "further_kernels", None)
        if further is not None:
            yield from (KernelEntry(backend_id, spec) for spec in further())


def chosen_kernels(
    patterns: Sequence[str], backend_ids: Sequence[str], tables: Tables | None = None
) -> tuple[KernelEntry, ...]:
    """Return the kernels that any of the patterns means, of the named backends.

    Args:
        patterns: ids of kernels, of tables or made on demand; else regular expressions that are
            searched in the ids of the tables; () for all of the tables.
        backend_ids: () for all.
        tables: the kernels of each backend; None for those that are registered.

    Raises:
        ArgumentError: a backend is unknown, a pattern is no regular expression or means nothing.
    """
    known = cuda_backends() if tables is None else tables
    for name in backend_ids:
        if name not in known:
            raise ArgumentError(
                f"--backend: {name!r} is no registered CUDA backend, or launches nothing; allowed "
                f"are {', '.join(known) or 'none, since none is registered'}"
            )
    among = [name for name in known if name in (backend_ids or known)]
    entries = [KernelEntry(name, spec) for name in among for spec in known[name]]
    if not patterns:
        return tuple(entries)
    ids = {entry.spec.id for entry in entries}
    families = {entry.spec.family for entry in entries}
    others = [p for p in patterns if p not in ids and "." in p and p.split(".")[0] in families]
    has_more = tables is None
    beside = _further(among) if others and has_more else ()
    made = {entry.spec.id: entry for entry in beside if entry.spec.id in others}
    wanted = [(p, _matcher(p, is_id=p in ids)) for p in patterns if p not in made]
    for pattern, matches in wanted:
        if not any(matches(entry.spec) for entry in entries):
            beside = _further(among) if has_more else ()
            ids_beside = [entry.spec.id for entry in beside if matches(entry.spec)]
            raise _nothing(pattern, entries, ids_beside, is_saved=not has_more)
    found = [e for e in entries if any(matches(e.spec) for _, matches in wanted)]
    return (*found, *made.values())


def _nothing(
    pattern: str, entries: Sequence[KernelEntry], others: Sequence[str], *, is_saved: bool
) -> ArgumentError:
    """Return the error for a word that no table knows.

    Args:
        pattern: the word.
        entries: of the tables.
        others: ids of kernels made on demand that it matches.
        is_saved: the tables are those of a saved executable.
    """
    if others:
        return ArgumentError(
            f"{pattern!r} matches no kernel of the tables, and {len(others)} that are made when a "
            f"graph needs them; allowed is the whole id of one of these, such as {others[0]!r}, as "
            "the launches of a printed executable show it"
        )
    if not is_saved and _OF_A_CHAIN.search(pattern):
        return ArgumentError(
            f"{pattern!r} is no kernel of the tables: its source was generated for the chain of "
            "one graph; allowed are kernels of tables, and of files; save the executable with "
            "executable.save(FILE), then use --step N FILE, or --saved FILE with --ptx, --sass or "
            "--source"
        )
    families = dict.fromkeys(f"{e.spec.family} ({e.backend_id})" for e in entries)
    return ArgumentError(
        f"{pattern!r} matches no kernel; allowed are ids such as "
        f"{entries[0].spec.id if entries else 'none'!r} and regular expressions that are "
        f"found in one; the families are {', '.join(families) or 'none'}"
    )


def one_kernel(
    option: str, name: str, backend_ids: Sequence[str], tables: Tables | None = None
) -> KernelEntry:
    """Return the one kernel that an id or regular expression means.

    Raises:
        ArgumentError: it means none, or several.
    """
    found = {entry.spec: entry for entry in chosen_kernels((name,), backend_ids, tables)}
    if len(found) > 1:
        ids = [spec.id for spec in found]
        more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
        raise ArgumentError(
            f"{option}: {name!r} matches {len(ids)} kernels; allowed is one; name one of "
            f"{', '.join(ids[:_SHOWN])}{more}"
        )
    return next(iter(found.values()))


def _matcher(pattern: str, *, is_id: bool) -> Callable[[KernelSpec], bool]:
    """Return what tells whether a kernel is meant: by its id where one has that id."""
    if is_id:
        return lambda spec: spec.id == pattern
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise ArgumentError(
            f"{pattern!r} is no regular expression: {error}; allowed are ids of kernels and "
            "regular expressions as Python's re has them"
        ) from error
    return lambda spec: expression.search(spec.id) is not None
