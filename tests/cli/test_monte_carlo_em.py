"""`--method mcem` and `--method plmcmc` from fit to report, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.test_refusals import text
from tests.clocks import ticking
from tests.program import Vgi, fit_once
from vgi_cli.runs.folder import RunFolder
from vgi_cli.samplers import plmcmc

PLMCMC = (
    *("--model", "flow", "--method", "plmcmc", "--epochs", "3", "--set", "model.steps=1", "--set", "model.hidden=4"),
    *("--set", "method.steps=[[0, 5]]", "--set", "method.imputations=2", "--threads", "1"),
)
MCEM = (
    *("--model", "fa", "--method", "mcem", "--epochs", "3", "--set", "model.factors=1"),
    *("--set", "method.imputations=2", "--set", "bootstrap=none", "--threads", "1"),
)


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains of `vgi impute` that are as short as these tests."""
    monkeypatch.setattr(plmcmc, "FEWEST_STEPS", 10)
    monkeypatch.setattr(plmcmc, "STEPS_PER_COLUMN", 1)


@pytest.fixture
def data(vgi: Vgi) -> Path:
    Path("data.csv").write_text(text())
    Path("new.csv").write_text(text(9, seed=3))
    return Path("data.csv")


@pytest.fixture
def flow_run(vgi: Vgi, data: Path) -> Path:
    return fit_once(vgi, "data.csv", *PLMCMC)


def test_plmcmc_run_imputes_and_evaluates(vgi: Vgi, flow_run: Path) -> None:
    lines = [json.loads(line) for line in (flow_run / "metrics.jsonl").read_text().splitlines()]
    assert [line["metropolis_steps"] for line in lines] == [5.0, 5.0, 5.0]
    assert all(line["strain"] > 0 and 0 <= line["acceptance"] <= 1 for line in lines)
    for more in ([], ["new.csv"]):
        done = vgi("impute", "--checkpoint", "run", *more, "--m", "2", "-o", f"out{len(more)}.csv", "-v")
        assert done.code == 0 and "sampler plmcmc: chains" in done.err
        filled = Path(f"out{len(more)}.1.csv").read_text()
        assert filled != Path(f"out{len(more)}.2.csv").read_text() and ",," not in filled
    done = vgi("impute", "--checkpoint", "run", "--sampler", "chains", "--m", "2", "-o", "held.csv")
    assert done.code == 0 and Path("held.2.csv").exists()
    report = vgi("evaluate", "--checkpoint", "run", "new.csv", "--json")
    assert report.code == 0 and json.loads(report.out)["loglik"]["estimator"] == "annealed"


def test_chains_that_have_not_arrived_are_said_once(vgi: Vgi, data: Path) -> None:
    """Also where the last epoch has no round of its own."""
    rare = ["--set", "method.first=0", "--set", "method.every=1"]
    done = vgi("fit", "data.csv", *PLMCMC, *rare, "--out", "far")
    assert (
        done.code == 0
        and done.err.count("warning: the imputations of the fit do not follow their rows yet (strain ") == 1
    )
    assert "strain" not in json.loads(Path("far/metrics.jsonl").read_text().splitlines()[-1])
    wide = ["--set", "method.auxiliary_std=9", "--set", "method.perturb_std=1"]
    done = vgi("fit", "data.csv", *PLMCMC, *wide, "--out", "near")
    assert done.code == 0 and "target" not in done.err


def test_plmcmc_run_has_nothing_to_fine_tune_and_no_metropolis_sampler(vgi: Vgi, flow_run: Path) -> None:
    refused = vgi("finetune", "--checkpoint", "run", "new.csv")
    assert refused.code == 2 and "fitted by 'plmcmc', which leaves no conditionals" in refused.error
    refused = vgi("impute", "--checkpoint", "run", "--sampler", "metropolis")
    assert refused.code == 2 and "needs fitted conditionals" in refused.error


def test_plmcmc_holds_nothing_out_and_stops_inside_a_round(
    vgi: Vgi, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = [flag for flag in PLMCMC if flag not in ("--epochs", "3")]
    flags[flags.index("method.steps=[[0, 5]]")] = "method.steps=[[0, 100000]]"
    ticking(monkeypatch, 0.05)
    done = vgi("fit", "data.csv", *flags, "--time-limit", "2s", "--out", "run")
    assert done.code == 0 and "held-out" not in done.err
    manifest = RunFolder.open(Path("run")).manifest
    assert manifest["stopped_by"] == "time_limit" and manifest["timings"]["command_seconds"] < 2


def test_mcem_run_has_exact_draws(vgi: Vgi, data: Path) -> None:
    assert vgi("fit", "data.csv", *MCEM, "--out", "run").code == 0
    done = vgi("impute", "--checkpoint", "run", "new.csv", "--m", "1", "-o", "out.csv", "-v")
    assert done.code == 0 and "sampler exact" in done.err
    assert vgi("impute", "--checkpoint", "run", "--sampler", "chains", "--m", "2", "-o", "held.csv").code == 0
    report = vgi("evaluate", "--checkpoint", "run", "new.csv", "--json")
    assert report.code == 0 and json.loads(report.out)["loglik"]["estimator"] == "exact"


def test_pairs_that_cannot_work_are_refused_before_data_are_read(vgi: Vgi) -> None:
    Path("unread.csv").write_bytes(b"\0\0\0")  # refused as soon as it is read
    refused = vgi("fit", "unread.csv", "--model", "fa", "--method", "plmcmc")
    assert refused.code == 2 and "needs an invertible map, which model 'fa' does not have" in refused.error
    refused = vgi("fit", "unread.csv", "--model", "flow", "--method", "mcem")
    assert refused.code == 2 and "needs exact marginals under any mask" in refused.error
    assert "--method mcem works with --model fa or mixture" in refused.err
