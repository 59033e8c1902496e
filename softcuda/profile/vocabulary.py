"""The words a profile may use: sections, keys, ops, dtypes, devices and backend ids."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from softcuda.graph.op import OPS, Kind

__all__ = [
    "DEVICE_KEYS",
    "DEVICE_TYPES",
    "DIRECTIONS",
    "KNOWN_BACKENDS",
    "META_KEYS",
    "POLICIES",
    "SECTIONS",
    "SOFT_VERSION",
    "known_backends",
    "why_no_row",
    "work_ops",
]

SOFT_VERSION: Final = "0.1.0"

DEVICE_TYPES: Final = ("cpu", "cuda")
POLICIES: Final = ("table", "min_cut")
DIRECTIONS: Final = ("h2d", "d2h")
META_KEYS: Final = ("soft_version", "device_hash", "generated_at")
DEVICE_KEYS: Final = (
    "type",
    "name",
    "compute_capability",
    "vram_mb",
    "driver",
    "multiprocessors",
    "shared_memory_kib",
    "l2_mib",
    "cpu",
    "cpu_cores",
)

# Section -> its keys; None where the lines are about ops.
SECTIONS: Final[Mapping[str, tuple[str, ...] | None]] = MappingProxyType(
    {
        "meta": META_KEYS,
        "device": DEVICE_KEYS,
        "placement": ("policy",),
        "ops": None,
        "thresholds": None,
        "costs": None,
        "transfer": DIRECTIONS,
        "pool": ("device", "block_size"),
    }
)

# backend_id -> device type, of every backend softcuda ships or is going to: a profile that was
# written where they exist stays readable where they do not.
KNOWN_BACKENDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cpu_blas": "cpu",
        "cpu_fallback": "cpu",
        "cpu_fused": "cpu",
        "cuda_contract": "cuda",
        "cuda_elementwise": "cuda",
        "cuda_mma": "cuda",
        "cuda_naive": "cuda",
        "cuda_permute": "cuda",
        "cuda_reduce": "cuda",
        "cuda_tiled": "cuda",
        "cuda_wgmma": "cuda",
    }
)

_WORK_OPS: Final = tuple(op.name for op in OPS.values() if op.does_work)


def work_ops() -> tuple[str, ...]:
    """Return the tokens of the ops that do work, so may have rows, in the op table's order."""
    return _WORK_OPS


def known_backends(extra: Mapping[str, str] | None = None) -> Mapping[str, str]:
    """Return backend_id -> device type of the known backends and of `extra`.

    Args:
        extra: backend_id -> device type of backends that a user registered.
    """
    return {**KNOWN_BACKENDS, **extra} if extra else KNOWN_BACKENDS


def why_no_row(name: str) -> str:
    """Return why a word that is no token of `work_ops` has no row, or "" for a plain unknown.

    Example:
        >>> why_no_row("subtract")
        "its token here is 'sub'"
    """
    op = OPS.get(name)
    if op is None:
        tokens = [o.name for o in OPS.values() if o.public == name and o.does_work]
        return f"its token here is {tokens[0]!r}" if tokens else _alias(name)
    if op.kind is Kind.VIEW:
        return "it is a view, which does no work and needs no backend"
    if op.kind is Kind.LEAF:
        return "it is a leaf, which is not computed"
    if op.kind is Kind.TRANSFER:
        return "it is a copy between devices, which [transfer] describes"
    return ""


def _alias(name: str) -> str:
    if name in ("dot", "outer", "einsum"):
        return "the row matmul covers matmul, dot, outer and every pair of an einsum"
    if name in ("transpose", "expand_dims", "squeeze", "flip", "permute_dims", "getitem"):
        return "it is a view, which does no work and needs no backend"
    return ""
