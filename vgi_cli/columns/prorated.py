"""Prorated scores: a mean or a sum of items that was computed from those that were answered, where some were not.

Such a score says nothing of the answers that are missing beside it: as one of all items it would draw them all to the
mean of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY
from typing import final

import numpy as np
from pydantic import NonNegativeFloat
from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import STRICT
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.relations import Relation

NEAR = 1e-9
"""Share of its size by which a score may be off its items, beside its rounding."""


@final
@dataclass(frozen=True, config=STRICT)
class Prorated:
    """A score that is the sum of its items, each times a weight of one size and plus a constant (of those that count
    the other way round), in rows that have all of them; in rows that lack some, of those that are there.

    name       of the score
    others     the items
    weights    one each
    constants  one each, units of the score
    half       of the last digit of the score
    whole      whether the sum of those that are there is taken times the number of all over theirs; else it is no more
               than that, and what is missing counts as 0
    """

    _: KW_ONLY
    name: str
    others: tuple[str, ...]
    weights: tuple[float, ...]
    constants: tuple[float, ...]
    half: NonNegativeFloat
    whole: bool = True

    def __post_init__(self) -> None:
        names = {self.name, *self.others}
        alike = len(self.weights) == len(self.constants) == len(self.others) == len(names) - 1 > 1
        if not alike or 0 in self.weights:
            raise ValueError("the score does not fit its items")

    def score(self, items: Floats) -> Floats:
        """[..] what the score is by items [.., others], NaN where one is missing; NaN where all are."""
        terms = items * np.array(self.weights) + np.array(self.constants)
        there = ~np.isnan(items)
        count = there.sum(-1)
        total = np.where(there, terms, 0.0).sum(-1)
        factor = len(self.others) / np.maximum(count, 1) if self.whole else 1.0
        return np.where(count > 0, total * factor, np.nan)

    def is_of(self, score: Floats, items: Floats) -> Bools:
        """[..] whether scores [..] are those of items [.., others], NaN where one is missing."""
        return np.asarray(np.abs(score - self.score(items)) <= self.half * (1 + NEAR) + NEAR * np.abs(score))

    def silent(self, score: Floats, items: Floats) -> Bools:
        """[..] where a score [..] is that of the items that are there, and some are missing."""
        return self.is_of(score, items) & np.isnan(items).any(-1)


def silent_cells(
    scores: Sequence[Prorated], relations: Iterable[Relation], codes: Callable[[str], Floats]
) -> dict[str, Bools]:
    """By columns the rows [N] in which they say nothing of what is missing beside them: prorated scores, and what is
    computed from these by relations (a standardised score, a total of several). `codes`: of a column by its name [N],
    NaN where a cell is missing."""
    silent = {
        one.name: one.silent(codes(one.name), np.stack([codes(other) for other in one.others], -1)) for one in scores
    }
    own = [{one.name, *one.others} for one in scores]
    others = [one for one in relations if set(one.names) not in own]
    count = -1
    while silent and count != sum(int(rows.sum()) for rows in silent.values()):
        count = sum(int(rows.sum()) for rows in silent.values())
        for relation in others:
            first, *rest = relation.names
            for name in [name for name in rest if name in silent]:
                silent[first] = silent.get(first, np.zeros(silent[name].shape, bool)) | silent[name]
            if len(rest) == 1 and first in silent:
                silent[rest[0]] = silent.get(rest[0], np.zeros(silent[first].shape, bool)) | silent[first]
    return silent
