"""Lines of comments above the header of a CSV text that have as many cells as it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vgi_cli.table.texts import MISSING

MARKS = ("#", "%", "//")
"""What lines of comments begin with."""
NUMBER = re.compile(r"^[<>=~+-]*\s*\d|\d$")
"""What is in no name of a header that is told from a row of cells: a number at either end, or a limit."""
NUMERAL = re.compile(r"[+-]?\d*[.,]?\d+(?:[eE][+-]?\d+)?")


def header_below(first: str, rows: Sequence[Sequence[str]]) -> tuple[str, int] | None:
    """The mark with which a first line begins like a comment, and the first of the `rows` of cells below it that has
    no such mark, where that reads like a header: names that differ, above numbers in some column. None where it does
    not: the first line may be a header then, whose first name begins so (`#chrom`)."""
    mark = next((mark for mark in MARKS if first.startswith(mark)), None)
    if mark is None:
        return None
    place = next((place for place, row in enumerate(rows) if not row[0].startswith(mark)), len(rows))
    if place >= len(rows) - 1:
        return None
    names = [name.strip() for name in rows[place]]
    if not all(names) or len(set(names)) < len(names) or any(name in MISSING or NUMBER.search(name) for name in names):
        return None
    for cells in zip(*rows[place + 1 :], strict=True):
        held = [cell.strip() for cell in cells if cell.strip() not in MISSING]
        if held and all(map(NUMERAL.fullmatch, held)):
            return mark, place
    return None
