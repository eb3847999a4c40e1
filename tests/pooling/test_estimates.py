"""Estimates from arrays, from fitted models and from long tables; what cannot be pooled is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import vgi_cli
from vgi_cli.errors import InputError, UsageError, VgiError
from vgi_cli.pooling.estimates import from_arrays

VALUES, ERRORS = [[1.0, 2.0], [1.5, 2.5], [0.5, 1.0]], [[0.5, 0.4], [0.6, 0.4], [0.5, 0.3]]
MATRICES = [[[0.25, 0.1], [0.1, 0.16]], [[0.36, 0.1], [0.1, 0.16]], [[0.25, 0.0], [0.0, 0.09]]]


def tables() -> list[pd.DataFrame]:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(40, 2))
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": x @ [1.0, -1.0] + draw.normal(size=40)})
    return [frame.assign(a=frame.a + 0.3 * draw.normal(size=40) * (draw.uniform(size=40) < 0.4)) for _ in range(4)]


def test_fits_of_statsmodels() -> None:
    sm, smf = pytest.importorskip("statsmodels.api"), pytest.importorskip("statsmodels.formula.api")
    fits = [smf.ols("y ~ a + b", table).fit() for table in tables()]
    ours = vgi_cli.pool(fits)
    assert ours.terms == ("Intercept", "a", "b") and ours.m == 4 and ours.estimates.df_complete == 37
    np.testing.assert_allclose(ours.table["estimate"], np.mean([fit.params for fit in fits], 0))
    np.testing.assert_allclose(ours.table["within"], np.mean([fit.bse**2 for fit in fits], 0))
    assert ours.table.index.name == "term" and list(ours.table.index) == list(ours.terms)
    assert ours.test(["a", "b"]).df1 == 2
    assert vgi_cli.pool(fits, df_complete=10).estimates.df_complete == 10
    same = vgi_cli.pool([fit.params for fit in fits], covariances=[fit.cov_params() for fit in fits], df_complete=37)
    np.testing.assert_array_equal(same.table, ours.table)
    logit = [smf.glm("w ~ a + b", t.assign(w=t.y > 0), family=sm.families.Binomial()).fit() for t in tables()]
    assert vgi_cli.pool(logit).terms == ("Intercept", "a", "b")


def test_fits_of_statsmodels_without_names() -> None:
    sm = pytest.importorskip("statsmodels.api")
    fits = [sm.OLS(table.y.to_numpy(), sm.add_constant(table[["a", "b"]].to_numpy())).fit() for table in tables()]
    assert vgi_cli.pool(fits).terms == ("const", "x1", "x2")


def test_the_least_degrees_of_freedom_of_the_fits_count() -> None:
    fits = [SimpleNamespace(params=[1.0 + i], bse=[1.0], df_resid=20 - i) for i in range(3)]
    ours = vgi_cli.pool(fits)
    assert ours.estimates.df_complete == 18 and ours.terms == ("x1",) and ours.covariance is None
    del fits[0].df_resid, fits[1].df_resid, fits[2].df_resid
    assert vgi_cli.pool(fits).estimates.df_complete == np.inf


def test_arrays_of_one_quantity() -> None:
    ours = vgi_cli.pool([1.0, 1.2, 0.9], [0.5, 0.6, 0.4], terms=["mean"], level=0.9)
    assert ours.table.loc["mean", "estimate"] == pytest.approx(3.1 / 3)
    assert ours.table.loc["mean", "within"] == pytest.approx(0.77 / 3)
    assert vgi_cli.pool([1.0, 1.2], covariances=[0.25, 0.36]).table["within"].tolist() == pytest.approx([0.305])


LONG = pd.DataFrame(
    {
        "imputation": [1, 1, 2, 2, 3, 3],
        "term": ["a", "b", "b", "a", "a", "b"],
        "estimate": [1.0, 2.0, 2.5, 1.5, 0.5, 1.0],
        "std_error": [0.5, 0.4, 0.4, 0.6, 0.5, 0.3],
        "cov:a": [0.25, 0.1, 0.1, 0.36, 0.25, 0.0],
        "cov:b": [0.1, 0.16, 0.16, 0.1, 0.0, 0.09],
    }
)


@pytest.mark.parametrize("form", ["pandas", "arrow", "csv", "parquet", "r"])
def test_a_long_table_is_the_same_as_arrays(form: str, tmp_path: Any) -> None:
    """In any order of rows; with R's names of columns too."""
    table: Any = LONG
    if form == "arrow":
        table = pa.Table.from_pandas(LONG)
    elif form == "r":
        table = LONG.rename(columns={"imputation": ".imp", "std_error": "std.error"})
    elif form != "pandas":
        table = tmp_path / f"estimates.{form}"
        LONG.to_csv(table, index=False) if form == "csv" else LONG.to_parquet(table)
    ours, same = vgi_cli.pool(table), vgi_cli.pool(VALUES, covariances=MATRICES, terms=["a", "b"])
    np.testing.assert_allclose(ours.table, same.table, rtol=1e-12)
    assert ours.test(["a", "b"]) == same.test(["a", "b"])
    errors = vgi_cli.pool(LONG.drop(columns=["cov:a", "cov:b"]))
    np.testing.assert_allclose(errors.table, vgi_cli.pool(VALUES, ERRORS).table, rtol=1e-12)
    np.testing.assert_allclose(vgi_cli.pool(LONG.drop(columns=["std_error"])).table, same.table, rtol=1e-12)


