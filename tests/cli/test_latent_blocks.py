"""vbgi, vbgi-m and a corrected chain of vgi on an autoencoder, through every command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.test_refusals import refused, text
from tests.cli.test_works import cells
from tests.program import Vgi
from vgi_cli.runs.folder import RunFolder

VAE = [
    *("--set", "bootstrap=none"),
    *("--model", "vae", "--epochs", "2", "--threads", "1", "--set", "model.encoder=[4]", "--set", "model.decoder=[4]"),
    *("--set", "optim.warmup_model=1"),
]
WAYS = {
    "vbgi": ["--method", "vbgi", "--set", "method.trunk=[4]"],
    "single": ["--method", "vbgi", "--set", "method.cells=single", "--set", "method.hidden=[4]"],
    "vbgi-m": ["--method", "vbgi-m"],
    "vgi": [*("--method", "vgi", "--set", "method.accept=metropolis", "--set", "optim.warmup_conditionals=1")],
}


@pytest.fixture
def data(vgi: Vgi) -> Path:
    Path("data.csv").write_text(text())
    Path("new.csv").write_text("a,b,count\n,0.5,\n0.1,,4\n,,\n")
    return Path("data.csv")


@pytest.mark.parametrize("way", [pytest.param(way, marks=[pytest.mark.slow] * (way != "vgi")) for way in WAYS])
def test_fit_resume_impute_and_finetune(vgi: Vgi, data: Path, way: str) -> None:
    done = vgi("fit", "data.csv", *VAE, *WAYS[way], "--out", "run")
    assert done.code == 0, done.err
    run = RunFolder.open(Path("run"))
    assert run.recipe().table.blocks is None and "redrawn" not in done.err
    last = json.loads(Path("run/metrics.jsonl").read_text().splitlines()[-1])
    assert len(last["acceptance"]) == 3 and ("acceptance_latents" in last) == (way != "vgi")
    done = vgi("fit", "data.csv", "--resume", "--out", "run", "--epochs", "3")
    assert done.code == 0 and RunFolder.open(Path("run")).manifest["epochs"] == 3, done.err
    samplers = {"auto": "latent", "chains": "chains"} | ({} if way == "vbgi-m" else {"gibbs": "gibbs"})
    for said, used in samplers.items():
        done = vgi("impute", "--checkpoint", "run", "--sampler", said, "--m", "2", "-o", f"{said}.csv", "--force", "-v")
        assert done.code == 0 and (used == "chains" or f"sampler {used}" in done.err), done.err
        assert all(all(row) for row in cells(f"{said}.1.csv")) and cells(f"{said}.1.csv") != cells(f"{said}.2.csv")
    if way == "vbgi-m":
        error, hint = refused(vgi, "finetune", "--checkpoint", "run", "new.csv")
        assert "which leaves no conditionals to fine-tune" in error and "a fit by vgi or vbgi" in hint
        return
    done = vgi("finetune", "--checkpoint", "run", "new.csv", "--epochs", "1", "--out", "tuned")
    assert done.code == 0, done.err
    for sampler in ("gibbs", "chains"):
        ask = ["--checkpoint", "tuned", "--sampler", sampler, "--m", "1", "-o", f"{sampler}.csv", "--force"]
        assert vgi("impute", *ask).code == 0
        assert all(all(row) for row in cells(f"{sampler}.1.csv"))
    done = vgi("evaluate", "--checkpoint", "run", "data.csv", "--objective", "--json", "--samples", "50")
    assert isinstance(json.loads(done.out)["objective"], float), done.err
