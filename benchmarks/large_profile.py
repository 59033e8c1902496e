"""A profile as large as a sweep of every op writes one, from made-up samples."""

from __future__ import annotations

import numpy as np

from softcuda.profile.machine import this_machine
from softcuda.profile.model import DeviceFacts, Profile
from softcuda.profile.vocabulary import work_ops
from softcuda.tools.cells import Cell, Ledger, Outcome, State, scopes_of
from softcuda.tools.init_profile import Origin, made_profile

__all__ = ["GPU_FACTS", "large_profile"]

GPU_FACTS = DeviceFacts(
    *("cuda", "Example GPU", "9.0", "143771", "13.0", "132", "227", "60", "Abacus", "8")
)
_NOISE = 0.1  # enough that many points of [costs] are needed
_CPU = {"cpu_fused": 1.0, "cpu_fallback": 1.3}  # backend -> its time over the best one's
_CUDA = {"cuda_elementwise": 1.0, "cuda_naive": 1.5}


def large_profile(device: str) -> Profile:
    """Return a profile of this CPU, or of a GPU that is not there; the same every time.

    Args:
        device: "cpu" or "cuda".
    """
    rng = np.random.default_rng(7)
    wanted = {op: ("f32", "f64") for op in work_ops()}
    scopes = scopes_of(wanted, device=device)
    ledger = Ledger()
    for scope in scopes:
        overhead_us, launch_us = rng.uniform(3.0, 6.0), rng.uniform(5.0, 9.0)
        for size in scope.sizes:
            work = size**scope.growth
            found = {
                name: _outcome(rng, share * (overhead_us + work * 4e-4), "cpu")
                for name, share in _CPU.items()
            }
            if device == "cuda":
                for name, share in _CUDA.items():
                    found[name] = _outcome(rng, share * (launch_us + work * 1e-6), "cuda")
            ledger.note(Cell(scope.op, scope.dtype, size), found)
    machine = GPU_FACTS if device == "cuda" else this_machine()
    origin = Origin("large.soft", machine, "2026-03-18T09:00:00Z")
    return made_profile(ledger, scopes, origin)


def _outcome(rng: np.random.Generator, time_us: float, device: str) -> Outcome:
    times = tuple(float(f"{t:.5g}") for t in time_us * rng.lognormal(0.0, _NOISE, 5))
    host = tuple(30.0 + 2 * time for time in times) if device == "cuda" else ()
    return Outcome(State.MEASURED, sorted(times)[2], "", device, times, host)
