"""Which columns that are in order in every row may be compared, and which are so for their units alone.

Columns of unlike quantities that grow together (the weight in kilograms and the age in years of children, a stock in
dollars and jobs in thousands) hardly cross, and nothing would be wrong if they did.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from vgi_cli.columns.bounds import calendar_ends
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.numerals import Floats, Ints, mean_ranks, value_places
from vgi_cli.columns.orders import Order
from vgi_cli.columns.places import evenly
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.independence import GroupedRows
from vgi_cli.encoding.redundant import codes_of
from vgi_cli.table.base import Table

ROWS = 2_000
"""Rows by which it is asked how often columns that go together would cross."""
LIKELY = 1.0
"""Nats by which rows must speak for an order all the same where some cells are as good as equal."""
NEARLY, SO_NEAR = 0.03, 3
"""Cells of so many different rows lie no farther apart than this share of the larger one where columns meet."""
START, END = 3, 4
"""Letters that names of columns of one kind have in common at their beginning (and of a word), and at their end."""
NOISE = 1e-9
"""A correlation is smaller than 1 by so much at least."""

WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
FIRST = {"start", "begin", "from", "entry", "admitted", "open", "birth", "low", "lower", "min", "minimum", "least"}
LAST = {"stop", "end", "to", "exit", "discharged", "close", "death", "high", "upper", "max", "maximum", "most"}
"""Words of names by which two columns are the ends of something."""
WHOLE = "total"
"""Part of a name by which a column is a whole."""


def comparable(
    table: Table, schema: Schema, found: Mapping[tuple[str, str], Order], enough: float
) -> dict[tuple[str, str], Order]:
    """Of orders that were found, by the names of their columns, those of columns that may be compared, the surest
    first: of dates; of columns whose names have a part in common, or are those of ends; and of others where so many
    rows in order are no chance if the columns go together as they do (by so many nats: `enough`), or are hardly so, and
    some cells are as good as equal, or the greater column is called a total."""
    columns = {column.name: column for column in schema.encoded}
    codes = {name: codes_of(table, columns[name]) for name in {name for pair in found for name in pair}}
    rows, numbers = (
        GroupedRows(table, schema, np.arange(table.N), codes),
        {name: value_places(own) for name, own in codes.items()},
    )
    calendar = {name: calendar_ends(name, own[~np.isnan(own)]) for name, own in codes.items()}
    sure: dict[tuple[str, str], tuple[bool, float]] = {}
    for (low, high), order in found.items():
        if calendar[low] != calendar[high]:  # an hour, and what is counted in anything else
            continue
        a, b = order.per[0] * codes[low], order.per[1] * codes[high] + order.shift
        places = numbers[low], numbers[high]
        nats = chance_of_order(a, b, rows.by_groups((low, places[0]), (high, places[1])), places)
        dates = isinstance(columns[low], Moment)
        alike = dates or alike_names(low, high) or _ends(low, high)
        if alike or nats >= enough or (nats >= LIKELY and (WHOLE in high.lower() or _meet(a, b))):
            sure[low, high] = not dates, -nats
    return {pair: found[pair] for pair in sorted(sure, key=lambda pair: sure[pair])}


def chance_of_order(
    a: Floats, b: Floats, groups: Sequence[tuple[Ints, ...]] = (), places: tuple[Ints, Ints] | None = None
) -> float:
    """How improbable it is, in nats, that cells a [N] are at most b [N] in all rows by chance, where their normal
    scores have a normal law of two variables with the correlation that is seen. Rows of a group count once where it has
    one cell in each of the two (`groups`: the numbers of the cells of such groups; `places`: `_numbers` of a and b, if
    somebody has them)."""
    from scipy.special import ndtr, ndtri  # takes a while to import

    both = np.flatnonzero(~np.isnan(a) & ~np.isnan(b))
    first, second = (own[both] for own in (places or (value_places(a), value_places(b))))
    pairs = len(np.unique(first * (second.max(initial=0) + 1) + second))
    decided = [pairs for own in (first, second) if int((np.bincount(own) > 0).sum()) == pairs]
    count = min([len(both), *decided, *(len(first) for first, _ in groups)])
    some = both[evenly(len(both), ROWS)]
    a, b = a[some], b[some]
    score, other = (ndtri(mean_ranks(own) / (len(own) + 1)) for own in (a, b))
    varied = min(np.ptp(score), np.ptp(other)) > 0
    r = min(float(np.corrcoef(score, other)[0, 1]), 1 - NOISE) if varied else 0.0
    below = ndtri(np.searchsorted(np.sort(b), a) / len(b))
    share = float(ndtr((below - r * score) / np.sqrt(1 - r * r)).mean())
    return -count * float(np.log1p(-min(share, 0.999)))


def alike_names(one: str, other: str) -> bool:
    """Whether names of two columns have a word, their beginning or their end in common: mean_radius and worst_radius,
    fatal1517 and nfatal."""
    words = [{word for word in _words(name) if len(word) >= START} for name in (one, other)]
    a, b = ("".join(filter(str.isalpha, name)).lower() for name in (one, other))
    if min(len(a), len(b)) < START:
        return False
    return bool(words[0] & words[1]) or a[:START] == b[:START] or a[-END:] == b[-END:] or a in b or b in a


def _ends(low: str, high: str) -> bool:
    """Whether the names of two columns say that they are a beginning and an end, or a least and a greatest value."""
    return bool(_words(low) & FIRST) and bool(_words(high) & LAST)


def _words(name: str) -> set[str]:
    return {word.lower() for word in WORD.findall(name)}


def _meet(a: Floats, b: Floats) -> bool:
    """Whether cells [N] of two columns are as good as equal in some rows, of which no two are the same."""
    near = b - a <= NEARLY * np.maximum(np.abs(a), np.abs(b))  # NaN: no
    return len(np.unique(np.stack([a[near], b[near]]), axis=1).T) >= SO_NEAR
