"""Headers that are rows, and rows that are headers."""

from __future__ import annotations

import re

import numpy as np

from vgi_cli.columns.base import Column
from vgi_cli.columns.datetime import Moment, instant
from vgi_cli.columns.levelled import Levelled, number_of
from vgi_cli.columns.number import Number
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import SHOWN, Alarm, shortened
from vgi_cli.errors import InputError
from vgi_cli.table.base import Table
from vgi_cli.table.csv.text import SAMPLE, looks_like_data

IMPORT_ID = re.compile(r'\s*\{"ImportId"')
"""How the last of three headers begins that Qualtrics writes: names, texts and ids of the questions."""
HEADERS = 2
"""First rows that may be such headers."""


def refuse_headers(table: Table, name: str) -> None:
    """InputError where the first cells of a column are further headers, of an export of Qualtrics."""
    texts = table.some_text(name, np.arange(min(HEADERS, table.N))).tolist() if table.textual(name) else []
    row = next((row for row, text in enumerate(texts) if text is not None and IMPORT_ID.match(text)), None)
    if row is not None:
        which = " and ".join(map(table.where, range(row + 1)))
        raise InputError(
            f"{table.label}: {table.where(row)} holds ids of questions ('{shortened(texts[row].strip())}'), as the "
            "headers of Qualtrics do",
            f"delete {which}" + ": texts and ids of the questions, which are no answers" * (row > 0),
        )


def split_by_blanks(table: Table) -> bool:
    """Whether the only column of a CSV file may be several with blanks between them: its cells have as many blanks as
    its name, or all of them one more (before it the name of the row)."""
    if table.origin.format != "csv" or len(table.names) > 1:
        return False
    name = table.names[0].strip()
    texts = table.some_text(table.names[0], np.arange(min(table.N, SAMPLE))).tolist()
    blanks = {text.count(" ") - name.count(" ") for text in texts}
    return " " in name and blanks in ({0}, {1})


def headless(table: Table, schema: Schema) -> list[str]:
    """A line where the names of the columns are rather their first cells."""
    if looks_like_data(table.names):
        return [f"the column names of {table.label} are numbers: is the header line missing?"]
    modelled = schema.encoded
    texts = [c for c in modelled if isinstance(c, Levelled) and number_of(c.name.strip()) is None]
    if not texts or len(texts) == len(modelled) or not all(_holds(table, column) for column in modelled):
        return []
    shown = ", ".join(f"'{shortened(name)}'" for name in table.names[:SHOWN])
    more = f" and {len(table.names) - SHOWN} more" * (len(table.names) > SHOWN)
    return [Alarm(f"the column names of {table.label} look like a row ({shown}{more}): is the header line missing?")]


def _holds(table: Table, column: Column) -> bool:
    """Whether the name of a column may be one of its cells."""
    name = column.name.strip()
    if isinstance(column, Levelled):
        return name in column.texts
    if isinstance(column, Moment):
        return instant(column.clock, name) is not None
    if isinstance(column, Number):
        plain = name.replace(table.decimal, ".") if column.notation is None else column.notation.plain(name)
        value = None if plain is None else number_of(plain)
        return value is not None and (not column.whole or value == round(value))
    return False
