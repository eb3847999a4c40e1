"""What is missing, as the report tells it, and the matrix as a picture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.encoding.missingness import Missingness as Found
from vgi_cli.reports.values import CarriedColumn, Missingness, Pattern

PATTERNS, PAIRS = 10, 10
"""Patterns and pairs that are named."""
LINES = 160
"""Lines of the picture of the matrix."""


def told(found: Found, carried: Sequence[CarriedColumn]) -> Missingness:
    """What the report says of what was found in the modelled columns of the table, and of those that are carried."""
    return Missingness(
        rows=found.rows,
        cells=found.rows * len(found.columns),
        missing=int(found.absent.sum()),
        complete_rows=found.complete,
        empty_rows=found.nothing,
        patterns=[Pattern(pattern.missing, pattern.rows) for pattern in found.patterns[:PATTERNS]],
        patterns_in_all=len(found.patterns),
        never_together=found.apart[:PAIRS],
        never_together_in_all=len(found.apart),
        modelled=found.columns,
        carried=carried,
    )


def matrix(missing: Bools) -> Floats:
    """[r, columns] share of missing cells in at most LINES groups of consecutive rows of missing [N, columns]."""
    groups = np.array_split(missing, min(LINES, max(len(missing), 1)))
    return np.stack([group.mean(0) if len(group) else np.zeros(missing.shape[1]) for group in groups])
