"""Columns of texts whose cells hold several answers each, such as `radio;tv;web`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from vgi_cli.columns.base import Carried, Cells, Column
from vgi_cli.columns.categorical import Categorical
from vgi_cli.columns.levelled import MOST
from vgi_cli.columns.wording import first_cell, folded
from vgi_cli.table.base import Table

SEPARATORS = (";", "|", ", ")
"""What may stand between the answers of a cell."""
FEWEST, SEVERAL = 3, 0.1
"""Fewest different answers, and share of the cells, from which on cells with two or more of them are no chance."""
RECURRING = 0.8
"""Least share of the cells all of whose answers occur in other combinations too."""
MOVING = 0.5
"""Least share of the answers that occur at several places of a list; of `Smith, John` or `Paris, Texas` hardly any."""
FEWEST_CELLS = 20
"""Fewest cells that are looked at."""
LOOKED_AT = 5_000
"""Different texts of a column beyond which its cells are no answers out of a small set."""


def several_answers(table: Table, columns: Sequence[Column]) -> list[str]:
    """A line for each column of texts, modelled as categories or carried, whose cells hold several answers."""
    lines = []
    for column in columns:
        if isinstance(column, Categorical | Carried) and table.textual(column.name) and table.levelled(column.name):
            cells = table.column(column.name)
            if (found := answers_in(cells)) is not None:
                separator, count = found
                several = np.array([separator in str(text).strip(separator) for text in cells.distinct.texts], bool)
                held = cells.distinct.places >= 0
                held[held] = several[cells.distinct.places[held]]
                dummies = f"frame[{column.name!r}].str.get_dummies(sep={separator!r})"
                line = (
                    f"column '{column.name}' holds several answers in a cell ({first_cell(cells, held)}): a column of "
                    f"yes and no for each of its {count} answers models them better (in pandas: `{dummies}`, with the "
                    "missing cells kept: see docs/columns.md)"
                )
                lines.append((column.name, line))
    return folded(lines)


def answers_in(cells: Cells) -> tuple[str, int] | None:
    """What stands between the answers in the cells of a column of texts, and how many different answers there are; None
    where its cells are no lists."""
    texts, places = cells.distinct
    counts = np.bincount(places[places >= 0], minlength=len(texts))
    held = [(str(text), int(count)) for text, count in zip(texts, counts.tolist(), strict=True) if count]
    total = int(counts.sum())
    if total < FEWEST_CELLS or not FEWEST <= len(held) <= LOOKED_AT:
        return None
    for separator in SEPARATORS:
        lists = [([word for part in text.split(separator) if (word := part.strip())], n) for text, n in held]
        if sum(n for words, n in lists if len(words) > 1) >= SEVERAL * total and (count := _small_set(lists)):
            return _with_blanks(separator, [text for text, _ in held]), count
    return None


def _with_blanks(separator: str, texts: Sequence[str]) -> str:
    """The separator with the blanks that are beside it in all texts."""
    for whole in (f" {separator} ", f"{separator} ", f" {separator}"):
        if all(text.count(separator) == text.count(whole) for text in texts):
            return whole
    return separator


def _small_set(lists: Sequence[tuple[list[str], int]]) -> int:
    """How many different answers some lists hold, each with the number of cells that do; 0 where they are not out of a
    small set, each of which goes with different others."""
    total = sum(n for _, n in lists)
    combinations: dict[str, set[frozenset[str]]] = defaultdict(set)
    at: dict[str, set[int]] = defaultdict(set)
    for words, _ in lists:
        if len(set(words)) < len(words):
            return 0
        for place, word in enumerate(words):
            combinations[word].add(frozenset(words))
            at[word].add(place)
    again = {word for word, own in combinations.items() if len(own) > 1}
    cells = sum(n for words, n in lists if words and again.issuperset(words))
    moving = sum(len(at[word]) > 1 for word in again)
    few = len(again) >= FEWEST and len(combinations) <= min(MOST, total / 2)
    return len(combinations) if few and cells >= RECURRING * total and moving >= MOVING * len(again) else 0
