"""Saved executables on a device: another process runs the file's kernels to the same bits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from op_cases import every_op, fast_profile

import softcuda as sc
from softcuda import nn, optim
from softcuda.graph.node import on_host
from softcuda.running import compile as compile_nodes

ROOT = Path(sc.__file__).parents[1]
DATA = np.random.default_rng(0).normal(size=(64, 20)).astype(np.float32)
LABELS = np.arange(64) % 3

# What another process does: run a file several times with feeds, write the bytes of all results.
READER = """
import sys
import numpy as np
import softcuda as sc

loaded = sc.load(sys.argv[1])
feeds = dict(np.load(sys.argv[2]))
made = {}
for run in range(int(sys.argv[3])):
    for name, result in loaded.run(feeds).items():
        made[f"{name} {run}"] = np.frombuffer(result.numpy().tobytes(), np.uint8)
np.savez(sys.argv[1] + ".npz", **made)
"""


def check_elsewhere(executable: sc.Executable, folder: Path, runs: int, **feeds: Any) -> None:
    """Save, run here and in a process that may compile nothing, compare the bits."""
    path = folder / "file"
    executable.save(path)
    np.savez(folder / "feeds.npz", **feeds)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "SOFTCUDA_JIT": "off",
        "SOFTCUDA_CACHE_DIR": str(folder / "no cache"),
    }
    subprocess.run(
        [sys.executable, "-W", "error", "-c", READER, path, folder / "feeds.npz", str(runs)],
        env=environment,
        check=True,
        timeout=120,
    )
    with np.load(f"{path}.npz") as found:
        for run in range(runs):
            for name, result in executable.run(feeds).items():
                there = found[f"{name} {run}"].tobytes()
                assert on_host(result.data).tobytes() == there, f"{name}, run {run}"


def test_a_training_step_elsewhere(tmp_path: Path) -> None:
    generator = sc.Generator(4)
    model = nn.Sequential(
        nn.Linear(20, 48, generator=generator, device="cuda"),
        nn.LayerNorm(48, device="cuda"),
        sc.gelu,
        nn.Dropout(0.25, sc.Generator(9)),
        nn.Linear(48, 3, generator=generator, device="cuda"),
    )
    x, labels = sc.input((64, 20), name="x"), sc.input((64,), sc.i64, name="labels")
    scores = model(x, is_training=True)
    loss = sc.cross_entropy(scores, labels)
    updates = optim.AdamW(model.parameters(), 5e-2).updates(loss, clip=1.0)
    step = sc.compile({"loss": loss, "scores": scores}, fast_profile(), updates=updates)
    step.run(x=DATA, labels=LABELS)
    check_elsewhere(step, tmp_path, 4, x=DATA, labels=LABELS)


def test_every_op_elsewhere(tmp_path: Path) -> None:
    check_elsewhere(compile_nodes(every_op("f32"), fast_profile()), tmp_path, 1)


def test_compiled_again_for_the_cpu(tmp_path: Path) -> None:
    x = sc.input((64, 20), name="x", device="cuda")
    w = sc.variable(DATA, "w", device="cuda")
    sc.compile(x * w, fast_profile()).save(tmp_path / "file")
    again = sc.load(tmp_path / "file", recompile=True, config="default")
    np.testing.assert_array_equal(again.run(x=DATA).numpy(), DATA * DATA)
