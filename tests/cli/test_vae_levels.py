"""Numbers, categories and a scale by an autoencoder, through the commands: every method, resume, samplers."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tests.program import Vgi
from tests.selection import first
from tests.tensors import same_tensors
from vgi_cli.fitting.fitted import load_run
from vgi_cli.reporting import Silent

KINDS = ["--column", "sex=categorical", "--column", "kind=categorical", "--column", "grade=ordinal:low,mid,high"]
SMALL = [
    *("--set", "bootstrap=none"),
    *("--model", "vae", "--epochs", "2", "--threads", "1", "--set", "model.encoder=[4]", "--set", "model.decoder=[4]"),
    *("--set", "optim.batch_size=16", "--set", "model.latents=2"),
]
WARM = ["--set", "optim.warmup_model=1"]
METHODS = {
    "vgi": [*WARM, "--set", "optim.warmup_conditionals=1", "--set", "method.trunk=[4]", "--set", "method.hidden=[4]"],
    "vbgi": [*WARM, "--set", "method.trunk=[4]"],
    "vbgi-m": WARM,
    "mvae": [],
    "miwae": ["--set", "method.samples=3"],
    "hivae": [],
    "partial-vae": ["--set", "model.cell=[4, 4]", "--set", "model.embedding=3"],
    "complete": [],
    "impute-then-fit": ["--imputer", "empirical"],
}
LEVELS = {"sex": {"f", "m"}, "kind": {"a", "b", "c", "d"}, "grade": {"low", "mid", "high"}}


@pytest.fixture
def tables(vgi: Vgi) -> None:
    """complete.csv, and data.csv with holes in it."""
    rng = np.random.default_rng(0)
    kind, scale = rng.integers(0, 4, 40), ["low", "mid", "high", "high"]
    cells = [
        [
            f"{k + rng.normal():.2f}",
            "fm"[int(rng.random() < 0.2 * (k + 1))],
            "abcd"[k],
            scale[k],
        ]
        for k in kind
    ]
    for name, share in (("complete", 0.0), ("data", 0.25)):
        rows = [[cell if rng.random() >= share else "" for cell in row] for row in cells]
        text = "\n".join(",".join(row) for row in [["x", "sex", "kind", "grade"], *rows])
        Path(f"{name}.csv").write_text(text + "\n")


def read(name: str) -> list[dict[str, str]]:
    with Path(name).open() as file:
        return list(csv.DictReader(file))


QUICK = ("vbgi",)


@pytest.mark.parametrize(
    "method", [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in METHODS]
)
def test_fit_impute_and_evaluate(vgi: Vgi, tables: None, method: str) -> None:
    data = "complete.csv" if method == "complete" else "data.csv"
    done = vgi("fit", data, *KINDS, *SMALL, "--method", method, *METHODS[method], "--out", "run")
    assert done.code == 0, done.err
    done = vgi("impute", "data.csv", "--checkpoint", "run", "--m", "2", "-o", "out.csv")
    assert done.code == 0, done.err
    before, filled = read("data.csv"), [read("out.1.csv"), read("out.2.csv")]
    for out in filled:
        for row, had in zip(out, before, strict=True):
            assert all(not had[name] or had[name] == row[name] for name in had)
            assert all(row[name] in levels for name, levels in LEVELS.items()) and float(row["x"]) < 100
    assert filled[0] != filled[1]
    ask = ["evaluate", "data.csv", "--checkpoint", "run", "--truth", "complete.csv", "--json", "--samples", "20"]
    done = vgi(*ask, "--refit-epochs", "1")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert report["loglik"]["estimator"] == "iwae" and -20 < report["loglik"]["mean"] < 0
    assert {"x", *LEVELS} == set(report["imputation"]["columns"])


@pytest.mark.parametrize("method", first(1, ["vbgi", "hivae"]))
def test_a_fit_resumes_bit_for_bit(vgi: Vgi, tables: None, method: str) -> None:
    steady = ["--set", "optim.schedule=constant", "--set", "optim.average=0"]
    flags = [*KINDS, *SMALL, "--method", method, *METHODS[method], *steady]
    assert vgi("fit", "data.csv", *flags, "--epochs", "4", "--out", "whole").code == 0
    assert vgi("fit", "data.csv", *flags, "--out", "part").code == 0
    assert vgi("fit", "--resume", "--epochs", "4", "--out", "part").code == 0
    whole, part = (load_run(Path(name), Silent()).model.state_dict() for name in ("whole", "part"))
    assert same_tensors(whole, part)


def test_the_samplers_of_a_fit_with_conditionals(vgi: Vgi, tables: None) -> None:
    assert vgi("fit", "data.csv", *KINDS, *SMALL, "--method", "vgi", *METHODS["vgi"], "--out", "run").code == 0
    for sampler in ("latent", "gibbs", "chains"):
        ask = ["impute", "--checkpoint", "run", "--sampler", sampler, "--m", "1", "-o", f"{sampler}.csv"]
        done = vgi(*ask)
        assert done.code == 0, done.err
        assert all(row[name] in levels for row in read(f"{sampler}.1.csv") for name, levels in LEVELS.items())
