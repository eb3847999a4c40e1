"""Detection limits (`<0.5`, `<LOD`) that are said to mean missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from vgi_cli.columns.base import Empty
from vgi_cli.columns.number import Constant, Number
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import SHOWN, Alarm, is_limit, limits_hint
from vgi_cli.table.base import Table


def limits_as_missing(table: Table, schema: Schema) -> list[str]:
    """A line where cells of columns of numbers are missing by `--na-values` though they are a detection limit or an
    open end: something is known of them, and usual values in their place bias every analysis."""
    tokens: dict[str, None] = {}
    counts: dict[str, int] = {}
    for column in schema.columns:
        numbers = isinstance(column, Number | Constant | Empty) and column.role == "data"
        if numbers and table.textual(column.name) and (held := _held(table, column.name)):
            tokens.update(dict.fromkeys(held))
            counts[column.name] = sum(held.values())
    if not counts:
        return []
    where = [f"'{name}' ({count:,} cell{'s' if count > 1 else ''})" for name, count in counts.items()]
    columns = f"column{'s' if len(counts) > 1 else ''} {_listed(where)}"
    means = f"{_listed(list(map(repr, tokens)))} {'means' if len(tokens) == 1 else 'mean'} missing by --na-values"
    biased = "where usual values are filled in, which biases every analysis"
    return [Alarm(f"{means} in {columns}, {biased}: {limits_hint(list(tokens), table.decimal)}")]


def _held(table: Table, name: str) -> Counter[str]:
    """Which limits that mean missing the cells of a column hold, blanks around them aside, and how many cells each."""
    tokens = {text for own in table.tokens(name) for text in own.texts if is_limit(text)}
    rows = np.flatnonzero(table.blank(name)) if tokens else np.zeros(0, np.int64)
    texts = (str(cell).strip() for cell in table.some_text(name, rows) if cell is not None)
    return Counter(text for text in texts if text in tokens)


def _listed(words: Sequence[str]) -> str:
    more = len(words) - SHOWN
    return ", ".join(words[:SHOWN]) + f" and {more} more" * (more > 0)
