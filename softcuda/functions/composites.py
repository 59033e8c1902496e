"""Composites: softmax, layer_norm and losses, numerically stable."""

from __future__ import annotations

import math

from softcuda.dtype import f32
from softcuda.errors import ArgumentError, DTypeError, ShapeError
from softcuda.functions.binary import where
from softcuda.functions.operands import TensorLike, as_tensor
from softcuda.graph.op import OPS
from softcuda.graph.params import Dims, Gather, LayerNorm, Softmax, literal
from softcuda.graph.shapes import normalize_axis
from softcuda.tensor import Tensor
from softcuda.tensor.values import plain_number, whole_number

__all__ = ["cross_entropy", "huber_loss", "layer_norm", "log_softmax", "mse_loss", "softmax"]


def softmax(x: TensorLike, axis: int = -1) -> Tensor:
    """Return y[i] = e^(x[i] - m) / sum over j of e^(x[j] - m), m the largest along the axis.

    NaN in a row, and a row of -inf alone, give NaN.

    Args:
        x: [any shape of rank 1 and above], any dtype.
        axis: the axis whose elements sum to one.

    Returns:
        [shape of x], of the dtype of x, f32 for bool and integers.

    Raises:
        AxisError: x has no such axis.
    """
    node = as_tensor("softmax", x)
    return node.apply(OPS["softmax"], (node,), Softmax(normalize_axis("softmax", axis, node.ndim)))


def log_softmax(x: TensorLike, axis: int = -1) -> Tensor:
    """Return y[i] = x[i] - m - ln(sum over j of e^(x[j] - m)), m the largest along the axis.

    NaN in a row, and a row of -inf alone, give NaN.

    Args:
        x: [any shape of rank 1 and above], any dtype.
        axis: the axis whose exponentials sum to one.

    Returns:
        [shape of x], of the dtype of x, f32 for bool and integers.

    Raises:
        AxisError: x has no such axis.
    """
    node = as_tensor("log_softmax", x)
    return node.apply(
        OPS["log_softmax"], (node,), Softmax(normalize_axis("log_softmax", axis, node.ndim))
    )


