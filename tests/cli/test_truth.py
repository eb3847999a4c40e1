"""`vgi evaluate --truth-model` and `--conditionals` from the command line: reports, conditions, refusals."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from tests.cli.test_refusals import FA, TINY_VGI, refused, text
from tests.program import Vgi, fit_once
from tests.selection import first

LAW = {"columns": ["b", "a"], "mean": [0.5, -1.0], "F": [[2.0], [1.0]], "psi": [0.5, 1.5]}
ROWS = 400


@pytest.fixture
def law(vgi: Vgi) -> Path:
    """Rows of LAW, written in full, with holes, the columns in another order; and the law itself."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(ROWS, 1))
    x = z @ np.array(LAW["F"]).T + LAW["mean"] + rng.normal(size=(ROWS, 2)) * np.sqrt(LAW["psi"])
    cells = [[repr(a), repr(b)] for b, a in x.tolist()]
    for i in range(0, ROWS, 5):
        cells[i][i % 2] = ""
    Path("rows.csv").write_text("a,b\n" + "\n".join(map(",".join, cells)) + "\n")
    Path("law.json").write_text(json.dumps(LAW))
    return Path("rows.csv")


@pytest.fixture
def run(vgi: Vgi, law: Path) -> Path:
    return fit_once(vgi, str(law), *FA)


def test_a_known_factor_model(vgi: Vgi, run: Path) -> None:
    ask = ["evaluate", "--checkpoint", "run", "rows.csv", "--truth-model", "law.json"]
    done = vgi(*ask, "--json")
    report = json.loads(done.out)
    assert done.code == 0
    truth = report["truth"]
    assert truth["model"] == "law.json" and truth["kl_estimator"] == "exact" and "notes" not in report
    assert 0 < truth["kl"] < 5 * 5 / (2 * ROWS)  # five free parameters: 5 / (2 N) on average
    assert set(truth["wasserstein2_squared"]) == {"standardised", "data"} and set(truth["rmse"]) == {"mean", "F", "psi"}
    page = vgi(*ask, "--force").out
    assert "- KL(truth ‖ model): 0.00" in page and "nats, closed form" in page
    assert "- RMSE of F, after the best rotation: standardised" in page
    done = vgi(*ask, "--force", "--fail-if", "truth.kl > 1e-9", "--fail-if", "truth.rmse.mean.data > 9")
    assert done.code == 3 and done.error.startswith("--fail-if 'truth.kl > 1e-09' holds")


def test_a_run_is_a_truth(vgi: Vgi, run: Path) -> None:
    ask = ["evaluate", "--checkpoint", "run", "rows.csv", "--truth-model", "run", "--json", "-o", "here"]
    truth = json.loads(vgi(*ask).out)["truth"]
    assert truth["model"] == "run" and abs(truth["kl"]) < 1e-9 and truth["rmse"]["F"]["data"] < 1e-6
    mixture = ["--model", "mixture", "--set", "model.components=2", "--set", "bootstrap=none", "--threads", "1"]
    assert vgi("fit", "rows.csv", *mixture, "--out", "bent").code == 0
    ask = ["evaluate", "--checkpoint", "bent", "rows.csv", "--truth-model", "run", "--json"]
    report = json.loads(vgi(*ask).out)
    truth = report["truth"]
    assert truth["kl_estimator"] == "monte carlo" and 0 < truth["kl_se"] < 0.1 and truth["kl"] < 0.5
    assert "wasserstein2_squared" not in truth and "rmse" not in truth
    assert any("column 'a' is bent towards a normal distribution" in note for note in report["notes"])
    assert json.loads(vgi(*ask, "--force").out) == report  # seeded
    other = json.loads(vgi(*ask, "--force", "--seed", "9").out)["truth"]
    assert other["kl"] != truth["kl"] and abs(other["kl"] - truth["kl"]) < 5 * math.hypot(
        other["kl_se"], truth["kl_se"]
    )


