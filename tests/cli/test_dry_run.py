"""`vgi fit --dry-run`: what each column is taken for, as a recipe that fixes it; and the lines of a fit."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest

from tests.program import Vgi

HEAD = ["name,sex,smokes,grade,age,weight,group,same,note"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    rows = [
        f"p{i},{rng.choice(['f', 'm', ''])},{rng.choice(['Y', 'N'])},{rng.choice(['low', 'mid', 'top'])},"
        f"{rng.poisson(40)},{rng.normal(70, 9):.1f},{rng.choice([1, 7, 99])},one,"
        for i in range(60)
    ]
    (tmp_path / "t.csv").write_text("\n".join(HEAD + rows) + "\n")
    return tmp_path / "t.csv"


def test_it_is_a_recipe_that_fixes_what_it_says(vgi: Vgi, table: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    done = vgi("fit", "t.csv", "--dry-run", "--id", "name", "--column", "grade=ordinal:low,mid,top")
    assert done.code == 0 and sorted(tmp_path.iterdir()) == before
    lines = done.out.splitlines()
    assert [line.split()[1:3] for line in lines[:10]] == [
        ["column", "kind"],
        ["name", "carried"],
        ["sex", "categorical"],
        ["smokes", "boolean"],
        ["grade", "ordinal"],
        ["age", "integer"],
        ["weight", "numeric"],
        ["group", "categorical"],
        ["same", "constant"],
        ["note", "empty"],
    ]
    assert "3 levels: low < mid < top (--column)" in lines[4] and "N or Y" in lines[3] and "--id" in lines[1]
    (tmp_path / "kinds.yaml").write_text(done.out)
    again = vgi("fit", "t.csv", "--dry-run", "--recipe", "kinds.yaml")
    assert again.code == 0 and again.out.partition("table:")[2] == done.out.partition("table:")[2]
    flags = next(line for line in lines if line.startswith("# --id"))
    third = vgi("fit", "t.csv", "--dry-run", *shlex.split(flags.removeprefix("#")))
    assert third.out.partition("table:")[2] == done.out.partition("table:")[2]


def test_a_fit_says_a_line_for_each_kind_and_more_with_v(vgi: Vgi, table: Path) -> None:
    done = vgi("fit", "t.csv", "--dry-run")
    assert "categorical (3 columns): 'sex', 'grade', 'group'" in done.err.splitlines()
    assert not any(line.startswith("sex ") for line in done.err.splitlines())
    told = vgi("fit", "t.csv", "--dry-run", "-v").err.splitlines()
    assert any(line.split()[:2] == ["sex", "categorical"] and line.endswith("2 levels: f, m") for line in told)


def test_it_refuses_what_a_fit_refuses(vgi: Vgi, table: Path) -> None:
    done = vgi("fit", "t.csv", "--dry-run", "--column", "age=boolean")
    assert done.code == 2 and "--column age=boolean, but its cells are none of that kind" in done.err
    done = vgi("fit", "t.csv", "--dry-run", "--resume", "--out", "run")
    assert done.code == 2 and "--dry-run and --resume exclude each other" in done.err
    done = vgi("fit", "--dry-run")
    assert done.code == 2 and "fit needs DATA" in done.err
    done = vgi("fit", "none.csv", "--dry-run")
    assert done.code == 2 and done.out == ""
