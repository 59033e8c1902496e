"""SHA-256 over labelled parts, each with its length, so that no two lists of parts look alike."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

__all__ = ["digest"]


def digest(parts: Iterable[tuple[str, bytes]]) -> str:
    """Return the SHA-256, in hexadecimal, of labelled parts in their order.

    Example:
        >>> digest([("a", b"bc")]) == digest([("ab", b"c")])
        False
    """
    total = hashlib.sha256()
    for label, content in parts:
        name = label.encode()
        total.update(len(name).to_bytes(8, "little") + name)
        total.update(len(content).to_bytes(8, "little") + content)
    return total.hexdigest()