@pytest.mark.parametrize(
    ("name", "content", "error", "hint"),
    [
        ("lw.json", None, "--truth-model: lw.json: no such file or run folder", "did you mean 'law.json'?"),
        ("no/x.json", None, "--truth-model: no/x.json: no such file or run folder", "check the path"),
        ("bad.json", b"{", "bad.json: not JSON (line 1", "for example"),
        ("latin.json", b"\xe9", "latin.json: not JSON (it is not UTF-8)", "for example"),
        ("key.json", json.dumps({**LAW, "sigma": 1}).encode(), "key.json: unknown key 'sigma'", "expected one of"),
        (
            "few.json",
            json.dumps({"columns": ["a"], "mean": [0], "F": [[1]], "psi": [1]}).encode(),
            "--truth-model: few.json lacks the column 'b', which run 'run' models",
            "expected one of: a",
        ),
        (
            "many.json",
            json.dumps({"columns": ["a", "b", "bb"], "mean": [0] * 3, "F": [[1]] * 3, "psi": [1] * 3}).encode(),
            "--truth-model: many.json has a column 'bb', which run 'run' does not model",
            "did you mean 'b'?",
        ),
        ("rows.csv", None, "rows.csv: not JSON (line 1", "for example"),
    ],
)
def test_truths_that_cannot_be_used(
    vgi: Vgi, run: Path, name: str, content: bytes | None, error: str, hint: str
) -> None:
    if content is not None:
        Path(name).write_bytes(content)
    ask = ["evaluate", "--checkpoint", "run", "rows.csv"]
    found, suggestion = refused(vgi, *ask, "--truth-model", name)
    assert found.startswith(error) and hint in suggestion


def test_folders_and_runs_that_are_no_truth(vgi: Vgi, run: Path) -> None:
    ask = ["evaluate", "--checkpoint", "run", "rows.csv"]
    Path("folder").mkdir()
    assert refused(vgi, *ask, "--truth-model", "folder")[0] == "'folder' is not a run: it has no manifest.json"
    Path("same.csv").write_text("a,b\n1,2\n1,2\n,2\n")
    assert vgi("fit", "same.csv", "--out", "none").code == 0
    found, _ = refused(vgi, *ask, "--truth-model", "none")
    assert found == "--truth-model: run 'none' models no column: there is no density to compare"
    found, _ = refused(vgi, "evaluate", "--checkpoint", "none", "same.csv", "--truth-model", "law.json")
    assert found == "run 'none' models no column: there is no density to compare"
    Path("data.csv").write_text(text())
    assert vgi("fit", "data.csv", *FA, "--out", "other").code == 0
    found, _ = refused(vgi, *ask, "--truth-model", "other")
    assert found == "--truth-model: other has a column 'count', which run 'run' does not model"


def test_conditionals_by_column(vgi: Vgi, law: Path) -> None:
    assert vgi("fit", law, *TINY_VGI, "--out", "run").code == 0
    ask = ["evaluate", "--checkpoint", "run", "rows.csv", "--conditionals"]
    done = vgi(*ask, "--json")
    part = json.loads(done.out)["conditionals"]
    assert (part["rows"], part["estimator"], part["sampler"]) == (300, "closed form", "exact")
    assert list(part["columns"]) == ["a", "b"]
    for column in part["columns"].values():
        for what in ("kl", "wasserstein"):
            assert 0 < column[what]["median"] <= column[what]["q90"]
    assert json.loads(vgi(*ask, "--json", "--force").out)["conditionals"] == part
    other = json.loads(vgi(*ask, "--json", "--force", "--seed", "5").out)["conditionals"]
    assert other["kl"] != part["kl"] and other["rows"] == 300
    page = vgi(*ask, "--force").out
    assert "on 300 rows, holes filled by sampler exact, closed form." in page
    assert f"| a | {part['columns']['a']['kl']['median']:.4g} |" in page and "| overall |" in page
    done = vgi(*ask, "--force", "--fail-if", "conditionals.columns.a.kl.median >= 0")
    assert done.code == 3
    with_truth = [*ask, "--truth-model", "law.json", "--force"]
    report = json.loads(vgi(*with_truth, "--json").out)
    truth = report["conditionals"].pop("truth")
    assert report["conditionals"] == part and report["truth"]["model"] == "law.json"
    assert (truth["rows"], truth["estimator"], list(truth["columns"])) == (300, "closed form", ["a", "b"])
    assert truth["kl"]["median"] != part["kl"]["median"] and "warning" not in truth
    page = vgi(*with_truth).out
    assert "The same q against the truth's p(column | rest), KL(q ‖ truth): on the same rows, closed form." in page
    assert f"| a | {truth['columns']['a']['kl']['median']:.4g} |" in page
    assert vgi(*with_truth, "--fail-if", "conditionals.truth.columns.b.kl.q90 >= 0").code == 3
    error, hint = refused(vgi, *ask, "--fail-if", "conditionals.truth.kl.median > 1")
    assert "the report has no number 'conditionals.truth.kl.median'" in error and hint == "--truth-model adds it"


