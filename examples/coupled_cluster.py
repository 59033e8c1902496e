"""A coupled-cluster-like energy by einsum, and the amplitudes where its gradient is zero.

The linear functional of double excitations t[i, j, a, b] (i, j occupied orbitals, a, b empty ones),
with the ladder terms of the coupled-cluster doubles equations:

    L(t) = 1/2 v[ij ab] t[ij ab] + 1/4 D[ij ab] t[ij ab]^2
         + 1/8 t[ij ab] w[ab cd] t[ij cd] + 1/8 t[ij ab] u[ij kl] t[kl ab]

D[ij ab] = e[a] + e[b] - e[i] - e[j]; v, w, u are antisymmetric interactions of a model system.
Where dL/dt = 0, L is the energy. One executable computes L and its gradient, and moves t by
-2 (dL/dt) / D, the step that solves the equations without ladder terms at once. Nothing of the
gradient is written by hand.
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import numpy as np

import softcuda as sc

Array = np.ndarray[Any, Any]

OCCUPIED, EMPTY = 4, 8
STEPS = 30


class System(NamedTuple):
    """Interactions and energies of a model system, f64."""

    v: Array  # [i, j, a, b]
    w: Array  # [a, b, c, d]
    u: Array  # [i, j, k, l]
    gaps: Array  # D[i, j, a, b]


def antisymmetric(x: Array) -> Array:
    """Return x antisymmetric in its first two and in its last two axes."""
    x = x - x.swapaxes(0, 1)
    return np.asarray((x - x.swapaxes(2, 3)) / 4)


def symmetric(count: int, rng: np.random.Generator) -> Array:
    """Return an antisymmetric interaction of pairs that is also symmetric between both pairs."""
    x = antisymmetric(rng.normal(size=(count,) * 4))
    return np.asarray((x + x.transpose(2, 3, 0, 1)) / 2)


def model_system() -> System:
    """Return a model system, the same every time: weak interactions, a gap of 1 at least."""
    rng = np.random.default_rng(0)
    low = np.sort(rng.uniform(-2.0, -0.5, OCCUPIED))
    high = np.sort(rng.uniform(0.5, 3.0, EMPTY))
    i, j, a, b = np.ix_(low, low, high, high)
    return System(
        v=0.2 * antisymmetric(rng.normal(size=(OCCUPIED, OCCUPIED, EMPTY, EMPTY))),
        w=0.2 * symmetric(EMPTY, rng),
        u=0.2 * symmetric(OCCUPIED, rng),
        gaps=a + b - i - j,
    )


def functional(t: sc.Tensor, system: System) -> sc.Tensor:
    """Return L(t), a graph."""
    linear = sc.einsum("ijab,ijab->", system.v, t) / 2
    gaps = sc.einsum("ijab,ijab,ijab->", system.gaps, t, t) / 4
    particles = sc.einsum("ijab,abcd,ijcd->", t, system.w, t) / 8
    holes = sc.einsum("ijab,ijkl,klab->", t, system.u, t) / 8
    return linear + gaps + particles + holes


def solved_by_numpy(system: System) -> float:
    """Return the energy from the linear equations, solved by NumPy; no gradient is asked for."""
    size = system.v.size
    unit = np.eye(size).reshape(size, *system.v.shape)
    applied = unit * system.gaps / 2
    applied += np.einsum("abcd,nijcd->nijab", system.w, unit) / 4
    applied += np.einsum("ijkl,nklab->nijab", system.u, unit) / 4
    t = np.linalg.solve(applied.reshape(size, size).T, -system.v.ravel() / 2)
    return float(system.v.ravel() @ t / 4)


def main() -> None:
    """Print the decision table, and the energy and the gradient on the way."""
    parser = argparse.ArgumentParser(description="a coupled-cluster-like energy by einsum")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    system = model_system()
    device = parser.parse_args().device
    t = sc.variable(np.zeros(system.v.shape), "t", device=device)
    energy = functional(t, system)
    slope = sc.grad(energy, t)
    moved = t - 2 * slope / system.gaps
    step = sc.compile((energy, sc.norm(slope, np.inf)), updates={t: moved})
    print(step)
    print()
    for number in range(STEPS):
        value, largest = step.run()
        if number % 10 == 0:
            print(f"step {number:2}: energy {value.item():.12f}, gradient {largest.item():.1e}")
    value, largest = step.run()
    print(f"energy {value.item():.15f}, largest element of the gradient {largest.item():.1e}")


if __name__ == "__main__":
    main()
