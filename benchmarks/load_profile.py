"""How long a profile takes to load, and a graph of 100 nodes to be compiled with it.

python -m benchmarks.load_profile FILE
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import NamedTuple

import softcuda as sc
from softcuda.compiler.compile import compile_graph
from softcuda.compiler.settings import Settings
from softcuda.graph.trace import trace
from softcuda.profile.grammar import parse
from softcuda.profile.resolve import default_profile
from softcuda.profile.vocabulary import known_backends, work_ops

__all__ = ["Loads", "load_times", "main"]

_NODES = 100
_EXTENTS = (256, 64)  # on one device, and around the crossings, where each node needs a copy
_RUNS = 15


class Loads(NamedTuple):
    """Times of loading and of compiling, by turns [seconds], and the copies that were added."""

    loads: list[float]
    compiles: list[float]
    copies: int

    @property
    def total_ms(self) -> float:
        """The median of both together [milliseconds]."""
        return 1e3 * statistics.median(map(sum, zip(self.loads, self.compiles, strict=True)))


def load_times(text: bytes, name: str, extent: int = _EXTENTS[0]) -> Loads:
    """Return what reading a profile takes, and compiling for its device; no kernel is compiled.

    Args:
        text: the profile.
        name: its file.
        extent: of the square matrices of the graph, products and tanh by turns.
    """
    node = sc.input((extent, extent))
    for number in range(_NODES):
        node = sc.tanh(node) if number % 2 else node @ node
    graph = trace([node]).graph
    found = Loads([], [], 0)
    for _ in range(_RUNS):
        begin = time.perf_counter()
        profile = parse(text, name, work_ops(), known_backends())
        middle = time.perf_counter()
        made = compile_graph(graph, Settings(profile, default_profile(), profile.device.target))
        found.loads.append(middle - begin)
        found.compiles.append(time.perf_counter() - middle)
    return found._replace(copies=sum(step.backend_id == "transfer" for step in made.steps))


def main(path: str) -> int:
    """Print the times of the profile in a file."""
    text = Path(path).read_bytes()
    for extent in _EXTENTS:
        found = load_times(text, path, extent)
        load, compiled = (1e3 * statistics.median(times) for times in found[:2])
        print(
            f"{path}: {text.count(10)} lines load in {load:.1f} ms, {_NODES} nodes of {extent} x "
            f"{extent} with {found.copies} copies compile in {compiled:.1f} ms, together "
            f"{found.total_ms:.1f} ms"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