def test_the_dictionary_leaves_out_what_is_infinite() -> None:
    found = vgi_cli.pool([1.0, 1.0], [0.5, 0.5]).to_dict()
    assert "df_complete" not in found and "df" not in found["terms"][0] and found["terms"][0]["estimate"] == 1.0
    assert "∞" in str(vgi_cli.pool([1.0, 1.0], [0.5, 0.5]))


def in_libraries(frame: pd.DataFrame) -> list[Any]:
    """The same table in pandas, Arrow and polars."""
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    return [frame, arrow, arrow.to_batches()[0], pytest.importorskip("polars").from_arrow(arrow)]


def test_long_tables_of_every_library() -> None:
    for table in in_libraries(LONG):
        assert vgi_cli.pool(table).to_dict() == vgi_cli.pool(LONG).to_dict()


def test_arrays_as_tables() -> None:
    """A column for each term, whose name it is."""
    expected = vgi_cli.pool(VALUES, ERRORS, terms=["a", "b"]).to_dict()
    values, errors = (pd.DataFrame(cells, columns=["a", "b"]) for cells in (VALUES, ERRORS))
    for some, others in zip(in_libraries(values), in_libraries(errors), strict=True):
        assert vgi_cli.pool(some, others).to_dict() == expected
        assert vgi_cli.pool(some, ERRORS).to_dict() == expected
        assert vgi_cli.pool(VALUES, others, terms=["a", "b"]).to_dict() == expected
    named = vgi_cli.pool(values, covariances=MATRICES, terms=["c", "d"])
    assert named.terms == ("c", "d") and named.covariance is not None
    assert vgi_cli.pool(pd.DataFrame(VALUES), pd.DataFrame(ERRORS)).terms == ("x1", "x2")
    assert vgi_cli.pool(pd.Series([1.0, 2.0]), pd.Series([0.5, 0.5])).terms == ("x1",)


class Wide:
    """A fit with several equations."""

    params = np.ones((2, 2))


