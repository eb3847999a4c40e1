"""What imputers of whole tables have in common: their signature, and the columns that no regression can explain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Values: TypeAlias = npt.NDArray[np.float64]
Holes: TypeAlias = npt.NDArray[np.bool_]

Ask: TypeAlias = Callable[[], bool]
"""Whether an imputation is to be given up."""


class GivenUp(Exception):
    """What an imputer raises where `Ask` said so."""


def never() -> bool:
    """The Ask of an imputation that is carried through."""
    return False


def ask(give_up: Ask) -> None:
    """What an imputer calls before each regression: GivenUp where it is to go no further."""
    if give_up():
        raise GivenUp


Levels: TypeAlias = Sequence[int]
"""Of each column its number of levels, 0 where it holds numbers; empty: all hold numbers."""

TableImputer: TypeAlias = Callable[[Values, Holes, int, Mapping[str, int | None], Ask, Levels], Values]
"""`impute(x [N, D], missing [N, D], seed, settings, give_up, levels) -> [N, D]`: one imputation of a table, encoded
space.

Absent cells of x hold 0 and are not looked at; observed cells come back as they are. A column of levels holds their
numbers, 0 to levels - 1, and so do its fills. The seed (below 2^32) decides all
randomness: independent imputations are runs with different seeds. `settings`: those of its entry (registry/names.py).
Imputers that take long ask `give_up` on their way (see `ask`).
A column that is observed nowhere becomes 0, the centre of the encoded space or the first level (`empirical`: draws
from N(0, 1), of levels any one); fully missing rows are imputed like all others.
"""

Chained: TypeAlias = Callable[[Values, Holes, Levels], Values]


def on_varying_columns(chained: Chained, x: Values, missing: Holes, levels: Levels = ()) -> Values:
    """One imputation by regressions of each column on the others, where they make sense.

    `chained` sees the columns with two different observed values at least, and their levels (none: of numbers alone);
    constant columns are filled with their constant, unobserved ones with 0. Where one column is left, the regression is
    on a constant, its mean.
    """
    low = np.where(missing, np.inf, x).min(0, initial=np.inf)
    high = np.where(missing, -np.inf, x).max(0, initial=-np.inf)
    filled = np.where(missing, np.where(np.isfinite(low), low, 0.0), x)
    varying = np.flatnonzero(high > low)
    if missing[:, varying].any():
        alone = np.zeros((len(x), int(len(varying) == 1)))
        inputs = np.hstack([x[:, varying], alone]), np.hstack([missing[:, varying], alone.astype(bool)])
        left = [levels[column] for column in varying.tolist()] if levels else []
        counts = [*left, *[0] * alone.shape[1]] if any(left) else ()
        filled[:, varying] = chained(*inputs, counts)[:, : len(varying)]
    return np.where(missing, filled, x)


def others(filled: Values, column: int, levels: Levels, first: int = 0) -> Values:
    """[N, q] what a column is regressed on: the other numbers, and whether each level of another column holds, 1 or 0,
    from the level numbered `first` on (1: all are told apart from the first one)."""
    if not levels:
        return np.delete(filled, column, axis=1)
    parts = [
        (filled[:, [i]] == np.arange(first, count)).astype(np.float64) if count else filled[:, [i]]
        for i, count in enumerate(levels)
        if i != column
    ]
    return np.hstack(parts)


def most_often(seen: Values) -> float:
    """The level that occurs most often, the first of such."""
    return float(np.bincount(seen.astype(np.int64)).argmax())


def empirical(
    x: Values,
    missing: Holes,
    seed: int,
    settings: Mapping[str, int | None],
    give_up: Ask = never,
    levels: Levels = (),
) -> Values:
    """Each hole is an independent draw from the observed values of its column (see TableImputer)."""
    rng = np.random.default_rng(seed)
    filled = x.copy()
    for column, absent in enumerate(missing.T):
        seen, holes = x[~absent, column], int(absent.sum())
        if len(seen):
            filled[absent, column] = rng.choice(seen, holes)
        elif levels and levels[column]:
            filled[absent, column] = rng.integers(levels[column], size=holes)
        else:
            filled[absent, column] = rng.standard_normal(holes)
    return filled


def mean(
    x: Values,
    missing: Holes,
    seed: int,
    settings: Mapping[str, int | None],
    give_up: Ask = never,
    levels: Levels = (),
) -> Values:
    """Each hole is the mean of the observed values of its column, of levels the one that occurs most often; nothing
    here is random (see TableImputer)."""
    seen = np.maximum((~missing).sum(0), 1)
    centre = np.where(missing, 0.0, x).sum(0) / seen
    for column in np.flatnonzero(levels).tolist():
        if not missing[:, column].all():
            centre[column] = most_often(x[~missing[:, column], column])
    return np.where(missing, centre, x)
