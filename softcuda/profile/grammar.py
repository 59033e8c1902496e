"""The line grammar of profiles: text in, a checked Profile out.

- `[section]`, then its lines; a comment begins with # or ; at the start or after white space
- `key = value` in [meta], [device], [placement], [transfer] and [pool]
- `op | range = backend` in [ops]; `op[dtype]` is a narrower row
- `op | size = N = cpu MICROSECONDS, cuda MICROSECONDS` in [costs]
- `op = host SIZE ± ERROR, resident SIZE ± ERROR` in [thresholds]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from softcuda.errors import ConfigError
from softcuda.profile import fields
from softcuda.profile.check import check_costs, check_rows, check_thresholds
from softcuda.profile.model import (
    DEFAULT_BLOCK_SIZE,
    CostPoint,
    DeviceFacts,
    PoolSettings,
    Profile,
    Row,
    Threshold,
    Transfer,
)
from softcuda.profile.plain import PlainSections, plain_sections
from softcuda.profile.text import Entry, Spot, decoded, listed, read_entries, shown
from softcuda.profile.vocabulary import DEVICE_TYPES, POLICIES, SECTIONS

__all__ = ["parse"]

_EQUALS: Final = re.compile(r"(?<![<>])=")
_SIZE_IS: Final = re.compile(r"size\s*=\s*([^=\s]+)\s*=(.*)")
_VERSION: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,3}")
_CAPABILITY: Final = re.compile(r"[0-9]{1,3}\.[0-9]{1,3}")
_COUNTS: Final = ("vram_mb", "multiprocessors", "shared_memory_kib", "l2_mib", "cpu_cores")

Values = dict[str, tuple[str, Spot]]


def parse(data: str | bytes, path: str, ops: Iterable[str], backends: Mapping[str, str]) -> Profile:
    """Return the profile that a file's content says.

    Args:
        data: the content; bytes are UTF-8, with or without a byte order mark; lines end in LF or
            CR/LF, or all of them in CR.
        path: the file as the user named it, for errors and labels.
        ops: tokens that may have rows (softcuda.profile.vocabulary.work_ops).
        backends: backend_id -> device type of every known backend.

    Raises:
        ConfigError: anything that is not allowed; names the file, the line (for a pair of lines
            both), what stands there and what is allowed.
    """
    known, text = frozenset(ops), decoded(data, path)
    try:
        return _parsed(text, path, known, backends)
    except ConfigError as error:
        ends_there = error.line == text.count("\n") + 1 and "\ngenerated_at" in text
        if not ends_there:
            raise
        said = "the file ends in this line, and may be cut short; write it again with soft_init"
        raise ConfigError(path, error.line, f"{error.message}; {said}") from None


def _parsed(text: str, path: str, known: frozenset[str], backends: Mapping[str, str]) -> Profile:
    plain = plain_sections(text, known, backends)
    reader = _Reader(path, known, backends, plain)
    entries = read_entries(plain.rest, path)
    opened: dict[str, Spot] = {}
    for entry in entries:
        if entry.text:
            reader.take(entry)
        else:
            opened[entry.section] = entry.spot
    return reader.finish(opened, text.count("\n") + 1)


class _Reader:
    """Takes the lines one by one, then makes the profile."""

    def __init__(
        self, path: str, ops: frozenset[str], backends: Mapping[str, str], plain: PlainSections
    ) -> None:
        self.path = path
        self.ops = ops
        self.backends = backends
        self.values: dict[str, Values] = {name: {} for name in SECTIONS}
        self.rows: list[Row] = []
        self.plain = plain
        self.costs: list[CostPoint] = []
        self.thresholds: list[Threshold] = []

    def take(self, entry: Entry) -> None:
        if entry.section == "ops":
            self.rows.append(self._row(entry))
        elif entry.section == "costs":
            self.costs.append(self._cost(entry))
        elif entry.section == "thresholds":
            self.thresholds.append(self._threshold(entry))
        else:
            self._value(entry)

    def finish(self, opened: Mapping[str, Spot], last_line: int) -> Profile:
        values = self.values
        meta = self._meta(opened)
        rows, thresholds = self.plain.rows or self.rows, self.plain.thresholds or self.thresholds
        if not rows:
            line = opened["ops"].line if "ops" in opened else None
            found = "section [ops] has no rows" if "ops" in opened else "there is no [ops] section"
            raise ConfigError(
                self.path,
                line,
                f"{found}; needed are rows such as 'matmul | any = cpu_blas'; the file may be "
                "cut short, write it again with soft_init",
            )
        check_rows(self.rows, self.path)
        check_costs(self.costs, self.path)
        check_thresholds(self.thresholds, self.path)
        device = _device(values["device"])
        return Profile(
            path=self.path,
            meta=meta,
            device=device,
            rows=tuple(rows),
            thresholds=tuple(thresholds),
            costs=self.plain.costs or tuple(self.costs),
            transfer=tuple(
                Transfer(key, *fields.transfer_line(text, spot), line=spot.line or 0)
                for key, (text, spot) in values["transfer"].items()
            ),
            policy=_word(values["placement"], "policy", POLICIES, "table"),
            pool=_pool(values["pool"], device),
            is_cut="generated_at" in meta and not self._is_whole(last_line),
        )

    def _is_whole(self, last_line: int) -> bool:
        """Return whether the line that soft_init writes last is there, to its end.

        In a file that was edited it may stand elsewhere.
        """
        _, spot = self.values["pool"].get("block_size", ("", Spot(self.path, last_line)))
        return spot.line != last_line

    def _meta(self, opened: Mapping[str, Spot]) -> dict[str, str]:
        if not opened:
            raise ConfigError(
                self.path,
                None,
                "the file is empty, or only comments; needed are [meta] with soft_version and "
                "[ops] with rows; write it with soft_init",
            )
        written = self.values["meta"]
        if "soft_version" not in written:
            spot = opened.get("meta", Spot(self.path, None))
            found = "[meta] has no soft_version" if "meta" in opened else "there is no [meta]"
            spot.fail(f"{found}; needed is [meta] with a line such as 'soft_version = 0.1.0'")
        version, spot = written["soft_version"]
        if _VERSION.fullmatch(version) is None:
            spot.fail(f"soft_version is {shown(version)}; allowed is a version such as 0.1.0")
        if "generated_at" in written:
            fields.iso_time(written["generated_at"][0], "generated_at", written["generated_at"][1])
        return {key: text for key, (text, _) in written.items()}

    def _value(self, entry: Entry) -> None:
        key, equals, text = (part.strip() for part in entry.text.partition("="))
        allowed, section = SECTIONS[entry.section] or (), f"[{entry.section}]"
        if not equals or not key:
            entry.spot.fail(
                f"{shown(entry.text)} is no 'key = value'; allowed keys of {section} are "
                f"{listed(allowed)}"
            )
        if key not in allowed:
            entry.spot.fail(f"unknown key {shown(key)} in {section}; allowed are {listed(allowed)}")
        if not text:
            entry.spot.fail(f"{key} has no value; allowed is '{key} = value'")
        present = self.values[entry.section]
        if key in present:
            entry.spot.fail(
                f"duplicate: {key} stands on this line {entry.spot.line} and on line "
                f"{present[key][1].line}; allowed is once; remove one of them"
            )
        present[key] = (text, entry.spot)

    def _row(self, entry: Entry) -> Row:
        token, bar, rest = entry.text.partition("|")
        size, *named = _EQUALS.split(rest)
        if not bar or len(named) != 1:
            entry.spot.fail(
                f"{shown(entry.text)} is no row; allowed is 'op | range = backend', such as "
                "'matmul | size < 128 = cpu_blas'"
            )
        op, dtype = fields.op_token(token.strip(), self.ops, entry.spot)
        low, high = fields.size_range(size.strip(), entry.spot)
        backend_id = named[0].strip()
        if backend_id not in self.backends:
            known = [
                f"on {device}: {listed(sorted(b for b, d in self.backends.items() if d == device))}"
                for device in sorted(set(self.backends.values()))
            ]
            entry.spot.fail(
                f"unknown backend {shown(backend_id)}; allowed are {'; '.join(known)}; a backend "
                "of your own is registered with softcuda.backends.register first"
            )
        return Row(op, dtype, low, high, backend_id, entry.spot.line or 0, entry.comment)

    def _cost(self, entry: Entry) -> CostPoint:
        token, bar, rest = entry.text.partition("|")
        match = _SIZE_IS.fullmatch(rest.strip())
        if not bar or match is None:
            entry.spot.fail(
                f"{shown(entry.text)} is no cost; allowed is 'op | size = N = cpu MICROSECONDS, "
                "cuda MICROSECONDS', such as 'matmul[f32] | size = 128 = cpu 41.2, cuda 9.8'"
            )
        op, dtype = fields.op_token(token.strip(), self.ops, entry.spot)
        size = fields.whole(match[1], "the size", entry.spot, least=1)
        times = fields.cost_times(match[2], entry.spot)
        return CostPoint(op, dtype, size, times, entry.spot.line or 0)

    def _threshold(self, entry: Entry) -> Threshold:
        token, equals, text = entry.text.partition("=")
        if not equals:
            entry.spot.fail(
                f"{shown(entry.text)} is no threshold; allowed is 'op = host SIZE ± ERROR, "
                "resident SIZE ± ERROR'"
            )
        op, dtype = fields.op_token(token.strip(), self.ops, entry.spot)
        host, resident = fields.crossings(text, entry.spot)
        return Threshold(op, dtype, host, resident, entry.spot.line or 0)


def _word(values: Values, key: str, allowed: tuple[str, ...], default: str) -> str:
    if key not in values:
        return default
    text, spot = values[key]
    return fields.one_of(text, key, allowed, spot)


def _device(values: Values) -> DeviceFacts:
    for key in _COUNTS:
        if key in values:
            fields.whole(values[key][0], key, values[key][1])
    if "compute_capability" in values:
        text, spot = values["compute_capability"]
        if _CAPABILITY.fullmatch(text) is None:
            spot.fail(f"compute_capability is {shown(text)}; allowed is one such as 8.6")
    facts = {key: text for key, (text, _) in values.items()}
    return DeviceFacts(**{**facts, "type": _word(values, "type", DEVICE_TYPES, "cpu")})


def _pool(values: Values, device: DeviceFacts) -> PoolSettings:
    block_size = DEFAULT_BLOCK_SIZE
    if "block_size" in values:
        text, spot = values["block_size"]
        block_size = fields.whole(text, "block_size", spot, least=1)
    return PoolSettings(_word(values, "device", DEVICE_TYPES, device.type), block_size)
