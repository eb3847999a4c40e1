"""`missforest`, on scikit-learn's IterativeImputer. Only `COMPLETERS.load` imports this file.

Differences from the library's defaults: columns without holes are not regressed (skip_complete), and a regression is
forgotten once it has predicted. The library keeps them all, for new rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401 (makes the next import possible)
from sklearn.impute import IterativeImputer

from vgi_cli.completers.base import Ask, Holes, Levels, Values, ask, most_often, never, on_varying_columns, others


def missforest(
    x: Values,
    missing: Holes,
    seed: int,
    settings: Mapping[str, int | None],
    give_up: Ask = never,
    levels: Levels = (),
) -> Values:
    """missForest (Stekhoven and Buehlmann 2012): each hole is what a random forest of the other columns predicts.

    As published: `trees` trees (100) that try sqrt(D) columns a split and keep 5 rows a leaf, columns by increasing
    number of holes, means as start. Otherwise as IterativeImputer: it stops after `iterations` rounds, or when no cell
    moved by more than 0.001 of the largest value (published: when the change grows). `depth`: of a tree, at most; none:
    no limit. Nothing is drawn from a distribution: imputations with different seeds differ by the forests only. See
    TableImputer.

    With columns of levels, which forests of classification trees predict (1 row a leaf, as published; the start is the
    level that occurs most often), the rounds stop as published: when the change grows of the numbers and of the levels,
    each where there are any; the round before counts.
    """
    asked = {
        "n_estimators": settings["trees"],
        "max_depth": settings["depth"],
        "max_features": "sqrt",
        "n_jobs": 1,
        "random_state": seed,
    }
    forest = RandomForestRegressor(**asked, min_samples_leaf=5)

    def chained(x: Values, missing: Holes, levels: Levels) -> Values:
        if levels:
            forests = forest, RandomForestClassifier(**asked, min_samples_leaf=1)
            return _mixed(x, missing, levels, forests, int(settings["iterations"] or 0), give_up)
        imputer = IterativeImputer(
            estimator=PredictOnce(forest, give_up),
            max_iter=settings["iterations"],
            imputation_order="ascending",
            initial_strategy="mean",
            skip_complete=True,
            random_state=seed,
        )
        with warnings.catch_warnings():  # forests need not settle within the rounds that were asked for
            warnings.simplefilter("ignore", ConvergenceWarning)
            filled: Values = imputer.fit_transform(np.where(missing, np.nan, x))
        return filled

    return on_varying_columns(chained, x, missing, levels)


def _mixed(x: Values, missing: Holes, levels: Levels, forests: tuple[Any, Any], rounds: int, give_up: Ask) -> Values:
    """missForest with columns of levels (see `missforest`): `forests` of numbers and of levels."""
    filled = x.copy()
    for column, absent in enumerate(missing.T):
        seen = x[~absent, column]
        filled[absent, column] = most_often(seen) if levels[column] else seen.mean()
    order = [column for column in np.argsort(missing.sum(0), kind="stable").tolist() if missing[:, column].any()]
    numbers = missing & (np.array(levels) == 0)
    before = np.full(2, np.inf)
    for _ in range(rounds):
        last = filled.copy()
        for column in order:
            ask(give_up)
            absent, inputs = missing[:, column], others(filled, column, levels)
            learner = clone(forests[levels[column] > 0]).fit(inputs[~absent], x[~absent, column])
            filled[absent, column] = learner.predict(inputs[absent])
        square = (filled[numbers] ** 2).sum() or 1.0
        moved = filled[missing & ~numbers] != last[missing & ~numbers]
        change = np.array([((filled - last)[numbers] ** 2).sum() / square, moved.mean() if len(moved) else 0.0])
        there = np.array([numbers.any(), len(moved) > 0])
        if (change >= before)[there].all():
            return last
        before = change
    return filled


class PredictOnce(BaseEstimator):  # type: ignore[misc]
    """A regressor that forgets what it has learnt after its first prediction, and asks before it learns."""

    def __init__(self, regressor: Any, give_up: Ask) -> None:
        self.regressor = regressor
        self.give_up = give_up

    def fit(self, X: Values, y: Values) -> PredictOnce:
        """Fit a copy of the regressor. Raises GivenUp."""
        ask(self.give_up)
        self.fitted_ = clone(self.regressor).fit(X, y)
        return self

    def predict(self, X: Values, **options: Any) -> Any:
        """What the regressor predicts; can be asked once after each `fit`."""
        fitted = self.fitted_
        del self.fitted_
        return fitted.predict(X, **options)
