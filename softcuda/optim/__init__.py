"""Optimisers: a training step as updates of variables, so that it compiles into one executable.

    optimizer = optim.Adam(model.parameters(), rate=1e-3)
    step = softcuda.compile(loss, updates=optimizer.updates(loss))
    step.run(x=..., labels=...)

The forward pass, the gradients and the new values are one graph. Nothing is computed here.
"""

from __future__ import annotations

from softcuda.optim.adam import Adam, AdamW
from softcuda.optim.clipping import clip_by_global_norm
from softcuda.optim.optimizer import Optimizer
from softcuda.optim.scaling import LossScale
from softcuda.optim.schedules import cosine, linear, staircase
from softcuda.optim.sgd import SGD

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "LossScale",
    "Optimizer",
    "clip_by_global_norm",
    "cosine",
    "linear",
    "staircase",
]
