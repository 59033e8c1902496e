"""A perceptron of several layers, trained by steps: in softcuda, in PyTorch, in float64.

batch x width x depth, all f32: `depth` linear layers with biases, width to width, relu between;
the mean of the squared error; plain gradient descent. A step is forward pass, loss, gradients and
the new parameters, on one batch that stays the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

import softcuda as sc
from benchmarks.accuracy import tolerance
from softcuda import nn, optim
from softcuda.executor.executable import Executable
from softcuda.profile.model import Profile

__all__ = ["RATE", "Mlp", "OurStep", "TorchStep", "our_step", "reference", "torch_step"]

Array = np.ndarray[Any, Any]

RATE = 0.05
_EACH = 3  # products a layer: forward, the gradient of the weight, that of the input


class Mlp(NamedTuple):
    """What is trained."""

    batch: int
    width: int
    depth: int

    @property
    def name(self) -> str:
        """Such as 32x64x4."""
        return "x".join(map(str, self))

    @property
    def flops(self) -> int:
        """Operations of a step's products; the input needs no gradient."""
        return 2 * self.batch * self.width**2 * (_EACH * self.depth - 1)

    @property
    def nbytes(self) -> int:
        """Bytes of a step that move at least once: parameters read and written, the batch read."""
        parameters = self.depth * (self.width + 1) * self.width
        return 4 * (2 * parameters + 2 * self.batch * self.width)

    def arrays(self) -> tuple[list[Array], Array, Array]:
        """Return the first weights and biases by turns, the batch, its targets; to be read only."""
        return _drawn(self)

    def allowed(self, steps: int) -> float:
        """Return the relative error up to which losses and biases after some steps are right."""
        return tolerance("f32", summed=self.batch * self.width, steps=_EACH * self.depth * steps)


@lru_cache(maxsize=1)
def _drawn(mlp: Mlp) -> tuple[list[Array], Array, Array]:
    """Return random first values and a random batch: those of a size are drawn once."""
    rng = np.random.default_rng(mlp.width)

    def normal(*shape: int) -> Array:
        return rng.standard_normal(shape, np.float32)

    scale = np.float32(math.sqrt(2 / mlp.width))
    parameters = []
    for _ in range(mlp.depth):
        parameters += [normal(mlp.width, mlp.width) * scale, normal(mlp.width) * scale]
    return parameters, normal(mlp.batch, mlp.width), normal(mlp.batch, mlp.width)


def reference(mlp: Mlp, steps: int, torch: Any = None, device: str = "cpu") -> Array:
    """Return the losses of some steps, then the last layer's bias, in float64.

    Args:
        mlp: what is trained.
        steps: how many.
        torch: PyTorch to do the arithmetic; None for NumPy.
        device: PyTorch's.
    """

    def wide(array: Array) -> Any:
        if torch is None:
            return array.astype(np.float64)
        return torch.from_numpy(array).to(device).double()

    parameters, x, t = mlp.arrays()
    weights, biases = list(map(wide, parameters[::2])), list(map(wide, parameters[1::2]))
    batch, targets = wide(x), wide(t)
    losses = []
    for _ in range(steps):
        held = [batch]
        for number, (w, b) in enumerate(zip(weights, biases, strict=True)):
            y = held[-1] @ w + b
            held.append(y if number == mlp.depth - 1 else y * (y > 0))
        error = held.pop() - targets
        losses.append(float((error * error).mean()))
        back = 2.0 / (mlp.batch * mlp.width) * error
        for number in reversed(range(mlp.depth)):
            h = held[number]
            of_weight, of_bias = h.T @ back, back.sum(0)
            if number:
                back = (back @ weights[number].T) * (h > 0)
            weights[number] -= RATE * of_weight
            biases[number] -= RATE * of_bias
    last = biases[-1] if torch is None else biases[-1].cpu().numpy()
    return np.concatenate([losses, last])


class OurStep(NamedTuple):
    """A step of softcuda's.

    Attributes:
        executable: one run is a step; its output is the loss before it.
        feeds: what a run is fed: the batch and its targets, from where they lie.
        reset: gives the parameters their first values again.
        bias: the last layer's.
    """

    executable: Executable
    feeds: dict[Any, Any]
    reset: Callable[[], None]
    bias: Any

    def result(self, losses: Callable[[], Sequence[float]]) -> Array:
        """Return the losses of steps from the first values on, then the last layer's bias."""
        self.reset()
        return np.concatenate([losses(), self.bias.numpy()])


def our_step(mlp: Mlp, config: str | Profile, device: str = "cpu") -> OurStep:
    """Return the compiled step on "cpu" or "cuda"; the batch is on that device already."""
    parameters, x, t = mlp.arrays()
    layers: list[Any] = []
    for number in range(mlp.depth):
        layers += [sc.relu] if number else []
        layers.append(nn.Linear(mlp.width, mlp.width, device=device))
    model = nn.Sequential(*layers)
    variables = list(model.parameters().values())
    batch, targets = sc.tensor(x), sc.tensor(t)
    if device == "cuda":
        batch, targets = batch.to("cuda").evaluate(), targets.to("cuda").evaluate()
    loss = sc.mse_loss(model(batch), targets)
    updates = optim.SGD(variables, RATE).updates(loss)
    executable = sc.compile(loss, config, updates=updates)

    def reset() -> None:
        for variable, first in zip(variables, parameters, strict=True):
            variable.assign(first)

    reset()
    feeds = {batch: batch, targets: targets} if device == "cuda" else {batch: x, targets: t}
    return OurStep(executable, feeds, reset, variables[-1])


class TorchStep(NamedTuple):
    """A step of PyTorch's, in eager mode.

    Attributes:
        step: makes one; returns the loss before it.
        reset: gives the parameters their first values again.
        bias: the last layer's.
    """

    step: Callable[[], Any]
    reset: Callable[[], None]
    bias: Any

    def result(self, step: Callable[[], Any], steps: int) -> Array:
        """Return the losses of steps from the first values on, then the last layer's bias."""
        self.reset()
        losses = [step().item() for _ in range(steps)]
        return np.concatenate([losses, self.bias.detach().cpu().numpy()])


def torch_step(torch: Any, mlp: Mlp, device: str = "cpu") -> TorchStep:
    """Return PyTorch's step on "cpu" or "cuda", without TF32, its optimiser over all at once."""
    torch.backends.cuda.matmul.allow_tf32 = False
    parameters, x, t = mlp.arrays()
    layers = []
    for number in range(mlp.depth):
        layers += [torch.nn.ReLU()] if number else []
        layers.append(torch.nn.Linear(mlp.width, mlp.width, device=device))
    model = torch.nn.Sequential(*layers)
    batch, targets = (torch.from_numpy(array).to(device) for array in (x, t))
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, foreach=True)

    def reset() -> None:
        with torch.no_grad():
            for variable, first in zip(model.parameters(), parameters, strict=True):
                there = torch.from_numpy(first).to(device)
                variable.copy_(there.T if first.ndim > 1 else there)

    def step() -> Any:
        loss = torch.nn.functional.mse_loss(model(batch), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    reset()
    return TorchStep(step, reset, list(model.parameters())[-1])
