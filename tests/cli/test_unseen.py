"""Levels that the fit has not seen in tables that come later: refused, filled, or left as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.program import Vgi

FIT = ["--model", "flow", "--set", "model.blocks=1", "--epochs", "2", "--seed", "1", "--column", "sex=categorical"]


@pytest.fixture
def run(vgi: Vgi, tmp_path: Path) -> str:
    rng = np.random.default_rng(0)
    rows = [f"{rng.choice(['f', 'm'])},{rng.normal():.3f},{rng.normal():.3f}" for _ in range(60)]
    (tmp_path / "old.csv").write_text("sex,a,b\n" + "\n".join(rows) + "\n")
    (tmp_path / "new.csv").write_text("sex,a,b\nf,0.5,\nx, 1.0 ,0.25\n,1.5,1\nx,,2\nm,1,1\n")
    assert vgi("fit", "old.csv", *FIT, "--out", "run").code == 0
    return "run"


def test_they_are_refused_by_name_with_the_flag(vgi: Vgi, run: str) -> None:
    for command in ("impute", "evaluate"):
        done = vgi(command, "--checkpoint", run, "new.csv")
        assert done.code == 2
        assert "column 'sex' has a level that the fit has not seen: 'x' in row 2 (line 3) and 1 more cell" in done.err
        assert "`--unseen missing` fills such cells, `--unseen carry` leaves them" in done.err
    wrong = vgi("impute", "--checkpoint", run, "new.csv", "--unseen", "drop")
    assert wrong.code == 2 and "'error', 'missing' or 'carry'" in wrong.err


def test_they_count_as_missing_and_are_filled(vgi: Vgi, run: str, tmp_path: Path) -> None:
    done = vgi("impute", "--checkpoint", run, "new.csv", "--unseen", "missing", "--m", "2", "-o", "out.csv")
    assert done.code == 0
    line = "levels that the fit has not seen count as missing and are filled: 'sex' (2 cells)"
    assert line in done.err and "filled 5 of 5 holes" in done.err
    lines = (tmp_path / "out.1.csv").read_text().splitlines()
    assert [line.split(",")[0] in ("f", "m") for line in lines[1:]] == [True] * 5
    assert lines[2].endswith(", 1.0 ,0.25") and lines[1].startswith("f,0.5,") and lines[5] == "m,1,1"


def test_they_stay_and_say_nothing(vgi: Vgi, run: str, tmp_path: Path) -> None:
    done = vgi("impute", "--checkpoint", run, "new.csv", "--unseen", "carry", "--m", "2", "-o", "out.csv")
    assert done.code == 0
    assert "levels that the fit has not seen stay, and say nothing to the model: 'sex' (2 cells)" in done.err
    assert "filled 3 of 3 holes" in done.err
    lines = (tmp_path / "out.2.csv").read_text().splitlines()
    assert lines[2] == "x, 1.0 ,0.25" and lines[4].startswith("x,") and lines[4].split(",")[1]
    assert (
        vgi("finetune", "--checkpoint", run, "new.csv", "--unseen", "carry", "--epochs", "1", "-o", "again").code == 0
    )


def test_a_level_of_the_validation_table_alone(vgi: Vgi, run: str) -> None:
    for extra, code in (([], 2), (["--unseen", "missing"], 0)):
        done = vgi("fit", "old.csv", *FIT, "--val", "new.csv", *extra, "--out", f"other{code}")
        assert done.code == code and ("sex" in done.err) and ("has not seen" in done.err)
