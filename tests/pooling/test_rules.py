"""Rubin's rules and pooled tests against R's mice (reference.R made reference.json), and what they are at the edges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.schemas import checked
from tests.selection import first
from vgi_cli.errors import InputError, UsageError
from vgi_cli.pooling.estimates import Estimates, from_arrays
from vgi_cli.pooling.hypotheses import Hypothesis, d1, d2, d3, wald
from vgi_cli.pooling.pooled import Pooled, _number, _quantile
from vgi_cli.pooling.rubin import combine

MICE = json.loads((Path(__file__).parent / "reference.json").read_text(encoding="utf-8"))
FITS = ("lm_5", "lm_20", "lm_2", "glm_5")
SAME = {
    "estimate": "estimate",
    "std_error": "std.error",
    "statistic": "statistic",
    "df": "df",
    "p_value": "p.value",
    "low": "2.5 %",
    "high": "97.5 %",
    "riv": "riv",
    "lambda": "lambda",
    "fmi": "fmi",
    "within": "ubar",
    "between": "b",
    "total": "t",
}
"""Columns of our table and their names in `summary(pool(…), type = "all", conf.int = TRUE)`."""


def pooled(name: str, large: bool = False) -> Pooled:
    fit = MICE[name]
    df = None if large else fit["df_complete"]
    return Pooled(from_arrays(fit["estimates"], None, fit["covariances"], fit["terms"], df))


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("name", FITS)
def test_the_table_is_that_of_mice(name: str, large: bool) -> None:
    ours, theirs = pooled(name, large), MICE[name]["pooled_large" if large else "pooled"]
    assert sorted(ours.terms) == sorted(theirs)
    for i, term in enumerate(ours.terms):
        for column, their in SAME.items():
            assert ours.columns[column][i] == pytest.approx(theirs[term][their], rel=1e-8), (term, column)


def same(test: Hypothesis, their: dict[str, float], *leave_out: str) -> None:
    for name, value in their.items():
        if name not in leave_out:
            assert getattr(test, name) == pytest.approx(value, rel=1e-8), name


@pytest.mark.parametrize("name", FITS)
def test_tests_of_several_terms_are_those_of_mice(name: str) -> None:
    their = MICE[name]["test"]
    terms, k = their["terms"], len(their["terms"])
    few = () if k * (len(MICE[name]["estimates"]) - 1) > 4 else ("df2", "p_value")
    same(pooled(name).test(terms), their["D1"], *few)
    same(pooled(name, large=True).test(terms), their["D1_large"], *few)
    same(pooled(name).test(terms, "D2"), their["D2"])
    same(d3(np.array(their["own"]), np.array(their["at_pooled"]), k), their["D3"])


def test_two_imputations_take_the_rule_for_few() -> None:
    """mice takes Reiter's formula where k (m - 1) is 3 too, for which it was not made; mitml has Li et al.'s."""
    test = pooled("lm_2", large=True).test(MICE["lm_2"]["test"]["terms"])
    same(test, dict(zip(("statistic", "df1", "df2", "p_value", "riv"), MICE["li_2"], strict=True)))
    small = pooled("lm_2").test(MICE["lm_2"]["test"]["terms"])
    share = small.riv / (1 + small.riv)
    observed = 21 / 23 * 20 * (1 - share)
    assert small.df2 == pytest.approx(1 / (share**2 / 2 + 1 / observed))  # (k + 1) / 2 (m - 1) = 2


def test_scalars_are_those_of_mice() -> None:
    """pool.scalar(Q, U, n = 30, k = 3)"""
    their = MICE["scalar"]
    ours = combine(np.array(their["qhat"])[:, None], np.array(their["u"])[:, None], 27.0)
    for mine, name in (("estimate", "qbar"), ("within", "ubar"), ("between", "b"), ("total", "t"), ("riv", "r")):
        assert getattr(ours, mine)[0] == pytest.approx(their[name], rel=1e-12)
    assert ours.df[0] == pytest.approx(their["df"], rel=1e-12)
    assert ours.fmi[0] == pytest.approx(their["fmi"], rel=1e-12)


@pytest.mark.parametrize("error", [1e-2, 1e-4, 1e-6, 1e-9, 1e-40, 1e-120])
def test_degrees_of_freedom_keep_what_is_less_than_the_rounding_of_one(error: float) -> None:
    """Estimates 1 to 4 whose standard errors are next to nothing: W/T (v + 1) v / (v + 3), 4e-18 of 1e-9."""
    pooled = Pooled(from_arrays([1.0, 2.0, 3.0, 4.0], [error] * 4, df_complete=10))
    ours = {name: float(column[0]) for name, column in pooled.columns.items()}
    between = 1.25 * 5 / 3
    observed = 110 / 13 * error**2 / (error**2 + between)
    expected = 1 / ((between / (error**2 + between)) ** 2 / 3 + 1 / observed)
    assert ours["df"] == pytest.approx(expected, rel=1e-12) and ours["df"] > 0
    assert ours["p_value"] == pytest.approx(1.0, abs=0.003) and ours["p_value"] <= 1
    assert ours["high"] == np.inf and ours["low"] == -np.inf
    assert pooled.test("x1").df2 == pytest.approx(expected, rel=1e-9)
    assert pooled.test("x1").p_value == pytest.approx(ours["p_value"], abs=1e-12)
    told = json.dumps(pooled.to_dict([["x1"]]), allow_nan=False)
    assert {"low", "high"}.isdisjoint(checked("pool", told)["terms"][0])
    assert "nan" not in pooled.text([["x1"]]) and "| -∞ |" in " ".join(pooled.text().split())


def test_no_degrees_of_freedom_are_an_interval_without_ends() -> None:
    """Less than the least number is 0 degrees of freedom."""
    pooled = Pooled(from_arrays([1.0, 2.0, 4.0], [1e-100] * 3, df_complete=1e-150))
    assert [float(pooled.columns[name][0]) for name in ("df", "p_value", "low", "high")] == [0, 1, -np.inf, np.inf]
    test = pooled.test("x1")
    assert (test.df2, test.p_value) == (0, 1)
    checked("pool", json.dumps(pooled.to_dict([["x1"]]), allow_nan=False))


@pytest.mark.parametrize("level", [0.5, 0.95])
@pytest.mark.parametrize("df", [0.002, 0.0048, 0.006, 0.009, 0.0136, 0.1, 1.0, 30.0])
def test_quantiles_of_few_degrees_of_freedom(df: float, level: float) -> None:
    """As far as numbers go, against the integral of the density over the logarithm of t, of which the tail beyond 1e8
    is a power of t but for 1e-16."""
    far = float(_quantile(np.array([df]), level)[0])
    if not np.isfinite(far):
        assert np.log(1 / (1 - level)) / df > 700
        return
    one = 1e8
    if far < one:
        tail = 2 * stats.t.sf(far, df)
    else:
        tail = 2 * stats.t.sf(one, df) * np.exp(-df * np.log(far / one))
    assert tail == pytest.approx(1 - level, rel=1e-9)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.999])
def test_intervals_and_p_values_are_of_the_t_distribution(level: float) -> None:
    ours = Pooled(pooled("lm_5").estimates, level).columns
    law = stats.t(ours["df"], ours["estimate"], ours["std_error"])
    np.testing.assert_allclose(np.stack(law.interval(level)), [ours["low"], ours["high"]], rtol=1e-9)
    np.testing.assert_allclose(ours["p_value"], 2 * stats.t.sf(np.abs(ours["statistic"]), ours["df"]), rtol=1e-9)


@pytest.mark.parametrize("complete", [4.0, 50.0, np.inf])
def test_where_nothing_is_missing_the_analysis_stays(complete: float) -> None:
    values, errors = np.tile([1.0, -2.0, 0.5], (5, 1)), np.tile([0.5, 1.5, 0.4], (5, 1))
    ours = Pooled(from_arrays(values, errors, df_complete=complete)).columns
    np.testing.assert_array_equal(ours["estimate"], values[0])
    np.testing.assert_allclose(ours["std_error"], errors[0])
    assert not ours["riv"].any() and not ours["lambda"].any()
    worth = (complete + 1) / (complete + 3) * complete if np.isfinite(complete) else np.inf
    np.testing.assert_allclose(ours["df"], worth)
    matrices = np.tile(np.diag(errors[0] ** 2), (5, 1, 1))
    test = d1(values, matrices, complete)
    wald = float((values[0] ** 2 / errors[0] ** 2).sum())
    assert test.statistic == pytest.approx(wald / 3) and test.riv == 0
    again = d2(np.full(5, wald), 3)
    assert again.statistic == pytest.approx(wald / 3) and again.df2 == np.inf
    assert again.p_value == pytest.approx(stats.chi2.sf(wald, 3), rel=1e-9)
    assert d3(np.full(5, wald), np.full(5, wald), 3).p_value == pytest.approx(again.p_value)


@pytest.mark.parametrize("m", [2, 3, 6, 40])
@pytest.mark.parametrize("complete", [2.0, 30.0, np.inf])
def test_d1_of_one_term_is_its_t_test(m: int, complete: float) -> None:
    draw = np.random.default_rng(m)
    values, errors = draw.normal(1, 1, (m, 2)), draw.uniform(0.5, 1.5, (m, 2))
    ours = Pooled(from_arrays(values, errors, terms=["a", "b"], df_complete=complete))
    test = ours.test("b")
    assert test.statistic == pytest.approx(ours.columns["statistic"][1] ** 2)
    assert test.df2 == pytest.approx(ours.columns["df"][1])
    assert test.p_value == pytest.approx(ours.columns["p_value"][1])


def test_reiters_degrees_of_freedom_grow_into_those_of_large_samples() -> None:
    """In m too: where the complete data are worth no more than 4 (1 + a), another rule steps in."""
    fit = pooled("lm_20").estimates
    terms = MICE["lm_20"]["test"]["terms"]
    found = [d1(*fit.chosen(terms), df).df2 for df in (0.5, 2.0, 5.0, 20.0, 100.0, 1e4, 1e9)]
    assert np.all(np.diff(found) > 0) and found[0] > 0
    assert found[-1] == pytest.approx(d1(*fit.chosen(terms)).df2, rel=1e-4)


@pytest.mark.parametrize("complete", [0.5, 3.0, 4.0, 5.0, 6.0, 50.0])
@pytest.mark.parametrize(("k", "m"), [(5, 5), (4, 2), (2, 2), (2, 20)])
@pytest.mark.parametrize("riv", [1e-9, 1e-3, 0.3, 20.0])
def test_holes_leave_no_more_than_complete_data_are_worth(complete: float, k: int, m: int, riv: float) -> None:
    apart = np.sqrt(riv / (1 + 1 / m)) * np.random.default_rng(0).normal(size=(m, k))
    test = d1(1 + apart, np.tile(np.eye(k), (m, 1, 1)), complete)
    worth = (complete + 1) / (complete + 3) * complete
    assert 0 < test.df2 < worth
    if riv < 1e-6 and (k * (m - 1) <= 4 or worth <= 4):
        assert test.df2 == pytest.approx(worth, rel=1e-5)


@pytest.mark.parametrize("complete", first(1, [3, 4, 5]))
def test_d1_holds_its_level_in_the_smallest_tables(complete: int) -> None:
    """4,000 regressions on five columns that say nothing, next to nothing of which is missing: D1 at 5 % rejects at
    most 5 % of them, but for four standard errors (1.5 to 2.6 %, as complete data with few degrees of freedom count as
    fewer by Barnard and Rubin's rule). It was 11 to 12 %."""
    k = m = 5
    draw, n, rejected = np.random.default_rng(complete), complete + 6, 0
    for _ in range(4000):
        x, y = np.column_stack([np.ones(n), draw.normal(size=(n, k))]), draw.normal(size=n)
        inverse = np.linalg.inv(x.T @ x)
        fitted = inverse @ x.T @ y
        covariance = inverse[1:, 1:] * ((y - x @ fitted) ** 2).sum() / complete
        near = fitted[1:] + 1e-3 * np.sqrt(np.diag(covariance)) * draw.normal(size=(m, k))
        rejected += d1(near, np.tile(covariance, (m, 1, 1)), complete).p_value < 0.05
    assert 0.01 < rejected / 4000 < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 4000)


