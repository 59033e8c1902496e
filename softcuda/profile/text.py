"""From bytes to the lines of a profile: encoding, line ends, comments, sections."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple, NoReturn

from softcuda.errors import ConfigError
from softcuda.profile.vocabulary import SECTIONS

__all__ = [
    "Entry",
    "Spot",
    "decoded",
    "listed",
    "one_line",
    "read_entries",
    "shown",
    "split_comment",
]

# The mark first: it is searched for, and looked behind at the few places where there is one.
_COMMENT: Final = re.compile(r"[#;](?:(?<=^.)|(?<=\s.))")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
_LINE_END: Final = re.compile(r"\r+(?:\n|\Z)")
_SECTION: Final = re.compile(r"\[([^\[\]]*)\]")
_LONGEST_SHOWN: Final = 120


class Spot(NamedTuple):
    """A place in a file, which errors name."""

    path: str
    line: int | None

    def fail(self, message: str) -> NoReturn:
        """Raise the error of this place.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(self.path, self.line, message)


class Entry(NamedTuple):
    """One line that says something.

    Attributes:
        section: the section it stands in; "" before the first.
        text: the line without comment and outer white space; "" for a section's own line.
        comment: what stands behind it, without its mark.
        spot: where it stands.
    """

    section: str
    text: str
    comment: str
    spot: Spot


def split_comment(line: str) -> tuple[str, str]:
    """Return a line's text and its comment, both without outer white space.

    Example:
        >>> split_comment("matmul | any = cpu_blas  # 41.2 us")
        ('matmul | any = cpu_blas', '41.2 us')
    """
    mark = _COMMENT.search(line) if "#" in line or ";" in line else None
    if mark is None:
        return line.strip(), ""
    return line[: mark.start()].strip(), line[mark.end() :].strip()


def one_line(text: str) -> str:
    """Return a text as a comment can hold it: one line, single spaces, no control characters."""
    return " ".join(_CONTROL.sub(" ", text).split())


def decoded(data: str | bytes, path: str) -> str:
    """Return the text of a file's content, without a byte order mark, its lines ended by LF.

    Raises:
        ConfigError: no UTF-8, or a carriage return that ends no line.
    """
    text = (data if isinstance(data, str) else _decode(data, path)).removeprefix("\ufeff")
    if "\r" not in text:
        return text
    if "\n" not in text:
        return text.replace("\r", "\n")
    text = _LINE_END.sub("\n", text)
    stray = text.find("\r")
    if stray >= 0:
        begin = text.rfind("\n", 0, stray) + 1
        Spot(path, text.count("\n", 0, begin) + 1).fail(
            f"column {stray - begin + 1} holds a carriage return (CR) that ends no line, in "
            f"{shown(text[begin:].partition(chr(10))[0])}; lines end in LF or CR/LF, or all of a "
            "file in CR; remove it, or save the file with one kind of line ends"
        )
    return text


def read_entries(text: str, path: str) -> list[Entry]:
    """Return the lines of a profile that say something, section lines included.

    Args:
        text: from `decoded`.
        path: the file as the user named it.

    Raises:
        ConfigError: a control character, an unknown, doubled or malformed section, a
            line before the first section.
    """
    lines = text.split("\n")
    # Printable text has no control character; what is not may still hold a rare kind of space.
    is_damaged = not "".join(lines).replace("\t", " ").isprintable()
    entries: list[Entry] = []
    opened: dict[str, int] = {}
    section = ""
    for number, raw in enumerate(lines, start=1):
        if not raw:
            continue
        spot = Spot(path, number)
        control = _CONTROL.search(raw) if is_damaged else None
        if control is not None:
            spot.fail(
                f"column {control.start() + 1} holds the control character {control[0]!r}; "
                "allowed is plain text; the file may be damaged, write it again with soft_init"
            )
        said, comment = split_comment(raw)
        if said.startswith("["):
            section = _section(said, spot, opened)
            opened[section] = number
            entries.append(Entry(section, "", comment, spot))
        elif said:
            if not section:
                spot.fail(
                    f"{shown(said)} stands before any section; allowed first is a section line, "
                    f"one of {_sections()}"
                )
            entries.append(Entry(section, said, comment, spot))
    return entries


def shown(text: str) -> str:
    """Return a text quoted for an error message, its middle left out where it is long."""
    if len(text) > _LONGEST_SHOWN:
        half = _LONGEST_SHOWN // 2
        text = f"{text[:half]} ... {text[-half:]}"
    return repr(text)


def listed(words: Sequence[str]) -> str:
    """Return words for an error message: "a, b and c"."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _sections() -> str:
    return ", ".join(f"[{name}]" for name in SECTIONS)


def _section(said: str, spot: Spot, opened: dict[str, int]) -> str:
    match = _SECTION.fullmatch(said)
    if match is None:
        spot.fail(f"{shown(said)} is no section line; allowed are {_sections()}")
    name = match[1].strip()
    if name not in SECTIONS:
        spot.fail(f"unknown section {shown(f'[{name}]')}; allowed are {_sections()}")
    if name in opened:
        spot.fail(
            f"section [{name}] stands here and on line {opened[name]}; allowed is once; put its "
            "lines together"
        )
    return name


def _decode(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        end = b"\n" if b"\n" in data else b"\r"
        line = data.count(end, 0, error.start) + 1
        column = error.start - data.rfind(end, 0, error.start)
        utf16 = data[:2] in (b"\xff\xfe", b"\xfe\xff")
        hint = (
            "it looks like UTF-16, save it as UTF-8"
            if utf16
            else ("the file may be damaged or no profile at all, write it again with soft_init")
        )
        raise ConfigError(
            path,
            line,
            f"the byte 0x{data[error.start]:02x} at byte {column} of this line (offset "
            f"{error.start} of the file) is no UTF-8; allowed is UTF-8 text; {hint}",
        ) from None