@pytest.mark.parametrize("model", first(1, ["flow", "mixture"]))
def test_conditionals_by_quadrature_on_few_rows(vgi: Vgi, law: Path, model: str) -> None:
    size = {"flow": "model.steps=1", "mixture": "model.components=2"}[model]
    few = [flag for flag in TINY_VGI if flag != "model.factors=1"]
    few[few.index("--method") - 1] = model
    few.remove("--set")
    few += ["--set", size]
    assert vgi("fit", law, *few, "--out", "run").code == 0
    Path("few.csv").write_text("a,b\n0.5,1\n1,\n-1,0\n")
    report = json.loads(vgi("evaluate", "--checkpoint", "run", "few.csv", "--conditionals", "--json").out)
    part = report["conditionals"]
    assert (part["rows"], part["estimator"]) == (3, "quadrature")
    assert part["sampler"] == {"flow": "metropolis", "mixture": "exact"}[model]
    assert all(math.isfinite(column["kl"]["q90"]) for column in part["columns"].values())


def test_conditionals_that_were_hardly_trained_are_warned_of(vgi: Vgi, law: Path) -> None:
    """Columns that all but determine each other: a conditional that starts as N(0, 1) is far too wide."""
    rng = np.random.default_rng(1)
    z = rng.normal(size=200)
    rows = [f"{a!r},{a + 0.05 * e!r}" for a, e in zip(z.tolist(), rng.normal(size=200).tolist(), strict=True)]
    Path("tight.csv").write_text("a,b\n" + "\n".join(rows) + "\n,0\n")
    assert vgi("fit", "tight.csv", *TINY_VGI, "--out", "run").code == 0
    Path("whole.csv").write_text("a,b\n" + "\n".join(rows) + "\n")
    done = vgi("evaluate", "--checkpoint", "run", "whole.csv", "--conditionals", "--json", "-q")
    part = json.loads(done.out)["conditionals"]
    assert "sampler" not in part and part["rows"] == 200  # complete rows: nothing was drawn
    assert part["columns"]["a"]["kl"]["median"] > 0.5
    (line,) = [line for line in done.err.splitlines() if "conditionals" in line]
    assert "the conditionals are far from the model's own (median KL above 0.5 nats: a " in line
    assert part["warning"] in line


