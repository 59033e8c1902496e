"""A network learns handwritten digits: the 1797 images of 8 x 8 pixels that scikit-learn ships.

    scores = dropout(relu(x W1 + b1)) W2 + b2,    loss = cross entropy of scores and labels

One executable is a training step: forward pass, gradients, AdamW with the learning rate that it is
fed. Another one counts right answers on a fifth of the images that training never sees. The loss
curve is written as a PNG. Needs the extra `examples`: pip install '.[examples]'.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import track

try:
    import matplotlib
    from sklearn.datasets import load_digits

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
except ModuleNotFoundError as error:
    sys.exit(
        f"digits.py: {error.name} is not installed; in the folder of softcuda, install the extra "
        "that has it: pip install '.[examples]'"
    )

import softcuda as sc
from softcuda import nn, optim

Array = np.ndarray[Any, Any]

BATCH = 96
EPOCHS = 60
HELD_OUT = 360
PEAK_RATE = 4e-3


class Images(NamedTuple):
    """Images [count, 64], f32, brightness 0 to 1, and labels [count], i64."""

    pixels: Array
    labels: Array


def digits() -> tuple[Images, Images]:
    """Return the images to train on and those held out, shuffled once and for all."""
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    pixels = (data.data[order] / 16).astype(np.float32)
    labels = data.target[order].astype(np.int64)
    return (
        Images(pixels[HELD_OUT:], labels[HELD_OUT:]),
        Images(pixels[:HELD_OUT], labels[:HELD_OUT]),
    )


def network(device: str) -> nn.Sequential:
    """Return the network, its weights drawn from a generator with a seed of its own."""
    generator = sc.Generator(1)
    return nn.Sequential(
        nn.Linear(64, 128, initialiser=nn.he_normal, generator=generator, device=device),
        sc.relu,
        nn.Dropout(0.2, generator),
        nn.Linear(128, 10, generator=generator, device=device),
    )


def training_step(model: nn.Module) -> sc.Executable:
    """Return the executable that learns from a batch and returns its loss."""
    pixels, labels = sc.input((BATCH, 64), name="pixels"), sc.input((BATCH,), sc.i64, name="labels")
    loss = sc.cross_entropy(model(pixels, is_training=True), labels)
    optimizer = optim.AdamW(model.parameters(), sc.input((), name="rate"), weight_decay=0.05)
    return sc.compile(loss, updates=optimizer.updates(loss, clip=1.0))


def accuracy(model: nn.Module, images: Images) -> float:
    """Return the share of images whose highest score is that of their label."""
    guesses = sc.argmax(model(sc.tensor(images.pixels)), axis=1)
    return float(sc.mean((guesses == images.labels).astype(sc.f32)).item())


def batches(images: Images) -> Iterator[Images]:
    """Yield batches, in another order every epoch; what does not fill one waits for the next."""
    rng = np.random.default_rng(2)
    for _ in range(EPOCHS):
        order = rng.permutation(len(images.labels))
        for start in range(0, len(order) - BATCH + 1, BATCH):
            chosen = order[start : start + BATCH]
            yield Images(images.pixels[chosen], images.labels[chosen])


def plot(losses: list[float], path: Path) -> None:
    """Write the loss of every step to a PNG."""
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    axes.semilogy(losses, linewidth=0.8)
    axes.set(xlabel="step", ylabel="cross entropy", title="MLP on handwritten digits")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    """Train, print the decision table and the accuracy, write the loss curve."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--curve", type=Path, default=Path("digits_loss.png"))
    arguments = parser.parse_args()
    train, held_out = digits()
    model = network(arguments.device)
    step = training_step(model)
    print(step)
    steps = EPOCHS * (len(train.labels) // BATCH)
    rate = optim.cosine(PEAK_RATE, steps, warmup=steps // 20)
    losses: list[float] = []
    console = Console(stderr=True)
    shown = track(
        batches(train), "training", steps, console=console, disable=not console.is_terminal
    )
    for number, batch in enumerate(shown):
        feeds = {"pixels": batch.pixels, "labels": batch.labels, "rate": np.float32(rate(number))}
        losses.append(step.run(feeds).item())
        if (number + 1) % (steps // 5) == 0:
            print(f"step {number + 1} of {steps}: loss {np.mean(losses[-20:]):.4f}")
    plot(losses, arguments.curve)
    print(f"\nloss {losses[0]:.4f} at first, {np.mean(losses[-10:]):.4f} at last")
    print(f"right on {accuracy(model, held_out):.2%} of {HELD_OUT} images that it never saw")
    print(f"loss curve: {arguments.curve}")


if __name__ == "__main__":
    main()
