"""Layers: small modules that hold variables and make graphs.

    model = nn.Sequential(nn.Linear(64, 32), softcuda.relu, nn.Linear(32, 10))
    scores = model(softcuda.input((100, 64), name="x"))

A module is called with tensors and returns tensors; nothing is computed by that.
"""

from __future__ import annotations

from softcuda.nn.attention import SelfAttention
from softcuda.nn.initialisers import glorot_uniform, he_normal, uniform_by_fan_in
from softcuda.nn.layers import Dropout, Embedding, LayerNorm, Linear, Sequential
from softcuda.nn.module import Module
from softcuda.nn.tensor_files import load_tensors, save_tensors

__all__ = [
    "Dropout",
    "Embedding",
    "LayerNorm",
    "Linear",
    "Module",
    "SelfAttention",
    "Sequential",
    "glorot_uniform",
    "he_normal",
    "load_tensors",
    "save_tensors",
    "uniform_by_fan_in",
]
