"""Columns that may be the logarithms of others: to a base of e, 10 or 2, or of one and the other."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from vgi_cli.columns.numerals import Floats
from vgi_cli.columns.relations import BASES, Base, Relation
from vgi_cli.encoding.redundant import FEWEST, MOST_NOTED, half_digit
from vgi_cli.encoding.sums import CodedRows

FORMS: tuple[tuple[Base, float], ...] = (("e", 0.0), ("10", 0.0), ("2", 0.0), ("e", 1.0))
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
    if len(names) > MOST_NOTED:
        return
    cells = {name: every.codes([name])[:, 0] for name in names}
    digits = {name: every.digits([name]) for name in names}
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = {
            (name, form): np.log(cells[name][:LOOKED_AT] + form[1]) / np.log(BASES[form[0]])
            for name in names
            for form in FORMS
        }
    for first in names:
        y = cells[first][:LOOKED_AT]
        half = digits[first].of(np.nan_to_num(y)) + NEAR * (1 + np.abs(y))
        for (second, form), log in logs.items() if first not in settled else ():
            known = ~np.isnan(y) & ~np.isnan(cells[second][:LOOKED_AT])
            if first == second or known.sum() < FEWEST or np.ptp(y[known]) < LEAST:
                continue
            if not (np.abs(y - log) <= half)[known].all():
                continue
            whole = np.stack([cells[first], cells[second]], 1)
            relation = Relation(
                names=(first, second),
                how="log",
                constant=form[1],
                base=form[0],
                rounded=digits[first].rounded,
                significant=digits[first].significant,
            )
            yield relation, whole[~np.isnan(whole).any(1)], half_digit(every.columns[first])
