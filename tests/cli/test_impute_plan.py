"""`vgi impute --dry-run`: what would be filled, how, and where to; what it says is what `vgi impute` then does."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import vgi_cli
from tests.program import Vgi


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table and a run of it."""
    folder = tmp_path_factory.mktemp("fitted")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 1)) + rng.normal(size=(40, 3)), columns=["a", "b", "c"]).round(3)
    frame = frame.mask(rng.random(frame.shape) < 0.2)
    frame["key"] = [f"k{i}" for i in range(40)]
    frame["note"] = ["free text of many words, no. " + str(i) if i % 4 else None for i in range(40)]
    frame.to_csv(folder / "t.csv", index=False)
    settings = {"model.factors": 1, "bootstrap": 2}
    vgi_cli.fit(folder / "t.csv", out=folder / "run", model="fa", set=settings, id=["key"])
    return folder


@pytest.fixture
def run(vgi: Vgi, fitted: Path, tmp_path: Path) -> Vgi:
    """The program in a folder with a copy of them."""
    shutil.copytree(fitted, tmp_path, dirs_exist_ok=True)
    return vgi


def plan(done: str) -> dict[str, list[str]]:
    """The lines by their headings."""
    found: dict[str, list[str]] = {}
    for line in done.splitlines():
        heading, _, what = line.partition("  ")
        found.setdefault(heading or list(found)[-1], []).append(what.strip())
    return found


def files(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


def test_it_says_what_impute_then_does(run: Vgi, tmp_path: Path) -> None:
    before = files(tmp_path)
    done = run("impute", "--checkpoint", "run", "--m", "3", "--dry-run")
    assert done.code == 0 and files(tmp_path) == before
    told = plan(done.out)
    source = pd.read_csv(tmp_path / "t.csv")
    holes = source[["a", "b", "c"]].isna()
    total, rows = int(holes.sum().sum()), int(holes.any(axis=1).sum())
    assert told["would be filled"] == [f"{total} of {total + 10} holes, in {rows} of 40 rows"]
    assert told["would stay"] == ["10: 'note' (10)"] and told["draws"] == ["3 of each hole"]
    assert told["sampler"][0].startswith("exact: ")
    assert told["uncertainty of the fit"] == ["in the draws: 2 bootstrap refits by em"]
    carried = run("impute", "--checkpoint", "run", "--m", "3")
    assert carried.out.split() == told["would be written"] and len(told["would be written"]) == 3
    assert f"filled {total} of {total + 10} holes" in carried.err


@pytest.mark.parametrize(
    ("arguments", "layout", "written", "draws"),
    [
        (["--point", "mean", "-o", "x.csv"], "single", "x.csv", "100 of each hole, of which the mean is kept"),
        (["--format", "long", "-o", "-"], "long", "to standard output", "5 of each hole"),
        (["--format", "single", "-o", "y.parquet"], "single", "y.parquet", "1 of each hole"),
    ],
)
def test_where_to_and_how_many(run: Vgi, arguments: list[str], layout: str, written: str, draws: str) -> None:
    told = plan(run("impute", "--checkpoint", "run", *arguments, "--dry-run").out)
    assert (told["layout"], told["would be written"], told["draws"]) == ([layout], [written], [draws])


def test_of_new_rows_without_refits(run: Vgi, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("key,c,b,a,note\nu,,1.0,2.0,x\nv,0.5,0.5,0.5,y\n")
    done = run("impute", "--checkpoint", "run", "new.csv", "--uncertainty", "none", "--dry-run")
    told = plan(done.out)
    assert told["would be filled"] == ["1 of 1 holes, in 1 of 2 rows"] and told["would stay"] == ["none"]
    assert told["uncertainty of the fit"] == ["not in the draws"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "t.csv", "--point", "mean"], "t.csv"),
        (["--sampler", "gibbs"], "sampler 'gibbs' needs fitted conditionals"),
        (["--uncertainty", "posterior"], "holds bootstrap refits instead"),
        (["none.csv"], "none.csv: no such file"),
        (["--m", "0"], "--m: expected a whole number"),
    ],
)
def test_it_refuses_what_impute_refuses(run: Vgi, tmp_path: Path, arguments: list[str], message: str) -> None:
    before = files(tmp_path)
    planned = run("impute", "--checkpoint", "run", *arguments, "--dry-run")
    carried = run("impute", "--checkpoint", "run", *arguments)
    assert planned.code == carried.code == 2 and planned.out == ""
    assert message in planned.error and planned.error == carried.error and files(tmp_path) == before


def test_strict_exits_with_1(run: Vgi) -> None:
    done = run("impute", "--checkpoint", "run", "--strict", "--dry-run")
    assert done.code == 1 and "10 holes would stay" in done.error


def test_it_says_the_shifts(run: Vgi, tmp_path: Path) -> None:
    before = files(tmp_path)
    said = ["impute", "--checkpoint", "run", "--delta", "a=+0.5sd", "--delta", "b=-3", "-o", "o.csv", "--m", "2"]
    told = plan(run(*said, "--dry-run").out)
    assert files(tmp_path) == before
    done = run(*said)
    record = json.loads((tmp_path / "o.delta.json").read_text())
    assert told["shift"] == [f"fills of '{own['column']}' by {own['shift']:+.6g}" for own in record["deltas"]]
    assert told["would be written"] == [*done.out.split(), "o.delta.json"]
    assert "shift" not in plan(run("impute", "--checkpoint", "run", "--dry-run").out)


def test_it_says_the_shifts_of_dates_and_the_odds_of_levels(vgi: Vgi, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    days = pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 90, 50), "D")
    frame = pd.DataFrame({"day": days.strftime("%Y-%m-%d"), "level": rng.choice(["x", "y", "z"], 50)})
    frame.mask(rng.random(frame.shape) < 0.2).to_csv("t.csv", index=False)
    vgi_cli.fit("t.csv", model="mixture", out="run", set={"model.components": 1, "bootstrap": 0, "trees": "none"})
    done = vgi(
        "impute",
        "--checkpoint",
        "run",
        "--dry-run",
        "--delta",
        "day=7",
        "--delta",
        "level=x:x1.5",
        "-o",
        "-",
        "--format",
        "long",
    )
    assert plan(done.out)["shift"] == ["fills of 'day' by +7 days", "odds of 'x' in 'level' times 1.5"]
    assert plan(done.out)["would be written"] == ["to standard output"]
