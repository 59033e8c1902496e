"""What each technique of the tiled matrix product gains: the kernel without it, beside the whole.

    python -m benchmarks.sweeps.gemm_ablation --out FOLDER [--seconds 30]

Every row is the packaged kernel with a few words of its source replaced. Written is
gemm_ablation.txt, times in microseconds.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.host_work import random_array
from benchmarks.sweeps.command import asked, parser_of, write_text
from benchmarks.sweeps.gemm import PARTS
from benchmarks.sweeps.gemm_candidates import planned
from benchmarks.sweeps.gemm_cases import BYTES, Case
from benchmarks.sweeps.lab import Lab
from softcuda.backends.cuda.gemm import gemm_launches
from softcuda.backends.cuda.gemm_tiles import GemmTile, GemmVariant, tile_count
from softcuda.backends.launches import KernelLaunch
from softcuda.errors import ArgumentError
from softcuda.paths import packaged_folder

CASES: Final = (Case(1, 4096, 4096, 4096), Case(1, 2048, 2048, 2048), Case(1, 4099, 4099, 4099))
TILES: Final = (
    GemmTile(128, 128, 8, 8, 16, 3, 8, 2, 2, 1.0, 1.0),
    GemmTile(128, 128, 16, 8, 16, 2, 8, 0, 2, 1.0, 1.0),
    GemmTile(128, 256, 8, 8, 16, 3, 8, 0, 1, 1.0, 1.0),
)


class Ablation(NamedTuple):
    """A change of the kernel: (file, text, what takes its place)."""

    name: str
    edits: tuple[tuple[str, str, str], ...]


_NO_FETCH: Final = (
    "gemm_tiled.cu",
    "                    fetch((step + STAGES - 1) & 1);\n",
    "",
)
_NO_STASH: Final = (
    "gemm_tiled.cu",
    "                if (reads_ahead) stash();\n                fill_a",
    "                fill_a",
)
_NO_BARRIER: Final = (
    "gemm_tiled.cu",
    "                await(Constant<STAGES - 2>{});\n",
    "",
)
_NO_READS: Final = (
    (
        "gemm_tiled.cu",
        "            if (SETS == 2) {\n",
        "            if (SETS == 2 && k > BLOCK_K) {\n",
    ),
    (
        "gemm_tiled.cu",
        "    if (SETS == 2) fragments[0].read(",
        "    fragments[1].read(at(line_b), at(line_a));\n    fragments[0].read(",
    ),
)
ABLATIONS: Final = (
    Ablation("whole", ()),
    Ablation(
        "sums of a pair not swapped in registers",
        (
            ("gemm.cuh", "sums[i + (lane ^ 1)]", "sums[i + lane]"),
            ("gemm.cuh", "STRIDE + (row ^ 1)", "STRIDE + row"),
        ),
    ),
    Ablation(
        "products not serpentine",
        (("tile.cuh", "j % 2 == 0 ? turn : TILE::THREAD_M - 1 - turn", "turn"),),
    ),
    Ablation(
        "rows in their order, not even ones first",
        (("tile.cuh", "walk * 2 < TILE::THREAD_M ? walk * 2 : ", "true ? walk : "),),
    ),
    Ablation("one set of fragments", (("gemm_tiled.cu", "sizeof(C) == 4 ? 2 : 1", "1"),)),
    Ablation(
        "through registers",
        (("tile_loader.cuh", "is_same<S, C> && __CUDA_ARCH__ >= 800", "false"),),
    ),
    Ablation(
        "lanes in order",
        (
            ("tile.cuh", "(lane & 1) | (lane >> 2 & 6)", "lane / 4"),
            ("tile.cuh", "of_four = lane >> 1 & 3", "of_four = lane & 3"),
        ),
    ),
    Ablation(
        "tiles without padding",
        (("tile.cuh", "STRIDE = ROWS + FRAGMENT<C>", "STRIDE = ROWS"),),
    ),
    Ablation(
        "vectors along k in 4-byte copies",
        (
            ("gemm_tiled.cu", "PATH_A>;", "PATH_A == DEPTH_VECTOR ? DEPTH_SINGLE : PATH_A>;"),
            ("gemm_tiled.cu", "PATH_B>;", "PATH_B == DEPTH_VECTOR ? DEPTH_SINGLE : PATH_B>;"),
        ),
    ),
    *(
        Ablation(f"copies started before k {k}", (("gemm_tiled.cu", "TILE::FETCH_K", str(k)),))
        for k in (0, 1, 2, 4)
    ),
    Ablation(
        "steps without gaps",
        (("tile.cuh", "sizeof(C) != 4 || BLOCK_K < 16 ? 0", "true ? 0"),),
    ),
    Ablation(
        "rows beyond the last are all the last",
        (("tile_loader.cuh", "row < count ? row : row % count", "min(row, count - 1)"),),
    ),
    Ablation(
        "two blocks demanded",
        (
            (
                "gemm_tiled.cu",
                "__launch_bounds__(TILE::THREADS, 1)",
                "__launch_bounds__(TILE::THREADS, 2)",
            ),
        ),
    ),
    # What is left where a part of the loop is not done at all: their results are wrong.
    Ablation(
        "no copies to shared memory",
        (_NO_FETCH, _NO_STASH),
    ),
    Ablation("no barrier", (_NO_BARRIER,)),
    Ablation("no factors read", _NO_READS),
    Ablation(
        "FMA alone",
        (
            _NO_FETCH,
            _NO_STASH,
            _NO_BARRIER,
            *_NO_READS,
        ),
    ),
)


def write_sources(ablation: Ablation, folder: Path) -> None:
    """Write the changed sources of the kernel.

    Raises:
        ArgumentError: a text is not in its file.
    """
    folder.mkdir()
    texts: dict[str, str] = {}
    for file, old, new in (("gemm_tiled.cu", "", ""), *ablation.edits):
        path = Path(packaged_folder("kernels")) / file
        text = texts.get(file) or path.read_text(encoding="utf-8")
        if old not in text:
            raise ArgumentError(f"{ablation.name}: {file} does not hold {old!r}; change the edit")
        texts[file] = text.replace(old, new) if old else text
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")


def launch_of(lab: Lab, case: Case, tile: GemmTile, folder: Path) -> KernelLaunch:
    """Return the launch of a kernel whose sources are in a folder."""
    plan = planned(case, lab.target)
    variant = GemmVariant(tile, tile_count(plan.size, tile), 1, tile.k)
    (launch,) = gemm_launches(plan, variant, plan.readings, 0)
    return replace(launch, spec=replace(launch.spec, folder=str(folder)))


def row(lab: Lab, ablation: Ablation, launches: Sequence[KernelLaunch]) -> str:
    """Return the row of an ablation: its time in every case with every tile [microseconds]."""
    said = []
    for launch in launches:
        if lab.left_s < 0:
            break
        submit = lab.bound(launch)
        said.append(f"{lab.microseconds(submit):10.1f}")
    return f"{ablation.name:40}" + "".join(said)


def main() -> None:
    """Run the ablation."""
    options = asked(parser_of(__doc__, 30.0))
    lab = Lab(PARTS + 1, BYTES, options.seconds)
    for buffer in (0, 1):
        lab.upload(random_array(buffer, BYTES // 4), lab.inputs[buffer])
    with tempfile.TemporaryDirectory() as root:
        launches: dict[Ablation, list[KernelLaunch]] = {}
        for number, ablation in enumerate(ABLATIONS):
            folder = Path(root) / str(number)
            write_sources(ablation, folder)
            launches[ablation] = [
                launch_of(lab, case, tile, folder) for case in CASES for tile in TILES
            ]
        lab.prepare([launch.spec for made in launches.values() for launch in made])
        head = [f"{case.n} {tile.name}" for case in CASES for tile in TILES]
        text = "\n".join([", ".join(head), *(row(lab, *item) for item in launches.items())])
    write_text(options.out / "gemm_ablation.txt", text)
    print(text)


if __name__ == "__main__":
    main()
