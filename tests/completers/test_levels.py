"""Imputers of tables with columns of levels: against the conditional law of a small mixed model, and on odd tables."""

from __future__ import annotations

import numpy as np
import pytest

from tests.completers.test_whole import QUICK, fill, settings
from vgi_cli.completers.base import Holes, Values
from vgi_cli.completers.matching import matched_together
from vgi_cli.completers.regressions import classified
from vgi_cli.registry.names import COMPLETERS

every = pytest.mark.parametrize("name", COMPLETERS)
LEVELS = (0, 3, 2, 0)
MEANS = np.array([-2.0, 0.0, 2.0])
SHARES = np.array([0.5, 0.2, 0.3])


def mixed(N: int, seed: int = 0) -> tuple[Values, Holes]:
    """y, c of three levels, b of two, e: y given c is N(MEANS[c], 1), b given y is 1 with probability
    1 / (1 + exp(-y)), e is noise. A third of the cells is missing."""
    rng = np.random.default_rng(seed)
    c = rng.choice(3, N, p=SHARES)
    y = MEANS[c] + rng.normal(size=N)
    b = rng.random(N) < 1 / (1 + np.exp(-y))
    return np.stack([y, c, b, rng.normal(size=N)], 1).astype(float), rng.random((N, 4)) < 0.33


def classes(y: Values) -> Values:
    """[n, 3] P(c | y), to which b adds nothing."""
    p = SHARES * np.exp(-0.5 * (y[:, None] - MEANS) ** 2)
    return p / p.sum(1, keepdims=True)


def filled(name: str, x: Values, missing: Holes, seed: int = 0, **changes: int | None) -> Values:
    return fill(name, x, missing, seed, levels=LEVELS, **changes)


@every
@pytest.mark.parametrize("case", ["plain", "few rows", "one level", "no level", "levels alone", "one column"])
def test_holes_of_levels_get_levels_and_every_seed_repeats(name: str, case: str) -> None:
    x, missing = mixed(8 if case == "few rows" else 60)
    levels = LEVELS
    if case == "one level":
        x[:, 1] = 2
    if case == "no level":
        missing[:, 1] = True
    if case in ("levels alone", "one column"):
        keep = [1, 2] if case == "levels alone" else [1]
        x, missing, levels = x[:, keep], missing[:, keep], tuple(LEVELS[i] for i in keep)
    missing[0] = True
    first, again = (fill(name, x, missing, 1, levels=levels, **QUICK) for _ in range(2))
    assert (first == again).all() and np.isfinite(first).all()
    assert (first[~missing] == x[~missing]).all()
    for column in np.flatnonzero(levels):
        assert np.isin(first[:, column], np.arange(levels[column])).all()
    if case == "one level":
        assert (first[:, 1] == 2).all()
    other = COMPLETERS.load(name)(np.where(missing, 1.0, x), missing, 1, settings(name, **QUICK), levels=levels)
    assert (other == first).all()


def test_mean_takes_the_level_that_occurs_most_often() -> None:
    x, missing = mixed(300)
    found = filled("mean", x, missing)
    for column in (1, 2):
        seen = np.bincount(x[~missing[:, column], column].astype(int))
        assert (found[missing[:, column], column] == seen.argmax()).all()
    assert found[missing[:, 0], 0] == pytest.approx(x[~missing[:, 0], 0].mean())


def test_empirical_draws_levels_as_often_as_they_occur() -> None:
    x, missing = mixed(6000)
    drawn = filled("empirical", x, missing)[missing[:, 1], 1]
    assert np.abs(np.bincount(drawn.astype(int)) / len(drawn) - SHARES).max() < 0.03


@pytest.mark.parametrize(("name", "N"), [("mice", 1000), ("miceforest", 1000)])
def test_draws_of_levels_follow_their_conditional_law(name: str, N: int) -> None:
    """Where y is observed: in the thirds of the rows by y, shares of c and b against the known ones. Where c is
    observed: the mean of y. Numbers are values that occur."""
    x, missing = mixed(N, seed=3)
    draws = np.stack([filled(name, x, missing, seed, iterations=4, trees=20) for seed in range(4)])
    y = x[:, 0]
    third = np.digitize(y, np.quantile(y, [1 / 3, 2 / 3]))
    for part in range(3):
        rows = missing[:, 1] & ~missing[:, 0] & (third == part)
        shares = np.stack([(draws[:, rows, 1] == level).mean() for level in range(3)])
        assert np.abs(shares - classes(y[rows]).mean(0)).max() < 0.1
        rows = missing[:, 2] & ~missing[:, 0] & (third == part)
        assert draws[:, rows, 2].mean() == pytest.approx((1 / (1 + np.exp(-y[rows]))).mean(), abs=0.1)
    for level in range(3):
        rows = missing[:, 0] & ~missing[:, 1] & (x[:, 1] == level)
        own = draws[:, rows, 0]
        assert own.mean() == pytest.approx(MEANS[level], abs=0.3)
        assert own.std() == pytest.approx(1, abs=0.3)
    assert np.isin(draws[:, missing[:, 0], 0], y[~missing[:, 0]]).all()


def test_missforest_predicts_the_likeliest_level() -> None:
    x, missing = mixed(600, seed=4)
    found = filled("missforest", x, missing, iterations=3, trees=30)
    rows = missing[:, 1] & ~missing[:, 0]
    right = found[rows, 1] == x[rows, 1]
    best = classes(x[rows, 0]).argmax(1) == x[rows, 1]
    assert best.mean() > 0.7 and right.mean() > best.mean() - 0.12


def test_one_draw_of_the_regression_of_levels_has_their_probabilities() -> None:
    rng = np.random.default_rng(5)
    slopes = np.array([[0.0, 1.0, -1.0], [0.0, -2.0, 1.0]])
    X = rng.normal(size=(4000, 2)) * 3 + 1
    p = np.exp(X @ slopes)
    p /= p.sum(1, keepdims=True)
    y = (rng.random((4000, 1)) > p.cumsum(1)[:, :-1]).sum(1).astype(float)
    for row in (0, 1, 2):
        drawn = classified(X, y, np.repeat(X[[row]], 4000, 0), 3, rng)
        assert np.abs(np.bincount(drawn.astype(int), minlength=3) / 4000 - p[row]).max() < 0.05


def test_levels_that_are_told_apart_exactly_are_drawn_with_little_doubt() -> None:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(200, 1))
    y = (X[:, 0] > 0).astype(float)
    drawn = np.stack([classified(X, y, np.array([[-2.0], [2.0]]), 2, rng) for _ in range(50)])
    assert (drawn.mean(0) > [-0.01, 0.9]).all() and (drawn.mean(0) < [0.1, 1.01]).all()


def test_donors_by_several_predictions_are_the_nearest() -> None:
    predicted = np.array([[0.0, 1.0], [0.1, 0.9], [1.0, 0.0], [0.9, 0.1]])
    wanted = np.array([[0.05, 0.95]] * 500 + [[1.0, 0.1]] * 500)
    drawn = matched_together(predicted, np.arange(4.0), wanted, 2, np.random.default_rng(0))
    assert set(drawn[:500]) == {0.0, 1.0} and set(drawn[500:]) == {2.0, 3.0}
    assert set(matched_together(predicted, np.arange(4.0), wanted, 9, np.random.default_rng(0))) == {0.0, 1.0, 2.0, 3.0}
