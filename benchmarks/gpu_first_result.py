"""A process of its own: one small graph on the GPU, and when its result was there.

    python -m benchmarks.gpu_first_result

prints {"at": seconds since the epoch, "compiled": kernels, "nvrtc_mapped": bool}.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

import softcuda as sc
from softcuda.executor.on_demand import session

__all__ = ["main"]

PROFILE = str(Path(__file__).resolve().parents[1] / "configs" / "nvidia-h200.soft")


def main() -> int:
    """Run the graph, then say when the result was there and what was compiled for it."""
    a = np.arange(4096, dtype=np.float32).reshape(64, 64) / 4096
    x = sc.tensor(a)
    found = sc.compile(sc.sum(sc.relu(x * 2.0 - 0.5), axis=1), PROFILE).run().numpy()
    at = time.time()
    right = np.maximum(a.astype(np.float64) * 2.0 - 0.5, 0.0).sum(axis=1)
    if not np.allclose(found, right, rtol=1e-5):
        print(f"the result is wrong: {found}, not {right}", file=sys.stderr)
        return 1
    maps = Path("/proc/self/maps")
    mapped = maps.exists() and "libnvrtc" in maps.read_text(encoding="utf-8", errors="replace")
    compiled = session().loader.cache.compiled
    print(json.dumps({"at": at, "compiled": compiled, "nvrtc_mapped": mapped}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
