"""Odd tables that work, each with one line on stderr; what goes to stdout; what the flags do."""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from tests.cli.test_refusals import FA, TINY_VGI, text
from tests.clocks import ticking
from tests.program import Vgi, fit_once
from tests.selection import some
from tests.tensors import same_tensors
from vgi_cli.commands.evaluate import command as evaluate
from vgi_cli.commands.evaluate.likelihood import Scored
from vgi_cli.commands.samplers import NOT_INCLUDED
from vgi_cli.commands.sampling import report_diagnostics
from vgi_cli.fitting import carry_out as training
from vgi_cli.fitting import fit_rows, plan
from vgi_cli.fitting.driver import Drive
from vgi_cli.reporting import Silent
from vgi_cli.runs.folder import RunFolder
from vgi_cli.runs.lock import sole_writer


@pytest.fixture
def data(vgi: Vgi) -> Path:
    Path("data.csv").write_text(text())
    return Path("data.csv")


@pytest.fixture
def run(vgi: Vgi, data: Path) -> Path:
    return fit_once(vgi, "data.csv", *FA)


def cells(path: str | Path) -> list[list[str]]:
    return list(csv.reader(Path(path).read_text().splitlines()))


ODD = {
    "one row": ("a,b\n1,2\n", "one.csv has one row"),
    "one column": ("a\n1\n2\n\n4\n", "one column to model: 'a'"),
    "more columns than rows": ("a,b,c,d\n1,2,3,4\n2,3,5,\n4,,1,2\n", "more columns to model (4) than rows (3)"),
    "no hole": ("a,b\n1,2\n2,3\n4,1\n5,5\n", "one.csv has no hole in a modelled column"),
    "constant": ("a,b\n1,2\n1,3\n,1\n1,5\n", "column 'a' is constant: holes get the constant"),
    "all missing": ("a,b,c\n,2,1\n,3,4\n,1,\n,5,2\n", "column 'a' is empty: carried, nothing to learn from"),
    "row without a cell": (
        "a,b\n1,2\n,\n3,\n4,5\n2,2\n",
        "row 2 has no cell of a modelled column: not used by the fit, imputed from the model",
    ),
    "nothing varies": ("a,b\n1,2\n1,2\n,2\n", "no column varies: there is nothing to model"),
}


@pytest.mark.parametrize(
    ("odd", "model"),
    some(
        [
            *((odd, "fa") for odd in ODD),
            ("nothing varies", "auto"),
            ("constant", "auto"),
            ("row without a cell", "flow"),
        ],
        itertools.product(ODD, ["auto", "fa", "flow", "flow-ar"]),
    ),
)
def test_odd_tables_are_fitted_with_a_line_and_imputed(vgi: Vgi, odd: str, model: str) -> None:
    table, line = ODD[odd]
    Path("one.csv").write_text(table)
    flags = ["--threads", "1", "--model", model, "--epochs", "2"]
    if model in ("auto", "fa") and odd != "nothing varies":
        flags += ["--set", "bootstrap=2"]
    if model.startswith("flow"):
        small = ("optim.warmup_conditionals=1", "optim.warmup_model=1", "model.hidden=4", "model.steps=1")
        flags += [word for setting in (*small, "method.trunk=[4]", "method.hidden=[4]") for word in ("--set", setting)]
    done = vgi("fit", "one.csv", *flags)
    assert (done.code, done.out) == (0, "run1\n"), done.err
    assert done.err.splitlines().count(line) == 1
    assert vgi("impute", "--checkpoint", "run1", "--m", "1", "-o", "out.csv").code == 0
    filled = cells("out.1.csv")
    empty = {"a"} if odd == "all missing" else set()
    for before, after in zip(cells("one.csv")[1:], filled[1:], strict=True):
        for name, old, new in zip(filled[0], before or [""], after, strict=True):
            assert new == old if old or name in empty else float(new) == float(new)
    assert vgi("evaluate", "--checkpoint", "run1", "one.csv", "--json").code == 0


def test_a_constant_fills_its_holes(vgi: Vgi) -> None:
    Path("one.csv").write_text("a,b\n1.50,2\n1.50,3\n,1\n1.50,5\n")
    assert vgi("fit", "one.csv", *FA).code == 0
    vgi("impute", "--checkpoint", "run1", "--m", "1", "-o", "out.csv")
    assert cells("out.1.csv")[3] == ["1.50", "1"]


def test_what_a_fill_changes_is_said(vgi: Vgi) -> None:
    """A number that means missing is no fill, and a type that does not hold the fills becomes a wider one."""
    rows = [5, -5, None, 3, -3, None, 2, -2, None, 4, 6, -6, 7, None, -7, 8, -8, 9, -9, None] * 2
    Path("t.csv").write_text("x,y\n" + "".join(f"{'' if x is None else x},{i}\n" for i, x in enumerate(rows)))
    assert vgi("fit", "t.csv", *FA, "--na-values", "1", "--na-values", "0", "--na-values", "-1").code == 0
    done = vgi("impute", "--checkpoint", "run1", "--m", "3", "-o", "o.csv")
    assert "column 'x': " in done.err and "fills were what means missing (--na-values): the next value" in done.err
    assert not {row[0] for row in cells("o.1.csv")} & {"", "0", "1", "-1"}
    wide = pa.table({"x": pa.array([100, None] * 20, pa.int8()), "y": [i % 11 for i in range(40)]})
    pq.write_table(wide, "w.parquet")
    Path("w.csv").write_text("x,y\n" + "".join(f"{i % 7 * 500},{i * i % 11}\n" for i in range(40)))
    assert vgi("fit", "w.csv", *FA, "--out", "run2").code == 0
    done = vgi("impute", "--checkpoint", "run2", "w.parquet", "--m", "2", "-o", "w.out.parquet")
    assert "column 'x' is written as int64, not int8: the fill " in done.err
    assert [pq.read_schema(f"w.out.{i}.parquet").field("x").type for i in (1, 2)] == [pa.int64()] * 2


def test_swapped_columns_and_empty_columns_of_new_rows(vgi: Vgi, run: Path) -> None:
    Path("new.csv").write_text("count,extra,b,a\n5,x,,0.1\n,y,,0.2\n")
    done = vgi("impute", "--checkpoint", "run", "new.csv", "--m", "1", "-o", "out.csv")
    assert done.code == 0 and done.out == "out.1.csv\n"
    lines = done.err.splitlines()
    assert "columns are in another order than in the fit: matched by name" in lines
    assert "column 'b' is empty in new.csv: imputed from the model" in lines
    header, *rows = cells("out.1.csv")
    assert header == ["count", "extra", "b", "a"] and [row[1] for row in rows] == ["x", "y"]
    assert all(all(row) for row in rows)