def test_columns_without_holes_in_the_fit_are_left_out(vgi: Vgi, law: Path) -> None:
    """A row of which nothing is observed trains no conditional."""
    rng = np.random.default_rng(2)
    rows = [f"{a:.3f},{a + e:.3f}" for a, e in rng.normal(size=(40, 2))]
    Path("holes.csv").write_text("a,b\n" + "\n".join(rows) + "\n0.3,\n,\n")
    assert vgi("fit", "holes.csv", *TINY_VGI, "--out", "run").code == 0
    ask = ["evaluate", "--checkpoint", "run", "rows.csv", "--conditionals"]
    part = json.loads(vgi(*ask, "--json").out)["conditionals"]
    assert list(part["columns"]) == ["b"] and part["left_out"] == ["a"]
    assert part["kl"] == part["columns"]["b"]["kl"]
    line = "Left out, as without a hole in the fit no conditional is trained: a."
    assert line in vgi(*ask, "--force").out
    Path("whole.csv").write_text("a,b\n" + "\n".join(rows) + "\n,\n")
    assert vgi("fit", "whole.csv", *TINY_VGI, "--out", "complete").code == 0
    error, hint = refused(vgi, "evaluate", "--checkpoint", "complete", "rows.csv", "--conditionals")
    assert error == ("--conditionals: the rows of run 'complete' had no holes, so no conditional was trained")
    assert hint == "leave out --conditionals for this run"


def test_a_fine_tuned_run_is_compared_in_every_column(vgi: Vgi, law: Path) -> None:
    """Its rows may have no hole where the fit's had some."""
    assert vgi("fit", "rows.csv", *TINY_VGI, "--out", "run").code == 0
    rows = [line for line in Path("rows.csv").read_text().splitlines()[1:] if all(line.split(","))]
    Path("new.csv").write_text("a,b\n" + "\n".join(rows) + "\n,1.0\n")
    assert vgi("finetune", "--checkpoint", "run", "new.csv", "--epochs", "1", "--out", "tuned").code == 0
    done = vgi("evaluate", "--checkpoint", "tuned", "rows.csv", "--conditionals", "--json")
    part = json.loads(done.out)["conditionals"]
    assert list(part["columns"]) == ["a", "b"] and "left_out" not in part


def test_conditionals_need_a_run_that_has_them(vgi: Vgi, run: Path) -> None:
    error, hint = refused(vgi, "evaluate", "--checkpoint", "run", "rows.csv", "--conditionals")
    assert error == "run 'run' was fitted by 'em', which leaves no conditionals to compare"
    assert hint.endswith("comparing them needs a fit by vgi or vbgi")
    Path("same.csv").write_text("a,b\n1,2\n1,2\n,2\n")
    assert vgi("fit", "same.csv", "--out", "none").code == 0
    error, hint = refused(vgi, "evaluate", "--checkpoint", "none", "same.csv", "--conditionals")
    assert error == "run 'none' models no column: none of its table's columns varied"
    assert hint.endswith("nothing can be compared")


def test_values_with_a_probability_of_their_own_have_no_density(vgi: Vgi, law: Path) -> None:
    rng = np.random.default_rng(0)
    rows = np.column_stack([np.maximum(rng.normal(size=80), 0), rng.normal(size=80)])
    Path("rain.csv").write_text("a,b\n" + "\n".join(",".join(map(repr, row)) for row in rows.tolist()) + "\n")
    assert vgi("fit", "rain.csv", *FA, "--out", "rain").code == 0
    error, hint = refused(vgi, "evaluate", "--checkpoint", "rain", "rain.csv", "--truth-model", "law.json")
    assert error.startswith("--truth-model: run 'rain' gives 0 in column 'a' a probability of its own")
    assert hint == "leave --truth-model out, or --exclude the column from both fits"


def test_codes_have_no_density(vgi: Vgi, law: Path) -> None:
    rng = np.random.default_rng(0)
    rows = zip(rng.choice([3, 4, 5, 8], 80).tolist(), rng.normal(size=80).tolist(), strict=True)
    Path("site.csv").write_text("a,b\n" + "\n".join(f"{a},{b!r}" for a, b in rows) + "\n")
    assert vgi("fit", "site.csv", *FA, "--out", "site").code == 0
    error, hint = refused(vgi, "evaluate", "--checkpoint", "site", "site.csv", "--truth-model", "law.json")
    assert error.startswith(
        "--truth-model: run 'site' fills column 'a' with the few values that occur, so that its law"
    )
    assert hint == "leave --truth-model out, or --exclude the column from both fits"
