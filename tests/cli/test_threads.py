"""Fits that several processes share: `--threads`."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.program import Vgi
from vgi_cli.commands import sampling
from vgi_cli.commands.evaluate import likelihood
from vgi_cli.fitting.contest import contest, scoring
from vgi_cli.machine import workers as machine
from vgi_cli.runs.comparison import compared
from vgi_cli.samplers import latent

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are made on Linux only")
SAME = ("contest.json", "model.safetensors", "schema.json", "state.safetensors")
"""Files that hold neither paths nor times nor the number of threads."""


def both(rows: int = 100, hidden: float = 0.2) -> pd.DataFrame:
    """Numbers, one of them rounded, and levels that shift them; a share of the cells is missing."""
    rng = np.random.default_rng(3)
    group = rng.integers(3, size=rows)
    a = rng.normal(size=rows) + group
    b = np.round(2 * a + rng.normal(size=rows))
    c = np.exp(0.5 * a + 0.3 * rng.normal(size=rows))
    d = a - b / 3 + rng.normal(size=rows)
    frame = pd.DataFrame({"g": np.array(["p", "q", "r"])[group], "a": a.round(4), "b": b, "c": c, "d": d})
    return frame.mask(rng.random(frame.shape) < hidden)


@pytest.mark.parametrize(
    "also",
    [
        [],
        pytest.param(["--model", "mixture"], marks=pytest.mark.slow),
        pytest.param(["--model", "vae", "--epochs", "4", "--set", "bootstrap=3"], marks=pytest.mark.slow),
    ],
    ids=lambda a: "-".join(a[:2]),
)
def test_a_fit_is_the_same_by_any_number_of_processes(
    also: list[str], vgi: Vgi, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = ["g", "a", "b"]  # with these two models are compared
    both(60)[columns].to_csv("t.csv", index=False)
    if "vae" in also:
        both(150).to_csv("t.csv", index=False)
    teams: list[int] = []
    real = machine._Team.__init__
    monkeypatch.setattr(machine._Team, "__init__", lambda *a: (teams.append(a[3]), real(*a))[1])
    few = ("--set", "table.transform=linear")  # half as many models to compare
    for threads in ("1", "5"):
        result = vgi("fit", "t.csv", "--out", f"run{threads}", "--threads", threads, *few, *also)
        assert result.code == 0, result.err
        assert "warning" not in result.err
        assert bool(teams) is (threads != "1")
    assert (4 if "vae" in also else 5) == max(teams)  # never more than there are pieces
    for name in SAME:
        if not also or name != "contest.json":
            assert Path("run1", name).read_bytes() == Path("run5", name).read_bytes(), name
    if also:
        return
    more = ("impute", "--checkpoint", "run5", "--m", "8", "--format", "long")  # three refits more than there are
    again = [vgi(*more, "--threads", threads, "--out", f"m{threads}.csv") for threads in ("1", "3")]
    assert [one.code for one in again] == [0, 0]
    assert Path("m1.csv").read_bytes() == Path("m3.csv").read_bytes()
    for name, hidden in (("some", 0.2), ("full", 0.0)):
        both(60, hidden)[columns].head(20).to_csv(f"{name}.csv", index=False)
    scored = ("evaluate", "--checkpoint", "run5", "some.csv", "--truth", "full.csv", "--json")
    monkeypatch.setattr(sampling, "SHARED_CELLS", 1)
    monkeypatch.setattr("vgi_cli.fitting.refits.COUNT", 20)  # draws of evaluate use the refits again
    reports = []
    for threads, free in (("1", True), ("3", True), ("3", False)):
        teams.clear()
        if not free:  # no memory for a second process
            monkeypatch.setattr(machine, "free_ram", lambda: 0)
        report = json.loads(vgi(*scored, "--threads", threads).out)
        assert bool(teams) is (threads == "3" and free)
        reports.append({name: report[name] for name in ("imputation", "sampler")})
    far = [report["imputation"].pop("sliced_wasserstein") for report in reports]
    assert far == [pytest.approx(far[0], rel=1e-9)] * 3  # it is computed on so many threads
    assert reports[0] == reports[1] == reports[2] and reports[0]["sampler"]["cells"] > 0


SMALL = [word for key in ("model.blocks=0", "model.hidden=4", "model.steps=1") for word in ("--set", key)]
CHAINS = [
    ("flow", "metropolis", ["--set", "bootstrap=2", *SMALL]),
    pytest.param("flow", "gibbs", ["--set", "bootstrap=0", *SMALL], marks=pytest.mark.slow),
    pytest.param("vae", "latent", ["--set", "bootstrap=0"], marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("model", "sampler", "also"), CHAINS, ids=lambda a: a if isinstance(a, str) else a[1])
def test_chains_and_scores_are_the_same_by_any_number_of_processes(
    model: str, sampler: str, also: list[str], vgi: Vgi, monkeypatch: pytest.MonkeyPatch
) -> None:
    both(16).to_csv("t.csv", index=False)
    both(16, hidden=0.0).to_csv("full.csv", index=False)
    assert vgi("fit", "t.csv", "--model", model, "--epochs", "1", "--threads", "1", "--out", "run", *also).code == 0
    teams: list[int] = []
    real = machine._Team.__init__
    monkeypatch.setattr(machine._Team, "__init__", lambda *a: (teams.append(a[3]), real(*a))[1])
    monkeypatch.setattr(sampling, "SHARED_CELLS", 1)
    monkeypatch.setattr(likelihood, "FIRST", 3)
    monkeypatch.setattr(latent, "SWEEPS", 10)
    drawn = ("impute", "--checkpoint", "run", "--m", "4", "--sampler", sampler, "--format", "long")
    quick = ("--refit-epochs", "3") if model == "vae" else ()
    scored = ("evaluate", "--checkpoint", "run", "t.csv", "--truth", "full.csv", *quick, "--json")
    files, reports = [], []
    for threads in ("1", "3"):
        assert vgi(*drawn, "--threads", threads, "--out", f"m{threads}.csv").code == 0
        assert bool(teams) is (threads == "3")
        reports.append(json.loads(vgi(*scored, "--threads", threads).out))
        files.append(Path(f"m{threads}.csv").read_bytes())
    assert files[0] == files[1]
    assert len(teams) == 3, "draws, the draws that are compared with the truth, and the likelihood"
    for name in ("loglik", "sampler"):
        assert reports[0][name] == reports[1][name], name


def test_a_fit_that_is_stopped_keeps_what_its_processes_scored(vgi: Vgi, monkeypatch: pytest.MonkeyPatch) -> None:
    both(40)[["g", "a", "b"]].to_csv("t.csv", index=False)
    few = ("--set", "bootstrap=none", "--set", "trees=none", "--threads", "2")
    whole = vgi("fit", "t.csv", "--out", "whole", *few)
    assert whole.code == 0, whole.err
    here, real = os.getpid(), scoring.columns_of

    def stop(rows: object) -> object:
        with contextlib.suppress(FileExistsError):  # the first to come, of the second lot: the first is scored here
            if os.getpid() != here:
                Path("sent").touch(exist_ok=False)
                os.kill(here, signal.SIGINT)
        return real(rows)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(contest, "columns_of", stop)
        part = vgi("fit", "t.csv", "--out", "part", *few)
    assert part.code == 130 and "kept" in part.err
    assert compared(Path("part")) >= 1
    found = vgi("fit", "--resume", "--out", "part")
    assert found.code == 0, found.err
    assert "had been scored before the fit was stopped" in found.err
    for name in SAME[:3]:
        assert Path("part", name).read_bytes() == Path("whole", name).read_bytes(), name
    shutil.rmtree("part")
