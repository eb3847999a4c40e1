"""`--weight`: rows count in the likelihood by a column that is carried, never modelled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import vgi_cli
import vgi_cli.errors
from tests.program import Vgi, vgi
from tests.resamples import refits
from vgi_cli.data import make_table
from vgi_cli.fitting import fit_rows, job
from vgi_cli.fitting import refits as of_fits
from vgi_cli.fitting.contest import contest
from vgi_cli.fitting.rows import Rows
from vgi_cli.layout import Layout
from vgi_cli.methods.em.bootstrap import Size
from vgi_cli.methods.em.em import EmConfig
from vgi_cli.models.base import built
from vgi_cli.models.gaussian.fa import FactorAnalysis
from vgi_cli.settings.gather import gather
from vgi_cli.settings.recipe import to_recipe

__all__ = ["vgi"]
COUNTS = torch.tensor([1, 0, 3, 2] * 25)


def rows() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(100, 4, generator=generator, dtype=torch.float64)
    x[:, 1] += 2 * x[:, 0]
    x[:, 3] = torch.randint(3, (100,), generator=generator)
    missing = torch.rand(100, 4, generator=generator) < 0.2
    return torch.where(missing, 0.0, x), missing


def test_refits_leave_out_rows_that_do_not_count() -> None:
    x, missing = rows()
    x, missing = x[:, :3], missing[:, :3]
    strange = torch.where(COUNTS[:, None] == 0, 50.0, x).masked_fill(missing, 0.0)
    layout, size = Layout.plain(3), Size(100, 200, "bayesian")
    made = []
    for cells in (x, strange):
        table = make_table(cells, missing, layout)._replace(weight=COUNTS.double())
        model = built(FactorAnalysis, FactorAnalysis.Config(factors=1), layout).double()
        model.initialise(x, torch.Generator().manual_seed(1))
        streams = lambda number: torch.Generator().manual_seed(number)  # noqa: E731
        made.append([dict(one.parameters) for one in refits(model, table, EmConfig(), range(2), streams, size=size)])
    torch.testing.assert_close(made[0], made[1])


def frame(N: int = 200) -> pd.DataFrame:
    """Rows of weight 0 are another population."""
    rng = np.random.default_rng(1)
    weight = rng.choice([0.0, 1.0, 2.0], N)
    a = rng.normal(size=N) + 6 * (weight == 0)
    data = pd.DataFrame({"a": a, "b": a + rng.normal(size=N), "c": rng.normal(size=N)})
    return data.mask(rng.random(data.shape) < 0.15).assign(w=weight)


FA: dict[str, Any] = {"model": "fa", "set": {"model.factors": 1, "bootstrap": 0}}
TIGHT: dict[str, Any] = {**FA, "set": {**FA["set"], "method.tolerance": 1e-7}}


def law(run: vgi_cli.Run) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance in data units."""
    model = run.model().double()
    columns = json.loads((run.path / "schema.json").read_text())["columns"][:3]
    sd, shift = (np.array([column["scale"][part] for column in columns]) for part in ("sd", "mean"))
    covariance = (model.F @ model.F.T + model.log_psi.exp().diag()).detach().numpy()
    return model.mean.detach().numpy() * sd + shift, covariance * np.outer(sd, sd)


def test_a_fit_is_that_of_the_rows_that_count(tmp_path: Path) -> None:
    said: list[str] = []
    data = frame(100)
    run = vgi_cli.fit(data, weight="w", out=tmp_path / "one", say=said.append, **TIGHT)
    repeated = data.loc[data.index.repeat(data["w"].astype(int))].drop(columns="w").reset_index(drop=True)
    other = vgi_cli.fit(repeated, out=tmp_path / "two", **TIGHT)
    for mine, its in zip(law(run), law(other), strict=True):
        assert mine == pytest.approx(its, abs=2e-3)
    line = next(line for line in said if line.startswith("rows count by column 'w'"))
    mean, none = data["w"][data["w"] > 0].mean(), (data["w"] == 0).sum()
    fitted = (data[["a", "b", "c"]].notna().any(axis=1) & (data["w"] > 0)).sum()
    assert f"(0 to 2, divided by the mean of those above 0, {mean:g})" in line
    assert f"of 100 equal ones; {none} of weight 0 are not fitted; scores" in line
    assert json.loads((run.path / "manifest.json").read_text())["data"]["rows_fitted"] == fitted
    columns = json.loads((run.path / "schema.json").read_text())["columns"]
    assert columns[3]["name"] == "w" and columns[3]["kind"] == "carried"
    assert "| w | carried | 0.0% | --weight: how much a row counts |" in (run.path / "README.md").read_text()
    assert run.impute(m=1)[0]["w"].equals(data["w"])
    same = vgi_cli.fit(data.assign(w=3.0), weight="w", out=tmp_path / "three", **FA)
    none = vgi_cli.fit(data.drop(columns="w"), out=tmp_path / "four", **FA)
    assert all(np.array_equal(mine, its) for mine, its in zip(law(same), law(none), strict=True))


