"""Columns of text, and numbers of any size in few characters."""

from __future__ import annotations

from collections.abc import Collection, Sequence

__all__ = ["amount", "columns"]

_EXACT_BELOW = 10**6


def amount(number: int) -> str:
    """Return a count as text: exact below a million, then three digits, of any size.

    Example:
        >>> amount(999999), amount(123456789), amount(10**400 - 1)
        ('999999', '1.23e+8', '1.00e+400')
    """
    if number < _EXACT_BELOW:
        return str(number)
    exponent = len(str(number)) - 1
    digits = round(number / 10 ** (exponent - 2))  # 1000 where 999.5 or more rounds up
    return f"{digits / 100:.2f}e+{exponent}" if digits < 1000 else f"1.00e+{exponent + 1}"


def columns(
    headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[str]
) -> str:
    """Return rows below their headings, two spaces between columns.

    Args:
        headings: of each column.
        rows: cells, one a column.
        numbers: headings of the columns whose cells stand at the right.

    Example:
        >>> print(columns(["n", "what"], [["10", "a"], ["9", "b"]], {"n"}))
         n  what
        10  a
         9  b
    """
    grid = [headings, *rows]
    widths = [max(len(row[k]) for row in grid) for k in range(len(headings))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if heading in numbers else cell.ljust(width)
            for cell, width, heading in zip(row, widths, headings, strict=True)
        ).rstrip()
        for row in grid
    )
