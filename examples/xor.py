"""A network of nine units learns XOR: the smallest training step, as one executable.

    y = tanh(x W1 + b1) W2 + b2,    loss = mean over the four rows of (y - (x0 xor x1))^2

Forward pass, gradients and Adam's new values are one graph, compiled once and run 500 times.
"""

from __future__ import annotations

import argparse

import numpy as np

import softcuda as sc
from softcuda import nn, optim

ROWS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32)
ANSWERS = np.array([[0], [1], [1], [0]], np.float32)
STEPS = 500


def network(device: str) -> nn.Sequential:
    """Return the network, its weights drawn from a generator with a seed of its own."""
    generator = sc.Generator(3)
    return nn.Sequential(
        nn.Linear(2, 8, generator=generator, device=device),
        sc.tanh,
        nn.Linear(8, 1, generator=generator, device=device),
    )


def main() -> None:
    """Train, print the decision table, the loss on the way, and the four answers."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    model = network(parser.parse_args().device)
    x, answers = sc.tensor(ROWS), sc.tensor(ANSWERS)
    outputs = model(x)
    loss = sc.mse_loss(outputs, answers)
    optimizer = optim.Adam(model.parameters(), rate=0.05)
    step = sc.compile(loss, updates=optimizer.updates(loss))
    print(step)
    print()
    for number in range(STEPS):
        value = step.run()
        if number % 100 == 0:
            print(f"step {number:3}: loss {value.item():.6f}")
    for row, answer in zip(ROWS, sc.compile(outputs).run().numpy()[:, 0], strict=True):
        print(f"{row[0]:.0f} xor {row[1]:.0f} = {answer:.3f}")


if __name__ == "__main__":
    main()