@pytest.mark.slow
def test_methods_that_climb_and_their_refits_count_rows_too(tmp_path: Path) -> None:
    settings = {"model.factors": 1, "bootstrap": 2}
    data = frame()
    run = vgi_cli.fit(data, model="fa", method="vgi", weight="w", set=settings, out=tmp_path / "run", threads=1)
    counted = data[data["w"] > 0]
    expected = np.average(counted["c"].dropna(), weights=counted["w"][counted["c"].notna()])
    mean = law(run)[0]
    assert abs(mean[0]) < 0.5 and mean[2] == pytest.approx(expected, abs=0.3)  # of all rows: about 2
    kept = run.model().state_dict()
    assert set(kept) and len(run.impute(m=3)) == 3


def test_further_refits_weigh_rows_as_the_first_ones_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame(60).to_csv(tmp_path / "t.csv", index=False)
    tables = []
    for count in (2, 3):
        monkeypatch.setattr(of_fits, "COUNT", count)
        settings = {"model.factors": 1}
        run = vgi_cli.fit(tmp_path / "t.csv", model="fa", weight="w", set=settings, out=tmp_path / f"run{count}")
        said: list[str] = []
        tables.append(run.impute(m=3, say=said.append))
        assert any("1 made now" in line for line in said) == (count == 2)
    for one, other in zip(*tables, strict=True):
        pd.testing.assert_frame_equal(one, other)


def test_fine_tuning_weighs_the_rows_of_its_table(tmp_path: Path) -> None:
    table = frame(120)
    run = vgi_cli.fit(
        table,
        model="flow",
        epochs=2,
        weight="w",
        set={"bootstrap": "none", "model.steps": 1, "model.hidden": 8},
        out=tmp_path / "run",
        say=lambda line: None,
    )
    made = {}
    for name, other in {
        "weighted": table,
        "alike": table.assign(w=1.0),
        "without": table.drop(columns="w"),
    }.items():
        said: list[str] = []
        tuned = vgi_cli.finetune(run, other, epochs=2, out=tmp_path / name, say=said.append)
        made[name] = tuned.manifest["files"]["conditionals.safetensors"]
        alike = name == "without"
        assert ("rows count alike: the table has no column 'w' (--weight of the fit)" in said) == alike
        assert ("rows count by column 'w' (--weight of the fit)" in said) != alike
        assert ("by the column `w`" in (tmp_path / name / "README.md").read_text()) != alike
    assert made["alike"] == made["without"] != made["weighted"]
    with pytest.raises(vgi_cli.errors.InputError, match="'-1' is negative"):
        vgi_cli.finetune(run, table.assign(w=-1.0), out=tmp_path / "refused")
    holes = table.where(table.w == 0).assign(w=table.w)
    with pytest.raises(vgi_cli.errors.InputError, match="column 'w': every row with an observed cell weighs 0"):
        vgi_cli.finetune(run, holes, out=tmp_path / "refused")
    assert not (tmp_path / "refused").exists()


def test_evaluate_weighs_its_means(tmp_path: Path) -> None:
    data = frame()
    run = vgi_cli.fit(data, weight="w", out=tmp_path / "run", **FA)
    report, scores = run.evaluate(data), run.score(data)
    known = scores["loglik"].notna() & (data["w"] > 0)
    values, weight = scores["loglik"][known], data["w"][known]
    part, mean = report["loglik"], np.average(values, weights=weight)
    assert part["mean"] == pytest.approx(mean) and part["rows"] == known.sum() and part["weight"] == "w"
    n = known.sum()
    se = np.sqrt((weight**2 * (values - mean) ** 2).sum() * n / (n - 1)) / weight.sum()
    assert part["se"] == pytest.approx(se)
    assert part["per_cell"] == pytest.approx(mean / np.average(scores["observed"][known], weights=weight))
    assert "rows count in the means by column 'w' (--weight of the fit)" in report["notes"]
    assert vgi_cli.report(run)["runs"][0]["likelihood"]["mean"] == pytest.approx(mean)
    plain = run.evaluate(data.drop(columns="w"))
    assert plain["loglik"]["mean"] == pytest.approx(scores["loglik"].mean()) and "weight" not in plain["loglik"]
    assert "rows count alike: the table has no column 'w' (--weight of the fit)" in plain["notes"]
    equal = run.evaluate(data.assign(w=7.0))["loglik"]
    assert {name: equal[name] for name in ("mean", "se", "per_cell")} == pytest.approx(
        {name: plain["loglik"][name] for name in ("mean", "se", "per_cell")}
    )


