"""The writer: reads back equal, the same bytes, whole or not at all, nothing lost unasked."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profile_text import WHOLE, profile_of

from softcuda.dtype import DTYPES
from softcuda.errors import ArgumentError, ConfigError
from softcuda.profile.check import range_text
from softcuda.profile.model import (
    CostPoint,
    Crossing,
    DeviceFacts,
    PoolSettings,
    Profile,
    Row,
    Threshold,
    Transfer,
)
from softcuda.profile.resolve import default_profile, read
from softcuda.profile.text import one_line, split_comment
from softcuda.profile.vocabulary import KNOWN_BACKENDS, work_ops
from softcuda.profile.writer import render, write

LARGEST = 2**63 - 1

words = st.text(
    st.characters(exclude_categories=("C", "Zl", "Zp")), min_size=1, max_size=20
).filter(lambda text: split_comment(text) == (text, ""))
comments = st.text(st.characters(codec="utf-8"), max_size=20)
counts = st.integers(0, LARGEST).map(str)
sizes = st.integers(1, LARGEST)
times = st.floats(min_value=1e-300, max_value=1e300)
tokens = st.tuples(st.sampled_from(work_ops()), st.none() | st.sampled_from(list(DTYPES)))
crossing = st.builds(Crossing, sizes, st.none() | sizes, st.just(True)) | st.builds(
    Crossing, sizes, st.none(), st.just(False)
)


@st.composite
def row_lists(draw: st.DrawFn) -> tuple[Row, ...]:
    rows: list[Row] = []
    for op, dtype in draw(st.lists(tokens, min_size=1, max_size=5, unique=True)):
        bounds = sorted(draw(st.lists(sizes, max_size=4, unique=True)))
        for low, high in zip([0, *bounds], [*bounds, None], strict=True):
            backend = draw(st.sampled_from(list(KNOWN_BACKENDS)))
            rows.append(Row(op, dtype, low, high, backend, 0, draw(comments)))
    return tuple(draw(st.permutations(rows)))


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    maybe = {key: draw(words | st.just("")) for key in ("name", "cpu", "driver")}
    facts = DeviceFacts(
        draw(st.sampled_from(("cpu", "cuda"))),
        compute_capability=draw(st.sampled_from(("", "8.6", "12.0"))),
        vram_mb=draw(st.just("") | counts),
        cpu_cores=draw(st.just("") | counts),
        **maybe,
    )
    meta = {"soft_version": "0.1.0"}
    meta |= draw(st.dictionaries(st.just("device_hash"), words))
    meta |= draw(st.dictionaries(st.just("generated_at"), st.datetimes().map(str)))
    thresholds = draw(
        st.dictionaries(tokens, st.tuples(st.none() | crossing, crossing), max_size=3)
    )
    costs = draw(st.dictionaries(st.tuples(tokens, sizes), st.tuples(times, times), max_size=5))
    copied = st.dictionaries(sizes, times, max_size=3).map(
        lambda points: tuple(sorted(points.items()))
    )
    rates = draw(st.dictionaries(st.sampled_from(("h2d", "d2h")), st.tuples(times, times, copied)))
    return Profile(
        "made/CONFIG.soft",
        meta,
        facts,
        draw(row_lists()),
        tuple(Threshold(*token, host, there) for token, (host, there) in thresholds.items()),
        tuple(
            CostPoint(*token, size, (("cpu", cpu), ("cuda", cuda)))
            for (token, size), (cpu, cuda) in costs.items()
        ),
        tuple(Transfer(way, *told) for way, told in rates.items()),
        draw(st.sampled_from(("table", "min_cut"))),
        PoolSettings(draw(st.sampled_from(("cpu", "cuda"))), draw(sizes)),
    )


@settings(max_examples=60, deadline=None)
@given(profiles())
def test_reading_what_was_written_gives_the_profile(profile: Profile) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "CONFIG.soft"
        write(profile, file)
        again = read(file)
        assert again == profile
        text = file.read_text(encoding="utf-8")
        assert render(again) == text == render(profile)
        assert os.listdir(folder) == ["CONFIG.soft"]
    for row, written in zip(profile.rows, again.rows, strict=True):
        assert row[:5] == written[:5]
        assert one_line(row.comment) == written.comment
        assert f"| {range_text(row.low, row.high)} " in text.split("\n")[written.line - 1]


@settings(max_examples=60, deadline=None)
@given(row_lists(), st.data())
def test_ranges_tile(rows: tuple[Row, ...], data: st.DataObject) -> None:
    profile = Profile("p", {"soft_version": "0.1.0"}, DeviceFacts(), rows)
    profile_of(render(profile))
    for key in {(row.op, row.dtype) for row in rows}:
        group = sorted((row for row in rows if (row.op, row.dtype) == key), key=lambda row: row.low)
        assert [0, *(row.high for row in group)] == [*(row.low for row in group), None]
    dropped = data.draw(st.sampled_from(rows))
    if [(row.op, row.dtype) for row in rows].count((dropped.op, dropped.dtype)) > 1:
        rest = tuple(row for row in rows if row is not dropped)
        with pytest.raises(ConfigError, match="uncovered"):
            profile_of(render(dataclasses.replace(profile, rows=rest)))
    with pytest.raises(ConfigError, match="duplicate"):
        profile_of(render(dataclasses.replace(profile, rows=(*rows, dropped))))


def test_rendered_text() -> None:
    text = render(profile_of(WHOLE), notes=["made by hand", "", "two\nlines # here"])
    assert "# made by hand\n#\n# two lines # here\n\n[meta]\n" in text
    for line in (
        "soft_version = 0.1.0\n",
        "device_hash  = ab%cd\n",
        "compute_capability = 8.6\n",
        "policy = min_cut\n",
        "# op_name | size_bucket = backend\n",
        "matmul      | size < 128        = cpu_blas          # small\n",
        "matmul      | 128 <= size < 512 = cuda_naive\n",
        "matmul      | size >= 512       = cuda_tiled        # not measured\n",
        "matmul[f16] | any               = cuda_tiled\n",
        "matmul[f32] = host 384 ± 20, resident 96 ± 8\n",
        "relu        = resident none below 16777216\n",
        "matmul[f32] | size = 128 = cpu 41.2, cuda 9.8\n",
        "h2d = 8.1 us + 53.6 GB/s\n",
        "block_size = 2097152\n",
    ):
        assert line in text
    for word in ("cube root of batch*m*n*k", "half-open", "Views (transpose", "widest input"):
        assert word in text
    assert max(map(len, text.splitlines())) <= 100
    assert profile_of(text) == profile_of(WHOLE)
    assert "[costs]" not in render(default_profile())


def test_a_file_is_kept_unless_forced(tmp_path: Path) -> None:
    file = tmp_path / "CONFIG.soft"
    file.write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"CONFIG\.soft: the file exists.*--force"):
        write(default_profile(), file)
    assert file.read_text(encoding="utf-8") == "mine"
    write(default_profile(), file, force=True)
    assert read(file) == default_profile()
    assert os.listdir(tmp_path) == ["CONFIG.soft"]


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real.soft").write_text("old", encoding="utf-8")
    (tmp_path / "CONFIG.soft").symlink_to("real.soft")
    write(default_profile(), tmp_path / "CONFIG.soft", force=True)
    assert (tmp_path / "CONFIG.soft").is_symlink()
    assert read(tmp_path / "real.soft") == default_profile()


@pytest.mark.parametrize("broken", ["os.fsync", "os.replace", "open", "interrupt"])
def test_a_failure_in_the_middle_changes_nothing(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "CONFIG.soft"
    write(profile_of(WHOLE), file)
    before = file.read_bytes()

    def fail(*_: object, **__: object) -> None:
        if broken == "interrupt":
            raise KeyboardInterrupt
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(
        {"open": "builtins.open", "interrupt": "os.replace"}.get(broken, broken), fail
    )
    expected = KeyboardInterrupt if broken == "interrupt" else ConfigError
    with pytest.raises(expected) as caught:
        write(default_profile(), file, force=True)
    monkeypatch.undo()
    assert broken == "interrupt" or "No space left on device" in str(caught.value)
    assert file.read_bytes() == before
    assert os.listdir(tmp_path) == ["CONFIG.soft"]


def test_a_name_taken_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "CONFIG.soft"
    sync = os.fsync

    def another_writes(handle: int) -> None:
        sync(handle)
        file.write_text("theirs", encoding="utf-8")

    monkeypatch.setattr("os.fsync", another_writes)
    with pytest.raises(ConfigError, match="the file exists"):
        write(default_profile(), file)
    assert file.read_text(encoding="utf-8") == "theirs"
    assert os.listdir(tmp_path) == ["CONFIG.soft"]


def test_a_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    write(default_profile(), tmp_path / "CONFIG.soft")
    assert read(tmp_path / "CONFIG.soft") == default_profile()


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="this is a folder"):
        write(default_profile(), tmp_path)
    with pytest.raises(ConfigError, match=r"cannot be written: No such file.*folder that exists"):
        write(default_profile(), tmp_path / "none" / "CONFIG.soft")


@pytest.mark.parametrize("cpu", ["a # b", "a\nb", " a", "a ;b", "\ud800"])
def test_text_that_no_file_can_hold(cpu: str, tmp_path: Path) -> None:
    profile = dataclasses.replace(default_profile(), device=DeviceFacts(cpu=cpu))
    with pytest.raises((ArgumentError, ConfigError)):
        write(profile, tmp_path / "CONFIG.soft")
    assert not os.listdir(tmp_path)


def test_a_profile_with_a_gap_is_not_written(tmp_path: Path) -> None:
    profile = dataclasses.replace(
        default_profile(), rows=(Row("matmul", None, 8, None, "cpu_blas"),)
    )
    with pytest.raises(ConfigError, match="leave size < 8 uncovered"):
        write(profile, tmp_path / "CONFIG.soft")
    assert not os.listdir(tmp_path)
