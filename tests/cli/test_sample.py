"""`vgi sample` and `vgi_cli.sample`: rows from the model, written as the table that was fitted."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import vgi_cli
from tests.encoding.test_mostly_empty import coupons
from tests.program import Vgi
from vgi_cli.fitting.fitted import FittedTable, load_run
from vgi_cli.machine.work import TimeUp
from vgi_cli.reporting import Silent
from vgi_cli.samplers import rows


def fitted_of(run: vgi_cli.Run) -> FittedTable:
    return load_run(run.path, Silent())


def numbers(N: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    factor = rng.normal(size=(N, 1))
    x = factor * np.array([1.0, -2.0, 0.5, 3.0]) + rng.normal(size=(N, 4)) * np.array([0.5, 1.0, 2.0, 1.0]) + 10
    return pd.DataFrame(x, columns=list("abcd")).mask(rng.random((N, 4)) < 0.15)


def mixed(N: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    sex = rng.choice(["f", "m"], N, p=[0.3, 0.7])
    grade = np.where(rng.random(N) < 0.6, "low", rng.choice(["mid", "top"], N))
    age = rng.poisson(30 + 10 * (sex == "m"))
    weight = np.round(50 + 20 * (sex == "m") + rng.normal(size=N) * 4, 1)
    day = pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 300, N), "D")
    frame = pd.DataFrame({"sex": sex, "grade": grade, "age": age, "weight": weight, "day": day.strftime("%Y-%m-%d")})
    frame = frame.astype(object).mask(rng.random(frame.shape) < 0.1)
    return frame.assign(same="x", id=[f"p{i}" for i in range(N)], note=[f"note {i}, long" for i in range(N)])


@pytest.mark.slow
def test_samples_have_the_moments_of_the_model_and_give_it_again(tmp_path: Path) -> None:
    def moments(run: vgi_cli.Run) -> tuple[np.ndarray, np.ndarray]:
        model = run.model().double()
        scales = [column.scale for column in fitted_of(run).schema.encoded]  # type: ignore[attr-defined]
        sd, shift = (np.array([getattr(scale, part) for scale in scales]) for part in ("sd", "mean"))
        covariance = (model.F @ model.F.T + model.log_psi.exp().diag()).detach().numpy()
        return model.mean.detach().numpy() * sd + shift, covariance * np.outer(sd, sd)

    n, settings = 20_000, {"model.factors": 1, "bootstrap": 0}
    fit: dict[str, Any] = {"model": "fa", "set": settings, "unbounded": "all"}
    run = vgi_cli.fit(numbers(), out=tmp_path / "one", **fit)
    mean, covariance = moments(run)
    drawn = run.sample(n=n)
    sd = np.sqrt(np.diag(covariance))
    assert (np.abs(drawn.mean() - mean) < 4 * sd / n**0.5).all()
    assert (np.abs(np.cov(drawn.T) - covariance) < 4 * np.outer(sd, sd) * (2 / n) ** 0.5).all()
    again = vgi_cli.fit(drawn, out=tmp_path / "two", **fit)
    assert (np.abs(moments(again)[1] - covariance) < 5 * np.outer(sd, sd) * (2 / n) ** 0.5).all()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> vgi_cli.Run:
    folder = tmp_path_factory.mktemp("mixed")
    mixed().to_csv(folder / "t.csv", index=False)
    settings = {"model.components": 2, "bootstrap": 0, "trees": "none"}
    return vgi_cli.fit(folder / "t.csv", model="mixture", id="id", set=settings, out=folder / "run")


def test_levels_are_as_frequent_as_the_model_says(run: vgi_cli.Run) -> None:
    drawn, fitted = run.sample(n=8000), fitted_of(run)
    model = fitted.model.double()
    for i, name in enumerate(["sex", "grade"]):
        dimension = fitted.layout.slices[fitted.layout.columns.index(name)].start
        levels = fitted.schema.encoded[i].texts  # type: ignore[attr-defined]
        x = torch.zeros(len(levels), fitted.layout.D, dtype=torch.float64)
        x[:, dimension] = torch.arange(len(levels))
        missing = torch.ones_like(x, dtype=torch.bool)
        missing[:, dimension] = False
        expected = model.marginal_log_prob(x, missing).exp().tolist()  # type: ignore[operator]
        assert sum(expected) == pytest.approx(1.0)
        found = [float((drawn[name] == level).mean()) for level in levels]
        assert found == pytest.approx(expected, abs=4 * (0.25 / 8000) ** 0.5)


def test_rows_are_written_as_their_table_was(run: vgi_cli.Run, vgi: Vgi) -> None:
    done = vgi("sample", run.path, "-n", "50")
    assert done.code == 0
    text = pd.read_csv(io.StringIO(done.out), dtype=str)
    assert list(text) == list(mixed()) and len(text) == 50
    assert text[["id", "note"]].isna().all(axis=None) and text.drop(columns=["id", "note"]).notna().all(axis=None)
    assert (text["same"] == "x").all() and set(text["grade"]) <= {"low", "mid", "top"}
    assert text["age"].str.fullmatch(r"\d+").all() and text["weight"].str.fullmatch(r"\d+\.\d").all()
    assert text["day"].str.fullmatch(r"20\d\d-\d\d-\d\d").all()
    assert vgi("sample", run.path, "-n", "50", "-o", "s.csv").out == "s.csv\n"
    assert Path("s.csv").read_text() == done.out
    assert vgi("sample", run.path, "-n", "80").out.startswith(done.out)
    assert vgi("sample", run.path, "-n", "50", "--seed", "1").out != done.out
    assert vgi("sample", run.path, "-n", "50", "-o", "s.parquet").code == 0
    typed = pd.read_parquet("s.parquet")
    assert str(typed["age"].dtype) == "int64" and typed["age"].tolist() == text["age"].astype(int).tolist()
    pd.testing.assert_frame_equal(run.sample(n=50), typed)
    assert vgi("sample", run.path, "-n", "2", "-o", "s.tsv").code == 0
    assert Path("s.tsv").read_text().count("\t") == 3 * 7
    back = vgi("score", run.path, "s.csv")  # what was drawn can be read again
    assert back.code == 0 and pd.read_csv(io.StringIO(back.out))["loglik"].notna().all()


def test_they_may_have_the_holes_of_fitted_rows(run: vgi_cli.Run) -> None:
    whole, holes = run.sample(n=2000), run.sample(n=2000, missing=True)
    names = ["sex", "grade", "age", "weight", "day", "same"]
    absent = holes[names].isna()
    patterns = set(map(tuple, mixed()[names].isna().to_numpy()))
    assert set(map(tuple, absent.to_numpy())) <= patterns
    shares = mixed()[names].isna().mean()
    assert (np.abs(absent.mean() - shares) < 4 * (0.1 / 2000) ** 0.5).all()
    assert ((whole[names] == holes[names]) | absent).all(axis=None)


def test_marks_and_tokens_are_those_of_the_fit(vgi: Vgi) -> None:
    frame = numbers(60).round(1).assign(e=list(np.arange(60) % 7))
    frame.to_csv("t.csv", index=False, sep=";", decimal=",")
    fit = ["--delimiter", ";", "--decimal", ",", "--na-values", "e=3", "--model", "mixture", "--column", "e=integer"]
    done = vgi("fit", "t.csv", *fit, "--set", "model.components=1", "--set", "bootstrap=0", "--out", "run")
    assert done.code == 0, done.err
    drawn = pd.read_csv(io.StringIO(vgi("sample", "run", "-n", "300").out), sep=";", decimal=",")
    assert drawn.dtypes.map(str).isin(["float64", "int64"]).all() and not (drawn["e"] == 3).any()
    assert drawn["e"].isin(range(7)).all()  # few whole numbers: these alone


def test_rows_of_a_run_of_tsv_have_tabs(vgi: Vgi) -> None:
    numbers(60).round(1).to_csv("t.tsv", index=False, sep="\t")
    done = vgi("fit", "t.tsv", "--model", "fa", "--set", "model.factors=1", "--set", "bootstrap=0", "--out", "run")
    assert done.code == 0, done.err
    assert vgi("sample", "run", "-n", "3").out.startswith("a\tb\tc\td\n")
    assert vgi("sample", "run", "-n", "3", "-o", "out.csv").code == 0
    assert Path("out.csv").read_text().startswith("a,b,c,d\n")


FLOW: dict[str, Any] = {"model.steps": 1, "model.hidden": 4, "bootstrap": 0}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["flow", "flow-ar", "vae"])
def test_every_model_draws_rows_within_the_bounds(name: str, tmp_path: Path) -> None:
    frame, settings = mixed(), FLOW if name != "vae" else {"model.latents": 2}
    run = vgi_cli.fit(
        frame, model=name, id="id", set=settings, epochs=2, bounds={"weight": "observed"}, out=tmp_path / "r"
    )
    drawn = run.sample(n=1500)
    assert drawn["weight"].between(frame["weight"].min(), frame["weight"].max()).all() and set(drawn["sex"]) == {
        "f",
        "m",
    }
    pd.testing.assert_frame_equal(run.sample(n=1100), drawn.iloc[:1100])
    assert run.sample(n=50, missing=True).isna()["age"].any()


@pytest.mark.slow
def test_a_flow_draws_rows_within_the_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = numbers(60)
    run = vgi_cli.fit(
        frame, model="flow", set=FLOW, epochs=1, bounds={"a": "observed"}, threads=1, out=tmp_path / "run"
    )
    drawn = run.sample(n=1500)
    low, high = frame.min(), frame.max()
    assert drawn["a"].between(low["a"], high["a"]).all() and not drawn["b"].between(low["b"], high["b"]).all()
    pd.testing.assert_frame_equal(run.sample(n=1100), drawn.iloc[:1100])
    with pytest.raises(TimeUp, match=r"while rows were drawn: the time limit of 0\.001 s was over; nothing"):
        run.sample(time_limit=0.001)
    monkeypatch.setattr(rows, "ROUNDS", 1)
    with pytest.raises(
        vgi_cli.api.UsageError.__base__, match="rows of the model lie within the bounds of every column"
    ):
        run.sample(n=1024)


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (["-n", "0"], "-n: expected a whole number from 1 to 100,000,000, got 0"),
        (["-o", "there.csv"], "there.csv exists"),
        (["-o", "x.json"], "x.json: vgi writes CSV and Parquet, not .json"),
    ],
)
def test_refusals_create_nothing(run: vgi_cli.Run, vgi: Vgi, flags: list[str], error: str) -> None:
    Path("there.csv").touch()
    done = vgi("sample", run.path, *flags)
    assert (done.code, done.error, done.out) == (2, error, "") and [p.name for p in Path().iterdir()] == ["there.csv"]


def test_holes_need_the_table_of_the_fit(tmp_path: Path, vgi: Vgi) -> None:
    run = vgi_cli.fit(numbers(), model="fa", set={"model.factors": 1, "bootstrap": 0}, out=tmp_path / "run")
    assert run.sample(n=500, missing=True).isna().any(axis=None)  # this object has it
    done = vgi("sample", "run", "--missing")
    assert (done.code, done.hint) == (2, "leave it out, or fit a file")
    assert done.error == "--missing: the run was fitted on a table in memory, which it does not keep"
    assert vgi("sample", "nothing").error == "no run at 'nothing'"


def test_carried_columns_keep_their_types_and_categories_their_levels(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    days = pd.date_range("2020", periods=60, tz="Europe/Berlin")
    levels = pd.CategoricalDtype(["low", "mid", "high", "never"], ordered=True)
    columns = {
        "name": pa.array([f"r{i}" for i in range(60)]),
        "size": pa.array(rng.normal(size=60)),
        "grade": pa.array(pd.Series(rng.choice(["low", "mid", "high"], 60), dtype=levels)),
        "raw": pa.array([b"%d" % i for i in range(60)]),
        "key": pa.array([b"%02d" % i for i in range(60)], pa.binary(2)),
        "parts": pa.array([[i] for i in range(60)], pa.large_list(pa.float32())),
        "nested": pa.array([[["x"]]] * 60),
        "day": pa.array(days),
        "note": pa.array([f"note {i}" for i in range(60)]).dictionary_encode(),
        "empty": pa.nulls(60, pa.float32()),
        "inner": pa.array([{"x": i} for i in range(60)]),
    }
    table = pa.table(columns)
    pq.write_table(table, tmp_path / "t.parquet")
    settings = {"model.components": 1, "bootstrap": "none"}
    carried = ["raw", "key", "parts", "nested", "day", "note", "inner"]
    ask = {"model": "mixture", "set": settings, "id": "name", "exclude": carried, "threads": 1}
    run = vgi_cli.fit(tmp_path / "t.parquet", out=tmp_path / "run", **ask)
    drawn = pq.read_table(run.sample(n=2, out=tmp_path / "sample.parquet"))
    read = pq.read_schema(tmp_path / "t.parquet")
    expected = [pa.null() if field.name == "inner" else field.type for field in read]
    assert drawn.schema.types == expected and drawn.column("note").null_count == 2
    assert drawn.column("grade").chunk(0).dictionary.to_pylist() == ["low", "mid", "high", "never"]
    assert list(run.sample(n=1)["grade"].dtype.categories) == ["low", "mid", "high", "never"]


def test_columns_that_were_mostly_empty_are_named(vgi: Vgi) -> None:
    coupons(np.random.default_rng(0)).to_csv("orders.csv", index=False)
    model = ["--model", "mixture", "--set", "model.components=1", "--set", "bootstrap=none"]
    assert vgi("fit", "orders.csv", "--out", "run", *model).code == 0
    words = "columns 'coupon', 'percent', 'off', 'left' were missing in most rows of the fit"
    said = vgi("sample", "run", "-n", "50", "-o", "some.csv").err
    assert words in said and "(`vgi sample --missing` gives them the holes of fitted rows)" in said
    assert words not in vgi("sample", "run", "-n", "50", "--missing", "-o", "others.csv").err
