"""Which cells of a table are missing, together with which: shares, patterns, pairs of columns never seen together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from vgi_cli.columns.numerals import Bools, Ints

SELDOM = 5
"""Rows with both columns below which a fit says next to nothing of how these go together, and intervals do not show it:
of 50 rows with 80 % missing (trial) 95 % intervals of correlations of 0.5 held the truth in 15 of 30."""


class Pattern(NamedTuple):
    """The rows in which exactly the same columns are missing.

    missing  names of these columns; none: the rows are complete
    rows     number of the rows
    """

    missing: tuple[str, ...]
    rows: int


class Missingness(NamedTuple):
    """What is missing in N rows of some columns.

    rows      N
    columns   their names
    absent    [columns] number of missing cells of each
    by_row    [columns + 1] number of rows with 0, 1, … missing cells
    patterns  all that occur, those of most rows first
    apart     pairs of columns, each with observed cells, that no row has both of
    """

    rows: int
    columns: tuple[str, ...]
    absent: Ints
    by_row: Ints
    patterns: tuple[Pattern, ...]
    apart: tuple[tuple[str, str], ...]

    @property
    def complete(self) -> int:
        """Number of rows without a hole."""
        return int(self.by_row[0]) if self.rows else 0

    @property
    def nothing(self) -> int:
        """Number of rows with nothing observed."""
        return int(self.by_row[-1]) if self.columns else 0

    @property
    def share(self) -> float:
        """Share of the cells that is missing; 0 where there are none."""
        return float(self.absent.sum()) / max(self.rows * len(self.columns), 1)


def missingness(missing: Bools, names: Sequence[str]) -> Missingness:
    """What is missing in a mask [N, columns], True where a cell is absent."""
    N, n = missing.shape
    by_row = np.bincount(missing.sum(1), minlength=n + 1)
    packed = np.packbits(missing, axis=1)
    whole = np.ascontiguousarray(packed).view(np.dtype((np.void, packed.shape[1]))).ravel() if n else np.zeros(N)
    _, first, counts = np.unique(whole, return_index=True, return_counts=True)
    order = np.lexsort((missing[first].sum(1), -counts))  # of patterns that are as frequent, first those of few holes
    patterns = tuple(
        Pattern(tuple(names[i] for i in np.flatnonzero(missing[first[at]]).tolist()), int(counts[at]))
        for at in order.tolist()
    )
    apart = tuple(pair for pair, together in seldom_together(missing, names).items() if together == 0)
    return Missingness(N, tuple(names), missing.sum(0), by_row, patterns, apart)


def seldom_together(missing: Bools, names: Sequence[str]) -> dict[tuple[str, str], int]:
    """Pairs of columns of a mask [N, columns] of which each is observed somewhere, and fewer than SELDOM rows have
    both: how many these are."""
    observed = (~missing).astype(np.float32)  # counts of rows are exact up to 2^24, and only small ones matter
    rows, some = observed.T @ observed, ~missing.all(0)
    few = (rows < SELDOM) & np.outer(some, some)
    return {(names[i], names[j]): int(rows[i, j]) for i, j in np.argwhere(np.triu(few, 1)).tolist()}