def layer_norm(
    x: TensorLike,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    axes_count: int | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Return y = (x - mean) / sqrt(var + eps) * weight + bias over the last axes.

    The variance is that of the population (divisor: count); statistics are in f32, in f64 for
    f64; the result is rounded once.

    Args:
        x: [.., normalised axes], any dtype.
        weight: [normalised axes], or None for ones.
        bias: [normalised axes], or None for zeros.
        axes_count: how many of the last axes are normalised; None for the rank of weight or
            bias, 1 where neither is given.
        eps: added to the variance, not negative.

    Returns:
        [shape of x], of the common float dtype.

    Raises:
        ShapeError: weight or bias has another shape than the normalised axes.
        ArgumentError: x has fewer axes, axes_count is below 1, or eps is negative.
        ArgumentTypeError: axes_count is no integer, or eps no number.
    """
    node = as_tensor("layer_norm", x)
    extra = [as_tensor("layer_norm", p) for p in (weight, bias) if p is not None]
    count = extra[0].ndim if extra else 1
    if axes_count is not None:
        count = whole_number("layer_norm", "axes_count", axes_count)
    if not 1 <= count <= node.ndim:
        raise ArgumentError(
            f"layer_norm: {count} axes of a tensor of shape {list(node.dims)} are to be "
            f"normalised; allowed are 1 to {node.ndim}"
        )
    small = float(plain_number("layer_norm", "eps", eps))
    if not (0 <= small < math.inf):
        raise ArgumentError(f"layer_norm: eps is {small}; allowed are finite numbers >= 0")
    params = LayerNorm(count, literal(small), weight is not None, bias is not None)
    return node.apply(OPS["layer_norm"], (node, *extra), params)


def mse_loss(prediction: TensorLike, target: TensorLike, reduction: str = "mean") -> Tensor:
    """Return the squared error (prediction[i] - target[i])^2, reduced.

    Args:
        prediction: [any shape], any dtype.
        target: [same shape], any dtype.
        reduction: "mean", "sum", or "none" for one error an element.

    Returns:
        [] or [shape of prediction], of the common dtype, f32 for bool and integers.

    Raises:
        ShapeError: the shapes differ; they are not broadcast.
        DTypeError: something is complex.
        ArgumentError: an unknown reduction.
    """
    return _reduced("mse_loss", _errors("mse_loss", prediction, target).square(), reduction)


def huber_loss(
    prediction: TensorLike, target: TensorLike, delta: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """Return e^2 / 2 where |e| <= delta, else delta * (|e| - delta / 2), reduced.

    e[i] = prediction[i] - target[i].

    Args:
        prediction: [any shape], any dtype.
        target: [same shape], any dtype.
        delta: where the square becomes a straight line, above 0.
        reduction: "mean", "sum", or "none" for one error an element.

    Returns:
        [] or [shape of prediction], of the common dtype, f32 for bool and integers.

    Raises:
        ShapeError: the shapes differ; they are not broadcast.
        DTypeError: something is complex.
        ArgumentError: an unknown reduction, or a delta that is not above 0.
        ArgumentTypeError: delta is no number.

    Source:
        P. J. Huber, "Robust estimation of a location parameter", Annals of Mathematical Statistics
        35 (1964).
    """
    width = float(plain_number("huber_loss", "delta", delta))
    if not 0 < width < math.inf:
        raise ArgumentError(f"huber_loss: delta is {width}; allowed are finite numbers above 0")
    error = _errors("huber_loss", prediction, target)
    size = error.abs()
    loss = where(size <= width, error.square() * 0.5, (size - 0.5 * width) * width)
    return _reduced("huber_loss", loss, reduction)


def cross_entropy(
    logits: TensorLike, target: TensorLike, axis: int = -1, reduction: str = "mean"
) -> Tensor:
    """Return -ln of the probability that softmax(logits) gives to the target, reduced.

    With labels: loss[..] = -log_softmax(logits)[.., label[..]]. With probabilities:
    loss[..] = -sum over c of target[.., c] * log_softmax(logits)[.., c], where a probability of 0
    counts 0 whatever its logit.

    Args:
        logits: [.., classes, ..], any dtype.
        target: [shape of logits without the axis], i32 or i64, labels from 0; or
            [shape of logits], floats, probabilities.
        axis: the axis of the classes.
        reduction: "mean", "sum", or "none" for one loss an example.

    Returns:
        [] or [shape of logits without the axis], of the dtype of logits, f32 for integers.

    Raises:
        AxisError: logits have no such axis.
        ShapeError: the target has another shape.
        DTypeError: the target is bool, or something is complex.
        ArgumentError: an unknown reduction.
        IndexOutOfRange: at run, a label outside 0 to classes - 1.
    """
    scores = _floating("cross_entropy", logits)
    truth = _real("cross_entropy", target)
    place = normalize_axis("cross_entropy", axis, scores.ndim)
    rest: Dims = (*scores.dims[:place], *scores.dims[place + 1 :])
    allowed = rest if truth.dtype.is_integer else scores.dims
    if truth.dtype.is_bool:
        raise DTypeError("cross_entropy: the target is bool; allowed are integers and floats")
    if truth.dims != allowed:
        meant = "labels" if truth.dtype.is_integer else "probabilities"
        raise ShapeError(
            f"cross_entropy: the target of {truth.dtype} {meant} has shape {list(truth.dims)} and "
            f"the logits {list(scores.dims)}; allowed is {list(allowed)}"
        )
    logs = log_softmax(scores, place)
    if truth.dtype.is_float:
        share = where(truth == 0, 0, truth * logs)
        return _reduced("cross_entropy", -share.sum(place), reduction)
    # A negative label would count from the end; moved below it, it is refused at run, by an error
    # that moves it back.
    labels = where(truth < 0, truth - scores.dims[place], truth).expand_dims(place)
    picked = logs.apply(OPS["gather"], (logs, labels), Gather(place, "cross_entropy"))
    picked = picked.squeeze(place)
    return _reduced("cross_entropy", -picked, reduction)


def _errors(what: str, prediction: TensorLike, target: TensorLike) -> Tensor:
    guess, truth = _floating(what, prediction), _floating(what, target)
    if guess.dims != truth.dims:
        raise ShapeError(
            f"{what}: the prediction has shape {list(guess.dims)} and the target "
            f"{list(truth.dims)}; both must be equal; broadcast_to or reshape one of them"
        )
    return guess - truth


def _floating(what: str, value: TensorLike) -> Tensor:
    node = _real(what, value)
    return node if node.dtype.is_float else node.cast(f32)


def _real(what: str, value: TensorLike) -> Tensor:
    node = as_tensor(what, value)
    if node.dtype.is_complex:
        raise DTypeError(
            f"{what}: an operand of shape {list(node.dims)} is {node.dtype}; allowed are real "
            "numbers; use its abs, or its real and its imag"
        )
    return node


def _reduced(what: str, loss: Tensor, reduction: str) -> Tensor:
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise ArgumentError(
        f"{what}: there is no reduction {reduction!r}; allowed are 'mean', 'sum', 'none'"
    )
