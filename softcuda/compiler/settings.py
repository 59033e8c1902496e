"""What decides a compilation beside the graph."""

from __future__ import annotations

from typing import NamedTuple

from softcuda.profile.model import Profile
from softcuda.target import Target

__all__ = ["Settings"]


class Settings(NamedTuple):
    """What decides beside the graph.

    Attributes:
        profile: the profile whose rows select backends.
        default: the shipped profile, for ops without a row.
        target: the machine to compile for.
        strict: a refusal or a missing row is an error.
        no_device: why no CUDA device can be used, where `target` is a CPU.
        instead: what to do where a row names a CUDA backend then.
        recompute: cheap values are computed again where that lowers the arena.
    """

    profile: Profile
    default: Profile
    target: Target
    strict: bool = False
    no_device: str = ""
    recompute: bool = False
    instead: str = "run soft_init, or set SOFTCUDA_CONFIG=default"
