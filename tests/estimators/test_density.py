"""`vgi_cli.Density`: its scores against the normal law, and what it is for rows, tables and types."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.stats import multivariate_normal

import vgi_cli
from tests.estimators.test_imputer import ONE, mixed, rows, with_holes
from tests.estimators.test_scikit_learn import failures
from vgi_cli.errors import InvalidInput, InvalidParameter, NotFitted
from vgi_cli.estimators.base import Estimator


def density(**given: Any) -> vgi_cli.Density:
    return vgi_cli.Density(**{"model": "mixture", "set": ONE, "threads": 1, **given})


def test_scores_are_those_of_the_normal_law() -> None:
    """Fitted to many complete rows, one Gaussian has their mean and covariance, but for its weak prior (its pull is
    below 0.005 nats here); those of any cells are parts of them."""
    X = rows(20_000)
    mean, cov = X.mean(0), np.cov(X.T, bias=True)
    new = np.vstack([with_holes(rows(20, seed=5)), np.full((1, 3), np.nan), X[:5]])
    expected = np.zeros(len(new))
    for i, row in enumerate(new):
        seen = ~np.isnan(row)
        if seen.any():
            expected[i] = multivariate_normal(mean[seen], cov[np.ix_(seen, seen)]).logpdf(row[seen])
    fitted = density(set={**ONE, "table.transform": "linear", "method.tolerance": 1e-9}).fit(X)
    scores = fitted.score_samples(new)
    assert np.allclose(scores, expected, rtol=0, atol=5e-3) and scores[20] == 0.0
    assert np.isclose(fitted.score(new), np.delete(expected, np.flatnonzero(np.isnan(new).all(1))).mean(), atol=5e-3)
    assert np.isnan(fitted.score(new[20:21]))


def test_a_row_is_scored_by_what_it_holds_alone() -> None:
    """Also where rounded cells are spread by noise."""
    frame = mixed()
    fitted = density(set={"model.components": 2, "bootstrap": "none"}).fit(frame)
    scores = fitted.score_samples(frame)
    assert np.allclose(fitted.score_samples(frame.iloc[[30, 3]]), scores[[30, 3]], rtol=0, atol=1e-9)
    odd = frame.iloc[[5]].assign(size=np.float32(60.0))
    assert fitted.score_samples(odd)[0] < scores.min()
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.score_samples(frame), scores)


def test_samples_are_of_the_law_and_of_the_type_of_the_fit() -> None:
    X = rows(400)
    fitted = density().fit(X)
    drawn = fitted.sample(2000)
    assert drawn.shape == (2000, 3) and drawn.dtype == X.dtype
    assert np.allclose(drawn.mean(0), X.mean(0), atol=0.12) and np.allclose(np.cov(drawn.T), np.cov(X.T), atol=0.12)
    assert np.array_equal(fitted.sample(5), drawn[:5]) and not np.array_equal(
        fitted.sample(5, random_state=7), drawn[:5]
    )
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).sample(5), drawn[:5])
    assert fitted.sample().shape == (1, 3) and density().fit(X.astype("float32")).sample(2).dtype == np.float32


@pytest.mark.filterwarnings("ignore:the columns are modelled as independent")
def test_samples_of_mixed_columns() -> None:
    frame = mixed().assign(note=[f"note {i}" for i in range(60)])
    drawn = density().fit(frame).sample(50)
    assert drawn.dtypes.equals(frame.dtypes) and drawn["note"].isna().all()
    assert not drawn.drop(columns="note").isna().any(axis=None) and set(drawn["shape"]) == {"round", "flat"}
    arrow = density().fit(pa.Table.from_pandas(frame, preserve_index=False)).sample(50)
    assert isinstance(arrow, pa.Table) and arrow.column("shape").to_pylist() == list(drawn["shape"])
    assert arrow.schema.field("size").type == pa.float32() and arrow.schema.field("count").type == pa.int16()
    objects = density().fit(frame[["size", "colour"]].to_numpy(object)).sample(9)
    assert objects.dtype == object and set(objects[:, 1]) <= {"red", "blue"}
    numbered = density().fit(frame[["size", "count"]].set_axis([4, 5], axis=1)).sample(3)
    assert list(numbered.columns) == [4, 5]


def test_samples_in_polars() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.from_pandas(mixed())
    assert density().fit(frame).sample(9).schema == frame.schema


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_checks_of_scikit_learn() -> None:
    assert failures(density()) == {}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_checks_of_scikit_learn_by_default() -> None:
    assert failures(vgi_cli.Density()) == {}


def test_refusals() -> None:
    with pytest.raises(NotFitted, match="This Density instance is not fitted yet"):
        density().score_samples(rows())
    fitted = density().fit(rows())
    for number in (0, 2.0, "3", None, True):
        with pytest.raises(InvalidParameter, match=f"-n: expected a whole number from 1 to .*, got {number!r}"):
            fitted.sample(number)
    assert len(fitted.sample(np.int64(2))) == 2
    with pytest.raises(InvalidParameter, match="random_state: expected"):
        fitted.sample(1, random_state="a")
    with pytest.raises(InvalidInput, match="X has 2 features, but Density is expecting 3"):
        fitted.score(rows()[:, :2])
    with pytest.raises(InvalidInput, match="has a level that the fit has not seen"):
        density().fit(mixed()).score_samples(mixed().assign(shape="square"))


def test_help_shows_every_parameter() -> None:
    for kind in (vgi_cli.Imputer, vgi_cli.Density):
        assert all(f"\n{name} " in (kind.__doc__ or "") for name in Estimator._defaults())
    frame = pd.DataFrame(rows(), columns=["a", "b", "c"])
    assert list(density().fit(frame).feature_names_in_) == ["a", "b", "c"]
