"""Levels that the fit has not seen in tables that come later: refused, filled, or left as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.program import Vgi, fit_once

FIT = [
    *("--set", "bootstrap=none"),
    *("--model", "flow", "--set", "model.blocks=1", "--epochs", "2", "--seed", "1"),
    *("--column", "sex=categorical"),
]


@pytest.fixture
def run(vgi: Vgi, tmp_path: Path) -> str:
    rng = np.random.default_rng(0)
    rows = [f"{rng.choice(['f', 'm'])},{rng.normal():.3f},{rng.normal():.3f}" for _ in range(60)]
    (tmp_path / "old.csv").write_text("sex,a,b\n" + "\n".join(rows) + "\n")
    (tmp_path / "new.csv").write_text("sex,a,b\nf,0.5,\nx, 1.0 ,0.25\n,1.5,1\nx,,2\nm,1,1\n")
    return str(fit_once(vgi, "old.csv", *FIT))


def test_they_are_refused_by_name_with_the_flag(vgi: Vgi, run: str) -> None:
    for command in ("impute", "evaluate"):
        done = vgi(command, "--checkpoint", run, "new.csv")
        assert done.code == 2
        assert "column 'sex' has a level that the fit has not seen: 'x' in row 2 (line 3) and 1 more cell" in done.err
        assert "`--unseen missing` fills such cells, `--unseen carry` leaves them" in done.err
    wrong = vgi("impute", "--checkpoint", run, "new.csv", "--unseen", "drop")
    assert wrong.code == 2 and "'error', 'missing' or 'carry'" in wrong.err


def test_a_table_that_lacks_a_column_is_refused_with_those_that_the_fit_has_not(vgi: Vgi, run: str) -> None:
    Path("renamed.csv").write_text("sex,length,b\nf,0.5,\n")
    for command in ("impute", "evaluate"):
        done = vgi(command, "--checkpoint", run, "renamed.csv")
        assert done.code == 2
        assert "renamed.csv: lacks the fitted column 'a', and has column 'length' which the fit has not" in done.err


def test_they_count_as_missing_and_are_filled(vgi: Vgi, run: str, tmp_path: Path) -> None:
    done = vgi("impute", "--checkpoint", run, "new.csv", "--unseen", "missing", "--m", "2", "-o", "out.csv")
    assert done.code == 0
    line = "levels that the fit has not seen count as missing and are filled: 2 cells of 'sex': 'x' (2 cells)"
    assert line in done.err and "filled 5 of 5 holes" in done.err
    lines = (tmp_path / "out.1.csv").read_text().splitlines()
    assert [line.split(",")[0] in ("f", "m") for line in lines[1:]] == [True] * 5
    assert lines[2].endswith(", 1.0 ,0.25") and lines[1].startswith("f,0.5,") and lines[5] == "m,1,1"


def test_they_stay_and_say_nothing(vgi: Vgi, run: str, tmp_path: Path) -> None:
    done = vgi("impute", "--checkpoint", run, "new.csv", "--unseen", "carry", "--m", "2", "-o", "out.csv")
    assert done.code == 0
    assert "levels that the fit has not seen stay, and say nothing to the model: 2 cells of 'sex': 'x'" in done.err
    assert "filled 3 of 3 holes" in done.err
    lines = (tmp_path / "out.2.csv").read_text().splitlines()
    assert lines[2] == "x, 1.0 ,0.25" and lines[4].startswith("x,") and lines[4].split(",")[1]
    assert (
        vgi("finetune", "--checkpoint", run, "new.csv", "--unseen", "carry", "--epochs", "1", "-o", "again").code == 0
    )


@pytest.mark.slow
def test_a_level_of_the_validation_table_alone(vgi: Vgi, run: str) -> None:
    for extra, code in (([], 2), (["--unseen", "missing"], 0)):
        done = vgi("fit", "old.csv", *FIT, "--val", "new.csv", *extra, "--out", f"other{code}")
        assert done.code == code and ("sex" in done.err) and ("has not seen" in done.err)


def test_every_level_has_its_own_count(vgi: Vgi, run: str, tmp_path: Path) -> None:
    levels = ["f", "y", *"xxx", *"abcde", "", *"xy"]
    (tmp_path / "many.csv").write_text("sex,a,b\n" + "".join(f"{level},1,\n" for level in levels))
    done = vgi("impute", "--checkpoint", run, "many.csv", "--m", "1")
    counts = "'x' (4 cells), 'y' (2 cells), 'a' (1 cell), 'b' (1 cell), 'c' (1 cell) and 2 more levels (2 cells)"
    first = "11 cells, first 'y' in row 2 (line 3)"
    assert done.code == 2 and f"column 'sex' has levels that the fit has not seen: {counts}; {first}" in done.err
    for rule, what in (("missing", "count as missing and are filled"), ("carry", "stay, and say nothing to the model")):
        told = vgi("impute", "--checkpoint", run, "many.csv", "--unseen", rule, "--m", "1", "-o", f"{rule}.csv")
        assert told.code == 0 and f"levels that the fit has not seen {what}: 11 cells of 'sex': {counts}" in told.err


def test_they_are_missing_beside_what_a_mask_hides(vgi: Vgi, run: str, tmp_path: Path) -> None:
    (tmp_path / "mask.csv").write_text("sex,a,b\n1,1,1\n1,1,1\n1,1,1\n0,1,1\n0,0,1\n")
    options = ["--mask", "mask.csv", "--unseen", "missing", "--format", "long", "--m", "1", "-o", "out.csv"]
    done = vgi("impute", "--checkpoint", run, "new.csv", *options)
    assert done.code == 0 and "1 cell of 'sex': 'x' (1 cell)" in done.err and "filled 7 of 7 holes" in done.err
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[1:6] == ["f,0.5,,0,1", ", 1.0 ,0.25,0,2", ",1.5,1,0,3", ",,2,0,4", ",,1,0,5"]
    filled = [line.split(",") for line in lines[6:]]
    assert all(row[0] in ("f", "m") and row[1] and row[2] for row in filled)


def test_a_column_in_other_units_is_a_warning_that_stays_when_quiet(vgi: Vgi, run: str, tmp_path: Path) -> None:
    rows = "".join(f"f,{100 * i},\n" for i in range(1, 21))
    (tmp_path / "units.csv").write_text("sex,a,b\n" + rows)
    done = vgi("impute", "--checkpoint", run, "units.csv", "--m", "1", "-o", "filled.csv", "-q")
    assert done.code == 0
    assert "warning: column 'a': '100' in row 1 (line 2) and 19 more cells are far outside the range" in done.err