BAD = {
    "missing": (",", "the weight is missing in row 2 (line 3) (and 1 more)"),
    "text": ("x", "'x' is not a number in row 2 (line 3) (and 1 more)"),
    "infinite": ("inf", "'inf' is infinite in row 2 (line 3) (and 1 more)"),
    "negative": ("-1", "'-1' is negative in row 2 (line 3) (and 1 more)"),
}


@pytest.mark.parametrize("cell", BAD)
def test_cells_that_are_no_weight_are_refused(vgi: Vgi, cell: str) -> None:
    text, error = BAD[cell]
    text = "" if cell == "missing" else text
    Path("t.csv").write_text(f"a,b,w\n1,2,1\n2,1,{text}\n3,5,{text}\n4,4,2\n")
    done = vgi("fit", "t.csv", "--weight", "w", "--model", "fa")
    assert (done.code, done.error) == (2, f"t.csv: --weight w: {error}")
    assert done.hint == "a weight is a number from 0 on, and every row has one"
    assert [path.name for path in Path().iterdir()] == ["t.csv"]


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (["--weight", "v"], "--weight v: t.csv has no such column"),
        (["--weight", "w", "--id", "w"], "--weight w disagrees with --id w"),
        (["--weight", "w", "--column", "w=numeric"], "--weight w disagrees with --column w=numeric"),
        (
            ["--weight", "w", "--model", "mixture", "--set", "uncertainty=posterior", "--set", "model.covariance=full"],
            "uncertainty=posterior takes rows that count alike, and --weight names weights",
        ),
        (["--weight", "z"], "t.csv: --weight z: every weight is 0"),
    ],
)
def test_what_cannot_be_is_refused(vgi: Vgi, flags: list[str], error: str) -> None:
    Path("t.csv").write_text("a,b,w,z\n" + "".join(f"{i % 7},{i * i % 11}.5,{1 + i % 3},0\n" for i in range(30)))
    done = vgi("fit", "t.csv", *flags)
    assert (done.code, done.error) == (2, error) and [path.name for path in Path().iterdir()] == ["t.csv"]


def test_methods_that_cannot_are_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "EmState", int)  # as if em's state were of a plugin's own kind
    with pytest.raises(vgi_cli.errors.UsageError, match="--weight: method em cannot weigh rows"):
        vgi_cli.fit(frame(), weight="w", out=tmp_path / "run", **FA)
    assert not (tmp_path / "run").exists()


