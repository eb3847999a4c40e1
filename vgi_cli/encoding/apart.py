"""Where fills could not keep to what holds between columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vgi_cli.columns.numerals import Bools, Floats


class Apart:
    """The rows of draws [m, N] in which fills do not keep to some rules, each with the places of its columns.
    `shape`: m, N."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self._found: list[tuple[list[int], Bools]] = []

    def add(self, places: Sequence[int], rows: Bools) -> None:
        """Where [m, N] fills do not keep to a rule of the columns at these places."""
        if rows.any():
            self._found.append((list(places), rows))

    def update(self, other: Apart) -> None:
        """Those of another one, too."""
        self._found += other._found

    def rows(self, draws: Floats | None = None) -> Bools:
        """[m, N] where some rule is not kept to; `draws` [m, N, columns]: but for rules of which a cell is blank there
        (NaN), which hold."""
        apart = np.zeros(self.shape, bool)
        for places, rows in self._found:
            apart |= rows if draws is None else rows & ~np.isnan(draws[..., places]).any(-1)
        return apart

    def count(self, draws: Floats | None = None) -> int:
        """How many rows of all draws."""
        return int(self.rows(draws).sum())
