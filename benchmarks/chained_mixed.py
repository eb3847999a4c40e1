"""Chained equations for tables of numbers and categories, as R's mice does them (van Buuren and Groothuis-Oudshoorn
2011), in Python: what `benchmarks/mixed.py` compares with where there is no R, and beside it.

regressions  a number by predictive mean matching (one posterior draw of the linear regression predicts the holes, its
             estimate the observed rows; one of the five nearest is the donor: "type 1"), two levels by a logistic
             regression with one draw of its coefficients, more by a multinomial regression, as estimated
trees        a regression tree or a classification tree of 5 rows a leaf at least; a hole takes a random cell of the
             rows in its leaf

Five rounds over the columns from the first to the last, from random observed cells as start, as there. Logistic and
multinomial regressions see a few made rows of little weight, so that no level is told from the others without doubt
(White, Daniel and Royston 2010).
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

ROUNDS = 5
DONORS = 5
RIDGE = 1e-5
LEAF = 5


def is_text(column: pd.Series) -> bool:
    """Whether a column is taken for categories."""
    return not pd.api.types.is_numeric_dtype(column)


def impute(holes: pd.DataFrame, how: str, rng: np.random.Generator) -> pd.DataFrame:
    """One completed table; columns of texts are categories. how: regressions or trees."""
    missing = holes.isna().to_numpy()
    levels, codes = {}, np.empty(holes.shape)
    for i, name in enumerate(holes):
        seen = holes[name][~missing[:, i]].to_numpy()
        if is_text(holes[name]):
            levels[i], seen = np.unique(seen.astype(str), return_inverse=True)
        codes[~missing[:, i], i] = seen
        codes[missing[:, i], i] = rng.choice(seen, missing[:, i].sum())
    for _ in range(ROUNDS):
        for i in np.flatnonzero(missing.any(0)):
            gone, X = missing[:, i], inputs(codes, levels, i, how == "trees")
            y, law = codes[~gone, i], trees if how == "trees" else linear
            if i in levels and len(np.unique(y)) < 2:
                codes[gone, i] = y[0]
                continue
            codes[gone, i] = law(X[~gone], y, X[gone], len(levels.get(i, ())), rng)
    out = {
        name: pd.Series(levels[i][codes[:, i].astype(int)], dtype=object) if i in levels else codes[:, i]
        for i, name in enumerate(holes)
    }
    return pd.DataFrame(out)


def inputs(codes: np.ndarray, levels: dict[int, np.ndarray], left_out: int, plain: bool) -> np.ndarray:
    """The other columns: categories as indicators, of all levels (trees) or all but the first (regressions)."""
    parts = []
    for i in range(codes.shape[1]):
        if i != left_out:
            shown = np.arange(0 if plain else 1, len(levels[i])) if i in levels else None
            parts.append(codes[:, i, None] if shown is None else codes[:, i, None] == shown)
    return np.hstack(parts).astype(float)


def linear(X: np.ndarray, y: np.ndarray, wanted: np.ndarray, levels: int, rng: np.random.Generator) -> np.ndarray:
    """Draws of a column for rows `wanted`, from a regression on X of y: numbers (levels 0) or codes of levels."""
    if not levels:
        return matched(X, y, wanted, rng)
    centre, scale = X.mean(0), X.std(0)
    keep = scale > 0
    X, wanted = ((rows[:, keep] - centre[keep]) / scale[keep] for rows in (X, wanted))
    X, y, weights = augmented(X, y, levels)
    fit = LogisticRegression(C=1e6, max_iter=100).fit(X, y.astype(int), weights)
    if levels > 2:
        return drawn(fit.predict_proba(wanted), rng)
    full, other = (np.column_stack([np.ones(len(rows)), rows]) for rows in (X, wanted))
    estimate = np.append(fit.intercept_, fit.coef_[0])
    p = 1 / (1 + np.exp(-full @ estimate))
    information = (full * (weights * p * (1 - p))[:, None]).T @ full + 1e-6 * np.eye(full.shape[1])
    draw = estimate + np.linalg.solve(np.linalg.cholesky(information).T, rng.standard_normal(len(estimate)))
    return (rng.random(len(other)) < 1 / (1 + np.exp(-other @ draw))).astype(float)


def matched(X: np.ndarray, y: np.ndarray, wanted: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Predictive mean matching, type 1."""
    full, other = (np.column_stack([np.ones(len(rows)), rows]) for rows in (X, wanted))
    square = full.T @ full
    inverse = np.linalg.inv(square + np.diag(RIDGE * np.diag(square)) + 1e-12 * np.eye(len(square)))
    estimate = inverse @ full.T @ y
    freedom = max(len(y) - full.shape[1], 1)
    sd = np.sqrt(((y - full @ estimate) ** 2).sum() / rng.chisquare(freedom))
    root = np.linalg.cholesky((inverse + inverse.T) / 2)
    draw = estimate + sd * root @ rng.standard_normal(len(estimate))
    distance = np.abs((full @ estimate)[None, :] - (other @ draw)[:, None])
    distance += 1e-10 * rng.random(distance.shape)
    count = min(DONORS, len(y))
    nearest = np.argpartition(distance, count - 1, axis=1)[:, :count]
    return y[nearest[np.arange(len(other)), rng.integers(count, size=len(other))]]


def augmented(X: np.ndarray, y: np.ndarray, levels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, codes and weights with the made rows: for each input and level one half a standard deviation above the
    means and one below them; together they weigh as many rows as there are coefficients."""
    q = X.shape[1]
    steps = np.repeat(np.eye(q), 2 * levels, axis=0) * np.tile([0.5, -0.5], q * levels)[:, None]
    made = np.tile(np.repeat(np.arange(levels), 2), q)
    weights = np.append(np.ones(len(y)), np.full(len(made), (q + 1) / max(len(made), 1)))
    return np.vstack([X, steps]), np.append(y, made), weights


def trees(X: np.ndarray, y: np.ndarray, wanted: np.ndarray, levels: int, rng: np.random.Generator) -> np.ndarray:
    """As `linear`, by the leaves of a tree."""
    kind = DecisionTreeClassifier if levels else DecisionTreeRegressor
    tree = kind(min_samples_leaf=min(LEAF, len(y)), random_state=int(rng.integers(2**31))).fit(X, y)
    leaf, other = tree.apply(X), tree.apply(wanted)
    order = np.argsort(leaf, kind="stable")
    first, last = (np.searchsorted(leaf[order], other, side) for side in ("left", "right"))
    return y[order[first + (rng.random(len(other)) * (last - first)).astype(int)]]


def drawn(probability: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A level for each row of probabilities [n, levels]."""
    return (rng.random((len(probability), 1)) > probability.cumsum(1)[:, :-1]).sum(1).astype(float)