def few(counting: list[int], N: int = 60) -> pd.DataFrame:
    """Rows of weight 0 but for some."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 1)) + 0.5 * rng.normal(size=(N, 3))
    data = pd.DataFrame(x, columns=["a", "b", "c"]).mask(rng.random((N, 3)) < 0.2)
    return data.assign(w=np.isin(np.arange(N), counting).astype(float))


@pytest.mark.parametrize(
    "options",
    [
        {"model": "fa", "set": {"bootstrap": 3}},  # its size is chosen by folds, in some of which no row counts
        {"model": "mixture", "val": 0.3, "seed": 3, "set": {"bootstrap": 3}},
        {"set": {"bootstrap": 3}},  # models are compared by folds, too
        {
            "model": "flow",
            "epochs": 2,
            "set": {"bootstrap": 2, "model.steps": 1, "optim.warmup_conditionals": 1, "optim.warmup_model": 1},
        },
    ],
)
def test_where_few_rows_count_a_fit_is_finite(tmp_path: Path, options: dict[str, Any]) -> None:
    run = vgi_cli.fit(few([0, 1, 5]), weight="w", out=tmp_path / "run", threads=1, **options)
    for own in run.impute(m=3):  # by as many refits
        assert np.isfinite(own[["a", "b", "c"]].to_numpy()).all()


def test_rows_that_weigh_nothing_cannot_be_fitted_alone(tmp_path: Path) -> None:
    out = tmp_path / "run"
    hint = "give more rows a weight above 0; rows that --val holds out are not fitted"
    with pytest.raises(vgi_cli.errors.InputError) as caught:
        vgi_cli.fit(few([0, 1]), weight="w", model="fa", val=0.3, seed=0, out=out)  # both are held out
    assert caught.value.message == "--weight w: every row that would be fitted weighs 0"
    assert caught.value.hint == hint and not out.exists()
    data = few([0, 1, 2])
    data.loc[[0, 1, 2], "b"] = np.nan
    with pytest.raises(vgi_cli.errors.InputError) as caught:
        vgi_cli.fit(data, weight="w", model="fa", out=out)
    assert caught.value.message == ("--weight w: of the rows that would be fitted those with 'b' observed all weigh 0")
    assert caught.value.hint == f"--exclude b carries the column; or {hint}" and not out.exists()


@pytest.mark.parametrize(("weights", "worth"), [([1.0] + [0.0] * 39, "1.0"), ([1e300] + [1.0] * 39, "1.0")])
def test_weights_that_leave_one_row_are_refused(vgi: Vgi, weights: list[float], worth: str) -> None:
    few([]).head(40).assign(w=weights).to_csv("t.csv", index=False)
    done = vgi("fit", "t.csv", "--weight", "w")
    assert (done.code, done.error) == (2, f"--weight w: the 40 rows count as much as {worth} equal ones")
    assert done.hint == "one row has nearly all the weight: are these weights, and in one unit?"


def test_weights_may_be_tiny(tmp_path: Path) -> None:
    said: list[str] = []
    vgi_cli.fit(few([]).assign(w=1e-300), weight="w", out=tmp_path / "run", say=said.append, **FA)
    assert any("as much as 60 of 60 equal ones; scores" in line for line in said)


def encoded(frame: pd.DataFrame, weight: torch.Tensor | None) -> Rows:
    x = torch.tensor(frame[["a", "b", "c"]].to_numpy())
    return Rows.of(make_table(x.nan_to_num(), x.isnan(), Layout.plain(3))).weighted(weight)


@pytest.mark.parametrize("components", [1, 2])
def test_rows_of_weight_0_change_nothing_of_a_fit_its_refits_and_its_trees(components: int) -> None:
    data, again = few([], N=140), few([], N=40).assign(a=30.0, b=-30.0)
    named = {"model.name": "mixture", "model.components": components, "model.covariance": "full", "bootstrap": 2}
    recipe = to_recipe(gather({key: (value, key) for key, value in {**named, "method.name": "em"}.items()}))
    alone = fit_rows.fit_rows(encoded(data, torch.ones(140)), recipe)
    weight = torch.cat([torch.full((140,), 3.0), torch.zeros(40)])
    beside = fit_rows.fit_rows(encoded(pd.concat([data, again]), weight), recipe)
    for mine, its in zip((alone.model, *alone.refits), (beside.model, *beside.refits), strict=True):
        torch.testing.assert_close(mine.state_dict(), its.state_dict(), rtol=0, atol=0)
    tables = [[None if tree is None else tree.table for own in run.trees for tree in own] for run in (alone, beside)]
    assert len(tables[0]) == len(tables[1])
    for mine, its in zip(*tables, strict=True):
        assert mine is its or torch.equal(mine, its)


@pytest.mark.usefixtures("two_models")
def test_whatever_wins_the_comparison_of_models_is_weighted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where its transform is another than the one that the rows came in."""
    seen: dict[str, bool] = {}
    coded = contest._Contest._coded

    def watched(self: Any, recipe: Any) -> Any:
        found = coded(self, recipe)
        seen[str(recipe.table.transform)] = torch.equal(found.table.weight, self._rows.table.weight)
        return found

    monkeypatch.setattr(contest._Contest, "_coded", watched)
    vgi_cli.fit(frame(60), weight="w", out=tmp_path / "run", set={"bootstrap": 0}, threads=1)
    assert seen == {"normal": True, "linear": True}


def test_a_part_in_which_no_row_counts_counts_alike() -> None:
    missing = torch.tensor([[False, False], [False, True], [True, False]])
    table = make_table(torch.zeros(3, 2), missing, Layout.plain(2))
    assert table.relative_weight is None and table.uncounted.tolist() == [False, False]
    for weight, uncounted, relative in (
        ([0.0, 1.0, 3.0], [False, False], [0.0, 0.5, 1.5]),
        ([0.0, 0.0, 3.0], [True, False], None),
        ([0.0, 0.0, 0.0], [True, True], None),
    ):
        own = table._replace(weight=torch.tensor(weight))
        assert own.uncounted.tolist() == uncounted
        found = own.relative_weight
        assert found is None if relative is None else found is not None and found.tolist() == relative
    empty = make_table(torch.zeros(2, 2), torch.tensor([[False, True], [False, True]]), Layout.plain(2))
    assert empty._replace(weight=torch.tensor([1.0, 3.0])).relative_weight is not None  # no row has the second column


def test_check_and_report_say_that_rows_count_once(tmp_path: Path, vgi: Vgi) -> None:
    frame().to_csv("t.csv", index=False)
    done = vgi("check", "t.csv", "--weight", "w", "--no-trial")
    assert "weights (column 'w') count in a fit; here every row counts once" in done.out
    assert "- every row counts once, whatever its weight" in done.out
    assert "counts once" not in vgi("check", "t.csv", "--no-trial").out
    run = vgi_cli.fit("t.csv", weight="w", out="run", **FA)
    assert run.report()["runs"][0]["facts"]["weight"] == "w"
