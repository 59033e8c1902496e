"""Texts of profiles that the tests of softcuda.profile share."""

from __future__ import annotations

from softcuda.profile.grammar import parse
from softcuda.profile.model import Profile
from softcuda.profile.vocabulary import known_backends, work_ops

WHOLE = """\
[meta]
soft_version = 0.1.0
device_hash  = ab%cd ; comment with 100%
generated_at = 2026-03-18T09:00:00Z
[device]
type = cuda
name = NVIDIA GeForce RTX 3050
compute_capability = 8.6
vram_mb = 8192
driver = 13.0
multiprocessors = 20
shared_memory_kib = 99
l2_mib = 2
cpu = Abacus 9000
cpu_cores = 4
[placement]
policy = min_cut
[ops]
# op_name | size_bucket = backend
matmul | size < 128        = cpu_blas  # small
matmul | 128 <= size < 512 = cuda_naive
matmul | size >= 512       = cuda_tiled ; not measured
matmul[f16] | any          = cuda_tiled
relu   | any               = cuda_elementwise
[thresholds]
matmul[f32] = host 384 ± 20, resident 96 ± 8
relu = resident none below 16777216
[costs]
matmul[f32] | size = 128 = cpu 41.2, cuda 9.8
matmul[f32] | size = 256 = cpu 329.6, cuda 19.6
[transfer]
h2d = 8.1 us + 53.6 GB/s
d2h = 9 us + 2.5e1 GB/s
[pool]
device     = cuda
block_size = 2097152 ; bytes
"""

HEAD = "[meta]\nsoft_version = 0.1.0\n[ops]\n"


def profile_of(data: str | bytes, path: str = "some/CONFIG.soft") -> Profile:
    """Return the profile of a text, with the shipped ops and backends."""
    return parse(data, path, work_ops(), known_backends())
