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
from vgi_cli.data import make_table
from vgi_cli.fitting import fit_rows
from vgi_cli.fitting import refits as of_fits
from vgi_cli.layout import Layout
from vgi_cli.methods.em.bootstrap import Size, refits
from vgi_cli.methods.em.em import EmConfig
from vgi_cli.models.base import built
from vgi_cli.models.gaussian.fa import FactorAnalysis

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
    assert f"(0 to 2, divided by their mean {data['w'].mean():g})" in line and "of 100 equal ones" in line
    columns = json.loads((run.path / "schema.json").read_text())["columns"]
    assert columns[3]["name"] == "w" and columns[3]["kind"] == "carried"
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
    monkeypatch.setattr(fit_rows, "EmState", int)  # as if em's state were of a plugin's own kind
    with pytest.raises(vgi_cli.errors.UsageError, match="--weight: method em cannot weigh rows"):
        vgi_cli.fit(frame(), weight="w", out=tmp_path / "run", **FA)
    assert not (tmp_path / "run").exists()