def test_tests_hold_their_level() -> None:
    """2,000 tables in which five terms are zero: D1 at 5 % rejects in about 5 %, D2 not wildly more."""
    draw = np.random.default_rng(1)
    m, k = 20, 5
    rejected = np.zeros(2)
    for _ in range(2000):
        mean = draw.normal(0, 1, k)  # U = I, B = I / 2, so that T = 1 + (1 + 1 / m) / 2
        values = mean * np.sqrt(1.5) + draw.normal(0, np.sqrt(0.5), (m, k))
        matrices = np.tile(np.eye(k), (m, 1, 1))
        rejected += [d1(values, matrices).p_value < 0.05, d2((values**2).sum(1), k).p_value < 0.05]
    assert 0.03 < rejected[0] / 2000 < 0.07
    assert rejected[1] / 2000 < 0.15


def test_the_covariance_of_the_estimates_has_the_variances_of_the_table() -> None:
    ours = pooled("lm_5")
    assert ours.covariance is not None
    np.testing.assert_allclose(np.diag(ours.covariance), ours.columns["total"])
    np.testing.assert_allclose(ours.covariance, ours.covariance.T, rtol=1e-12)
    values = ours.estimates.values
    expected = np.mean(MICE["lm_5"]["covariances"], 0) + 1.2 * np.cov(values.T)
    np.testing.assert_allclose(ours.covariance, expected)
    assert Pooled(from_arrays(values, np.ones(values.shape))).covariance is None


