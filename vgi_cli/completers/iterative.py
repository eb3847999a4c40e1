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
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401 (makes the next import possible)
from sklearn.impute import IterativeImputer

from vgi_cli.completers.base import Ask, Holes, Values, ask, never, on_varying_columns


def missforest(
    x: Values, missing: Holes, seed: int, settings: Mapping[str, int | None], give_up: Ask = never
) -> Values:
    """missForest (Stekhoven and Buehlmann 2012): each hole is what a random forest of the other columns predicts.

    As published: `trees` trees (100) that try sqrt(D) columns a split and keep 5 rows a leaf, columns by increasing
    number of holes, means as start. Otherwise as IterativeImputer: it stops after `iterations` rounds, or when no cell
    moved by more than 0.001 of the largest value (published: when the change grows). `depth`: of a tree, at most; none:
    no limit. Nothing is drawn from a distribution: imputations with different seeds differ by the forests only. See
    TableImputer.
    """
    forest = RandomForestRegressor(
        n_estimators=settings["trees"],
        max_depth=settings["depth"],
        max_features="sqrt",
        min_samples_leaf=5,
        n_jobs=1,
        random_state=seed,
    )

    def chained(x: Values, missing: Holes) -> Values:
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

    return on_varying_columns(chained, x, missing)


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
