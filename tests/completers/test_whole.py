"""Imputers of whole tables against independent references: scikit-learn, the law of the observed values, a Gaussian."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.ensemble import RandomForestRegressor
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer

from vgi_cli.completers.base import GivenUp, Holes, Levels, Values
from vgi_cli.completers.matching import matched
from vgi_cli.errors import UsageError
from vgi_cli.registry import names
from vgi_cli.registry.names import COMPLETERS, not_installed

every = pytest.mark.parametrize("name", COMPLETERS)
QUICK = {"trees": 5, "iterations": 2}


def settings(name: str, **changes: int | None) -> dict[str, int | None]:
    own = dict(COMPLETERS[name].traits.settings)
    return own | {key: value for key, value in changes.items() if key in own}


def fill(name: str, x: Values, missing: Holes, seed: int = 0, levels: Levels = (), **changes: Any) -> Values:
    own = settings(name, **changes)
    filled: Values = COMPLETERS.load(name)(np.where(missing, 0.0, x), missing, seed, own, levels=levels)
    return filled


def gaussian(N: int, seed: int = 0) -> tuple[Values, Holes, Values]:
    """Rows of N(0, S) with S = F F' + 0.3 I scaled to unit variances, a third of the cells missing, and S."""
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(4, 2))
    S = F @ F.T + 0.3 * np.eye(4)
    S /= np.sqrt(np.outer(S.diagonal(), S.diagonal()))
    x = rng.normal(size=(N, 4)) @ np.linalg.cholesky(S).T
    return x, rng.random((N, 4)) < 0.33, S


def conditional(x: Values, missing: Holes, S: Values) -> tuple[Values, Values]:
    """Mean and variance of every missing cell given the observed ones of its row (0 and 0 where observed)."""
    mean, variance = np.zeros_like(x), np.zeros_like(x)
    for i, m in enumerate(missing):
        gain = S[np.ix_(m, ~m)] @ np.linalg.inv(S[np.ix_(~m, ~m)])
        mean[i, m] = gain @ x[i, ~m]
        variance[i, m] = (S[np.ix_(m, m)] - gain @ S[np.ix_(~m, m)]).diagonal()
    return mean, variance


