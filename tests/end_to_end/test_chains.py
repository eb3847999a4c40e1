"""Where the chains live changes no result, in fits, resumed fits and fine-tuned runs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import vgi_cli
from tests.program import Vgi
from tests.selection import first
from tests.tensors import same_tensors
from vgi_cli.api import Run
from vgi_cli.runs.folder import RunFolder

SMALL = {
    "optim.warmup_conditionals": 1,
    "optim.warmup_model": 1,
    "optim.batch_size": 32,
    "method.trunk": [8],
    "method.hidden": [8],
    "model.factors": 1,
    "bootstrap": "none",
}
PLACES = ["device", "host", "disk"]


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 1)) * [1.0, -1.0, 0.5, 2.0] + rng.normal(size=(150, 4))
    x[rng.random(x.shape) < 0.4] = np.nan
    x[5] = np.nan
    return pd.DataFrame(x, columns=list("abcd"))


def fit(frame: pd.DataFrame, out: Path, chains: str, **options: Any) -> Run:
    settings = {**SMALL, "method.chains": chains, **options.pop("set", {})}
    return vgi_cli.fit(frame, model="fa", method="vgi", threads=1, out=out, set=settings, **options)


def same(a: Run, b: Run) -> bool:
    parts = [RunFolder.open(run.path).parts() for run in (a, b)]
    return all(same_tensors(parts[0][stem], parts[1][stem]) for stem in parts[0])


def test_every_place_gives_the_same_run(frame: pd.DataFrame, tmp_path: Path) -> None:
    said: dict[str, list[str]] = {place: [] for place in PLACES}
    runs = [fit(frame, tmp_path / place, place, epochs=3, say=said[place].append) for place in PLACES]
    assert same(runs[0], runs[1]) and same(runs[0], runs[2])
    lines = [[line for line in said[place] if line.startswith("imputations of the fit: ")] for place in PLACES]
    assert lines[:2] == [[], []] and len(lines[2]) == 1
    assert lines[2][0].endswith(f"kB, kept in a file in {tmp_path}")
    tuned = [vgi_cli.finetune(run, frame.iloc[:60], epochs=1, out=tmp_path / f"tuned-{run.path.name}") for run in runs]
    assert same(tuned[0], tuned[2])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*PLACES, *(f"tuned-{p}" for p in PLACES)])


@pytest.mark.parametrize("before", first(1, ["disk", "device"]))
def test_a_fit_goes_on_with_its_chains_elsewhere(frame: pd.DataFrame, tmp_path: Path, before: str) -> None:
    whole = fit(frame, tmp_path / "whole", "device", epochs=3, set={"optim.schedule": "constant", "optim.average": 0.0})
    run = fit(frame, tmp_path / "run", before, epochs=1, set={"optim.schedule": "constant", "optim.average": 0.0})
    shutil.copytree(run.path, tmp_path / "copy")
    for name, after in (("run", "disk"), ("copy", "device")):
        options = {"method.chains": after}
        run = vgi_cli.fit(frame, out=tmp_path / name, resume=True, epochs=3, set=options)
        assert same(run, whole)
        assert RunFolder.open(run.path).recipe().method.settings["chains"] == after


def test_a_place_that_does_not_exist_is_refused(vgi: Vgi) -> None:
    Path("data.csv").write_text("a,b\n1,2\n,3\n2,\n")
    done = vgi("fit", "data.csv", "--model", "fa", "--method", "vgi", "--set", "method.chains=disc")
    assert done.code == 2 and done.hint == "did you mean 'disk'?"
    assert done.error == "--set: method.chains: expected 'auto', 'device', 'host' or 'disk', got 'disc'"


def test_the_place_is_a_detail_while_it_is_the_device(vgi: Vgi) -> None:
    rows = "\n".join(f"{i},{'' if i % 3 else i * 2}" for i in range(40))
    Path("data.csv").write_text(f"a,b\n{rows}\n")
    ask = ["fit", "data.csv", "--model", "fa", "--method", "vgi", "--epochs", "1", "--set", "model.factors=1"]
    ask += ["--set", "bootstrap=none", "--set", "optim.warmup_conditionals=1"]
    assert "chains:" not in vgi(*ask).err
    assert "imputations of the fit: 520 bytes on cpu" in vgi(*ask, "-v").err.splitlines()