@pytest.mark.usefixtures("refits_serve_again")
def test_rows_in_which_nothing_is_observed_have_no_report(vgi: Vgi, run: Path) -> None:
    Path("new.csv").write_text("a,b,count\n,,\n,,\n")
    for more in ([], ["-q", "--json"], ["--fail-if", "loglik < -5"]):
        done = vgi("evaluate", "--checkpoint", "run", "new.csv", *more)
        what = "new.csv: no row has an observed cell of a modelled column; nothing was written"
        assert (done.code, done.out, done.error) == (1, "", what)
        assert done.hint == "check --na-values, --delimiter and --mask" and not (run / "evaluations").exists()
    Path("full.csv").write_text("a,b,count\n0.1,0.2,5\n0.3,0.1,4\n")
    done = vgi("evaluate", "--checkpoint", "run", "new.csv", "--truth", "full.csv", "--json", "-q")
    report = json.loads(done.out)
    assert done.code == 0 and "no row has an observed cell of a modelled column" in report["notes"]
    assert "new.csv: no row has an observed cell of a modelled column, so there is no log-likelihood" in done.err
    assert len(report["imputation"]["columns"]) == 3 and "loglik" not in report


def test_fine_tuning_to_rows_in_which_nothing_is_observed_is_refused(vgi: Vgi, run: Path) -> None:
    Path("new.csv").write_text("a,b,count\n,,\n,,\n")
    done = vgi("finetune", "--checkpoint", "run", "new.csv", "--out", "tuned")
    assert (done.code, done.error) == (2, "new.csv: no modelled cell is observed") and not Path("tuned").exists()
    assert done.hint == "rows are learnt from by their observed cells: give such rows, or check --na-values and --mask"


