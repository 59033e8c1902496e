"""The public functions of gradients: softcuda.grad and what belongs to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from softcuda.autograd import gradients
from softcuda.errors import ArgumentError, ArgumentTypeError, DTypeError
from softcuda.executor.structure import flatten, rebuild
from softcuda.functions.operands import TensorLike, as_tensor
from softcuda.graph.flow import no_grad
from softcuda.graph.node import Node
from softcuda.tensor import Tensor
from softcuda.tensor.gradients import seed_of

__all__ = ["detach", "grad", "no_grad", "value_and_grad"]


def grad(outputs: Any, wrt: Any, seeds: Any = None) -> Any:
    """Return the gradients of outputs with respect to tensors; nothing is computed yet.

    d[i] = sum over outputs k and elements j of seeds[k][j] * d outputs[k][j] / d wrt[i]. The
    results are ordinary tensors of the graph: they can be compiled, and have gradients. For
    complex numbers the convention is PyTorch's: of a real output L, d = dL/dx + i dL/dy where
    wrt = x + iy, the direction in which L grows.

    Args:
        outputs: a tensor, or a list or tuple of tensors, of floats.
        wrt: a tensor, or lists, tuples and dicts of tensors, of floats: leaves, or anything that
            the outputs are computed from.
        seeds: what each output's gradient begins with, a tensor or what becomes one of a shape
            that broadcasts to the output; a list or tuple of them where outputs is one. None
            stands for ones, for all or for one output.

    Returns:
        The structure of `wrt`: for each tensor its gradient [its shape], of its dtype. None where
        no output depends on it; zeros where it has no slope, as behind floor.

    Raises:
        ArgumentTypeError: `outputs` or `wrt` is no such structure.
        ArgumentError: there are no outputs, another number of seeds, or a tensor in between was
            evaluated and has dropped what it was computed from.
        DTypeError: one of `outputs` or `wrt` is of integers or bools; a complex seed of a real
            output.
        ShapeError: a seed does not broadcast to its output.
    """
    roots, begins = _seeded("grad: outputs is", outputs, seeds)
    return _found(roots, begins, wrt)


def _found(roots: Sequence[Node], begins: Sequence[Node], wrt: Any) -> Any:
    nodes, skeleton = flatten(wrt, "wrt")
    for number, node in enumerate(nodes):
        if not node.dtype.is_inexact:
            raise DTypeError(
                f"grad: tensor {number} of wrt, shape {list(node.dims)}, has dtype {node.dtype}; "
                "gradients exist of floats and complex numbers alone"
            )
    found = gradients(roots, nodes, begins)
    return rebuild(skeleton, found.__getitem__)


def _seeded(what: str, outputs: Any, seeds: Any) -> tuple[Sequence[Node], Sequence[Node]]:
    if isinstance(outputs, Node):
        return [outputs], [seed_of("grad", outputs, seeds)]
    if not isinstance(outputs, (list, tuple)) or not all(isinstance(x, Node) for x in outputs):
        raise ArgumentTypeError(
            f"{what} {outputs!r} of type {type(outputs).__name__}; allowed are a tensor, "
            "and a list or tuple of tensors"
        )
    if not outputs:
        raise ArgumentError("grad: there are no outputs; allowed are one or more")
    given = [None] * len(outputs) if seeds is None else seeds
    if not isinstance(given, (list, tuple)) or len(given) != len(outputs):
        count = len(given) if isinstance(given, (list, tuple)) else f"a {type(given).__name__}"
        raise ArgumentError(
            f"grad: {len(outputs)} outputs and, as seeds, {count}; allowed is a list with one seed "
            "an output, or None"
        )
    return outputs, [seed_of("grad", x, s) for x, s in zip(outputs, given, strict=True)]


def value_and_grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0
) -> Callable[..., tuple[Any, Any]]:
    """Return a function that gives the value of `function` and its gradients.

    Args:
        function: makes a float tensor, or a list or tuple of them, out of its arguments.
        argnums: the positions of the arguments whose gradients are wanted; each is a tensor, or
            lists, tuples and dicts of tensors.

    Returns:
        A function of the same arguments that returns (value, gradients): for an int the gradients
        of that argument, in its structure, for several a tuple of them; see `grad`.

    Raises:
        ArgumentTypeError: `function` cannot be called, or argnums are no integers; when it is
            called, such an argument is no structure of tensors, or the value none.
        ArgumentError: when it is called, without an argument of such a position.
    """
    several = isinstance(argnums, (list, tuple))
    numbers: Sequence[Any] = argnums if isinstance(argnums, (list, tuple)) else (argnums,)
    if not callable(function) or not all(isinstance(number, int) for number in numbers):
        raise ArgumentTypeError(
            f"value_and_grad: function is {function!r} and argnums {argnums!r}; allowed are a "
            "function and an int, or several"
        )

    def valued(*arguments: Any, **options: Any) -> tuple[Any, Any]:
        count = len(arguments)
        for number in numbers:
            if not -count <= number < count:
                raise ArgumentError(
                    f"value_and_grad: argument {number} is to have a gradient and there are "
                    f"{count} positional arguments; allowed are positions below {count}"
                )
            flatten(arguments[number], f"value_and_grad: argument {number}")
        value = function(*arguments, **options)
        roots, begins = _seeded("value_and_grad: the function returned", value, None)
        found = _found(roots, begins, tuple(arguments[number] for number in numbers))
        return value, found if several else found[0]

    return valued


def detach(x: TensorLike) -> Tensor:
    """Return the same value as a tensor that no gradient flows through; nothing is copied.

    Args:
        x: [any shape], any dtype.

    Returns:
        [shape of x], of its dtype.

    Raises:
        DTypeError, ShapeError, ArgumentTypeError: x cannot be a tensor.
    """
    return as_tensor("detach", x).detach()
