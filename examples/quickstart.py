"""Which letter follows which: a bigram model of English, and where each step of it ran.

The text ships with Python, so nothing is downloaded. The graph is built once, compiled by the
profile that `soft_init` wrote (or the shipped one), printed with the profile line that decided
each step, and run on the text.

    p[i, j] = count[i, j] / sum_j count[i, j]        letter j after letter i
    H[i]    = -sum_j p[i, j] * log2 p[i, j]          surprise after letter i, in bits
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

import softcuda as sc

LETTERS = " abcdefghijklmnopqrstuvwxyz"
MOST_LETTERS = 200_000  # enough for stable counts, small enough for any machine


def english() -> str:
    """Return English text that ships with Python: the help topics, or else docstrings."""
    if importlib.util.find_spec("pydoc_data") is not None:  # absent from a minimal Python
        return "\n".join(importlib.import_module("pydoc_data.topics").topics.values())
    library = Path(ast.__file__).parent
    trees = (ast.parse(path.read_bytes()) for path in sorted(library.glob("[a-s]*.py")))
    return "\n".join(ast.get_docstring(tree) or "" for tree in trees)


def letter_codes(text: str) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Return the text as codes 0..26 [letters], i32; what is no letter counts as one space."""
    words = "".join(c if c.isascii() and c.isalpha() else " " for c in text.lower()).split()
    kept = " ".join(words)[:MOST_LETTERS]
    return np.array([LETTERS.index(c) for c in kept], np.int32)


def bigram_model(length: int) -> dict[str, sc.Tensor]:
    """Return the graph of the model over a text of `length` letters; nothing is computed."""
    text = sc.input((length,), sc.i32, name="text")
    letters = sc.one_hot(text, len(LETTERS), dtype=sc.f32)
    counts = letters[:-1].T @ letters[1:]
    row_sums = sc.sum(counts, axis=1, keepdims=True)
    p = counts / sc.maximum(row_sums, 1.0)

    bits = sc.where(p > 0.0, -p * sc.log2(sc.maximum(p, 1e-30)), 0.0)
    entropy = sc.sum(bits, axis=1)

    stationary = p
    for _ in range(6):  # p to the power 64: every row tends to the stationary distribution
        stationary = stationary @ stationary
    stationary = stationary[0]

    share = sc.mean(letters, axis=0)
    mean_bits = sc.sum(share * entropy)
    return {
        "p": p,
        "entropy": entropy,
        "follower": sc.argmax(p, axis=1),
        "stationary": stationary,
        "share": share,
        "drift": sc.max(sc.abs(stationary - share)),
        "mean_bits": mean_bits,
        "perplexity": sc.exp2(mean_bits),
    }


def report(result: dict[str, sc.Tensor]) -> None:
    """Print what a reader can check against what they know of English."""
    p, entropy = result["p"].numpy(), result["entropy"].numpy()
    follower, share = result["follower"].numpy(), result["share"].numpy()
    for letter in "qthz":
        row = LETTERS.index(letter)
        after = LETTERS[follower[row]].replace(" ", "a space")
        print(
            f"after {letter}: most likely {after} (p = {p[row, follower[row]]:.3f}), "
            f"entropy {entropy[row]:.2f} bits"
        )
    common = "".join(LETTERS[i] for i in np.argsort(-share)[:6]).replace(" ", "_")
    print(f"most common: {common} (_ is the space)")
    print(f"p^64 gives the letter frequencies, largest difference {result['drift'].item():.1e}")
    print(
        f"mean {result['mean_bits'].item():.3f} bits a letter, perplexity "
        f"{result['perplexity'].item():.2f} of {len(LETTERS)}"
    )


def main() -> None:
    """Build, compile, print the decision table, run, print the results."""
    codes = letter_codes(english())
    model = bigram_model(len(codes))
    executable = sc.compile(model)
    print(executable)
    print()
    print(f"{len(codes)} letters of English")
    report(executable.run(text=codes))


if __name__ == "__main__":
    main()
