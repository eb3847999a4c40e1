"""A variational autoencoder through every command."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from tests.cli.test_refusals import FA, refused, text
from tests.cli.test_works import cells
from tests.program import Vgi
from vgi_cli.runs.folder import RunFolder

VAE = [
    *("--set", "bootstrap=none"),
    *("--model", "vae", "--method", "vgi", "--epochs", "3", "--threads", "1"),
    *("--set", "model.encoder=[4]", "--set", "model.decoder=[4]"),
    *("--set", "optim.warmup_conditionals=1", "--set", "optim.warmup_model=1"),
    *("--set", "method.trunk=[4]", "--set", "method.hidden=[4]"),
]


@pytest.fixture
def data(vgi: Vgi) -> Path:
    Path("data.csv").write_text(text())
    return Path("data.csv")


@pytest.mark.full_fits("samplers.latent.SWEEPS")
def test_fit_evaluate_and_finetune(vgi: Vgi, data: Path) -> None:
    done = vgi("fit", "data.csv", *VAE, "--out", "run")
    assert done.code == 0, done.err
    recipe = Path("run/recipe.yaml").read_text()
    assert "accept: gibbs" in recipe
    ask = ["evaluate", "--checkpoint", "run", "data.csv", "--json", "--samples", "400"]
    loglik = json.loads(vgi(*ask, "--refit-epochs", "2", "--force").out)["loglik"]
    assert (loglik["estimator"], loglik["particles"], loglik["refit_epochs"]) == ("iwae", 400, 2)
    assert loglik["ess"] > 1 and loglik["half_budget"] <= loglik["mean"]
    assert loglik["complete"]["rows"] == 28 and loglik["incomplete"]["rows"] == 2
    assert json.loads(vgi(*ask, "--refit-epochs", "2", "--force").out)["loglik"] == loglik
    plain = json.loads(vgi(*ask, "--refit-epochs", "0", "--force").out)["loglik"]
    assert plain["refit_epochs"] == 0 and plain["mean"] == pytest.approx(loglik["mean"], abs=0.5)
    page = vgi(*[word for word in ask if word != "--json"], "--refit-epochs", "1", "--force").out
    assert "fine-tuned to these rows for 1 epoch, the decoder frozen" in page
    page = vgi(*[word for word in ask if word != "--json"], "--refit-epochs", "2", "--force").out
    assert "importance-weighted bound, 400 draws of the latents a row" in page
    assert "fine-tuned to these rows for 2 epochs" in page
    assert vgi("finetune", "--checkpoint", "run", "data.csv", "--epochs", "1", "--out", "tuned").code == 0
    before, after = (RunFolder.open(Path(run)).tensors("model") for run in ("run", "tuned"))
    changed = {name.split(".")[0] for name, value in after.items() if not torch.equal(value, before[name])}
    assert "encoder" in changed and changed <= {"encoder", "noise"}  # the counter of random numbers goes on
    done = vgi("impute", "--checkpoint", "tuned", "--m", "2", "-o", "out.csv", "-v")
    assert done.code == 0 and "sampler latent: chains 4, sweeps 100, acceptance encoder" in done.err
    assert all(all(row) for row in cells("out.1.csv"))


def test_vbgi_is_the_default_method_and_says_why(vgi: Vgi, data: Path) -> None:
    done = vgi("fit", "data.csv", "--model", "vae", "--epochs", "1", "--threads", "1", "--out", "run")
    assert done.code == 0, done.err
    how = "fitting by variational Gibbs inference by blocks (an autoencoder has no exact method)"
    assert how in done.err.splitlines()


@pytest.mark.parametrize("select", ["loglik", "objective"])
def test_validation_selects(vgi: Vgi, data: Path, select: str) -> None:
    assert vgi("fit", "data.csv", *VAE, "--val", "0.4", "--select", select, "--out", "run").code == 0
    lines = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    scores = [line[f"val_{select}"] for line in lines if line["stage"] == "main"]
    assert len(scores) == 3 and len(set(scores)) == 3
    assert RunFolder.open(Path("run")).manifest["progress"]["best_score"] == max(scores)


def test_held_out_rows_choose_the_epochs(vgi: Vgi, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgi_cli.methods.optimisation.STEPS", 20)
    Path("data.csv").write_text(text(rows=60))
    flags = [flag for i, flag in enumerate(VAE) if "--epochs" not in VAE[max(0, i - 1) : i + 1]]
    done = vgi("fit", "data.csv", *flags, "--out", "run")
    assert done.code == 0, done.err
    (more,) = re.findall(r"held-out rows .*; now all rows, for (\d+) epoch", done.err)
    (epochs,) = re.findall(r"the fit has done its (\d+) epoch", done.err)
    assert 1 <= int(more) < int(epochs) <= 20


@pytest.mark.parametrize("flags", [["--samples", "100"], ["--refit-epochs", "3"]])
def test_what_belongs_to_latents_is_refused_elsewhere(vgi: Vgi, data: Path, flags: list[str]) -> None:
    assert vgi("fit", "data.csv", *FA, "--out", "run").code == 0
    error, hint = refused(vgi, "evaluate", "--checkpoint", "run", "data.csv", *flags)
    assert (error, hint) == (f"{flags[0]} belongs to models with latents (vae)", "leave it out")


def test_numbers_that_cannot_be(vgi: Vgi, data: Path) -> None:
    assert vgi("fit", "data.csv", *VAE, "--out", "run").code == 0
    ask = ["evaluate", "--checkpoint", "run", "data.csv"]
    assert refused(vgi, *ask, "--samples", "0")[0] == "--samples: expected a whole number from 1 to 1000000, got 0"
    assert (
        refused(vgi, *ask, "--refit-epochs", "-1")[0]
        == "--refit-epochs: expected a whole number from 0 to 1000000, got -1"
    )


def test_a_complete_table_by_complete(vgi: Vgi, data: Path) -> None:
    rows = [row for row in cells("data.csv") if all(row)]
    Path("full.csv").write_text("\n".join(",".join(row) for row in rows) + "\n")
    flags = ["--model", "vae", "--method", "complete", "--epochs", "2", "--threads", "1", "--out", "run"]
    assert vgi("fit", "full.csv", *flags).code == 0
    ask = ["evaluate", "--checkpoint", "run", "data.csv", "--json", "--samples", "50", "--refit-epochs", "1"]
    assert vgi(*ask).code == 0
    assert vgi("impute", "--checkpoint", "run", "data.csv", "--m", "1", "-o", "out.csv").code == 0
    assert all(all(row) for row in cells("out.1.csv"))


def test_conditionals_are_compared_with_those_of_the_decoder(
    vgi: Vgi, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vgi_cli.evaluation.latent_columns.DRAWS", 60)
    monkeypatch.setattr("vgi_cli.evaluation.likelihood.refit.MOST_EPOCHS", 3)
    Path("data.csv").write_text(text(rows=8))
    assert vgi("fit", "data.csv", *VAE, "--out", "run").code == 0
    ask = ["--conditionals", "--json", "--samples", "50", "--refit-epochs", "1"]
    done = vgi("evaluate", "--checkpoint", "run", "data.csv", *ask)
    part = json.loads(done.out)["conditionals"]
    assert (part["rows"], part["estimator"]) == (8, "quadrature and importance sampling")
    assert part["sampler"] == "latent" and part["ess"]["q10"] <= part["ess"]["median"] <= 1000
    assert set(part["columns"]) == {"a", "b"} and part["left_out"] == ["count"]
    plain = ["--model", "vae", "--method", "vbgi", "--epochs", "1", "--threads", "1", "--set", "optim.warmup_model=1"]
    assert vgi("fit", "data.csv", *plain, "--out", "blocks").code == 0
    error, _ = refused(vgi, "evaluate", "--checkpoint", "blocks", "data.csv", "--conditionals")
    assert error == "--conditionals compares conditionals of single columns, these redraw blocks of several"
