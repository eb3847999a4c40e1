"""Where fills could not keep to what holds between columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import TypeAlias

import numpy as np

from vgi_cli.columns.comparisons import Comparison
from vgi_cli.columns.numerals import Bools, Floats, Ints
from vgi_cli.columns.orders import Order
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.skips import Skip, Threshold
from vgi_cli.columns.structural_zeros import StructuralZeros

Rule: TypeAlias = Relation | Order | Skip | Threshold | StructuralZeros | Comparison
"""What holds between columns; of structural zeros one pair alone."""


class Apart:
    """The rows of draws [m, N] in which fills do not keep to some rules, each with the places of its columns.
    `shape`: m, N."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self._found: list[tuple[Rule | None, list[int], Bools]] = []

    def add(self, places: Sequence[int], rows: Bools, rule: Rule | None = None) -> None:
        """Where [m, N] fills do not keep to a rule of the columns at these places; None: one that follows from others,
        and is not counted by itself."""
        if rows.any():
            self._found.append((rule, list(places), rows))

    def update(self, other: Apart) -> None:
        """Those of another one, too."""
        self._found += other._found

    def update_at(self, draw: Ints, row: Ints, other: Apart, taken: Bools) -> None:
        """Those of another one, whose rows of a single draw are some rows [n] of some draws [n]; but for rows that are
        not `taken` [m, N]."""
        for rule, places, found in other._found:
            where = np.zeros(self.shape, bool)
            where[draw, row] = found[0]
            self._found.append((rule, places, where & taken))

    def mend(self, rows: Bools) -> None:
        """Rows [m, N] keep to all rules now."""
        self._found = [(rule, places, found & ~rows) for rule, places, found in self._found]

    def rows(self, draws: Floats | None = None) -> Bools:
        """[m, N] where some rule is not kept to; `draws` [m, N, columns]: but for rules of which a cell is blank there
        (NaN), which hold."""
        apart = np.zeros(self.shape, bool)
        for _, places, rows in self._found:
            apart |= _open(places, rows, draws)
        return apart

    def rows_of(self, rules: Collection[Rule]) -> Bools:
        """[m, N] where one of some rules is not kept to."""
        apart = np.zeros(self.shape, bool)
        for rule, _, rows in self._found:
            if rule in rules:
                apart |= rows
        return apart

    def count(self, draws: Floats | None = None) -> int:
        """How many rows of all draws."""
        return int(self.rows(draws).sum())

    def counts(self, draws: Floats | None = None) -> Counter[Rule]:
        """By the rules that are not kept to in how many rows of all draws."""
        found: dict[Rule, Bools] = {}
        for rule, places, rows in self._found:
            if rule is not None:
                found[rule] = found.get(rule, np.zeros(self.shape, bool)) | _open(places, rows, draws)
        return Counter({rule: int(rows.sum()) for rule, rows in found.items() if rows.any()})


def _open(places: Sequence[int], rows: Bools, draws: Floats | None) -> Bools:
    """[m, N] rows of which no cell at some places is blank in draws [m, N, columns]."""
    return rows if draws is None else rows & ~np.isnan(draws[..., places]).any(-1)