FIT = SimpleNamespace(params=pd.Series({"a": 1.0, "b": 2.0}), bse=[0.5, 0.4])
OTHER = SimpleNamespace(params=pd.Series({"a": 1.0, "c": 2.0}), bse=[0.5, 0.4])
TURNED = SimpleNamespace(params=pd.Series({"b": 1.0, "a": 2.0}), bse=[0.5, 0.4])


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        (([1.0], [0.5]), {}, "pooling needs two imputations or more, got 1"),
        (([],), {}, "pooling needs two imputations or more, got 0"),
        ((5,), {}, "estimates: expected fitted models, an array or a long table, got int"),
        (
            ([[1.0], [2.0]], [[0.5], [0.0]]),
            {},
            "the standard error of 'x1' in imputation 2 is not a positive number: 0",
        ),
        (([1.0, 2.0], [0.5, -0.5]), {}, "the standard error of 'x1' in imputation 2 is not a positive number: -0.5"),
        (([1.0, 2.0], [0.5, np.inf]), {}, "the standard error of 'x1' in imputation 2 is not a positive number: inf"),
        (
            ([1.0, 2.0], [0.5, 1e299]),
            {},
            "the standard error of 'x1' in imputation 2 is 1e+299: too large to be squared (they may be from 1e-150 to "
            "1e+150)",
        ),
        (
            ([1.0, 2.0], [1e-200, 0.5]),
            {},
            "the standard error of 'x1' in imputation 1 is 1e-200: too small to be squared (they may be from 1e-150 to "
            "1e+150)",
        ),
        (
            ([1.0, -1e200], [0.5, 0.5]),
            {},
            "the estimate of 'x1' in imputation 2 is -1e+200: too large to be squared (up to 1e+150)",
        ),
        (
            ([1.0, 1e200],),
            {"covariances": [0.5, 0.5]},
            "the estimate of 'x1' in imputation 2 is 1e+200: too large to be squared (up to 1e+150)",
        ),
        (
            ([1e100, -1e100], [1e-100, 1e-100]),
            {},
            "the estimates of 'x1' differ between imputations by more than 1e+150 of their standard errors: too much "
            "to be squared",
        ),
        (([1.0, np.nan], [0.5, 0.5]), {}, "the estimate of 'x1' in imputation 2 is not a finite number: nan"),
        (([1.0, 2.0], [0.5, 0.5]), {"covariances": [1, 1]}, "expected either standard errors or covariances"),
        (([1.0, 2.0],), {"terms": ["a"]}, "expected either standard errors or covariances"),
        (([1.0, 2.0], [0.5, 0.5]), {"terms": ["a", "b"]}, "terms: expected 1 different names, got ['a', 'b']"),
        ((VALUES, ERRORS), {"terms": ["a", "a"]}, "terms: expected 2 different names, got ['a', 'a']"),
        ((VALUES, ERRORS[:2]), {}, "the standard errors: expected shape [3, 2], as the estimates have it, got [2, 2]"),
        (
            (VALUES,),
            {"covariances": ERRORS},
            "the covariances: expected shape [3, 2, 2], as the estimates have it, got [3, 2]",
        ),
        (([MATRICES], [1.0]), {}, "the estimates: expected an array [m, terms], got shape [1, 3, 2, 2]"),
        (([[1.0], [1.0, 2.0]], [1.0]), {}, "the estimates: expected numbers, the same count for each imputation"),
        ((["a", "b"], [1.0, 1.0]), {}, "the estimates: expected numbers, the same count for each imputation"),
        (
            (VALUES,),
            {"covariances": [[[1, 0.5], [0, 1]]] * 3},
            "the covariance matrix of imputation 1 is not symmetric and finite",
        ),
        (
            (VALUES,),
            {"covariances": [[[1, np.nan], [np.nan, 1]]] * 3},
            "the covariance matrix of imputation 1 is not symmetric and finite",
        ),
        ((VALUES, ERRORS), {"df_complete": 0}, "the complete-data degrees of freedom are a positive number, got 0"),
        (
            (VALUES, ERRORS),
            {"df_complete": "few"},
            "the complete-data degrees of freedom are a positive number, got 'few'",
        ),
        (([FIT, OTHER],), {}, "imputation 2 has the term 'c', imputation 1 has not"),
        (([FIT, TURNED],), {}, "imputation 2 has its terms in another order than imputation 1"),
        (([FIT, 3.0],), {}, "imputation 2: expected a fitted model with params (one for each term), got float"),
        (
            ([Wide(), Wide()],),
            {},
            "imputation 1: expected a fitted model with params (one for each term), got params with 2 dimensions",
        ),
        (([SimpleNamespace(params=[1.0])] * 2,), {}, "the fitted models have neither cov_params() nor bse"),
        ((LONG, ERRORS), {}, "a long table holds the standard errors, covariances and terms itself"),
        ((LONG,), {"terms": ["a"]}, "a long table holds the standard errors, covariances and terms itself"),
        (
            (pd.DataFrame(VALUES, columns=["a", "b"]), pd.DataFrame(ERRORS, columns=["b", "a"])),
            {},
            "std_errors: has its terms in another order than the estimates",
        ),
        (
            (pd.DataFrame({"a": ["x", "y"]}), [1.0, 1.0]),
            {},
            "the estimates: expected numbers, the same count for each imputation",
        ),
    ],
)
def test_refused(arguments: tuple[Any, ...], options: dict[str, Any], error: str) -> None:
    with pytest.raises((UsageError, InputError)) as caught:
        vgi_cli.pool(*arguments, **options)
    assert caught.value.message == error


