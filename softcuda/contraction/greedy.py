"""Orders of pairs for many operands, searched for by cotengrust; the one module that uses it.

Source of the algorithms: J. Gray and S. Kourtis, Hyper-optimized tensor network contraction,
Quantum 5, 410 (2021).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from softcuda.contraction.network import Network
from softcuda.errors import ArgumentError

__all__ = ["greedy_positions", "letter", "optimal_positions", "random_greedy_positions"]

Positions = Sequence[Sequence[int]]

# One seed, so that equal networks have equal paths.
_SEED = 0

# The class of a Rust panic in Python; no module holds it.
_PANIC = "PanicException"


def greedy_positions(network: Network) -> Positions:
    """Return the path that takes the pair which shrinks the network most, again and again."""
    return _positions(_searched("optimize_greedy", network))


def random_greedy_positions(network: Network, tries: int) -> tuple[Positions, float]:
    """Return the path with the fewest operations of several perturbed greedy ones.

    Args:
        network: the operands.
        tries: how many paths are made.

    Returns:
        The path, and log10 of its products.
    """
    options = {"ntrials": tries, "seed": _SEED}
    path, log_products = _searched("optimize_random_greedy_track_flops", network, **options)
    return _positions(path), log_products


def optimal_positions(network: Network) -> Positions:
    """Return the path with the fewest operations among those without avoidable outer products."""
    return _positions(_searched("optimize_optimal", network, minimize="flops"))


def _searched(search: str, network: Network, **options: Any) -> Any:
    """Return what a function of cotengrust finds for a network.

    Raises:
        ArgumentError: the search stopped by a panic, which is no Exception to Python.
    """
    try:
        return getattr(_library(), search)(*_as_text(network), **options)
    except BaseException as error:
        if type(error).__name__ != _PANIC:
            raise
        raise ArgumentError(
            f"cotengrust.{search} failed on {len(network.terms)} operands: {error}; allowed are "
            "other optimisers; give optimize='left-to-right', or a path"
        ) from error


def _positions(path: Iterable[Iterable[int]]) -> Positions:
    return [tuple(group) for group in path]


def _as_text(network: Network) -> tuple[list[list[str]], list[str], dict[str, int]]:
    """Return the network with one character a label."""
    inputs = [[letter(label) for label in sorted(term)] for term in network.terms]
    used = sorted(set(network.output).union(*network.terms))
    extents = {letter(label): network.extents[label] for label in used}
    return inputs, [letter(label) for label in sorted(network.output)], extents


def letter(label: int) -> str:
    """Return one character for a label; optimisers take no longer names."""
    return chr(0x10000 + label)


def _library() -> Any:
    import cotengrust  # noqa: PLC0415 - loaded by the first expression of many operands

    return cotengrust