def test_one_new_row_by_stdin_to_stdout(vgi: Vgi, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a,b,count\n0.5,,5\n")))
    done = vgi("impute", "--checkpoint", "run", "-")
    assert done.code == 0
    (header, row) = csv.reader(done.out.splitlines())
    assert header == ["a", "b", "count"] and row[0] == "0.5" and float(row[1])
    assert "warning: one filled table does not show how uncertain its fills are: " in done.err


def test_fit_prints_the_folder_and_nothing_else(vgi: Vgi, data: Path) -> None:
    assert vgi("fit", "data.csv", *FA).out == "run1\n"
    done = vgi("fit", "data.csv", *FA, "-q")
    assert (done.out, done.err) == ("run2\n", "")


@pytest.mark.usefixtures("two_models")
def test_the_automatic_choice_is_said_with_its_reason(vgi: Vgi, data: Path) -> None:
    few = ("--set", "table.transform=linear")  # half as many models
    done = vgi("fit", "data.csv", "--threads", "1", "--set", "bootstrap=none", *few)
    (line,) = [line for line in done.err.splitlines() if line.startswith("model: ")]
    assert line.startswith("model: several are compared on hidden cells: 30 rows, 3 columns, 2% of the cells missing")
    assert any(line.startswith("→ ") for line in done.err.splitlines())  # what the comparison took
    done = vgi("fit", "data.csv", *FA)
    assert "fitting by expectation maximisation (exact for this model)" in done.err.splitlines()
    assert '"transform": "linear"' in Path("run2/schema.json").read_text()
    assert vgi("fit", "data.csv", *FA, "--set", "table.transform=normal").code == 0
    assert '"transform": "normal"' in Path("run3/schema.json").read_text()


def test_the_same_seed_gives_the_same_run_and_another_seed_another(vgi: Vgi, data: Path) -> None:
    for number, seed in enumerate((3, 3, 4), 1):
        assert vgi("fit", "data.csv", *TINY_VGI, "--seed", str(seed)).code == 0
        vgi("impute", "--checkpoint", f"run{number}", "--m", "1", "-o", f"out{number}.csv")
    parts = [RunFolder.open(Path(f"run{number}")).parts() for number in (1, 2, 3)]
    assert all(same_tensors(parts[0][stem], parts[1][stem]) for stem in parts[0])
    assert not same_tensors(parts[0]["model"], parts[2]["model"])
    outputs = [Path(f"out{number}.1.csv").read_bytes() for number in (1, 2, 3)]
    assert outputs[0] == outputs[1] != outputs[2]


def test_the_saved_recipe_runs_the_same_fit(vgi: Vgi, data: Path) -> None:
    assert vgi("fit", "data.csv", *TINY_VGI, "--val", "0.3", "--seed", "3").code == 0
    Path("again.yaml").write_text(Path("run1/recipe.yaml").read_text())
    assert vgi("fit", "--recipe", "again.yaml").code == 0
    first, second = (RunFolder.open(Path(name)) for name in ("run1", "run2"))
    assert all(same_tensors(first.tensors(stem), second.tensors(stem)) for stem in ("model", "state"))
    assert Path("run1/recipe.yaml").read_text() == Path("run2/recipe.yaml").read_text()


def test_more_draws_leave_the_first_ones_unchanged_and_order_of_rows_does_not_matter(vgi: Vgi, data: Path) -> None:
    assert vgi("fit", "data.csv", *FA, "--id", "name", "--out", "run").code == 0
    vgi("impute", "--checkpoint", "run", "--m", "2", "-o", "two.csv")
    vgi("impute", "--checkpoint", "run", "--m", "7", "-o", "seven.csv")
    assert Path("two.2.csv").read_bytes() == Path("seven.2.csv").read_bytes()
    header, *rows = Path("data.csv").read_text().splitlines()
    Path("turned.csv").write_text("\n".join([header, *rows[::-1]]) + "\n")
    vgi("impute", "--checkpoint", "run", "turned.csv", "--m", "1", "-o", "turned_out.csv")
    header, *turned = Path("turned_out.1.csv").read_text().splitlines()
    assert [header, *turned[::-1]] == Path("two.1.csv").read_text().splitlines()


@pytest.mark.full_fits("fitting.refits.COUNT")
def test_formats(vgi: Vgi, run: Path) -> None:
    long = vgi("impute", "--checkpoint", "run", "--m", "2", "--format", "long", "-o", "-")
    header, *rows = csv.reader(long.out.splitlines())
    assert header[-2:] == [".imp", ".id"] and [row[-2] for row in rows] == ["0"] * 30 + ["1"] * 30 + ["2"] * 30
    assert [row[-1] for row in rows[:3]] == ["1", "2", "3"]
    bare = vgi("impute", "--checkpoint", "run", "--m", "2", "--format", "long", "--no-original", "-o", "-")
    assert len(bare.out.splitlines()) == 61
    mids = vgi("impute", "--checkpoint", "run", "--m", "2", "--format", "mids-csv")
    assert mids.out == "run/imputed/data.mids.csv\n"
    assert cells("run/imputed/data.mids.csv") == [[cell or "NA" for cell in row] for row in [header, *rows]]
    assert vgi("impute", "--checkpoint", "run", "--m", "1", "-o", "out.parquet").out == "out.1.parquet\n"
    assert pq.read_table("out.1.parquet").column("b").null_count == 0
    mean = vgi("impute", "--checkpoint", "run", "--m", "9", "--point", "mean", "-o", "mean.csv")
    assert (
        mean.out == "mean.csv\n" and "warning: the mean of 9 draws is a best guess without its uncertainty" in mean.err
    )
    vgi("impute", "--checkpoint", "run", "--m", "9", "-o", "draw.csv")
    draws = [float(cells(f"draw.{i}.csv")[2][1]) for i in range(1, 10)]
    assert float(cells("mean.csv")[2][1]) == pytest.approx(np.mean(draws), abs=6e-4)
    assert cells("mean.csv")[1] == cells("data.csv")[1]


@pytest.mark.full_fits("fitting.refits.COUNT")
def test_uncertainty_is_said(vgi: Vgi, run: Path) -> None:
    done = vgi("impute", "--checkpoint", "run", "--m", "1", "-o", "a.csv")
    assert "the draws include the uncertainty of the fit: 2 bootstrap refits by em" in done.err.splitlines()
    done = vgi("impute", "--checkpoint", "run", "-o", "b.csv")
    assert "the uncertainty of the fit: 2 bootstrap refits by em (they are reused: 5 draws were asked for)" in done.err
    done = vgi("impute", "--checkpoint", "run", "--uncertainty", "none", "-o", "c.csv")
    assert NOT_INCLUDED in done.err.splitlines() and "Rubin's rules would give" in NOT_INCLUDED
    done = vgi("impute", "--checkpoint", "run", "--point", "mean", "-o", "mean.csv")
    assert "the draws include the uncertainty of the fit: 2 bootstrap refits by em" in done.err.splitlines()
    assert "the mean of 100 draws is a best guess" in done.err
    assert Path("c.1.csv").read_bytes() != Path("b.1.csv").read_bytes()


def test_evaluate_writes_reports_and_one_json_object(vgi: Vgi, run: Path) -> None:
    done = vgi("evaluate", "--checkpoint", "run", "data.csv", "--json", "--per-row", "rows.csv")
    report = json.loads(done.out)
    assert report["format"] == 1 and report["rows"] == 30 and report["loglik"]["estimator"] == "exact"
    assert "imputation" not in report and "objective" not in report
    assert not (run / "evaluations").exists()
    shown = vgi("evaluate", "--checkpoint", "run", "data.csv", "-o", "elsewhere").out
    assert shown == Path("elsewhere/report.md").read_text()
    header, *rows = cells("rows.csv")
    assert header == ["row", "observed", "loglik", "estimator"] and len(rows) == 30
    assert report["loglik"]["mean"] == pytest.approx(np.mean([float(row[2]) for row in rows]))


def test_reports_of_one_run_are_numbered(vgi: Vgi, run: Path) -> None:
    ask = ["evaluate", "--checkpoint", "run", "data.csv"]
    Path("other").mkdir()
    Path("other/data.csv").write_text(text(rows=12))
    first = vgi(*ask)
    assert vgi(*ask[:-1], "other/data.csv").err.endswith("report.json and report.md are in run/evaluations/data-2\n")
    assert vgi(*ask).code == 0
    found = {p.name: json.loads((p / "report.json").read_text())["rows"] for p in (run / "evaluations").iterdir()}
    assert found == {"data": 30, "data-2": 12, "data-3": 30}
    assert vgi(*ask[:-1], "other/data.csv", "--force").code == 0
    assert json.loads((run / "evaluations/data/report.json").read_text())["rows"] == 12
    assert (run / "evaluations/data-3/report.md").read_text() == first.out
    for _ in range(2):
        assert json.loads(vgi(*ask, "--json").out)["rows"] == 30
    assert len(list((run / "evaluations").iterdir())) == 3


@pytest.mark.usefixtures("refits_serve_again")
@pytest.mark.parametrize("way", [pytest.param("mask", marks=pytest.mark.slow), "truth"])
def test_evaluate_scores_hidden_cells(vgi: Vgi, data: Path, way: str) -> None:
    Path("full.csv").write_text("a,b,count,name\n" + "\n".join(text().splitlines()[4:]) + "\n")
    holes, mask = cells("full.csv"), cells("full.csv")
    for row in range(1, 28):
        mask[row] = ["1"] * 4
        if row < 12:
            mask[row][row % 3], holes[row][row % 3] = "0", ""
    for name, rows in (("holes.csv", holes), ("mask.csv", mask)):
        Path(name).write_text("\n".join(",".join(row) for row in rows) + "\n")
    assert vgi("fit", "full.csv", "--mask", "mask.csv", *FA, "--out", "run").code == 0
    chosen = ["full.csv", "--mask", "mask.csv"] if way == "mask" else ["holes.csv", "--truth", "full.csv"]
    report = json.loads(vgi("evaluate", "--checkpoint", "run", *chosen, "--json").out)
    assert report["imputation"]["columns"]["a"]["cells"] == 3
    assert 0 < report["imputation"]["crps"] < 2 and 0 <= report["imputation"]["coverage90"] <= 1
    assert report["sampler"]["parameter_uncertainty"] == "2 bootstrap refits by em"
    page = vgi("evaluate", "--checkpoint", "run", *chosen).out
    assert "- parameter uncertainty: 2 bootstrap refits by em" in page


@pytest.mark.usefixtures("refits_serve_again")
def test_scores_stand_beside_those_of_the_columns_alone(vgi: Vgi, tmp_path: Path) -> None:
    """`a` and `b` say almost all of each other, `c` is noise; `d` has no observed cell in the table that is scored."""
    rng = np.random.default_rng(0)
    z, c, d = rng.normal(size=(3, 80))
    full = [[f"{v:.4f}" for v in row] for row in zip(z, 2 * z + 0.01 * rng.normal(size=80), c, d, strict=True)]
    holes = [[*row] for row in full]
    for i in range(80):
        holes[i][i % 3] = ""
    some = [[*row[:3], ""] for row in holes]
    for name, rows in (("full", full), ("holes", holes), ("some", some)):
        Path(f"{name}.csv").write_text("a,b,c,d\n" + "\n".join(map(",".join, rows)) + "\n")
    assert vgi("fit", "holes.csv", *FA, "--out", "run").code == 0
    ask = ["evaluate", "--checkpoint", "run", "--truth", "full.csv"]
    done = vgi(*ask, "holes.csv", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)["imputation"]
    ratio = {name: own["crps"] / own["marginal"]["crps"] for name, own in found["columns"].items()}
    assert ratio["a"] < 0.05 and ratio["b"] < 0.05 and 0.85 < ratio["c"] < 1.2 and "d" not in ratio
    assert found["marginal"]["coverage90"] == pytest.approx(0.9, abs=0.1)
    assert found["marginal"]["crps"] == pytest.approx(
        np.mean([own["marginal"]["crps"] / own["sd"] for own in found["columns"].values()])
    )
    page = vgi(*ask, "holes.csv").out
    assert "| column | cells | CRPS | alone | RMSE |" in page and "use no other column" in page
    (line,) = (line for line in page.splitlines() if line.startswith("| c |"))
    assert line.split(" | ")[3] == f"{found['columns']['c']['marginal']['crps']:.4g}"
    failed = vgi(*ask, "holes.csv", "--fail-if", "imputation.marginal.crps < 9")
    assert failed.error.startswith("--fail-if 'imputation.marginal.crps < 9' holds")
    assert "imputation.marginal.crp" in vgi(*ask, "holes.csv", "--fail-if", "imputation.marginal.crp < 9").error
    few = json.loads(vgi(*ask, "some.csv", "--json").out)["imputation"]
    assert "marginal" not in few and "marginal" not in few["columns"]["d"] and "marginal" in few["columns"]["a"]


def test_fail_if(vgi: Vgi, run: Path) -> None:
    ask = ["evaluate", "--checkpoint", "run", "data.csv", "--json"]
    assert vgi(*ask, "--fail-if", "loglik < -1000").code == 0
    done = vgi(*ask, "--fail-if", "loglik > -1000", "--fail-if", "rows == 30", "--fail-if", "loglik.se < 0")
    assert done.code == 3 and json.loads(done.out)["rows"] == 30
    assert done.error.startswith("--fail-if 'loglik.mean > -1000' holds: loglik.mean is -")
    assert "rows == 30" in done.error and "loglik.se" not in done.error


def test_fail_if_of_the_error_of_one_row(vgi: Vgi, run: Path) -> None:
    Path("one.csv").write_text("".join(Path("data.csv").read_text().splitlines(keepends=True)[:2]))
    done = vgi("evaluate", "--checkpoint", "run", "one.csv", "-o", "report", "--fail-if", "loglik.se > 1")
    assert done.code == 3 and "loglik.se is no number, so that the condition cannot be judged" in done.error
    assert "se" not in json.loads(Path("report/report.json").read_text())["loglik"]


def test_fail_if_of_a_likelihood_of_zero(vgi: Vgi, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mean of -inf is below every limit, and the report is written."""
    likelihood = evaluate.log_likelihood

    def of_zero(*given: Any) -> Scored:
        scored = likelihood(*given)
        scored.loglik.values[0] = -torch.inf
        return scored

    monkeypatch.setattr(evaluate, "log_likelihood", of_zero)
    done = vgi("evaluate", "--checkpoint", "run", "data.csv", "-o", "report", "--fail-if", "loglik < -1000")
    assert done.code == 3 and done.error == "--fail-if 'loglik.mean < -1000' holds: loglik.mean is -inf"
    report = json.loads(Path("report/report.json").read_text())
    assert "mean" not in report["loglik"] and "loglik.mean is not finite and is left out" in report["notes"]


def test_a_time_limit_keeps_a_model_and_its_recipe_repeats_it(
    vgi: Vgi, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = [flag if flag != "1" or TINY_VGI[i - 1] != "--epochs" else "100000" for i, flag in enumerate(TINY_VGI)]
    ticking(monkeypatch, 0.02)
    done = vgi("fit", "data.csv", *long, "--time-limit", "4s", "--out", "run")
    assert done.code == 0
    manifest = RunFolder.open(Path("run")).manifest
    assert (manifest["status"], manifest["stopped_by"]) == ("finished", "time_limit")
    Path("again.yaml").write_text(Path("run/recipe.yaml").read_text())
    assert "time_limit: null" in Path("again.yaml").read_text()
    assert vgi("fit", "--recipe", "again.yaml", "--out", "again").code == 0
    again = RunFolder.open(Path("again"))
    assert again.manifest["epochs"] == manifest["epochs"] and again.manifest["stopped_by"] == "stop_after"
    assert same_tensors(again.tensors("model"), RunFolder.open(Path("run")).tensors("model"))


def test_a_run_that_is_being_written_is_not_resumed(vgi: Vgi, run: Path) -> None:
    with sole_writer(run):
        done = vgi("fit", "--resume", "--out", "run", "--epochs", "99999")
    assert done.code == 2
    assert done.error.startswith(f"run 'run' is being written by process {os.getpid()} on host '")
    assert done.hint == "wait for it, or stop it"


def test_resume(vgi: Vgi, data: Path) -> None:
    ask = ["fit", "data.csv", *TINY_VGI, "--out", "run"]
    assert vgi(*ask).code == 0
    done = vgi(*ask, "--resume")
    assert (done.code, done.out) == (0, "run\n")
    assert "run is finished, nothing to do: the fit has done its 1 epoch" in done.err
    assert vgi("fit", "--resume", "--out", "run").code == 0
    done = vgi(*ask, "--resume", "--set", "method.imputations=9", "--seed", "5")
    assert done.code == 2
    assert "method.imputations differs from the run's: it has 5, got 9" in done.err
    assert "seed differs from the run's: it has 0, got 5" in done.err
    more = [flag if flag != "1" or TINY_VGI[i - 1] != "--epochs" else "3" for i, flag in enumerate(TINY_VGI)]
    done = vgi("fit", "data.csv", *more, "--out", "run", "--resume")
    assert done.code == 0 and RunFolder.open(Path("run")).manifest["epochs"] == 3
    done = vgi(*ask, "--resume")
    assert done.code == 2 and "epochs may grow but not shrink: the run has 3, got 1" in done.error


def test_a_fit_that_was_killed_before_its_first_checkpoint_is_begun_anew(vgi: Vgi, data: Path) -> None:
    left = Path("run/.checkpoint.tmp")
    left.mkdir(parents=True)
    (left / "recipe.yaml").write_text("seed: 0")
    done = vgi("impute", "--checkpoint", "run")
    assert (done.code, done.error) == (2, "'run': the fit was stopped before it had saved anything")
    done = vgi("fit", "--resume", "--out", "run")
    assert (done.code, done.error) == (2, "--resume: nothing was fitted in run yet")
    done = vgi("fit", "data.csv", *FA, "--out", "run", "--resume")
    assert done.code == 0 and "nothing was fitted in run yet: the fit starts at the beginning" in done.err
    assert not left.exists() and RunFolder.open(Path("run")).finished


def test_resume_where_nothing_is_starts_at_the_beginning(vgi: Vgi, data: Path) -> None:
    done = vgi("fit", "data.csv", *FA, "--out", "run", "--resume")
    assert done.code == 0 and "nothing was fitted in run yet: the fit starts at the beginning" in done.err
    assert RunFolder.open(Path("run")).finished
    done = vgi("fit", "--out", "none", "--resume")
    assert (done.code, done.error) == (2, "--resume: there is no none") and not Path("none").exists()
    assert done.hint == "name the table too, to begin a fit there"
    done = vgi("fit", "--out", "rum", "--resume")
    assert (done.code, done.hint) == (2, "did you mean 'run', or name the table too, to begin a fit there")


def test_finetune_makes_a_complete_run(vgi: Vgi, data: Path) -> None:
    assert vgi("fit", "data.csv", *TINY_VGI, "--out", "run").code == 0
    Path("new.csv").write_text(text(12, seed=4))
    done = vgi("finetune", "--checkpoint", "run", "new.csv", "--epochs", "2")
    assert (done.code, done.out) == (0, "run1\n")
    assert "not comparable with a log-likelihood" in done.err
    tuned, first = RunFolder.open(Path("run1")), RunFolder.open(Path("run"))
    again = vgi("fit", "--resume", "--out", "run1")
    assert again.code == 2 and again.error == "--resume: 'run1' was made by `vgi finetune`, only fits are resumed"
    assert again.hint == "make it anew: the command that made it again, with --force"
    assert "not comparable" in tuned.manifest["finetuned_objective"]["note"]
    (said,) = json.loads(vgi("report", "run1", "--json").out)["runs"]
    (verdict,) = (one for one in said["verdicts"] if one["about"] == "training")
    words = "The model is that of an earlier run, unchanged; its conditionals were adapted for 2 epochs."
    assert (verdict["level"], verdict["text"]) == ("good", words)
    assert same_tensors(tuned.tensors("model"), first.tensors("model"))
    assert not same_tensors(tuned.tensors("conditionals"), first.tensors("conditionals"))
    for sampler in ("exact", "chains", "metropolis", "gibbs"):
        done = vgi("impute", "--checkpoint", "run1", "--m", "2", "--sampler", sampler, "-o", f"{sampler}.csv")
        assert done.code == 0 and all(all(row) for row in cells(f"{sampler}.1.csv"))


def test_a_model_with_exact_conditionals_has_nothing_to_adapt(vgi: Vgi, run: Path) -> None:
    """README's `vgi finetune` on what `vgi fit` gives by default."""
    Path("new.csv").write_text(text(12, seed=4))
    done = vgi("finetune", "--checkpoint", "run", "new.csv", "--time-limit", "1h")
    assert (done.code, done.out) == (0, "run1\n"), done.err
    assert "nothing to adapt: this model knows the law of every hole exactly" in done.err
    tuned = RunFolder.open(Path("run1"))
    assert (tuned.manifest["command"], tuned.manifest["status"], tuned.manifest["data"]["rows"]) == (
        *("finetune", "finished"),
        12,
    )
    assert same_tensors(tuned.tensors("model"), RunFolder.open(run).tensors("model"))
    assert vgi("impute", "--checkpoint", "run1", "--m", "2", "-o", "own.csv").code == 0
    assert vgi("impute", "--checkpoint", "run", "new.csv", "--m", "2", "-o", "new.csv", "--force").code == 0
    assert Path("own.2.csv").read_bytes() == Path("new.2.csv").read_bytes()
    assert vgi("evaluate", "--checkpoint", "run1", "new.csv", "--json").code == 0


def test_a_tuned_run_without_imputations_has_no_chains_to_offer(vgi: Vgi, data: Path) -> None:
    fit = ["fit", "data.csv", "--model", "fa", "--imputer", "mean", "--epochs", "1", "--set", "model.factors=1"]
    assert vgi(*fit, "--out", "run").code == 0
    assert vgi("finetune", "--checkpoint", "run", "data.csv", "--out", "tuned").code == 0
    done = vgi("impute", "--checkpoint", "tuned", "--sampler", "chains")
    assert (done.code, done.error) == (2, "sampler 'chains': run 'tuned' stores no imputations of its table")
    assert done.hint == "use --sampler exact"
    assert vgi("impute", "--checkpoint", "tuned").code == 0


def test_finetune_keeps_the_bootstrap_refits(vgi: Vgi, data: Path) -> None:
    few = [flag.replace("bootstrap=none", "bootstrap=2") for flag in TINY_VGI]
    assert vgi("fit", "data.csv", *few, "--out", "run").code == 0
    assert vgi("finetune", "--checkpoint", "run", "data.csv", "--epochs", "1", "--out", "tuned").code == 0
    assert same_tensors(RunFolder.open(Path("tuned")).tensors("model"), RunFolder.open(Path("run")).tensors("model"))
    done = vgi("impute", "--checkpoint", "tuned", "--m", "2", "--uncertainty", "bootstrap", "-o", "out.csv")
    assert done.code == 0 and "the draws include the uncertainty of the fit: 2 bootstrap refits by vgi" in done.err


def test_the_objective_is_reported_apart(vgi: Vgi, data: Path) -> None:
    assert vgi("fit", "data.csv", *TINY_VGI, "--out", "run").code == 0
    report = json.loads(vgi("evaluate", "--checkpoint", "run", "data.csv", "--json", "--objective").out)
    assert isinstance(report["objective"], float)
    assert any("not comparable" in note for note in report["notes"])


def test_a_run_with_settings_of_another_version_is_refused(vgi: Vgi, data: Path) -> None:
    assert vgi("fit", "data.csv", *TINY_VGI, "--out", "run").code == 0
    run = RunFolder.open(Path("run"))
    lines = "  waltz: 3\n  optim_rate: 1\n"
    run.save({}, {}, {"recipe.yaml": run.file("recipe.yaml").read_text().replace("method:\n", "method:\n" + lines)})
    for command in (["evaluate", "data.csv"], ["impute"]):
        done = vgi(command[0], "--checkpoint", "run", *command[1:])
        assert done.code == 2 and "Traceback" not in done.err
        assert (
            "run 'run' has settings that this version of vgi does not take: method.waltz, method.optim_rate" in done.err
        )
        assert "use the version that its manifest.json names, or fit again" in done.err


def test_validation_selects_and_imputes_held_out_rows(vgi: Vgi, data: Path) -> None:
    for select in ("loglik", "objective"):
        more = [flag if flag != "1" or TINY_VGI[i - 1] != "--epochs" else "3" for i, flag in enumerate(TINY_VGI)]
        assert vgi("fit", "data.csv", *more, "--val", "0.5", "--select", select, "--out", select).code == 0
        lines = [json.loads(line) for line in Path(select, "metrics.jsonl").read_text().splitlines()]
        assert all(f"val_{select}" in line for line in lines if line["stage"] == "main")
        manifest = RunFolder.open(Path(select)).manifest
        assert manifest["progress"]["best_epoch"] >= 1 and manifest["data"]["rows_held_out"] == 15
        assert vgi("impute", "--checkpoint", select, "--m", "1", "-o", f"{select}.csv").code == 0
        assert all(all(row) for row in cells(f"{select}.1.csv"))


def test_a_method_that_computes_on_the_cpu_says_so_where_a_gpu_was_asked_for(
    vgi: Vgi, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine with a GPU, of which nothing is used."""
    for module in (plan, fit_rows):
        monkeypatch.setattr(module, "resolve_device", lambda name, where: torch.device("cuda"))
    for device, line in (("cuda", True), ("auto", False)):
        done = vgi("fit", "data.csv", *FA, "--device", device, "--out", device)
        assert done.code == 0 and ("method em computes on the CPU" in done.err) == line
        assert RunFolder.open(Path(device)).manifest["device"] == "cpu"


def test_tables_of_other_kinds(vgi: Vgi, data: Path) -> None:
    table = pa.table({"a": [1.0, 2.5, None, 4.0], "b": [1, None, 3, 5], "t": ["x", None, "y", "z"]})
    Path("parts").mkdir()
    pq.write_table(table.slice(0, 2), "parts/1.parquet")
    pq.write_table(table.slice(2), "parts/2.parquet")
    assert vgi("fit", "parts", *FA, "--out", "folder").code == 0
    assert vgi("impute", "--checkpoint", "folder", "--m", "1").out == "folder/imputed/parts.1.parquet\n"
    Path("x.tsv").write_text("a\tb\n1\t2\n2\t\n4\t3\n")
    Path("y.csv").write_text("a|b\n5|?\n6|5\n7|5\n")
    assert vgi("fit", "x.tsv", *FA).code == 0
    done = vgi("fit", "y.csv", "--delimiter", "|", "--na-values", "?", *FA, "--out", "pipes")
    assert done.code == 0
    assert vgi("impute", "--checkpoint", "pipes", "--m", "1", "-o", "-", "--format", "single").out.startswith("a|b\n5|")


def test_a_signal_saves_and_resuming_equals_not_stopping(vgi: Vgi, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At epochs of two stages; `tests/cli/test_plugins.py` signals a process of its own."""
    ask = [flag if flag != "1" or TINY_VGI[i - 1] != "--epochs" else "6" for i, flag in enumerate(TINY_VGI)]
    assert vgi("fit", "data.csv", *ask, "--out", "whole").code == 0
    log = Drive._log
    for number, code, at in ((signal.SIGTERM, 143, 1), (signal.SIGINT, 130, 4)):

        def signalled(drive: Drive, *arguments: Any, at: int = at, number: int = number) -> None:
            log(drive, *arguments)
            if drive.state.epoch == at:
                os.kill(os.getpid(), number)

        with monkeypatch.context() as patched:
            patched.setattr(Drive, "_log", signalled)
            done = vgi("fit", "data.csv", *ask, "--out", "cut", "--resume")
        assert (done.code, done.out) == (code, ""), done.err
        assert done.error == f"stopped after epoch {at}, saved in cut, by {signal.Signals(number).name}"
        assert done.hint == "continue with: vgi fit --resume --out cut"
    assert vgi("fit", "--resume", "--out", "cut").code == 0
    first, second = RunFolder.open(Path("whole")), RunFolder.open(Path("cut"))
    assert all(same_tensors(first.tensors(stem), second.tensors(stem)) for stem in first.parts())


def test_a_signal_ends_fine_tuning_and_says_how_to_make_it_anew(
    vgi: Vgi, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert vgi("fit", "data.csv", *TINY_VGI, "--out", "run").code == 0
    log = Drive._log

    def signalled(drive: Drive, *arguments: Any) -> None:
        log(drive, *arguments)
        os.kill(os.getpid(), signal.SIGHUP)

    words = ["finetune", "--checkpoint", "run", "data.csv", "--epochs", "3", "--out", "tuned"]
    with monkeypatch.context() as patched:
        patched.setattr(Drive, "_log", signalled)
        done = vgi(*words)
    assert (done.code, done.out) == (129, "")
    assert done.error == "stopped after epoch 1, saved in tuned, by SIGHUP"
    assert done.hint == "fine-tuning does not go on: the command that made it again, with --force"
    used = vgi("impute", "--checkpoint", "tuned", "--m", "1")
    assert used.code == 0 and "model is that of epoch 1 (make it anew: the command that made it again, with" in used.err
    again = vgi(*words)
    assert (again.code, again.hint) == (2, "--force replaces it")
    assert vgi(*words, "--force").code == 0 and RunFolder.open(Path("tuned")).finished


def test_a_signal_in_the_bootstrap_refits_says_what_is_saved(
    vgi: Vgi, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*arguments: object) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        return {}

    with monkeypatch.context() as patched:
        patched.setattr(training, "refit", stopped)
        done = vgi("fit", "data.csv", *FA, "--out", "run")
    assert done.code == 130
    assert done.error == "stopped by SIGINT in the bootstrap refits; the fit is saved in run"
    assert done.hint == "continue with: vgi fit --resume --out run"
    assert vgi("fit", "--resume", "--out", "run").code == 0
    assert RunFolder.open(Path("run")).manifest["bootstrap"] == 2


def test_a_signal_while_trees_are_learnt_names_them(vgi: Vgi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).normal(size=(300, 3))
    frame = pd.DataFrame(x, columns=["a", "b", "c"]).mask(np.random.default_rng(1).random(x.shape) < 0.2)
    frame.to_csv("waves.csv", index=False)

    def stopped(*arguments: object) -> object:
        os.kill(os.getpid(), signal.SIGTERM)
        return {}

    words = ("--model", "mixture", "--set", "model.components=1", "--set", "bootstrap=2", "--set", "trees=held-out")
    with monkeypatch.context() as patched:
        patched.setattr(training.trees, "learnt", stopped)
        done = vgi("fit", "waves.csv", *words, "--out", "run")
    assert done.code == 143
    assert done.error == "stopped by SIGTERM while trees were learnt; the fit is saved in run"
    assert done.hint == "continue with: vgi fit --resume --out run"
    again = vgi("fit", "--resume", "--out", "run")
    assert again.code == 0 and RunFolder.open(Path("run")).finished


def test_a_signal_during_the_imports_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import sys, builtins, vgi_cli.cli.start as m; own = builtins.__import__\n"
        "def stop(name, *a, **k):\n"
        "    if name == 'typer': raise KeyboardInterrupt\n"
        "    return own(name, *a, **k)\n"
        "builtins.__import__ = stop; sys.exit(m.start())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "error: stopped by SIGINT\n")


def test_the_held_out_score_is_said_in_the_units_of_evaluate(vgi: Vgi, data: Path) -> None:
    """Whatever the transform: the score of the kept epoch is about the log-likelihood of the same rows."""
    Path("val.csv").write_text(text(40, seed=5))
    for transform in ("linear", "normal"):
        flags = ["--val", "val.csv", "--set", f"table.transform={transform}", "--out", transform]
        done = vgi("fit", "data.csv", *FA, *flags)
        line = next(line for line in done.err.splitlines() if line.startswith("kept: epoch "))
        score = float(line.split("held-out log-likelihood ")[1].removesuffix(" nats a row"))
        report = json.loads(vgi("evaluate", "--checkpoint", transform, "val.csv", "--json").out)
        assert abs(score - report["loglik"]["mean"]) < 0.3, line


def test_a_fit_without_an_epoch_is_said(vgi: Vgi, data: Path) -> None:
    done = vgi("fit", "data.csv", *TINY_VGI, "--set", "stop_after=1", "--out", "run")
    assert done.code == 0
    assert "warning: stopped before training had done one epoch: do not use this run" in done.err
    done = vgi("impute", "--checkpoint", "run", "--m", "1", "-q", "-o", "out.csv")
    assert "warning: run was stopped before training had done one epoch: do not use this run\n" in done.err


def test_four_rows_end_in_a_plain_note(vgi: Vgi) -> None:
    rows = ",-0.007,,-1.327\n1.108,0.094,,-1.358\n-1.307,-0.718,1.186,0.895\n,-0.547,-0.2,0.903\n"
    Path("four.csv").write_text("a,b,c,d\n" + rows)
    done = vgi("fit", "four.csv", "--set", "bootstrap=none")
    line = "4 rows say little about how 4 columns go together: where these are not closely related, a fill leans on"
    assert f"{line} what is seen of its own column" in done.err


@pytest.mark.parametrize(("rows", "said"), [(60, True), (130, False)])
def test_few_rows_for_many_columns_are_said(vgi: Vgi, rows: int, said: bool) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 1)) + rng.normal(size=(rows, 12))
    pd.DataFrame(x).add_prefix("x").mask(rng.random(x.shape) < 0.1).to_csv("many.csv", index=False)
    done = vgi("fit", "many.csv", "--model", "fa", "--set", "bootstrap=none")
    assert done.code == 0
    line = f"{rows} rows are few for 12 columns: what goes with what comes out weaker in fills than it is"
    assert (line in done.err) == said


@pytest.mark.parametrize("others", [0, 13])
def test_many_columns_of_three_whole_numbers_are_told_to_be_levels(vgi: Vgi, others: int) -> None:
    """Genotypes: few rows say little of them because they are taken for quantities. Not of a few among others."""
    rng = np.random.default_rng(0)
    row = rng.normal(size=(60, 1))
    genes = pd.DataFrame(rng.binomial(2, 1 / (1 + np.exp(-2 * row)), (60, 12))).add_prefix("rs")
    numbers = pd.DataFrame((row + rng.normal(size=(60, others))).round(3)).add_prefix("x")
    table = pd.concat([genes.mask(rng.random(genes.shape) < 0.1).astype("Int64"), numbers], axis=1)
    table.to_csv("genes.csv", index=False)
    done = vgi("fit", "genes.csv", "--model", "fa", "--set", "bootstrap=none", "--set", "model.factors=1")
    assert done.code == 0
    mostly = not others
    advice = "warning: columns 'rs0', 'rs1', 'rs2', 'rs3', 'rs4' and 7 more hold three whole numbers each, and are "
    assert (advice in done.err) == mostly
    few = "12 of 12 columns hold three whole numbers each and are modelled as quantities: from 60 rows it is hard"
    assert (few in done.err) == mostly
    assert ("60 rows say little about how 25 columns go together" in done.err) != mostly
    assert ("modelled as quantities, as suits scales of even steps" in done.err) != mostly
    flags = [word for name in genes for word in ("--column", f"{name}=ordinal")]
    assert others or "three whole numbers" not in vgi("fit", "genes.csv", "--dry-run", *flags).err


def test_a_table_of_another_name_is_written_under_it(vgi: Vgi, data: Path) -> None:
    """`.xls` is refused for what the user names, not for what the table is called."""
    Path("export.xls").write_text(text())
    assert vgi("fit", "export.xls", *FA, "--out", "run").code == 0
    done = vgi("impute", "--checkpoint", "run", "--m", "1")
    assert (done.code, done.out) == (0, "run/imputed/export.1.xls\n")
    assert cells("run/imputed/export.1.xls")[0] == ["a", "b", "count", "name"]


def test_threads_come_from_the_environment_and_are_kept(vgi: Vgi, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VGI_THREADS", "2")
    assert vgi("fit", "data.csv", *FA[:-2], "--set", "stop_after=1", "--out", "two").code == 0
    assert vgi("fit", "data.csv", *FA, "--set", "stop_after=1", "--out", "one").code == 0
    assert [RunFolder.open(Path(name)).manifest["threads"] for name in ("two", "one")] == [2, 1]
    monkeypatch.setenv("VGI_THREADS", "many")
    assert vgi("fit", "data.csv", *FA[:-2]).error == "VGI_THREADS: expected a whole number, got 'many'"
    monkeypatch.delenv("VGI_THREADS")
    monkeypatch.setenv("VGI_FAST", "no")
    done = vgi("fit", "data.csv", *FA)
    assert (done.code, done.error) == (2, "VGI_FAST: expected 0 or 1, got 'no'")


def test_a_gaussian_fitted_by_vgi_has_refits_too(vgi: Vgi, data: Path) -> None:
    flags = [flag if flag != "bootstrap=none" else "bootstrap=3" for flag in TINY_VGI]
    assert vgi("fit", "data.csv", *flags, "--out", "run").code == 0
    done = vgi("impute", "--checkpoint", "run", "--m", "3", "-o", "out.csv")
    assert "the draws include the uncertainty of the fit: 3 bootstrap refits by vgi" in done.err.splitlines()
    assert vgi("impute", "--checkpoint", "run", "--sampler", "metropolis", "--m", "1", "-o", "m.csv").code == 0
    error = vgi(
        "impute", "--checkpoint", "run", "--sampler", "gibbs", "--uncertainty", "bootstrap", "-o", "g.csv"
    ).error
    able = "exact or trees or latent or metropolis or plmcmc"
    assert error == f"--uncertainty bootstrap needs --sampler {able}, got 'gibbs'"


def test_evaluating_a_new_table_changes_nothing_in_the_run(vgi: Vgi, run: Path) -> None:
    before = (run / "manifest.json").read_bytes()
    Path("new.csv").write_text(text(10, seed=3))
    assert vgi("evaluate", "--checkpoint", "run", "new.csv").code == 0
    assert vgi("impute", "--checkpoint", "run", "new.csv").code == 0
    assert (run / "manifest.json").read_bytes() == before
    assert RunFolder.open(run).finished


def test_new_tables_are_read_with_the_delimiter_of_the_run(vgi: Vgi, tmp_path: Path) -> None:
    rows = [f"{i};{i % 7 - 0.5 * (i % 3)};{'' if i % 5 == 0 else i % 4 + 0.25 * i}" for i in range(30)]
    Path("semicolons.csv").write_text("\n".join(["n;a;b", *rows]) + "\n")
    assert vgi("fit", "semicolons.csv", "--delimiter", ";", *FA, "--out", "run").code == 0
    assert vgi("impute", "--checkpoint", "run", "semicolons.csv", "--m", "1", "-o", "out.csv").code == 0
    assert Path("out.1.csv").read_text().startswith("n;a;b\n")
    Path("commas.csv").write_text(Path("semicolons.csv").read_text().replace(";", ","))
    refused = vgi("impute", "--checkpoint", "run", "commas.csv", "--m", "1", "-o", "other.csv")
    assert refused.code == 2 and "--delimiter ','" in refused.err
    assert vgi("impute", "--checkpoint", "run", "commas.csv", "--delimiter", ",", "--m", "1", "-o", "b.csv").code == 0


def test_a_method_without_steps_has_nothing_to_compile(vgi: Vgi, tmp_path: Path) -> None:
    Path("two.csv").write_text("a,b\n" + "".join(f"{i},{(i * 7) % 11}\n" for i in range(30)) + "5,\n")
    done = vgi("fit", "two.csv", "--model", "fa", "--set", "model.factors=1", "--compile", "on")
    assert done.code == 0
    assert "--compile on: method em has no step to compile" in done.err.splitlines()
    refused = vgi("impute", "--checkpoint", done.out.strip(), "--m", "1", "--compile", "maybe")
    assert refused.code == 2 and "compile" in refused.err and "Traceback" not in refused.err
    assert vgi("impute", "--checkpoint", done.out.strip(), "--m", "1", "--compile", "off").code == 0


@pytest.mark.parametrize("imputer", some(["mice"], ["empirical", "mean", "mice", "missforest", "miceforest"]))
def test_a_table_is_filled_by_an_imputer_and_the_run_keeps_its_fills(vgi: Vgi, data: Path, imputer: str) -> None:
    few = ["--set", "method.trees=3"] if "forest" in imputer else []
    fit = ["fit", "data.csv", "--model", "fa", "--imputer", imputer, "--epochs", "1", "--set", "model.factors=1", *few]
    assert vgi(*fit, "--threads", "1", "--out", "run").code == 0
    done = vgi("impute", "--checkpoint", "run", "--sampler", "chains", "--m", "1", "-o", "out.csv")
    assert done.code == 0 and "parameter uncertainty" not in done.err
    again = vgi(*fit, "--threads", "1", "--out", "again")
    assert again.code == 0
    files = [Path(run) / "imputations.safetensors" for run in ("run", "again")]
    assert files[0].read_bytes() == files[1].read_bytes()
    done = vgi("impute", "--checkpoint", "run", "--m", "1", "-o", "model.csv")  # from the fitted model, not refitted
    assert done.code == 0 and "the draws do not include the uncertainty of the fit: " in done.err


def test_em_that_has_not_converged_says_so_and_goes_on(vgi: Vgi, data: Path) -> None:
    done = vgi("fit", "data.csv", *FA, "--epochs", "1", "--out", "run")
    assert done.code == 0 and "the fit has done its 1 epoch" in done.err.splitlines()
    warning = "warning: the fit has not converged after 1 iteration: --resume with a larger --epochs goes on"
    assert warning in done.err.splitlines()
    done = vgi("fit", "--resume", "--out", "run", "--epochs", "300")
    assert done.code == 0 and "the fit has converged, after " in done.err and "not converged" not in done.err


def test_large_counts_are_printed_in_full() -> None:
    said: list[str] = []
    diagnostics = {"cells": 10_830, "steps": 12_345.6, "few": 9, "acceptance": 0.123456, "memory": {"a": 1}}

    class Details(Silent):
        def detail(self, line: str) -> None:
            said.append(line)

    report_diagnostics("exact", diagnostics, Details())
    assert said == ["sampler exact: cells 10830, steps 12346, few 9, acceptance 0.1235"]
