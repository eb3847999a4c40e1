"""`vgi_cli.Imputer`: what it fills, for every type of table, and what it refuses."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pytest
import torch

import vgi_cli
from tests.selection import first
from vgi_cli.errors import InvalidCells, InvalidInput, InvalidParameter, NotFitted, UsageError, VgiWarning
from vgi_cli.machine.work import TimeUp

ROOT = Path(__file__).parents[2]
Array = npt.NDArray[np.float64]
ONE = {"model.components": 1, "bootstrap": "none"}
"""One Gaussian and no refits: fitted in a moment."""


def imputer(**given: Any) -> vgi_cli.Imputer:
    return vgi_cli.Imputer(**{"model": "mixture", "set": ONE, "threads": 1, "draws": 5, **given})


def rows(N: int = 60, seed: int = 0) -> Array:
    """Numbers of three columns that depend on each other."""
    rng = np.random.default_rng(seed)
    mix = np.array([[1.0, 0.8, 0.3], [0.0, 0.6, -0.5], [0.0, 0.0, 0.7]])
    return np.asarray(rng.normal(size=(N, 3)) @ mix + [3.0, -1.0, 10.0])


def with_holes(X: Array, seed: int = 1) -> Array:
    out = X.copy()
    out[np.random.default_rng(seed).random(X.shape) < 0.25] = np.nan
    return out


@cache
def fitted_once() -> vgi_cli.Imputer:
    """To the holes of rows(); nobody changes it."""
    return imputer().fit(with_holes(rows()))


def mixed(N: int = 60) -> pd.DataFrame:
    """Columns of several types, with holes, under an index of their own."""
    rng = np.random.default_rng(0)
    size = rng.normal(10.0, 2.0, N)
    frame = pd.DataFrame(
        {
            "size": size.astype("float32"),
            "count": pd.array(np.round(size).astype(int), dtype="Int16"),
            "colour": pd.Categorical(np.where(size > 10, "red", "blue")),
            "shape": np.where(size + rng.normal(size=N) > 10, "round", "flat").astype(object),
            "ripe": pd.array(size > 9, dtype="boolean"),
        },
        index=[f"row {i}" for i in range(N)],
    )
    return frame.mask(rng.random(frame.shape) < 0.15)


# --- what is filled ---


@pytest.mark.slow
@pytest.mark.full_fits
def test_means_and_spread_are_those_of_the_normal_law() -> None:
    """Fitted to complete rows, one Gaussian has their mean and covariance: what is filled in then is known."""
    X = rows(400)
    mean, cov = X.mean(0), np.cov(X.T, bias=True)
    new = np.array([[2.0, np.nan, 9.0], [np.nan, 0.5, np.nan]])
    expected, variance = new.copy(), np.zeros_like(new)
    for i, row in enumerate(new):
        hole = np.isnan(row)
        weights = cov[np.ix_(hole, ~hole)] @ np.linalg.inv(cov[np.ix_(~hole, ~hole)])
        expected[i, hole] = mean[hole] + weights @ (row[~hole] - mean[~hole])
        variance[i, hole] = np.diag(cov[np.ix_(hole, hole)] - weights @ cov[np.ix_(~hole, hole)])
    hole, draws = np.isnan(new), 1000
    fitted = imputer(draws=draws, set={**ONE, "table.transform": "linear"}).fit(X)
    standard_error = np.sqrt(variance[hole] / draws)
    assert (np.abs(fitted.transform(new) - expected)[hole] / standard_error).max() < 1.0  # its draws are even
    drawn = np.stack(fitted.sample(draws, new))
    assert (np.abs(drawn.mean(0) - expected)[hole] / standard_error).max() < 4.0
    assert np.allclose(drawn.var(0)[hole], variance[hole], rtol=0.15)


def test_a_row_is_filled_by_what_it_holds_alone() -> None:
    X = with_holes(rows())
    X[7] = X[3]
    X[3, 0] = X[7, 0] = np.nan
    fitted = imputer()
    whole = fitted.fit_transform(X)
    assert np.array_equal(whole, fitted.fit(X).transform(X))
    assert np.array_equal(whole[[7, 30, 3]], fitted.transform(X[[7, 30, 3]]))
    assert np.array_equal(whole[3], whole[7])
    observed = ~np.isnan(X)
    assert not np.isnan(whole).any() and np.array_equal(whole[observed], X[observed])
    drawn = imputer(how="draw").fit(X).transform(X)
    assert drawn[3, 0] != drawn[7, 0]


def test_numbers_of_single_precision_are_read_alike_in_every_batch() -> None:
    """As the fractions that they were written as, where these are those of the fit."""
    X = with_holes(rows()).round(1).astype("float32")
    fitted = imputer(how="draw").fit(X)
    whole = fitted.transform(X)
    assert np.array_equal(whole, whole.round(1)) and np.array_equal(fitted.transform(X[[30]]), whole[[30]])
    other = X[[30]] + np.float32(0.012345)
    assert np.array_equal(fitted.transform(other)[~np.isnan(other)], other[~np.isnan(other)])


def test_rows_without_an_observed_cell_are_filled() -> None:
    fitted = imputer(draws=200).fit(rows(200))
    filled = fitted.transform(np.full((1, 3), np.nan))
    assert np.allclose(filled[0], rows(200).mean(0), atol=0.35)


def test_samples_are_multiple_imputations() -> None:
    X = with_holes(rows())
    fitted = imputer(set={"model.components": 1, "bootstrap": 5}).fit(X)
    five, two = fitted.sample(5), fitted.sample(2, X)
    for one, other in zip(five, two, strict=False):
        assert np.array_equal(one, other)
    hole = np.isnan(X)
    spread = np.ptp(np.stack(five), 0)
    assert (spread[hole] > 0).all() and (spread[~hole] == 0).all()


def test_samples_include_the_uncertainty_of_the_fit() -> None:
    """Ten rows say little of the mean: that of 300 draws differs between refits by about the column's sd over √10, and
    between draws from one fit by the sd over √300, a factor of 5.5."""
    said: list[str] = []
    spread = []
    for refits in ("none", 10):
        fitted = imputer(set={"model.components": 1, "bootstrap": refits}, say=said.append).fit(rows(10))
        draws = np.stack(fitted.sample(10, np.full((300, 3), np.nan)))
        spread.append(draws.mean(1).std(0))
    assert spread[1].mean() > 2 * spread[0].mean()
    assert any("do not include the uncertainty" in line for line in said)


@pytest.mark.parametrize("dtype", first(2, ["float64", "float16", "float32"]))
def test_arrays_keep_their_type(dtype: str) -> None:
    X = with_holes(rows()).astype(dtype)
    filled = imputer().fit_transform(X)
    assert filled.dtype == X.dtype and np.isfinite(filled).all()
    assert np.isnan(X).any()


@pytest.mark.filterwarnings("ignore:the columns are modelled as independent")
def test_arrays_of_objects_hold_categories_too() -> None:
    frame = mixed()[["size", "colour"]]
    X = frame.to_numpy(object)
    filled = imputer().fit_transform(X)
    assert filled.dtype == object and set(filled[:, 1]) == {"red", "blue"} and not pd.isna(filled).any()


def test_frames_keep_types_index_and_observed_cells() -> None:
    frame = mixed()
    filled = imputer().fit_transform(frame)
    assert filled.dtypes.equals(frame.dtypes) and filled.index.equals(frame.index)
    assert not filled.isna().any(axis=None)
    pd.testing.assert_frame_equal(filled.where(frame.notna()), frame.where(frame.notna()))
    assert set(filled["colour"]) == {"red", "blue"}


class Frame(pd.DataFrame):
    """A DataFrame of somebody's own."""


