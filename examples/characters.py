"""A small transformer learns to write like Python's documentation, one character at a time.

The text is the docstrings of the standard library, so nothing is downloaded.

    h = embedding[character] + place;  twice: h += attention(norm(h)), h += mlp(norm(h))
    loss = cross entropy of norm(h) W + b and the next character

One executable is a training step: forward pass, gradients, AdamW with clipping.
"""

from __future__ import annotations

import argparse
import ast
from pathlib import Path
from typing import Any

import numpy as np

import softcuda as sc
from softcuda import nn, optim

Array = np.ndarray[Any, Any]

CONTEXT, BATCH, WIDTH, HEADS = 48, 24, 64, 4
MOST_CHARACTERS = 400_000


def documentation() -> str:
    """Return the docstrings of the standard library's modules, and of what they define."""
    parts = []
    for path in sorted(Path(ast.__file__).parent.glob("[a-s]*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                parts.append(ast.get_docstring(node) or "")
    text = "\n".join(part for part in parts if part)
    return "".join(c for c in text if c == "\n" or " " <= c <= "~")[:MOST_CHARACTERS]


class Block(nn.Module):
    """Attention to earlier characters, then a layer of its own for each place."""

    def __init__(self, generator: sc.Generator, device: str) -> None:
        """Draw the weights."""
        options: dict[str, Any] = {"generator": generator, "device": device}
        self.attention = nn.Sequential(
            nn.LayerNorm(WIDTH, device=device),
            nn.SelfAttention(WIDTH, HEADS, is_causal=True, **options),
        )
        self.inside = nn.Sequential(
            nn.LayerNorm(WIDTH, device=device),
            nn.Linear(WIDTH, 4 * WIDTH, **options),
            sc.gelu,
            nn.Linear(4 * WIDTH, WIDTH, **options),
        )

    def forward(self, x: sc.Tensor, *, is_training: bool = False) -> sc.Tensor:
        """Return x [batch, places, width] with what both parts add."""
        x = x + self.attention(x, is_training=is_training)
        y: sc.Tensor = x + self.inside(x, is_training=is_training)
        return y


class Writer(nn.Module):
    """Scores of the next character at every place of a text."""

    def __init__(self, alphabet: int, device: str) -> None:
        """Draw the weights from a generator with a seed of its own."""
        generator = sc.Generator(0)
        options: dict[str, Any] = {"generator": generator, "device": device}
        self.characters = nn.Embedding(alphabet, WIDTH, **options)
        self.places = nn.Embedding(CONTEXT, WIDTH, **options)
        self.blocks = nn.Sequential(*(Block(generator, device) for _ in range(2)))
        self.scores = nn.Sequential(
            nn.LayerNorm(WIDTH, device=device), nn.Linear(WIDTH, alphabet, **options)
        )

    def forward(self, codes: sc.Tensor, *, is_training: bool = False) -> sc.Tensor:
        """Return scores [batch, places, alphabet] of codes [batch, places]."""
        x = self.characters(codes) + self.places(sc.arange(codes.dims[1]))
        scores: sc.Tensor = self.scores(self.blocks(x, is_training=is_training))
        return scores


def training_step(model: Writer) -> sc.Executable:
    """Return the executable that learns from texts one longer than the context."""
    texts = sc.input((BATCH, CONTEXT + 1), sc.i64, name="texts")
    loss = sc.cross_entropy(model(texts[:, :-1], is_training=True), texts[:, 1:])
    optimizer = optim.AdamW(model.parameters(), sc.input((), name="rate"), (0.9, 0.99))
    return sc.compile(loss, updates=optimizer.updates(loss, clip=1.0))


def written(model: Writer, codes: Array, count: int) -> list[int]:
    """Return `count` characters that go on after codes [context], drawn by their probability."""
    seen = sc.input((1, CONTEXT), sc.i64, name="seen")
    run = sc.compile(sc.softmax(model(seen)[0, -1] * 1.25)).run
    rng = np.random.default_rng(1)
    text = list(codes)
    for _ in range(count):
        chances = run(seen=np.array([text[-CONTEXT:]])).numpy().astype(float)
        text.append(int(rng.choice(len(chances), p=chances / chances.sum())))
    return text[len(codes) :]


def main() -> None:
    """Train, print the decision table, the loss on the way, and a text."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--steps", type=int, default=300)
    arguments = parser.parse_args()
    text = documentation()
    alphabet = sorted(set(text))
    codes = np.array([alphabet.index(c) for c in text], np.int64)
    model = Writer(len(alphabet), arguments.device)
    step = training_step(model)
    print(step)
    print()
    rate = optim.cosine(4e-3, arguments.steps, warmup=arguments.steps // 10)
    rng = np.random.default_rng(0)
    window = np.arange(CONTEXT + 1)
    losses = []
    for number in range(arguments.steps):
        starts = rng.integers(0, len(codes) - CONTEXT, (BATCH, 1))
        feeds = {"texts": codes[starts + window], "rate": np.float32(rate(number))}
        losses.append(step.run(feeds).item())
        if (number + 1) % max(arguments.steps // 8, 1) == 0:
            bits = np.mean(losses[-20:]) / np.log(2)
            print(f"step {number + 1}: {bits:.2f} bits a character", flush=True)
    print(repr("".join(alphabet[code] for code in written(model, codes[:CONTEXT], 160))))


if __name__ == "__main__":
    main()