@pytest.mark.parametrize("seed", range(4))
def test_terms_that_repeat_others_are_refused_whatever_rounding_makes_of_them(seed: int) -> None:
    """x, w and x - w: the least eigenvalue of their covariance is rounding, of either sign."""
    rng = np.random.default_rng(seed)
    into = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -1.0]]) * np.array([[1.0], [1e-5], [1.0]])
    roots = rng.normal(size=(5, 2, 2)) + 2 * np.eye(2)
    covariances = np.stack([into @ root @ root.T @ into.T for root in roots])
    estimates = rng.normal(size=(5, 2)) @ into.T
    for test in (lambda: d1(estimates, covariances), lambda: wald(estimates, covariances)):
        with pytest.raises(InputError, match="is not positive definite"):
            test()
    two = covariances[:, :2, :2]  # in units that differ by 1e5
    one, same = (d1(estimates[:, :2] * unit, two * np.outer(unit, unit)) for unit in ([1.0, 1.0], [1.0, 1e5]))
    assert one.statistic == pytest.approx(same.statistic, rel=1e-9) and one.df2 == pytest.approx(same.df2, rel=1e-9)


@pytest.mark.parametrize("value", [1.05, 7e59, np.inf])
def test_degrees_of_freedom_are_short(value: float) -> None:
    assert _number("df", value) == {1.05: "1.1", 7e59: "7.0e+59", np.inf: "∞"}[value]
    assert _number("df", 4.06e-18) == "4.1e-18" and _number("low", -np.inf, 3) == "-∞"
    assert _number("riv", 2.0833e18) == "2.083e+18" and _number("riv", 2.5) == "2.500"
    assert _number("estimate", 7e59, 3) == "7e+59" and _number("estimate", 7.0, 3) == "7.000"
    assert _number("estimate", -4e-5, 3) == "0.000" and _number("statistic", -4e-3) == "0.00"


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda fit: fit.test(["a"], "D3"), "method: expected D1 or D2, got 'D3'"),
        (lambda fit: fit.test([]), "a test needs terms"),
        (lambda fit: fit.test(["a", "a"]), "the term 'a' is tested twice"),
        (lambda fit: fit.test(["a", "bb"]), "no term 'bb'"),
        (
            lambda fit: fit.test(["a", "b"]),
            "the covariance matrix of the terms that are tested is not positive definite",
        ),
        (
            lambda fit: d2(np.array([1.0, -1.0]), 1),
            "D2: the statistics of a chi-square test are finite and not negative",
        ),
        (lambda fit: d1(np.ones((1, 2)), np.eye(2)[None]), "D1: pooling needs two imputations or more, got 1"),
        (lambda fit: d2(np.array([3.0]), 2), "D2: pooling needs two imputations or more, got 1"),
        (lambda fit: d3(np.array([3.0]), np.array([2.0]), 2), "D3: pooling needs two imputations or more, got 1"),
        (lambda fit: d3(np.array([]), np.array([]), 2), "D3: pooling needs two imputations or more, got 0"),
        (lambda fit: Pooled(fit.estimates, 95), "--level: expected a number between 0 and 1, got 95"),
        (lambda fit: Pooled(fit.estimates, "0.9"), "--level: expected a number between 0 and 1, got '0.9'"),
    ],
)
def test_refused(call: Any, error: str) -> None:
    fit = Pooled(Estimates(("a", "b"), np.zeros((2, 2)), np.ones((2, 2)), np.ones((2, 2, 2))))
    with pytest.raises((UsageError, InputError)) as caught:
        call(fit)
    assert caught.value.message == error
