"""mvae, miwae, hivae and partial-vae through the commands: what they set of the model, what is refused."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from tests.cli.test_refusals import refused, text
from tests.cli.test_works import cells
from tests.program import Vgi
from tests.selection import some
from tests.tensors import same_tensors
from vgi_cli.fitting.fitted import load_run
from vgi_cli.reporting import Silent

SMALL = [
    *("--set", "bootstrap=none"),
    *("--epochs", "3", "--threads", "1", "--set", "model.encoder=[4]", "--set", "model.decoder=[4]"),
    *("--set", "optim.batch_size=16"),
]
SETS = ["--set", "model.cell=[4, 4]", "--set", "model.embedding=3"]


def small(method: str) -> list[str]:
    return SMALL + (SETS if method == "partial-vae" else [])


METHODS = {
    "mvae": "encoding: masked",
    "miwae": "samples: 50",
    "hivae": "prior: mixture",
    "partial-vae": "encoding: set",
}
every = pytest.mark.parametrize("method", METHODS)
few = pytest.mark.parametrize("method", some(["miwae", "mvae"], METHODS))
"""The others take the same way through the commands; their fits are those of tests/methods/."""


@pytest.fixture
def data(vgi: Vgi) -> Path:
    Path("data.csv").write_text(text())
    return Path("data.csv")


@few
def test_fit_resume_evaluate_and_impute(vgi: Vgi, data: Path, method: str) -> None:
    flags = ["--model", "vae", "--method", method, *small(method)]
    assert vgi("fit", "data.csv", *flags, "--out", "run").code == 0
    assert METHODS[method] in Path("run/recipe.yaml").read_text()
    fitted = load_run(Path("run"), Silent())
    assert fitted.recipe.method.name == method and fitted.recipe.model.name == "vae"
    assert vgi("fit", "--recipe", "run/recipe.yaml", "--out", "again").code == 0
    assert same_tensors(fitted.model.state_dict(), load_run(Path("again"), Silent()).model.state_dict())
    ask = ["evaluate", "--checkpoint", "run", "data.csv", "--json", "--samples", "100", "--refit-epochs", "3"]
    loglik = json.loads(vgi(*ask).out)["loglik"]
    assert loglik["estimator"] == "iwae" and loglik["refit_epochs"] == 3 and loglik["incomplete"]["rows"] == 2
    done = vgi("impute", "--checkpoint", "run", "--m", "2", "-o", "out.csv", "-v")
    assert done.code == 0 and "sampler latent" in done.err
    assert all(all(row) for row in cells("out.1.csv"))
    assert vgi("fit", "--resume", "--out", "run", "--epochs", "4").code == 0


@pytest.mark.parametrize(
    ("method", "select"), some([("miwae", "objective"), ("mvae", "loglik")], product(METHODS, ["loglik", "objective"]))
)
def test_held_out_rows_select(vgi: Vgi, data: Path, method: str, select: str) -> None:
    flags = ["--model", "vae", "--method", method, *small(method), "--val", "0.4", "--select", select, "--out", "run"]
    assert vgi("fit", "data.csv", *flags).code == 0
    lines = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    assert len({line[f"val_{select}"] for line in lines}) == 3


@few
def test_a_method_without_a_model_takes_one_that_works(vgi: Vgi, data: Path, method: str) -> None:
    done = vgi("fit", "data.csv", "--method", method, "--epochs", "1", "--threads", "1", "--out", "run")
    assert done.code == 0
    assert "vae has what this method needs: latent variables" in done.err


@pytest.mark.parametrize("model", ["fa", "mixture", "flow"])
@every
def test_other_models_are_refused_with_what_would_work(vgi: Vgi, data: Path, method: str, model: str) -> None:
    error, hint = refused(vgi, "fit", "data.csv", "--model", model, "--method", method)
    assert error.startswith(f"method '{method}' needs latent variables")
    assert error.endswith(f"which model '{model}' does not have")
    assert hint.startswith(f"with --model {model} use --method ") and hint.endswith(f"{method} works with --model vae")


@pytest.mark.parametrize(
    ("method", "setting", "error", "hint"),
    [
        (
            "hivae",
            "model.prior=normal",
            "--set: model.prior=normal, but method 'hivae' is made by model.prior=mixture",
            "leave it out, or take another --method",
        ),
        (
            "partial-vae",
            "model.encoding=masked",
            "--set: model.encoding=masked, but method 'partial-vae' is made by model.encoding=set",
            "leave it out, or take another --method",
        ),
        ("miwae", "method.samples=0", "--set: method.samples: expected a whole number from 1 to 10000, got 0", ""),
        ("mvae", "method.samples=5", "--set: unknown key 'method.samples' for method 'mvae'", ""),
        (
            "hivae",
            "method.temperature=0",
            "--set: method.temperature: expected a number above 0, at most 1000, got 0",
            "",
        ),
        ("mvae", "model.prior=mixed", "--set: model.prior: expected 'normal' or 'mixture', got 'mixed'", "mixture"),
        ("mvae", "model.cell=[]", "--set: model.cell", ""),
    ],
)
def test_settings_that_cannot_be_used(vgi: Vgi, data: Path, method: str, setting: str, error: str, hint: str) -> None:
    found, suggestion = refused(vgi, "fit", "data.csv", "--model", "vae", "--method", method, "--set", setting)
    assert found.startswith(error)
    assert hint in suggestion


def test_a_model_without_the_setting_that_a_method_fixes_is_refused(vgi: Vgi, data: Path) -> None:
    """A model with latents from elsewhere, whose encoder is of one kind."""
    Path("own.py").write_text(
        "from vgi_cli import register_model\n"
        "from vgi_cli.models.base import ModelConfig\n"
        "from vgi_cli.models.vae.vae import VaeConfig, VariationalAutoencoder\n"
        "class Own(VariationalAutoencoder):\n"
        "    Config = ModelConfig\n"
        "    @classmethod\n"
        "    def build(cls, config, D):\n"
        "        return cls(VaeConfig(latents=1, encoder=(3,), decoder=(3,)), D)\n"
        "register_model('own', Own, about='an autoencoder', method='mvae')\n"
    )
    flags = ["--plugin", "own.py", "--model", "own"]
    error, hint = refused(vgi, "fit", "data.csv", *flags, "--method", "partial-vae")
    assert error == "method 'partial-vae' needs model.encoding=set, a setting that model 'own' does not have"
    assert hint == "take another --method or --model"
    assert vgi("fit", "data.csv", *flags, "--epochs", "1", "--threads", "1", "--out", "run").code == 0
