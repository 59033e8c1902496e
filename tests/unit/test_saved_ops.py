"""Every op, saved here and run in another process: the same bits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
from op_cases import every_op

import softcuda as sc
from softcuda.running import compile as compile_nodes

ROOT = Path(sc.__file__).parents[1]

# What another process does: run each file, write the bytes of every result.
READER = """
import sys
from pathlib import Path
import numpy as np
import softcuda as sc

for name in sys.argv[1:]:
    results = sc.load(name).run()
    np.savez(name + ".npz", **{key: np.frombuffer(result.numpy().tobytes(), np.uint8)
                               for key, result in results.items()})
"""


def test_another_process_computes_the_same_bits(tmp_path: Path) -> None:
    made = {}
    for dtype in ("f32", "i64"):
        path = str(tmp_path / dtype)
        made[path] = compile_nodes(every_op(dtype), "default")
        made[path].save(path)
    subprocess.run(
        [sys.executable, "-W", "error", "-c", READER, *made], cwd=ROOT, check=True, timeout=120
    )
    for path, executable in made.items():
        with np.load(f"{path}.npz") as found:
            results = executable.run()
            assert list(results) == found.files
            for name, result in results.items():
                assert result.data.tobytes() == found[name].tobytes(), f"{path}: {name}"
