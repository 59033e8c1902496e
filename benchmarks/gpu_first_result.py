"""A process of its own: one small graph on the GPU, and when its result was there.

    python benchmarks/gpu_first_result.py [--stages]

prints {"at": seconds since the epoch, "compiled": kernels, "nvrtc_mapped": bool, "ends": {stage:
seconds since the epoch}}. With --stages a program is taken apart: what `compile` and `run` do
first by themselves is then done piece by piece before them, in the same order.
"""

import os
import sys
import time
from importlib import import_module
from typing import Any

__all__ = ["main"]

PROFILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cuda.soft")


def main(*, apart: bool) -> int:
    """Run the graph, then say when the result was there and what was compiled for it."""
    ends = {"python": time.time()}

    def end(stage: str) -> None:
        ends[stage] = time.time()

    np = import_module("numpy")
    end("numpy")
    sc = import_module("softcuda")
    end("softcuda")
    a = np.arange(4096, dtype=np.float32).reshape(64, 64) / 4096
    y = sc.sum(sc.relu(sc.tensor(a) * 2.0 - 0.5), axis=1)
    end("graph")
    on_demand = import_module("softcuda.executor.on_demand")
    if apart:
        on_demand.cuda_target()
        end("driver")
    executable = sc.compile(y, PROFILE)
    end("compile")
    if apart:
        loader = on_demand.session().loader
        end("session")
        specs = [launch.spec for step in executable.program.steps for launch in step.launches]
        loader.prepare(specs)
        end("find kernels")
        for spec in specs:
            loader.function(spec)
        end("load kernels")
    result = executable.run()
    end("run")
    found = result.numpy()
    end("copy back")
    right = np.maximum(a.astype(np.float64) * 2.0 - 0.5, 0.0).sum(axis=1)
    if not np.allclose(found, right, rtol=1e-5):
        print(f"the result is wrong: {found}, not {right}", file=sys.stderr)
        return 1
    print(import_module("json").dumps({"at": ends["copy back"], **_used(on_demand), "ends": ends}))
    return 0


def _used(on_demand: Any) -> dict[str, object]:
    """Return what the process took from NVRTC."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            mapped = "libnvrtc" in file.read()
    except FileNotFoundError:
        mapped = False
    return {"compiled": on_demand.session().loader.cache.compiled, "nvrtc_mapped": mapped}


if __name__ == "__main__":
    sys.exit(main(apart="--stages" in sys.argv[1:]))
