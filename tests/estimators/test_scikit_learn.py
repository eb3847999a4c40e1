"""The estimators among those of scikit-learn: its own checks, pipelines, and searches over parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import vgi_cli
import vgi_cli.errors
from tests.estimators.test_imputer import ONE, imputer, mixed, rows, with_holes

SKIPPED = {"check_array_api_input"}
"""Of arrays of other libraries than NumPy: it asks for a variable of the environment."""


def failures(estimator: Any) -> dict[str, Any]:
    """The checks that scikit-learn made and that did not pass, and why."""
    found = check_estimator(estimator, on_fail=None, on_skip=None)
    assert len(found) > 35
    return {
        one["check_name"]: one["exception"]
        for one in found
        if one["status"] != "passed" and one["check_name"] not in SKIPPED
    }


@pytest.mark.filterwarnings("ignore")
def test_the_checks_of_scikit_learn() -> None:
    assert failures(imputer(draws=1, set={**ONE, "epochs": 2, "table.transform": "linear"})) == {}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("given", [{}, {"model": "fa"}, {"how": "draw"}], ids=str)
def test_the_checks_of_scikit_learn_with_refits(given: dict[str, Any]) -> None:
    assert failures(vgi_cli.Imputer(**given)) == {}


@pytest.mark.slow
def test_in_a_pipeline() -> None:
    """Beside a column that is passed through; the same as by hand."""
    frame = mixed().assign(sure=np.arange(60.0))
    numbers, y = ["size", "count"], np.arange(60.0)
    beside = ColumnTransformer([("fill", imputer(), [*numbers, "colour"])], remainder="passthrough")
    beside.set_output(transform="pandas")
    filled = beside.fit_transform(frame)
    own = imputer().fit_transform(frame[[*numbers, "colour"]])
    pd.testing.assert_frame_equal(filled[["fill__size", "fill__count"]].set_axis(numbers, axis=1), own[numbers])
    assert list(filled.columns[:3]) == ["fill__size", "fill__count", "fill__colour"]
    encoded = ColumnTransformer([("levels", OneHotEncoder(), ["fill__colour"])], remainder="drop")
    pipeline = make_pipeline(beside, encoded, StandardScaler(with_mean=False), LinearRegression())
    assert pipeline.fit(frame, y).predict(frame.head(3)).shape == (3,)
    assert "Imputer" in pipeline._repr_html_()


def test_parameters_can_be_searched() -> None:
    X = with_holes(rows())
    search = GridSearchCV(
        make_pipeline(imputer(), LinearRegression()), {"imputer__draws": [1, 4], "imputer__how": ["mean"]}, cv=2
    )
    assert search.fit(X, rows()[:, 0]).best_params_["imputer__how"] == "mean"


def test_clones_have_the_parameters_and_the_output() -> None:
    fitted = imputer(draws=3).set_output(transform="pandas").fit(rows())
    other = clone(fitted)
    assert other.get_params() == fitted.get_params() and not other.__sklearn_is_fitted__()
    assert isinstance(other.fit(rows()).transform(with_holes(rows())), pd.DataFrame)
    with pytest.raises(NotFittedError) as error:
        clone(fitted).transform(rows())
    assert isinstance(error.value, vgi_cli.errors.NotFitted)
