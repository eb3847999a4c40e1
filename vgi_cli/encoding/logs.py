"""Columns that may be the logarithms of others: to a base of e, 10 or 2, or of one and the other."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from vgi_cli.columns.numerals import Floats
from vgi_cli.columns.relations import BASES, Base, Relation
from vgi_cli.encoding.redundant import FEWEST, MOST_NOTED
from vgi_cli.encoding.sums import CodedRows

FORMS: tuple[tuple[Base, float], ...] = tuple((base, added) for added in (0.0, 1.0) for base in BASES)
"""Bases, and what is added before."""
LOOKED_AT = 400
"""Rows at the beginning by which most pairs of columns are found to be none."""
NEAR = 1e-9
"""Share of their size by which such cells may be off that, beside rounding."""
LEAST = 1e-4
"""Range of logarithms, at least: those of one and very small numbers are all about zero."""


def log_candidates(
    every: CodedRows, names: Sequence[str], settled: Collection[str]
) -> Iterator[tuple[Relation, Floats, float]]:
    """Relations by which a column of some `names`, not a settled one, may be the logarithm of another one; with all
    rows [n, 2] that have both, and half of the last digit of the first one."""
    if not 1 < len(names) <= MOST_NOTED:
        return
    x = every.codes(names)
    some, pairs = x[:LOOKED_AT], [(j, form) for j in range(len(names)) for form in FORMS]
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.stack([np.log(some[:, j] + added) / np.log(BASES[base]) for j, (base, added) in pairs], 1)
    seen = np.isfinite(logs)
    for i, first in enumerate(names):
        if first in settled:
            continue
        digits, y = every.digits([first]), some[:, i]
        half = digits.of(np.nan_to_num(y)) + NEAR * (1 + np.abs(y))
        known = ~np.isnan(y)[:, None] & seen
        with np.errstate(invalid="ignore"):
            near = ((np.abs(y[:, None] - logs) <= half[:, None]) | ~known).all(0) & (known.sum(0) >= FEWEST)
        for place in np.flatnonzero(near).tolist():
            j, (base, added) = pairs[place]
            if i == j or np.ptp(y[known[:, place]]) < LEAST:
                continue
            whole = x[:, [i, j]]
            relation = Relation(
                names=(first, names[j]),
                how="log",
                constant=added,
                base=base,
                rounded=digits.rounded,
                significant=digits.significant,
            )
            yield relation, whole[~np.isnan(whole).any(1)], float(digits.halves[0])
