"""`vgi score` and `vgi_cli.score`: log p(observed cells) of each row."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.stats import multivariate_normal

import vgi_cli
from tests.cli.test_refusals import FA, text
from tests.program import Vgi, fit_once
from tests.selection import first
from vgi_cli.commands.evaluate import command as evaluate_command
from vgi_cli.commands.evaluate import likelihood
from vgi_cli.commands.evaluate import score as score_command
from vgi_cli.errors import InputError
from vgi_cli.evaluation.likelihood.estimate import Budget
from vgi_cli.machine.work import TimeLimit, TimeUp


def table(N: int = 80) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(N, 3)) @ np.array([[2.0, 0.5, 0.0], [0.0, 1.0, -0.7], [0.0, 0.0, 3.0]])
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    frame = frame.mask(rng.random(frame.shape) < 0.2)
    frame.iloc[3] = np.nan
    return frame.assign(key=[f"p{i}" for i in range(N)])


def test_rows_of_a_gaussian_have_its_density(tmp_path: Path) -> None:
    frame = table()
    settings = {"model.factors": 2, "bootstrap": 0}
    run = vgi_cli.fit(frame, model="fa", id="key", set=settings, out=tmp_path / "run")
    scores = run.score(frame)
    assert list(scores) == ["row", "key", "observed", "loglik", "estimator"]
    assert scores["row"].tolist() == list(range(1, 81)) and (scores["key"] == frame["key"]).all()
    model = run.model().double()
    covariance = (model.F @ model.F.T + model.log_psi.exp().diag()).detach().numpy()
    scales = [column["scale"] for column in json.loads((run.path / "schema.json").read_text())["columns"][:3]]
    sd, shift = (np.array([scale[part] for scale in scales]) for part in ("sd", "mean"))
    mean, covariance = model.mean.detach().numpy() * sd + shift, covariance * np.outer(sd, sd)
    for i, row in frame[["a", "b", "c"]].iterrows():
        seen = row.notna().to_numpy()
        assert scores["observed"][i] == seen.sum()
        if not seen.any():
            assert np.isnan(scores["loglik"][i]) and pd.isna(scores["estimator"][i])
            continue
        expected = multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)]).logpdf(row[seen])
        assert scores["loglik"][i] == pytest.approx(expected, abs=1e-9) and scores["estimator"][i] == "exact"
    odd = vgi_cli.score(run.path, pd.concat([frame, frame.iloc[:1].assign(a=40.0, b=-9.0, key="odd")]))
    assert odd["loglik"].idxmin() == 80 or odd.loc[odd["loglik"].idxmin(), "key"] == "odd"
    arrow = run.score(pa.Table.from_pandas(frame, preserve_index=False))
    assert isinstance(arrow, pa.Table) and arrow.column("loglik").to_pylist()[0] == scores["loglik"][0]


@pytest.fixture
def run(vgi: Vgi) -> Path:
    Path("data.csv").write_text(text())
    return fit_once(vgi, "data.csv", *FA)


def test_the_command_prints_what_evaluate_averages(vgi: Vgi, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = vgi("score", "run", "data.csv")
    assert done.code == 0 and not list(run.glob("evaluations*"))
    scores = pd.read_csv(io.StringIO(done.out))
    report = json.loads(vgi("evaluate", "--checkpoint", "run", "data.csv", "--json", "--per-row", "rows.csv").out)
    assert scores["loglik"].mean() == pytest.approx(report["loglik"]["mean"], abs=1e-12)
    assert Path("rows.csv").read_text() == done.out
    with open("data.csv", "rb") as piped:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(piped))
        assert vgi("score", "run", "-", "-o", "-").out == done.out
    for name in ("s.csv", "s.tsv", "s.csv.gz", "s.parquet"):
        written = vgi("score", "run", "data.csv", "-o", name)
        assert (written.code, written.out) == (0, f"{name}\n")
        read = pd.read_parquet(name) if name.endswith("parquet") else pd.read_csv(name, sep=None, engine="python")
        pd.testing.assert_frame_equal(read, scores)
    assert vgi_cli.score("run", "data.csv", out="again.csv") == Path("again.csv")


SMALL = Budget(particles=2, pilot=2, moves=8, samples=200, simulated=4)
TINY = {"model.steps": 1, "model.hidden": 4, "bootstrap": 0}


@pytest.mark.slow
def test_estimates_are_told_from_exact_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(likelihood, "Budget", lambda **changes: SMALL._replace(**changes))
    monkeypatch.setattr(likelihood, "SCORED_ROWS", 10)
    frame = table(40).drop(columns="key")
    run = vgi_cli.fit(frame, model="flow", set=TINY, epochs=1, out=tmp_path / "run", threads=1)
    scores = run.score(frame)
    complete, empty = frame.notna().all(axis=1), frame.isna().all(axis=1)
    assert (scores["estimator"][complete] == "exact").all()
    assert (scores["estimator"][~complete & ~empty] == "annealed").all() and scores["estimator"][empty].isna().all()
    assert scores["loglik"].notna().sum() == 40 - empty.sum()  # every row, not a sample of them
    monkeypatch.setattr(TimeLimit, "passed", lambda self, moment: True)
    with pytest.raises(TimeUp, match="was over before a row was scored"):
        run.score(frame, time_limit=100)


@pytest.mark.slow
def test_a_row_with_an_id_has_its_estimate_wherever_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(likelihood, "Budget", lambda **changes: SMALL._replace(**changes))
    frame = table(40)
    run = vgi_cli.fit(frame, model="flow", id="key", set=TINY, epochs=1, out=tmp_path / "run", threads=1)
    scores, again = run.score(frame), run.score(frame[::-1])
    ours, theirs = (one["loglik"].to_numpy() for one in (scores, again[::-1]))
    assert (scores["estimator"] == "annealed").any()
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)  # products of other batches: float32


@pytest.mark.parametrize(
    ("flags", "error", "hint"),
    [
        (["-o", "data.csv"], "data.csv is read here", "name another file"),
        (["-o", "there.csv"], "there.csv exists", "`--force` overwrites it; `-o` names another"),
        (["-o", "x.xlsx"], "x.xlsx: vgi writes CSV and Parquet, not .xlsx", "name it .csv, .tsv or .parquet"),
        (["--samples", "5"], "--samples belongs to models with latents (vae)", "leave it out"),
        (["--mask", "none.csv"], "none.csv: no such file", "check the path"),
    ],
)
def test_refusals_create_nothing(vgi: Vgi, run: Path, flags: list[str], error: str, hint: str) -> None:
    Path("there.csv").touch()
    before = sorted(Path().rglob("*"))
    done = vgi("score", "run", "data.csv", *flags)
    assert (done.code, done.error) == (2, error) and done.hint.startswith(hint[:14])
    assert sorted(Path().rglob("*")) == before and done.out == ""


def test_there_must_be_a_run_and_a_table(vgi: Vgi, run: Path) -> None:
    assert vgi("score", "run").error == "missing argument 'DATA'"
    assert vgi("score").error == "missing argument 'RUN'"
    assert vgi("score", "nothing", "data.csv").error == "no run at 'nothing'"


@pytest.mark.parametrize("name", first(1, ["row", "observed", "loglik", "estimator"]))
def test_an_id_with_the_name_of_a_column_of_the_scores(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused before a row is scored; without the column the rows are scored."""
    frame = table(40).rename(columns={"key": name})
    run = vgi_cli.fit(frame, model="fa", id=name, set={"model.factors": 1, "bootstrap": 0}, out=tmp_path / "run")
    said: list[str] = []
    scores = run.score(frame.drop(columns=name), say=said.append)
    assert list(scores) == ["row", "observed", "loglik", "estimator"] and scores["row"].tolist() == list(range(1, 41))
    assert any(f"id column '{name}' is not in" in line for line in said)
    assert run.evaluate(frame)["loglik"]["rows"] == 39  # nothing is written of the rows
    monkeypatch.setattr(score_command, "log_likelihood", lambda *given: pytest.fail("rows were scored"))
    monkeypatch.setattr(evaluate_command, "log_likelihood", lambda *given: pytest.fail("rows were scored"))
    message = f"the id column '{name}' has the name of a column of the scores"
    with pytest.raises(InputError, match=message) as refused:
        run.score(frame)
    assert str(refused.value.hint).startswith("leave it out of this table")
    with pytest.raises(InputError, match=message):
        run.evaluate(frame, per_row=tmp_path / "rows.csv")
    assert not (tmp_path / "rows.csv").exists()
