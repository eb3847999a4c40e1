"""What is measured of imputing chains is kept at the end of a fit, and used."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import vgi_cli
from tests.selection import covering
from vgi_cli.fitting import carry_out, chains, job
from vgi_cli.machine.work import TimeLimit
from vgi_cli.samplers import together

SMALL = {"model.steps": 1, "model.hidden": 8, "method.hidden": [8], "method.trunk": [8], "bootstrap": "none"}


def table(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.normal(size=(80, 3)) @ rng.normal(size=(3, 3)), columns=list("abc"))
    x.mask(rng.random(x.shape) < 0.3).to_csv(folder / "data.csv", index=False)
    return folder / "data.csv"


def test_a_fit_keeps_them_and_an_imputation_takes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = table(tmp_path)
    settings = {"model": "flow", "set": SMALL, "epochs": 2, "threads": 1}
    without = vgi_cli.fit(data, out=tmp_path / "without", **settings)
    assert not (tmp_path / "without" / "chains.safetensors").exists()  # too few steps
    monkeypatch.setattr(chains, "FEWEST_STEPS", 1)
    run = vgi_cli.fit(data, out=tmp_path / "run", **settings)
    assert "chains.safetensors" in run.manifest["files"]
    drawn = without.impute(m=2)

    def never(*_: object) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr(together, "stand_in", never)
    monkeypatch.setattr(together.Together, "_apart", never)
    for one, two in zip(drawn, run.impute(m=2), strict=True):
        pd.testing.assert_frame_equal(one, two)


def test_more_holes_than_were_fitted_are_measured_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "FEWEST_STEPS", 1)
    data = table(tmp_path)
    x = pd.read_csv(data)
    x[x.isna().sum(axis=1) < 2].to_csv(data, index=False)
    run = vgi_cli.fit(data, model="flow", set=SMALL, epochs=1, threads=1, out=tmp_path / "run")
    asked = []
    apart = together.Together._apart

    def counted(self: together.Together, holes: int, box: object) -> object:
        asked.append(holes)
        return apart(self, holes, box)

    monkeypatch.setattr(together.Together, "_apart", counted)
    run.impute(m=1)
    assert not asked
    run.impute(pd.DataFrame({"a": [0.1], "b": [None], "c": [None]}, dtype=float), m=1)
    assert asked == [2]


def test_a_fit_says_where_it_could_be_faster_on_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "unfused", lambda device: f"no kernels on {device}")
    said: list[str] = []
    vgi_cli.fit(
        table(tmp_path),
        model="flow",
        set=SMALL,
        epochs=1,
        threads=1,
        device="cpu",
        out=tmp_path / "run",
        say=said.append,
    )
    assert "no kernels on cpu" in said


@covering(pytest.mark.parametrize("before", [False, True]), pytest.mark.parametrize("method", ["vgi", "vbgi"]))
def test_a_time_limit_that_is_over_ends_the_measurement(
    tmp_path: Path, method: str, before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is over before it begins, or within; a line says so, and the manifest."""
    monkeypatch.setattr(chains, "FEWEST_STEPS", 1)
    owner, name = (carry_out, "fitted_of") if before else (together.Together, "tensors")
    whole = getattr(owner, name)

    def late(*inputs: Any) -> Any:
        monkeypatch.setattr(TimeLimit, "over", lambda _: True)
        return whole(*inputs)

    monkeypatch.setattr(owner, name, late)
    said: list[str] = []
    options = {"model": "flow", "method": method, "set": SMALL, "epochs": 1, "threads": 1, "time_limit": 600}
    run = vgi_cli.fit(table(tmp_path), out=tmp_path / "run", say=said.append, **options)  # type: ignore[arg-type]
    assert run.manifest["status"] == "finished"
    assert "chains.safetensors" not in run.manifest["files"]
    assert run.manifest["time_limit"] == {"seconds": 600.0, "ended_early": ["measuring imputing chains"]}
    line = "the time limit left no time to measure how long imputing chains have to run: the commands that run them do"
    assert said.count(line) == 1


def test_other_methods_keep_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "FEWEST_STEPS", 0)
    run = vgi_cli.fit(
        table(tmp_path), model="fa", method="em", set={"bootstrap": "none"}, threads=1, out=tmp_path / "run"
    )
    assert "chains.safetensors" not in run.manifest["files"]