def odd(case: str) -> tuple[Values, Holes]:
    """Tables on which regressions break."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 3)) @ rng.normal(size=(3, 5))
    missing = rng.random((30, 5)) < 0.3
    if case == "one column":
        return x[:, :1], missing[:, :1]
    if case == "no hole":
        return x, np.zeros_like(missing)
    if case == "more columns than rows":
        return x[:4], missing[:4]
    if case == "equal columns":
        return np.repeat(x[:, :1], 5, 1), missing
    if case == "three rows":
        return np.array([[1.0, 2.0], [2.0, 0.0], [0.0, 3.0]]), np.array([[0, 0], [0, 1], [1, 0]], dtype=bool)
    x[:, 1] = 2.5
    missing[:, 3] = True
    missing[3] = True
    return x, missing


ODD = ["one column", "no hole", "more columns than rows", "equal columns", "three rows", "constant, empty, no row"]


@every
@pytest.mark.parametrize("case", ODD)
def test_every_hole_is_filled_and_every_seed_repeats(name: str, case: str) -> None:
    x, missing = odd(case)
    first, again = (fill(name, x, missing, seed=1, **QUICK) for _ in range(2))
    assert first.shape == x.shape and np.isfinite(first).all()
    assert (first == again).all()
    assert (first[~missing] == x[~missing]).all()
    if case.startswith("constant"):
        assert (first[:, 1] == 2.5).all()
        assert name == "empirical" or (first[:, 3] == 0).all()


@pytest.mark.parametrize(("name", "regressions"), [("mice", 2 * 4), ("missforest", 2 * 4), ("miceforest", 2 * 4)])
def test_long_imputations_ask_before_every_regression_and_can_be_given_up(name: str, regressions: int) -> None:
    x, missing, _ = gaussian(60)
    asked: list[bool] = []

    def give_up() -> bool:
        asked.append(len(asked) == 3)
        return asked[-1]

    with pytest.raises(GivenUp):
        COMPLETERS.load(name)(np.where(missing, 0.0, x), missing, 0, settings(name, **QUICK), give_up)
    assert len(asked) == 4
    asked = [True] * 4
    COMPLETERS.load(name)(np.where(missing, 0.0, x), missing, 0, settings(name, **QUICK), give_up)
    assert len(asked) == 4 + regressions


@every
def test_absent_cells_are_not_looked_at(name: str) -> None:
    x, missing, _ = gaussian(40)
    other = np.where(missing, 1e3, x)
    made = [
        COMPLETERS.load(name)(table, missing, 0, settings(name, **QUICK)) for table in (np.where(missing, 0, x), other)
    ]
    assert (made[0] == made[1]).all()


@every
def test_seeds_give_different_imputations_unless_there_is_only_one(name: str) -> None:
    x, missing, _ = gaussian(60)
    a, b = (fill(name, x, missing, seed=seed, **QUICK)[missing] for seed in (0, 1))
    assert (a == b).all() if COMPLETERS[name].traits.single else (a != b).mean() > 0.5


def test_empirical_draws_follow_the_observed_values() -> None:
    rng = np.random.default_rng(0)
    x = np.stack([rng.exponential(size=4000), rng.normal(size=4000), rng.integers(3, size=4000)], 1)
    missing = rng.random(x.shape) < 0.5
    filled = fill("empirical", x, missing)
    for j in range(2):
        seen, drawn = x[~missing[:, j], j], filled[missing[:, j], j]
        assert np.isin(drawn, seen).all()
        assert stats.ks_2samp(seen, drawn).pvalue > 0.01
        assert abs(np.corrcoef(np.flatnonzero(missing[:, j]), drawn)[0, 1]) < 0.07
    shares = [np.bincount(v.astype(int)) / len(v) for v in (x[~missing[:, 2], 2], filled[missing[:, 2], 2])]
    assert np.abs(shares[0] - shares[1]).max() < 0.04


def test_mean_is_the_mean_of_the_observed_values() -> None:
    x, missing, _ = gaussian(50)
    expected = np.nanmean(np.where(missing, np.nan, x), 0)
    np.testing.assert_allclose(fill("mean", x, missing), np.where(missing, expected, x), rtol=1e-12)


@pytest.mark.filterwarnings("ignore:.*Early stopping criterion not reached")
def test_missforest_is_scikit_learns_iterative_imputer_with_forests() -> None:
    x, missing, _ = gaussian(80)
    forest = RandomForestRegressor(6, max_features="sqrt", min_samples_leaf=5, max_depth=4, random_state=5)
    reference = IterativeImputer(forest, max_iter=3, skip_complete=True, random_state=5)
    expected = reference.fit_transform(np.where(missing, np.nan, x))
    assert (fill("missforest", x, missing, seed=5, iterations=3, trees=6, depth=4) == expected).all()


def test_mice_draws_from_the_conditional_gaussian() -> None:
    """Against the truth: residuals from the known conditional mean have mean 0 and the known variance."""
    x, missing, S = gaussian(1500)
    mean, variance = conditional(x, missing, S)
    draws = np.stack([fill("mice", x, missing, seed=seed) for seed in range(3)])
    z = ((draws - mean)[:, missing] / np.sqrt(variance[missing])).reshape(3, -1)
    assert abs(z.mean()) < 0.03
    assert abs(z.std() - 1) < 0.03
    assert np.abs(np.cov(draws[0].T) - np.cov(x.T)).max() < 0.08


def test_missforest_predicts_near_the_conditional_mean() -> None:
    """Its error from the known conditional mean is small beside that of column means; its spread is too small."""
    x, missing, S = gaussian(800)
    expected, variance = conditional(x, missing, S)
    filled = fill("missforest", x, missing, trees=20, iterations=4)
    error = ((filled - expected)[missing] ** 2).mean()
    assert error < 0.6 * (expected[missing] ** 2).mean()
    assert filled[missing].var() < 1 - 0.5 * variance[missing].mean()


def test_miceforest_imputes_observed_values_calibrated_and_without_bias() -> None:
    """Gaussian truth: donors' values only; CRPS near that of exact draws; 19 draws cover 90 %."""
    x, missing, S = gaussian(300, seed=3)
    draws = np.stack([fill("miceforest", x, missing, seed=seed, iterations=2, trees=20) for seed in range(19)])
    for j in range(4):
        assert np.isin(draws[:, missing[:, j], j], x[~missing[:, j], j]).all()
    mean, variance = conditional(x, missing, S)
    exact = mean + np.sqrt(variance) * np.random.default_rng(0).normal(size=draws.shape)
    crps = [_crps(some[:, missing], x[missing]) for some in (draws, exact)]
    assert crps[0] < 1.12 * crps[1]
    assert abs((draws.mean(0) - mean)[missing].mean()) < 0.08
    inside = (draws.min(0) <= x) & (x <= draws.max(0))
    assert 0.87 < inside[missing].mean() < 0.95  # 0.84 where learners are the donors


def _crps(draws: Values, truth: Values) -> float:
    n = len(draws)
    ranks = (2 * np.arange(1, n + 1) - n - 1)[:, None]
    return float((np.abs(draws - truth).mean(0) - (ranks * np.sort(draws, 0)).sum(0) / (n * (n - 1))).mean())


def test_donors_are_the_nearest_and_each_is_as_likely() -> None:
    predicted = np.array([5.0, 1.0, 2.0, 9.0, 3.0])
    drawn = matched(predicted, 10 * predicted, np.full(6000, 2.2), 3, np.random.default_rng(0))
    values, counts = np.unique(drawn, return_counts=True)
    assert values.tolist() == [10.0, 20.0, 30.0]
    assert np.abs(counts / 6000 - 1 / 3).max() < 0.03
    edges = matched(predicted, predicted, np.array([-4.0, 99.0]), 1, np.random.default_rng(0))
    assert edges.tolist() == [1.0, 9.0]
    assert set(matched(predicted, predicted, np.full(500, 0.0), 9, np.random.default_rng(0))) == set(predicted)


def test_among_equal_predictions_all_donors_lend() -> None:
    values = np.arange(50.0)
    drawn = matched(np.zeros(50), values, np.zeros(5000), 5, np.random.default_rng(0))
    assert np.bincount(drawn.astype(int), minlength=50).min() > 20


def test_boosted_trees_leave_the_threads_of_torch_alone() -> None:
    x, missing, _ = gaussian(40)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    fill("miceforest", x, missing, **QUICK)
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


def test_unknown_imputers_and_missing_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="unknown imputer 'mise'") as caught:
        COMPLETERS.load("mise")
    assert caught.value.hint == "did you mean 'mice'?"
    assert [not_installed(name) for name in COMPLETERS] == [None] * 5
    found = importlib.util.find_spec
    absent = lambda module: None if module in ("sklearn", "lightgbm") else found(module)  # noqa: E731
    monkeypatch.setattr(names.importlib.util, "find_spec", absent)
    assert [not_installed(name) for name in COMPLETERS] == [None, None, None, "scikit-learn", "LightGBM"]
