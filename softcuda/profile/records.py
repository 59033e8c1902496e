"""The single lines and sections of a profile, as frozen data.

Named tuples where dataclasses would do as well: a class costs 0.3 ms of import instead of 1.5.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from softcuda.target import CPU, Target, arch_of

__all__ = [
    "DEFAULT_BLOCK_SIZE",
    "CostPoint",
    "Crossing",
    "DeviceFacts",
    "PoolSettings",
    "Row",
    "Threshold",
    "Transfer",
]

DEFAULT_BLOCK_SIZE: Final = 2 * 1024 * 1024


class Row(NamedTuple):
    """One line of [ops]: sizes low <= size < high of an op go to a backend.

    Attributes:
        op: token of the op.
        dtype: name of the dtype of a narrower row `op[dtype]`; None for every dtype.
        low: first size.
        high: first size beyond; None for no end.
        backend_id: the backend.
        line: line number in the file, from 1; 0 for a row that was not read from one.
        comment: what stands behind the row, without its mark.
    """

    op: str
    dtype: str | None
    low: int
    high: int | None
    backend_id: str
    line: int = 0
    comment: str = ""


class DeviceFacts(NamedTuple):
    """The [device] section; texts as written, since device_hash is made of them.

    Attributes:
        type: "cpu" or "cuda".
        name: name of the GPU.
        compute_capability: such as "8.6".
        vram_mb: memory of the GPU [MiB].
        driver: as cuDriverGetVersion says, such as "13.0".
        multiprocessors: their number.
        shared_memory_kib: shared memory a block may ask for [KiB].
        l2_mib: L2 cache [MiB].
        cpu: name of the processor.
        cpu_cores: logical processors.

    A fact that was not written is "".
    """

    type: str = "cpu"
    name: str = ""
    compute_capability: str = ""
    vram_mb: str = ""
    driver: str = ""
    multiprocessors: str = ""
    shared_memory_kib: str = ""
    l2_mib: str = ""
    cpu: str = ""
    cpu_cores: str = ""

    def written(self) -> list[tuple[str, str]]:
        """Return the facts that are known as (key, text), in the file's order."""
        return [(key, text) for key, text in self._asdict().items() if text]

    def number(self, key: str) -> int:
        """Return a whole-number fact such as "vram_mb", 0 where it was not written."""
        return int(getattr(self, key) or 0)

    @property
    def capability(self) -> tuple[int, int] | None:
        """The compute capability as (major, minor); None where it was not written."""
        major, _, minor = self.compute_capability.partition(".")
        return (int(major), int(minor)) if minor else None

    @property
    def target(self) -> Target:
        """What a graph is compiled for on this device."""
        if self.type == "cpu" or self.capability is None:
            return CPU if self.type == "cpu" else Target(self.type)
        major, minor = self.capability
        return Target(
            self.type,
            arch_of(major, minor),
            self.number("multiprocessors"),
            self.number("shared_memory_kib"),
            self.number("l2_mib"),
        )


class PoolSettings(NamedTuple):
    """The [pool] section.

    Attributes:
        device: the pool that holds outputs by default, "cpu" or "cuda".
        block_size: what both pools ask the system for at a time [bytes].
    """

    device: str = "cpu"
    block_size: int = DEFAULT_BLOCK_SIZE


class Crossing(NamedTuple):
    """The size at which CUDA overtakes the CPU.

    Attributes:
        size: where it does; where it does not, the largest size that was tried.
        uncertainty: of `size`; None where none was measured.
        found: False for `none below SIZE`.
    """

    size: int
    uncertainty: int | None = None
    found: bool = True


class Threshold(NamedTuple):
    """One line of [thresholds]: both crossings of an op; informative.

    Attributes:
        op: token of the op.
        dtype: name of a dtype; None for every dtype.
        host: the crossing where data starts and ends on the host; None if not written.
        resident: the crossing where data lies on the device it is needed on.
        line: line number, 0 if not from a file.
    """

    op: str
    dtype: str | None
    host: Crossing | None
    resident: Crossing | None
    line: int = 0


class CostPoint(NamedTuple):
    """One line of [costs].

    Attributes:
        op: token of the op.
        dtype: name of a dtype; None for every dtype.
        size: where it was measured, by the rule of the rows.
        times_us: pairs (device type, microseconds).
        line: line number, 0 if not from a file.
    """

    op: str
    dtype: str | None
    size: int
    times_us: tuple[tuple[str, float], ...]
    line: int = 0


class Transfer(NamedTuple):
    """One line of [transfer]: time = latency + bytes / rate, or what points of it say.

    Attributes:
        direction: "h2d" or "d2h".
        latency_us: microseconds.
        gb_per_s: 10^9 bytes a second.
        points: pairs (bytes, microseconds), ascending; between them, on log axes, lies the time
            of a copy. None where the line tells it.
        line: line number, 0 if not from a file.
    """

    direction: str
    latency_us: float
    gb_per_s: float
    points: tuple[tuple[int, float], ...] = ()
    line: int = 0
