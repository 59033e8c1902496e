"""Encodings, line ends and comments; damaged files. The public reports are named by number."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from profile_text import HEAD, WHOLE, profile_of

from softcuda.errors import ConfigError
from softcuda.profile.resolve import read


def test_cpython_123186_percent_is_a_plain_character() -> None:
    profile = profile_of(WHOLE)
    assert profile.meta["device_hash"] == "ab%cd"
    named = profile_of(HEAD + "add | any = cpu_fused\n[device]\ncpu = 100%s %(cpu)s $HOME ${x} \\n")
    assert named.device.cpu == "100%s %(cpu)s $HOME ${x} \\n"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "mixed"])
@pytest.mark.parametrize("final", [True, False])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_dsc_108_line_ends(end: str, final: bool, mark: bytes) -> None:
    lines = WHOLE.splitlines()
    ends = ["\r\n", "\r\r\n", "\n"] * len(lines) if end == "mixed" else [end] * len(lines)
    text = "".join(line + e for line, e in zip(lines, ends, strict=False))
    if not final:
        text = text.rstrip("\r\n")
    profile = profile_of(mark + text.encode())
    assert profile == profile_of(WHOLE)
    assert [row.line for row in profile.rows] == [row.line for row in profile_of(WHOLE).rows]
    texts = [*profile.meta.values(), *(text for _, text in profile.device.written())]
    texts += [row.backend_id + row.comment for row in profile.rows]
    assert not any("\r" in text for text in texts)


@pytest.mark.parametrize(
    ("whole", "stray"),
    [
        ("= cpu_blas  # small", "= cpu_\rblas  # small"),
        ("cpu_blas  # small", "cpu_blas  # sm\rall"),
        ("matmul | size < 128        =", "matmul | size < 128 \r\r      ="),
    ],
)
def test_a_carriage_return_inside_a_line_is_named(whole: str, stray: str) -> None:
    for line_end in ("\n", "\r\n"):
        text = WHOLE.replace(whole, stray).replace("\n", line_end)
        with pytest.raises(ConfigError) as caught:
            profile_of(text)
        assert caught.value.line == 20
        column = text.splitlines(keepends=True)[19].index("\r") + 1
        assert f"column {column} holds a carriage return (CR)" in caught.value.message
        assert "lines end in LF or CR/LF, or all of a file in CR" in caught.value.message


def test_a_carriage_return_before_the_end_of_a_line_belongs_to_it() -> None:
    cut = WHOLE.replace("\n", "\r\n")[:-1]  # between the two characters of the last line's end
    for text in (WHOLE.replace("# small", "# small \r"), WHOLE.replace("13.0", "13.0\r"), cut):
        assert profile_of(text) == profile_of(WHOLE)
        assert [row.comment for row in profile_of(text).rows][:1] == ["small"]


def test_kvrocks_799_inline_comments() -> None:
    profile = profile_of(
        HEAD + "matmul | size < 128 = cpu_blas  # small\n"
        "matmul | size >= 128 = cpu_blas\t; large ; # both\n"
        "   # indented\n;; whole\n"
        "[pool] # sizes\nblock_size = 2097152 ; bytes\n"
    )
    assert [row.backend_id for row in profile.rows] == ["cpu_blas", "cpu_blas"]
    assert [row.comment for row in profile.rows] == ["small", "large ; # both"]
    assert profile.pool.block_size == 2097152


def test_a_mark_inside_a_word_is_no_comment() -> None:
    profile = profile_of(HEAD + "add | any = cpu_fused\n[device]\ncpu = a#b;c = d #e")
    assert profile.device.cpu == "a#b;c = d"


def test_quodlibet_1042_every_truncation_is_an_error_or_a_whole_profile() -> None:
    data = WHOLE.encode()
    good = 0
    for end in range(len(data)):
        try:
            profile_of(data[:end])
        except ConfigError as error:
            assert str(error).startswith("some/CONFIG.soft:")
        else:
            good += 1
            assert data[:end].count(b"\n") >= 21  # the rows of matmul are there, whole
    assert good


def test_quodlibet_1042_damaged_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "CONFIG.soft"
    for content, line, part in (
        (b"", None, "empty"),
        (WHOLE[: WHOLE.index("cuda_tiled") - 7].encode(), 22, "is no row"),
        (b"[meta]\r\nsoft_version = 0.1.0\r\n[ops]\r\nrelu | any = \xff", 4, "0xff at byte 14"),
        (b"[meta]\rsoft_version = 0.1.0\r[ops]\rrelu | any = \xff", 4, "0xff at byte 14"),
        (bytes(range(255, 0, -1)) * 20, 1, "no UTF-8"),
        ("\ufeff" + WHOLE, None, ""),
        (WHOLE.encode("utf-16"), 1, "save it as UTF-8"),
    ):
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        if not part:
            assert read(file) == profile_of(WHOLE)
            continue
        with pytest.raises(ConfigError) as caught:
            read(file)
        assert caught.value.line == line
        assert str(file) in str(caught.value)
        assert part in str(caught.value)
    with pytest.raises(ConfigError, match=r"this is a folder.*soft_init writes one"):
        read(tmp_path)

    def refuse(path: object, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", path)

    file.write_text(WHOLE, encoding="utf-8")
    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(ConfigError, match=r"CONFIG\.soft: the file cannot be read: Permission"):
        read(file)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    if hasattr(os, "mkfifo"):
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        with pytest.raises(ConfigError, match="no regular file"):
            read(pipe)
    large = tmp_path / "weights.bin"
    with open(large, "wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(ConfigError, match="1073741824 bytes"):
        read(large)
    with pytest.raises(ConfigError, match="null byte"):
        read("a\0b")
