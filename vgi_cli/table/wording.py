"""Words for cells, columns and rows in the messages about a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vgi_cli.table.base import Bools, Table

LONGEST = 80
"""Characters of a cell that a message shows."""
SHOWN = 5
"""So many columns are named, or have a line each, where the same is said of several."""


def example(table: Table, name: str, which: Bools) -> str:
    """`'?' in row 3 (line 4) and 2 more cells`."""
    return first_cell(table, name, which) + others(int(which.sum()))


def first_cell(table: Table, name: str, which: Bools) -> str:
    """`'?' in row 3 (line 4)`: the first of the cells."""
    row = int(np.flatnonzero(which)[0])
    return f"'{_short(table, name, row)}' in {table.where(row)}"


def _short(table: Table, name: str, row: int) -> str:
    text = str(table.some_text(name, np.array([row]))[0])
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def others(count: int) -> str:
    """` and 2 more cells` of `count` cells, of which one was named."""
    return f" and {count - 1} more cell{'s' if count > 2 else ''}" if count > 1 else ""


def token_hint(table: Table, name: str, which: Bools, fitted: bool = False) -> str:
    """What to do about the first of the cells, which is no number; `fitted`: the kind of the column is settled."""
    carry = f"`--column {name}=carry` to carry the column as it is"
    if fitted:
        carry = f"fit again with {carry}"
    row = int(np.flatnonzero(which)[0])
    if table.numbers(name).padded[row]:
        return f"a leading zero makes a code, not a number: {carry}"
    return f"{missing_hint(table, name, which)}, or {carry}"


def missing_hint(table: Table, name: str, which: Bools) -> str:
    """What to do where the first of the cells means missing."""
    row = int(np.flatnonzero(which)[0])
    return f"`--na-values '{_short(table, name, row).strip()}'` if that means missing"


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
    """Notes on the holes of a table: none, fully missing rows and their `fate`, no modelled column."""
    if not modelled:
        return ["no column varies: there is nothing to model"]
    if not incomplete:
        return [f"{label} has no hole in a modelled column"]
    if absent:
        rows = "1 row is" if absent == 1 else f"{absent} rows are"
        return [f"{rows} fully missing: {fate}"]
    return []
