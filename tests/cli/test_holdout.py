"""`vgi fit --holdout-cells`: which cells are hidden, that their scores are those of a fit that has not seen them, and
that the model of the run has seen them all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from safetensors.numpy import load_file

import vgi_cli
from tests.program import Vgi
from tests.schemas import checked
from vgi_cli.commands import holdout
from vgi_cli.commands.holdout import hide
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.errors import Interrupted
from vgi_cli.machine.work import TimeLimit
from vgi_cli.table.frames import from_frame

QUICK = ("--model", "fa", "--set", "model.factors=1", "--set", "bootstrap=none")


def frame(N: int = 150, levels: bool = False) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(N, 1))
    x = pd.DataFrame(z + 0.3 * rng.normal(size=(N, 4)), columns=["a", "b", "c", "d"]).round(4)
    x = x.mask(rng.random(x.shape) < 0.2)
    if levels:
        x["sex"] = np.where(z[:, 0] + 0.5 * rng.normal(size=N) > 0, "m", "f")
    return x


@pytest.fixture
def table(tmp_path: Path) -> Path:
    frame().to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def hidden(data: pd.DataFrame, share: float, seed: int = 0) -> np.ndarray[Any, np.dtype[np.bool_]]:
    source = from_frame(data)
    return hide(source, infer_schema(source)[0], share, seed)


def scores(run: Path) -> Any:
    return checked("holdout", (run / "holdout.json").read_text())


@pytest.mark.parametrize("share", [0.01, 0.05, 0.3])
def test_the_share_of_the_observed_cells_and_never_the_last_of_a_row(share: float) -> None:
    data = frame()
    which = hidden(data, share)
    observed = data.notna().to_numpy()
    assert which.sum() == round(share * observed.sum()) and not (which & ~observed).any()
    assert ((observed & ~which).sum(1) >= 1)[observed.any(1)].all()


def test_all_that_can_be_hidden_where_rows_have_one_cell() -> None:
    data = frame(60)
    data.loc[:, ["b", "c", "d"]] = np.where(np.arange(60)[:, None] < 5, data[["b", "c", "d"]], np.nan)
    data.loc[:, "a"] = np.arange(60) * 0.3 + 0.01
    which = hidden(data, 0.5)
    kept = data.notna().to_numpy() & ~which
    assert which.sum() == (data.notna().sum(axis=1) - 1).sum() and (kept.sum(1) == 1).all()


def test_cells_are_keyed_by_seed_column_and_row() -> None:
    data = frame()
    first = hidden(data, 0.1)
    assert (hidden(data[["d", "c", "b", "a"]], 0.1) == first[:, ::-1]).all()
    assert (hidden(data, 0.1, seed=1) != first).any()
    more = hidden(data, 0.2)
    assert (more | ~first).all()  # a larger share hides the same cells and more


def test_the_model_of_the_run_has_seen_every_cell(vgi: Vgi, table: Path, tmp_path: Path) -> None:
    assert vgi("fit", "t.csv", *QUICK, "--out", "plain").code == 0
    done = vgi("fit", "t.csv", *QUICK, "--out", "scored", "--holdout-cells", "5%")
    assert done.code == 0 and "hidden cells: CRPS" in done.err and "the fit that is kept then has all cells" in done.err
    one, two = (load_file(tmp_path / run / "model.safetensors") for run in ("plain", "scored"))
    assert one.keys() == two.keys() and all((one[name] == two[name]).all() for name in one)
    assert json.loads((tmp_path / "scored" / "manifest.json").read_text())["requested"]["holdout_cells"] == 0.05
    assert not (tmp_path / "plain" / "holdout.json").exists()
    assert vgi("impute", "--checkpoint", "scored", "--point", "mean", "-o", "filled.csv").code == 0
    source, filled = pd.read_csv(table), pd.read_csv(tmp_path / "filled.csv")
    assert (source == filled)[source.notna()].eq(True).where(source.notna(), True).all(axis=None)


def test_the_scores_are_those_of_a_fit_that_has_not_seen_them(vgi: Vgi, table: Path, tmp_path: Path) -> None:
    """The same cells hidden by a mask, fitted and evaluated by the commands of old: the same scores."""
    which = hidden(pd.read_csv(table), 0.08)
    pd.DataFrame(1 - which.astype(int), columns=list("abcd")).to_csv(tmp_path / "mask.csv", index=False)
    assert vgi("fit", "t.csv", "--mask", "mask.csv", *QUICK, "--out", "masked").code == 0
    done = vgi("evaluate", "--checkpoint", "masked", "t.csv", "--mask", "mask.csv", "--json")
    expected = json.loads(done.out)["imputation"]["columns"]
    assert vgi("fit", "t.csv", *QUICK, "--out", "scored", "--holdout-cells", "0.08").code == 0
    values = scores(tmp_path / "scored")
    assert values["cells"] == values["scored_cells"] == which.sum() and values["share"] == 0.08
    for name, own in values["columns"].items():
        wanted = {key: value for key, value in expected[name].items() if key != "marginal"}  # draws of another stream
        assert {key: own[key] for key in wanted} == pytest.approx(wanted, rel=1e-9)
        assert own["marginal"].keys() == expected[name]["marginal"].keys()


def test_the_column_alone_is_the_yardstick(tmp_path: Path) -> None:
    data = frame(600, levels=True)
    run = vgi_cli.fit(
        data,
        model="mixture",
        set={"model.components": 1, "bootstrap": "none"},
        holdout_cells="20%",
        out=tmp_path / "run",
    )
    values = scores(run.path)
    overall, alone = values["overall"], values["overall"]["marginal"]
    assert overall["crps"] < 0.7 * alone["crps"] and overall["log_score"] < alone["log_score"]
    sd = data.b.std()
    expected = np.abs(np.subtract.outer(data.b.dropna().to_numpy(), data.b.dropna().to_numpy())).mean() / 2
    assert values["columns"]["b"]["marginal"]["crps"] / sd == pytest.approx(expected / sd, abs=0.08)
    assert 0.8 < alone["coverage90"] < 0.97 and 0.8 < overall["coverage90"] < 0.97
    assert set(values["kinds"]) == {"numeric", "categorical"} and values["columns"]["sex"]["kind"] == "categorical"


@pytest.mark.usefixtures("two_models")
def test_a_contest_is_held_once_and_its_table_kept(vgi: Vgi, tmp_path: Path) -> None:
    frame(90)[["a", "b"]].to_csv(tmp_path / "t.csv", index=False)
    done = vgi("fit", "t.csv", "--out", "run", "--holdout-cells", "5%", "--set", "bootstrap=none")
    assert done.code == 0 and done.err.count("models were compared") == 1
    league = json.loads((tmp_path / "run" / "contest.json").read_text())
    winner = next(entry for entry in league["candidates"] if entry["chosen"])
    recipe = yaml.safe_load((tmp_path / "run" / "recipe.yaml").read_text())
    chosen = {"name": winner["model"], **{key: value for key, value in winner["settings"].items() if value is not None}}
    assert recipe["model"].items() >= chosen.items()
    assert recipe["table"]["transform"] == winner["transform"] and scores(tmp_path / "run")["model"] == winner["model"]


def test_chains_and_resuming(vgi: Vgi, tmp_path: Path) -> None:
    frame(40)[["a", "b"]].to_csv(tmp_path / "t.csv", index=False)
    fit = ("fit", "t.csv", "--model", "fa", "--method", "vgi", "--set", "model.factors=1", "--set", "bootstrap=none")
    done = vgi(*fit, "--epochs", "2", "--out", "run", "--holdout-cells", "5%")
    assert done.code == 0, done.err
    before = scores(tmp_path / "run")
    assert before["sampler"] == "exact" and before["parameter_uncertainty"] is None
    assert vgi("fit", "--resume", "--out", "run", "--epochs", "3").code == 0
    assert scores(tmp_path / "run") == before
    other = vgi("fit", "--resume", "--out", "run", "--holdout-cells", "10%")
    assert other.code == 2 and "holdout_cells differs from the run's" in other.error


def test_without_time_for_it_the_fit_is_made_all_the_same(
    vgi: Vgi, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holdout, "TIME_SHARE", 0.0)
    done = vgi("fit", "t.csv", *QUICK, "--out", "run", "--holdout-cells", "5%", "--time-limit", "60")
    assert done.code == 0 and "left no time to score the hidden cells" in done.err
    assert not (tmp_path / "run" / "holdout.json").exists()
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["time_limit"]["ended_early"] == ["filling hidden cells to compare"]


def test_a_part_of_a_limit_ends_earlier_and_notes_for_itself() -> None:
    limit = TimeLimit(100.0, 0.0, clock=lambda: 20.0)
    part = limit.part(0.5)
    assert part.left == pytest.approx(limit.left / 2) and part.part(0.5).left == pytest.approx(limit.left / 4)
    part.cut.append("training")
    assert limit.cut == [] and part.words() == limit.words() == "the time limit of 100 s"
    assert TimeLimit().part(0.5).end is None


def test_a_signal_in_the_first_fit_leaves_nothing(
    vgi: Vgi, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        raise Interrupted("stopped by SIGINT; the fit is saved in memory", 130, "continue with: …")

    monkeypatch.setattr(holdout, "score", stopped)
    done = vgi("fit", "t.csv", *QUICK, "--out", "run", "--holdout-cells", "5%")
    assert done.code == 130 and done.error == "stopped in the first fit, before the run was begun: nothing was kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv"]


@pytest.mark.parametrize(
    ("share", "message"),
    [
        ("0", "--holdout-cells: expected a number above 0, at most 0.5, got 0.0"),
        ("60%", "at most 0.5, got 0.6"),
        ("some", "--holdout-cells: expected a number, got 'some'"),
        ("1e-5", "of 473 observed cells none can be hidden"),
    ],
)
def test_what_is_refused(vgi: Vgi, table: Path, tmp_path: Path, share: str, message: str) -> None:
    done = vgi("fit", "t.csv", *QUICK, "--out", "run", "--holdout-cells", share)
    assert done.code == 2 and message in done.error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv"]
