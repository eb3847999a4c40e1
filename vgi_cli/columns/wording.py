"""Words for cells, columns and rows in the messages about a table."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

import numpy as np

from vgi_cli.columns.base import Cells
from vgi_cli.columns.numerals import Bools

LONGEST = 80
"""Characters of a cell that a message shows."""
SHOWN = 5
"""So many columns are named, or have a line each, where the same is said of several."""

EVERYWHERE = frozenset({"n/a", "na", "n.a.", "#n/a", "nan", "null", "none", "nil"})
"""Texts that mean missing in every column, as those do that are signs alone (`?`); others may be an answer in one."""
REPLACED = "replace such cells by None or NaN"
"""What makes cells of a table in memory missing: flags say how files are read."""

WRITTEN = re.compile(
    r"[+-]?(?:"
    r"(?:0|[1-9]\d*),\d+"  # decimal comma
    r"|[1-9]\d{0,2}(?:[,_' ]\d{3})+(?:\.\d+)?"  # thousands apart
    r"|[1-9]\d{0,2}(?:[. ']\d{3})+,\d+"
    r"|[$€£¥] ?(?:0|[1-9]\d*|[1-9]\d{0,2}(?:[,_' ]\d{3})+)(?:\.\d+)?"
    r"|(?:0|[1-9]\d*|[1-9]\d{0,2}(?:[.,_' ]\d{3})+)(?:[.,]\d+)? ?[%$€£¥]"
    r")"
)
"""What a person reads as a number, and is not written as one here."""
COMMA = re.compile(r"[+-]?(?:0|[1-9]\d*)(?:,\d+)?")


def example(cells: Cells, which: Bools) -> str:
    """`'?' in row 3 (line 4) and 2 more cells`."""
    return first_cell(cells, which) + others(int(which.sum()))


def first_cell(cells: Cells, which: Bools) -> str:
    """`'?' in row 3 (line 4)`: the first of the cells."""
    row = int(np.flatnonzero(which)[0])
    return f"'{_short(cells, row)}' in {cells.where(row)}"


def _short(cells: Cells, row: int) -> str:
    return shortened(str(cells.texts(np.array([row]))[0]))


def shortened(text: str) -> str:
    """A text with its first characters only, where it is long."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def others(count: int) -> str:
    """` and 2 more cells` of `count` cells, of which one was named."""
    return f" and {count - 1} more cell{'s' if count > 2 else ''}" if count > 1 else ""


def token_hint(cells: Cells, which: Bools, fitted: bool = False) -> str:
    """What to do about the first of the cells, which is no number; `fitted`: the kind of the column is settled."""
    carry = f"`{kind_flag(cells.name, 'carry')}` to carry the column as it is"
    if fitted:
        carry = f"fit again with {carry}"
    row = int(np.flatnonzero(which)[0])
    if cells.numbers.padded[row]:
        return f"a leading zero makes a code, not a number: {carry}"
    return f"{number_hint(cells, which)}, or {carry}"


def number_hint(cells: Cells, which: Bools) -> str:
    """What to do about the first of the cells among numbers: to write it plainly, where a person reads one, or to
    let it mean missing."""
    text = _short(cells, int(np.flatnonzero(which)[0])).strip()
    if WRITTEN.fullmatch(text) is None:
        return missing_hint(cells, which)
    comma = COMMA.fullmatch(text) is not None and cells.decimal == "." and not cells.in_memory
    return "`--decimal ,` where the comma is the decimal mark; else " * comma + plain_number(cells.decimal)


def plain_number(decimal: str) -> str:
    """How to write numbers, in words; `decimal`: the mark before their decimals."""
    other = "dots" if decimal == "," else "commas"
    return f"write 1234{decimal}5, without {other}, blanks or units"


def missing_hint(cells: Cells, which: Bools) -> str:
    """What to do where the first of the cells means missing."""
    if cells.in_memory:
        return f"{REPLACED} if that means missing"
    token = _short(cells, int(np.flatnonzero(which)[0])).strip()
    everywhere = token.casefold() in EVERYWHERE or not any(map(str.isalnum, token))
    flag = typed("--na-values", token) if everywhere else token_flag(cells.name, token)
    return f"`{flag}` if that means missing"


def token_flag(name: str, token: str) -> str:
    """`--na-values age=-999`, as a shell takes it: the flag that makes a token mean missing in one column."""
    return typed("--na-values", f"{name}={token}")


def made_missing(cells: Cells, token: str) -> str:
    """How a token is made to mean missing in a column: by a flag, or in the table itself."""
    return REPLACED if cells.in_memory else f"`{token_flag(cells.name, token)}`"


def kind_flag(name: str, kind: str) -> str:
    """`--column 'blood group=categorical'`, as a shell takes it: the flag that makes a column one of a kind."""
    return typed("--column", f"{name}={kind}")


def typed(flag: str, value: str) -> str:
    """`--exclude 'blood group'`: a flag and its value, as they are typed into a shell."""
    return f"{flag} {shlex.quote(value)}"


def in_markdown(text: str) -> str:
    """A text as a cell of a Markdown table: on one line, and no part of the markup."""
    return " ".join(text.split()).replace("|", "\\|")


def named(what: str, names: Sequence[str]) -> str:
    """`column 'a'`, `columns 'a', 'b' and 3 more`."""
    shown = ", ".join(f"'{n}'" for n in names[:SHOWN])
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{what}{'s' if len(names) > 1 else ''} {shown}{more}"


def capped(lines: list[str]) -> list[str]:
    """The first five lines that say the same of several columns, and one that counts the others."""
    more = len(lines) - SHOWN
    return lines if more <= 0 else [*lines[:SHOWN], f"the same of {more} more column{'s' if more > 1 else ''}"]


def are(items: Sequence[object]) -> str:
    """`is` of one, `are` of several."""
    return "is" if len(items) == 1 else "are"


def hole_notes(label: str, modelled: bool, incomplete: int, absent: int, fate: str) -> list[str]:
    """Notes on the holes of a table: none, fully missing rows and their `fate`, and no modelled column."""
    if not modelled:
        return ["no column varies: there is nothing to model"]
    if not incomplete:
        return [f"{label} has no hole in a modelled column"]
    if absent:
        rows = "1 row is" if absent == 1 else f"{absent} rows are"
        return [f"{rows} fully missing: {fate}"]
    return []


FAR_WARNED = (0.0, 0.01)
"""Of cells far outside the range of the fit: always said, and a warning where they are a hundredth of the column."""
MANY_WARNED = (0.5, 0.5)
"""Of cells that are outside it, but not far: said where they are half of the column, and a warning then."""


def beyond_words(name: str, what: str, count: int, low: str, high: str) -> str:
    """The line on cells outside the range of the fit, where they are many."""
    return (
        f"column '{name}': {what} {'is' if count == 1 else 'are'} outside the range of the fit, {low} to {high}: fills "
        "that depend on it are extrapolated; fit again with such rows, or without the column"
    )
