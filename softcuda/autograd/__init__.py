"""Gradients: from a graph to a graph. Nothing is computed here.

`table` holds one rule for every op that has a gradient, `reverse` walks a graph backwards and
applies them. What they make are ordinary nodes, so they have gradients too.
"""

from __future__ import annotations

from softcuda.autograd.reverse import gradients, traced_leaves
from softcuda.autograd.table import RULES

__all__ = ["RULES", "gradients", "traced_leaves"]