def changed(**cells: Any) -> pd.DataFrame:
    """LONG as texts, with other cells in rows: `estimate={2: "x"}`."""
    table = LONG.drop(columns=["cov:a", "cov:b"]).astype(str)
    for name, rows in cells.items():
        for row, value in rows.items():
            table.loc[row, name] = value
    return table


@pytest.mark.parametrize(
    ("table", "error"),
    [
        (LONG.drop(columns="term"), "the table: no column 'term'"),
        (LONG.drop(columns="imputation"), "the table: no column 'imputation' or '.imp'"),
        (LONG[["imputation", "term", "estimate"]], "the table: no column 'std_error' or 'std.error'"),
        (changed(estimate={2: "x"}), "the table: row 3: 'estimate' is 'x', not a number"),
        (changed(estimate={2: None}), "the table: row 3: 'estimate' is empty"),
        (changed(std_error={5: None}), "the table: row 6: 'std_error' is empty"),
        (changed(term={1: None}), "the table: row 2: 'term' is empty"),
        (changed(imputation={1: None}), "the table: row 2: 'imputation' is empty"),
        (changed(term={1: "a"}), "the table: row 2: 'term' is a second 'a' of imputation 1 (the first is in row 1)"),
        (changed(term={2: "c"}), "imputation 2 has the term 'c', imputation 1 has not"),
        (changed()[:5], "imputation 1 has the term 'b', imputation 3 has not"),
        (changed(std_error={5: "0"}), "the standard error of 'b' in imputation 3 is not a positive number: 0"),
        (
            changed(std_error={5: "1e299"}),
            "the standard error of 'b' in imputation 3 is 1e+299: too large to be squared (they may be from 1e-150 to "
            "1e+150)",
        ),
        (
            changed(estimate={5: "1e299"}),
            "the estimate of 'b' in imputation 3 is 1e+299: too large to be squared (up to 1e+150)",
        ),
        (changed()[:2], "pooling needs two imputations or more, got 1"),
        (
            changed(imputation={0: "0", 1: "0"}).rename(columns={"imputation": ".imp"}),
            "the table: row 1: '.imp' is 0, the table with its holes",
        ),
        (LONG.drop(columns="cov:b"), "the table: no column 'cov:b'"),
        (LONG.assign(**{"cov:c": 1.0}), "the table: the column 'cov:c' is of no term"),
        (
            LONG.assign(std_error=LONG["std_error"] * 2),
            "the table: the standard error of 'a' in imputation 1 is 1, its variance in 'cov:a' 0.25",
        ),
    ],
)
def test_refused_long_tables(table: pd.DataFrame, error: str) -> None:
    with pytest.raises(VgiError) as caught:
        vgi_cli.pool(table)
    assert caught.value.message == error and caught.value.exit_code == 2


def test_default_names_of_terms() -> None:
    assert from_arrays(VALUES, ERRORS).terms == ("x1", "x2")


def test_tests_of_several_terms_need_covariances() -> None:
    ours = vgi_cli.pool(VALUES, ERRORS)
    with pytest.raises(InputError) as caught:
        ours.test(["x1", "x2"])
    assert caught.value.message == "a test of several terms needs their covariances, and only standard errors are given"
    assert ours.test("x2").df1 == 1