def test_what_derives_from_a_frame_is_one() -> None:
    frame = Frame(with_holes(rows()), columns=["a", "b", "c"])
    filled = imputer().fit_transform(frame)
    assert isinstance(filled, pd.DataFrame) and not filled.isna().any(axis=None)


def test_lists() -> None:
    X = [[None if np.isnan(cell) else cell for cell in row] for row in with_holes(rows()).tolist()]
    assert np.array_equal(imputer().fit_transform(X), imputer().fit_transform(with_holes(rows())))
    words = imputer().fit_transform([*[["a", "b"], ["b", "a"]] * 9, [None, "b"]])
    assert words.dtype == object and words[-1, 0] == "a"


def test_columns_may_be_called_by_numbers() -> None:
    frame = pd.DataFrame(with_holes(rows()), columns=[5, 6, 7])
    fitted = imputer().fit(frame)
    filled = fitted.transform(frame)
    assert list(filled.columns) == [5, 6, 7] and not filled.isna().any(axis=None)
    assert "feature_names_in_" not in vars(fitted) and list(fitted.get_feature_names_out()) == ["x0", "x1", "x2"]


class Stream:
    """A table of a library that is not known here: all that it does is export Arrow, texts as views."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def test_what_exports_arrow_becomes_an_arrow_table() -> None:
    frame = mixed()
    table = pa.Table.from_pandas(frame, preserve_index=False)
    shape = table.column("shape").cast(pa.string_view())
    colour = table.column("colour").unify_dictionaries().chunk(0)
    views = pa.DictionaryArray.from_arrays(colour.indices, colour.dictionary.cast(pa.string_view()))
    table = table.set_column(3, "shape", shape).set_column(2, "colour", views)
    filled = imputer().fit_transform(Stream(table))
    assert isinstance(filled, pa.Table) and not any(column.null_count for column in filled.columns)
    ours = imputer().fit_transform(frame)
    assert filled.column("colour").to_pylist() == list(ours["colour"])
    assert filled.column("size").to_pylist() == ours["size"].tolist()


def test_polars() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.from_pandas(mixed())
    fitted = imputer().fit(frame)
    filled = fitted.transform(frame)
    assert filled.schema == frame.schema and filled.null_count().sum_horizontal().item() == 0
    assert isinstance(fitted.set_output(transform="pandas").transform(frame), pd.DataFrame)
    made = imputer().fit(with_holes(rows())).set_output(transform="polars").transform(rows())
    assert isinstance(made, polars.DataFrame) and made.columns == ["x0", "x1", "x2"]


# --- columns ---


def test_columns_without_an_observed_cell_are_dropped() -> None:
    X = with_holes(rows())
    X[:, 1] = np.nan
    fitted = imputer()
    with pytest.warns(VgiWarning, match="column 'x1' is without any observed cell: dropped"):
        filled = fitted.fit_transform(X)
    assert filled.shape == (60, 2) and list(fitted.get_feature_names_out()) == ["x0", "x2"]
    assert [one.shape for one in fitted.sample(2)] == [(60, 2)] * 2
    kept = imputer(keep_empty_features=True).fit(X)
    with pytest.warns(VgiWarning, match="column 'x1' is not modelled: holes stay"):
        assert np.isnan(kept.transform(X)).all(0).tolist() == [False, True, False]


def test_holes_that_stay_are_told() -> None:
    frame = mixed().assign(note=[f"note {i}" if i % 2 else None for i in range(60)])
    fitted = imputer().fit(frame)
    with pytest.warns(VgiWarning, match="column 'note' is not modelled: holes stay"):
        filled = fitted.transform(frame)
    assert filled["note"].isna().sum() == 30


@pytest.mark.filterwarnings("ignore:the columns are modelled as independent")
def test_kinds_and_limits_can_be_said() -> None:
    X = np.tile([[0.0, 1.0], [1.0, 4.0], [np.nan, 2.0], [1.0, np.nan]], (8, 1))
    levels = imputer(how="draw").fit_transform(X)
    assert set(levels[:, 0]) == {0.0, 1.0}
    numbers = imputer(how="draw", columns="numeric", bounds={"x1": "0:9"}).fit_transform(X)
    assert len(set(numbers[:, 0])) > 2
    one = imputer(how="draw", columns={"x0": "numeric"}).fit_transform(X)
    assert len(set(one[:, 0])) > 2 and np.nanmin(numbers[:, 1]) >= 0 and numbers[:, 1].max() <= 9


def test_later_levels() -> None:
    frame = mixed()
    new = frame.assign(shape="square")
    with pytest.raises(InvalidInput, match="'shape' has a level that the fit has not seen: 'square'"):
        imputer().fit(frame).transform(new)
    for unseen, shapes in (("missing", {"round", "flat"}), ("carry", {"square"})):
        assert set(imputer(unseen=unseen, draws=1).fit(frame).transform(new)["shape"]) <= shapes


# --- an estimator ---


def test_copies_draw_the_same() -> None:
    frame = mixed()
    fitted = imputer(set={"model.components": 1, "bootstrap": 2}, draws=2).fit(frame).set_output(transform="default")
    expected = fitted.transform(frame)
    for other in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted)):
        pd.testing.assert_frame_equal(other.transform(frame), expected)
        pd.testing.assert_frame_equal(other.sample(2, frame)[1], fitted.sample(2)[1])
        with pytest.raises(InvalidInput, match="not kept in a pickle"):
            other.sample(2)


def test_parameters() -> None:
    one = vgi_cli.Imputer(model="fa", how="draw")
    assert repr(one) == "Imputer(how='draw', model='fa')" or repr(one) == "Imputer(model='fa', how='draw')"
    assert one.get_params()["random_state"] == 0 and one.set_params(draws=3) is one and one.draws == 3
    with pytest.raises(InvalidParameter, match="Imputer has no parameter 'modle'") as error:
        one.set_params(modle="fa")
    assert error.value.hint == "did you mean 'model'?"
    assert "random_state  a whole number" in (vgi_cli.Imputer.__doc__ or "")


def test_seeds() -> None:
    X = with_holes(rows())
    first, again, other = (imputer(random_state=seed, draws=1).fit_transform(X) for seed in (0, 0, 1))
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    one, two = (imputer(random_state=kind(3), draws=1).fit_transform(X) for kind in (np.random.RandomState,) * 2)
    assert np.array_equal(one, two)
    generators = [np.random.default_rng(3) for _ in range(2)]
    one, two = (imputer(random_state=generator, draws=1).fit_transform(X) for generator in generators)
    assert np.array_equal(one, two)
    one, two = (imputer(random_state=None, draws=1).fit_transform(X) for _ in range(2))
    assert not np.array_equal(one, two)


@pytest.mark.parametrize(
    ("given", "match", "kind"),
    [
        ({"model": "mixtur"}, "mixtur", InvalidParameter),
        ({"how": "best"}, "how: expected mean, median, mode, draw, got 'best'", InvalidParameter),
        ({"random_state": "a"}, "random_state: expected a whole number", InvalidParameter),
        ({"set": {"model.component": 2}}, "model.component", InvalidParameter),
        ({"columns": {"x9": "numeric"}}, "x9", UsageError),
        ({"columns": "numerical"}, "numerical", UsageError),
        ({"draws": 0}, "draws: expected a whole number from 1 to", InvalidParameter),
        ({"draws": True}, "draws: expected a whole number from 1 to", InvalidParameter),
        ({"draws": 2.0}, "draws: expected a whole number from 1 to", InvalidParameter),
        ({"how": "mode"}, "mode", InvalidParameter),
        ({"device": "tpu"}, "tpu", InvalidParameter),
        ({"unseen": "skip"}, "skip", InvalidParameter),
    ],
)
def test_parameters_that_cannot_be(given: dict[str, Any], match: str, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=match):
        imputer(**given).fit_transform(with_holes(rows()))


def test_a_mode_of_numbers_is_refused_before_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    def fitted(*_: object) -> None:
        raise AssertionError("a model was fitted")

    monkeypatch.setattr("vgi_cli.estimators.base.fit_in_memory", fitted)
    with pytest.raises(InvalidParameter, match="how='mode': every column holds numbers, which have no mode"):
        imputer(how="mode").fit(with_holes(rows()))
    with pytest.raises(AssertionError, match="a model was fitted"):
        imputer(how="mode").fit(mixed())


def test_a_mode_that_is_asked_of_a_fit_of_numbers_later_is_refused() -> None:
    fitted = imputer().fit(with_holes(rows())).set_params(how="mode")
    with pytest.raises(InvalidParameter, match="how='mode': every column holds numbers"):
        fitted.transform(with_holes(rows()))


def test_what_the_columns_are_of_stays() -> None:
    """`columns.name` of pandas, also where a column is dropped."""
    frame = pd.DataFrame(with_holes(rows()), columns=pd.Index(["a", "b", "c"], name="feature"))
    fitted = imputer().fit(frame)
    for table in (fitted.transform(frame), *fitted.sample(2), *fitted.sample(1, frame[:5])):
        assert table.columns.equals(frame.columns) and table.columns.name == "feature"
    with pytest.warns(VgiWarning, match="dropped"):
        fewer = imputer().set_output(transform="pandas").fit_transform(frame.assign(a=np.nan))
    assert list(fewer.columns) == ["b", "c"] and fewer.columns.name == "feature"


def test_hints_name_parameters_that_there_are() -> None:
    """`--carry-others` and `--plugin` are flags of the commands."""
    with pytest.raises(InvalidParameter, match="takes numbers only: columns 'colour', 'shape', 'ripe'") as caught:
        imputer(model="fa", set={"bootstrap": "none"}).fit(mixed())
    assert "set={'table.carry_others': True} carries them as they are" in str(caught.value.hint)
    with pytest.warns(VgiWarning, match="not modelled"):
        imputer(model="fa", set={"bootstrap": "none", "table.carry_others": True}).fit_transform(mixed())
    with pytest.raises(InvalidParameter) as caught:
        imputer(model="mixtur").fit(rows())
    assert caught.value.hint == "did you mean 'mixture'?"


@pytest.mark.parametrize("m", [1.5, 2.0, "3", True])
def test_numbers_of_tables_that_cannot_be(m: Any) -> None:
    with pytest.raises(InvalidParameter, match=f"--m: expected a whole number from 1 to 10000, got {m!r}"):
        fitted_once().sample(m)


def test_parameters_may_be_numbers_of_numpy() -> None:
    X = with_holes(rows())
    settings = {**ONE, "model.components": np.arange(1, 3)[0]}
    numpy = imputer(set=settings, threads=np.int64(1), draws=np.int64(3), time_limit=np.int64(600)).fit(X)
    usual = imputer(draws=3).fit(X)
    assert np.array_equal(numpy.transform(X), usual.transform(X))
    assert np.array_equal(numpy.sample(np.int64(2))[1], usual.sample(2)[1])


@pytest.mark.parametrize(
    ("X", "match"),
    [
        (rows() + 1j, "Complex data not supported"),
        (np.ma.masked_greater(rows(), 10.0), "masked arrays are not taken"),
        (object(), "expected a table, got object"),
        (rows()[:, 0], "Expected 2D array, got 1D array"),
        (np.where(rows() > 10, np.inf, rows()), "inf"),
        (np.full((4, 2), np.nan), "no column that can be modelled"),
        (np.zeros((0, 3)), r"0 sample\(s\)"),
        (pd.DataFrame(index=[1, 2]), r"0 feature\(s\)"),
        (pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]), "duplicate column name 'a'"),
        (pd.DataFrame({"a": pd.arrays.SparseArray([0.0, 1.0])}), "the table: column 'a' is sparse"),
        (pd.DataFrame({"a": [1, "x"]}), "column 'a' holds cells of several types: a number in row 1, str in row 2"),
        (np.array([["a", 1.0], [2.0, "b"], [None, "c"]], object), "column 'x0' cannot be read"),
    ],
)
def test_tables_that_cannot_be(X: Any, match: str) -> None:
    with pytest.raises(InvalidInput, match=match):
        imputer().fit(X)


def test_types_that_cannot_be() -> None:
    with pytest.raises(InvalidCells, match="must be a string or a real number, not 'dict'"):
        imputer().fit(np.array([[1.0], [{}]], object))
    with pytest.raises(InvalidCells, match="all input features have string names"):
        imputer().fit(pd.DataFrame(rows(), columns=["a", 1, 2]))


def test_other_columns_are_refused() -> None:
    frame = pd.DataFrame(rows(), columns=["a", "b", "c"])
    fitted = imputer().fit(frame)
    for columns, match in (
        (["c", "b", "a"], "same order"),
        (["a", "b", "d"], "unseen at fit time:\n- d\nFeature names seen at fit time, yet now missing:\n- c"),
    ):
        with pytest.raises(InvalidInput, match=match):
            fitted.transform(frame.set_axis(columns, axis=1))
    with (
        pytest.warns(UserWarning, match="does not have valid feature names"),
        pytest.raises(InvalidInput, match="X has 2 features, but Imputer is expecting 3"),
    ):
        fitted.transform(rows()[:, :2])
    with pytest.raises(InvalidInput, match="input_features is not equal"):
        fitted.get_feature_names_out(["a", "b", "x"])
    with pytest.raises(InvalidParameter, match="unknown output 'panda'"):
        fitted.set_output(transform="panda")


def test_before_the_fit() -> None:
    for call in (lambda one: one.transform(rows()), lambda one: one.sample(), lambda one: one.get_feature_names_out()):
        with pytest.raises(NotFitted, match="This Imputer instance is not fitted yet"):
            call(imputer())


@pytest.mark.slow
def test_scikit_learn_is_not_needed() -> None:
    """Neither to import the estimators nor to use them."""
    code = """if True:
        import sys
        sys.modules["sklearn"] = None
        import numpy as np, pandas as pd, vgi_cli
        X = np.random.default_rng(0).normal(size=(30, 2))
        X[::3, 1] = np.nan
        one = vgi_cli.Imputer(model="mixture", set={"model.components": 1, "bootstrap": 2}, threads=1)
        try:
            one.transform(X)
        except vgi_cli.errors.NotFitted as error:
            assert type(error) is vgi_cli.errors.NotFitted
        assert not np.isnan(one.fit_transform(X)).any()
        assert one.set_output(transform="pandas").transform(X).columns.tolist() == ["x0", "x1"]
        assert len(one.fit(pd.DataFrame(X, columns=["a", "b"])).sample(2)) == 2
    """
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_the_limit_of_time() -> None:
    with pytest.raises(TimeUp, match=r"the time limit of 0\.001 s was over"):
        imputer(time_limit=0.001).fit(with_holes(rows()))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("model", "method"), [("flow", "vgi"), ("vae", "miwae")])
def test_models_that_are_fitted_by_gradients(model: str, method: str) -> None:
    """Chains fill a row by what it holds alone; scores are of every row; nothing of the optimiser is kept."""
    X = with_holes(rows(100))
    small = {"epochs": 3, "method.imputations": 2} if method == "vgi" else {"epochs": 3}
    small |= {"model.steps": 1, "model.bins": 3, "model.blocks": 1} if model == "flow" else {}
    given = {"model": model, "method": method, "set": {**small, "bootstrap": "none"}}
    fitted = imputer(**given, draws=2).fit(X)
    whole = fitted.transform(X)
    assert np.array_equal(fitted.transform(X[[30, 4]]), whole[[30, 4]]) and not np.isnan(whole).any()
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.transform(X), whole) and again._fitted.run.tensors("state") == {}
    density = vgi_cli.Density(threads=1, **given).fit(X)
    scores = density.score_samples(np.vstack([rows(3), X[:2]]))
    assert np.isfinite(scores).all() and density.sample(3).shape == (3, 3)


def test_a_mean_of_twenty_draws_is_near_that_of_many() -> None:
    """Rows that are alike in what is observed have one fill: what the draws are off does not average out over them."""
    rng = np.random.default_rng(0)
    x = rng.normal(50, 10, 500)
    table = np.where(rng.random(500) < 0.4, np.nan, x)[:, None]
    settings = {"model.components": 1, "model.outliers": False, "bootstrap": "none"}
    fills = []
    for seed in range(8):
        imputer = vgi_cli.Imputer(model="mixture", random_state=seed, set=settings)
        fills.append(imputer.fit_transform(table)[np.isnan(table)])
        assert np.ptp(fills[-1]) == 0
    away = np.array([fill[0] for fill in fills]) - np.nanmean(table)
    assert np.sqrt(np.mean(away**2)) < 0.5  # independent draws: 10 / sqrt(20) = 2.2


def test_torch_keeps_its_threads() -> None:
    """They are set for the time of a call alone."""
    X, before = with_holes(rows()), torch.get_num_threads()
    density = vgi_cli.Density(model="mixture", set=ONE, threads=1)
    one = imputer()
    calls: list[Callable[[], Any]] = [
        lambda: one.fit(X),
        lambda: one.transform(X),
        lambda: one.sample(1),
        lambda: density.fit(X),
        lambda: density.score(X),
        lambda: density.sample(2),
    ]
    try:
        for call in calls:
            torch.set_num_threads(2)
            call()
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("kind", first(1, [">f4", ">f8", ">i4", ">f2"]))
def test_numbers_in_another_order_of_bytes(kind: str) -> None:
    """Big-endian ones, as FITS has them: the fills, and the types, of the same numbers; arrays and DataFrames."""
    native = np.dtype(kind).newbyteorder("=")
    X = rows() if "i" in kind else with_holes(rows())
    given = np.round(X, 3).astype(kind)
    expected = imputer().fit_transform(given.astype(native))
    filled = imputer().fit_transform(given)
    assert filled.dtype == np.dtype(kind) and np.array_equal(filled, expected)
    frame = pd.DataFrame(given, columns=list("abc"))
    expected, filled = imputer().fit_transform(frame.astype(native)), imputer().fit_transform(frame)
    assert set(filled.dtypes) == {np.dtype(kind)}
    pd.testing.assert_frame_equal(filled.astype(native), expected)
