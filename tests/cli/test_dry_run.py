"""`vgi fit --dry-run`: what each column is taken for, as a recipe that fixes it; and the lines of a fit."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.program import Vgi
from vgi_cli.columns.levelled import listed
from vgi_cli.settings.yaml_strict import parse

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


@pytest.mark.parametrize("command", [["fit", "--dry-run"], ["check", "--no-trial"]])
def test_the_recipe_keeps_weights_and_limits(command: list[str], vgi: Vgi, table: Path, tmp_path: Path) -> None:
    """A recipe that carried the weights without counting by them would be of another fit."""
    limits = {"weight": "0:200", "all": "observed"} if command[0] == "fit" else {}
    bounds = [word for name, text in limits.items() for word in ("--bounds", f"{name}={text}")]
    done = vgi(command[0], "t.csv", *command[1:], "--id", "name", "--weight", "age", *bounds)
    assert done.code == 0
    assert re.search(r"^(# )?age +carried +0\.0% +--weight: how much a row counts$", done.out, re.M)
    text = done.out.partition("```yaml\n")[2].partition("```")[0] if command[0] == "check" else done.out
    settings = parse(text).values["table"]
    assert settings["weight"] == "age" and "exclude" not in settings and "age" not in settings["columns"]
    assert settings.get("bounds", {}) == limits
    (tmp_path / "kinds.yaml").write_text(text)
    flags = next(line for line in text.splitlines() if line.startswith("# --")).removeprefix("# ")
    for again in (["--recipe", "kinds.yaml"], shlex.split(flags)):
        same = vgi("fit", "t.csv", "--dry-run", *again)
        assert same.code == 0 and parse(same.out).values["table"] == settings
        assert "rows count by column 'age'" in same.err


def test_a_fit_says_a_line_for_each_kind_and_more_with_v(vgi: Vgi, table: Path) -> None:
    done = vgi("fit", "t.csv", "--dry-run")
    assert "categorical (3 columns): 'sex', 'grade', 'group'" in done.err.splitlines()
    assert not any(line.startswith("sex ") for line in done.err.splitlines())
    told = vgi("fit", "t.csv", "--dry-run", "-v").err.splitlines()
    assert any(line.split()[:2] == ["sex", "categorical"] and line.endswith("2 levels: f, m") for line in told)


def test_it_refuses_what_a_fit_refuses(vgi: Vgi, table: Path) -> None:
    done = vgi("fit", "t.csv", "--dry-run", "--column", "age=boolean")
    assert done.code == 2 and "--column age=boolean, but the column holds" in done.err
    done = vgi("fit", "t.csv", "--dry-run", "--resume", "--out", "run")
    assert done.code == 2 and "--dry-run and --resume exclude each other" in done.err
    done = vgi("fit", "--dry-run")
    assert done.code == 2 and "fit needs DATA" in done.err
    done = vgi("fit", "none.csv", "--dry-run")
    assert done.code == 2 and done.out == ""


def test_it_warns_of_columns_that_no_row_shows_together(vgi: Vgi, tmp_path: Path) -> None:
    halves = [f"{i % 7}.{i},," if i % 2 else f"{i % 7}.{i},{i % 5}.5," for i in range(60)]
    rows = [f"{line}{i % 3}.5" if i % 2 else line for i, line in enumerate(halves)]
    (tmp_path / "apart.csv").write_text("\n".join(["x,y,z", *rows]))
    done = vgi("fit", "apart.csv", "--dry-run")
    assert done.code == 0 and "columns 'y' and 'z' are observed together in no row" in done.err


LEVELS = ["low, very", "mid\nline", 'hi"gh', "it's", "a: b #c", "- q", "d\\n", "<b>"]


def test_levels_with_commas_quotes_and_line_breaks_are_named_unmistakably(vgi: Vgi, tmp_path: Path) -> None:
    frame = pd.DataFrame({"g\nh": pd.Categorical(LEVELS * 9, categories=LEVELS, ordered=True)})
    frame["won"] = ["no, not", "yes\tyes"] * 36
    frame["x"] = np.arange(72) % 7 + 0.5
    frame.to_parquet("e.parquet")
    done = vgi("fit", "e.parquet", "--dry-run", "--column", 'won=boolean:"no, not",yes\tyes')
    lines = done.out.splitlines()
    assert "8 levels: low, very <" in lines[1] and "mid\\nline" in lines[1]
    assert all(line.startswith("#") for line in lines[: lines.index("table:")])
    (tmp_path / "kinds.yaml").write_text(done.out)
    flags = next(line for line in lines if line.startswith("# --column")).removeprefix("# ")
    words = subprocess.run(["bash", "-c", f"printf '%s\\0' {flags}"], capture_output=True, text=True, check=True).stdout
    frame["g\nh"] = frame["g\nh"].astype(str)  # the file says nothing of an order any more
    frame.to_parquet("e.parquet")
    for given in (["--recipe", "kinds.yaml"], words.split("\0")[:-1]):
        again = vgi("fit", "e.parquet", "--dry-run", *given)
        assert again.code == 0
        kinds = parse(again.out).values["table"]["columns"]
        assert kinds["x"] == "numeric" and listed(kinds["won"].partition(":")[2]) == ["no, not", "yes\tyes"]
        assert kinds["g\nh"].startswith("ordinal:") and listed(kinds["g\nh"].partition(":")[2]) == LEVELS


def test_a_line_break_without_quotes_is_refused(vgi: Vgi, table: Path) -> None:
    done = vgi("fit", "t.csv", "--dry-run", "--column", "grade=ordinal:low\nmid,top")
    assert done.code == 2 and "a level with a line break stands in double quotes, got 'low\\nmid,top'" in done.err
    done = vgi("fit", "t.csv", "--dry-run", "--column", "smokes=boolean:N\nY,top")
    assert done.code == 2 and "line break" in done.err


def test_levels_that_were_listed_stay_as_they_were(vgi: Vgi, table: Path) -> None:
    """One that does not occur is part of the kind."""
    done = vgi("fit", "t.csv", "--dry-run", "--column", "sex=categorical:m,x,f")
    assert parse(done.out).values["table"]["columns"]["sex"] == "categorical:m,x,f"


@pytest.mark.parametrize(
    ("said", "what", "hint"),
    [
        ("sex=boolean", "which level is true is not known", "`--column sex=boolean:f,m` in that order"),
        ("same=boolean", "which level is true is not known", "`--column same=boolean:one,OTHER` in that order"),
        ("grade=boolean", "but the column holds 3 different values", "`--column grade=categorical` models levels"),
    ],
)
def test_what_is_no_truth_value_is_refused_with_the_way_to_say_it(
    vgi: Vgi, table: Path, said: str, what: str, hint: str
) -> None:
    done = vgi("fit", "t.csv", "--dry-run", "--column", said)
    assert done.code == 2 and what in done.err and hint in done.err


def plan(out: str) -> dict[str, str]:
    """The lines of the plan by their headings."""
    lines = out[out.index("# model ") : out.index("# the same as flags")].splitlines()
    return {line[2:].split("  ")[0]: line[2:].partition("  ")[2].strip() for line in lines if line != "#"}


@pytest.mark.full_fits("fitting.refits.COUNT")
def test_it_says_what_would_be_fitted_and_where_to(vgi: Vgi, table: Path, tmp_path: Path) -> None:
    (tmp_path / "run1").mkdir()
    before = sorted(tmp_path.rglob("*"))
    told = plan(vgi("fit", "t.csv", "--dry-run", "--threads", "1").out)
    assert sorted(tmp_path.rglob("*")) == before
    assert told["model"] == "chosen by comparing several on hidden cells"
    assert told["rows"].startswith("60 of 60, ") and told["rows"].endswith("% of their modelled cells missing")
    assert told["refits"] == "at most 20, for the uncertainty of the fit" and told["device"] == "cpu, 1 thread"
    said = r"about [\d.]+ (s|min) \(on one thread of this CPU, by a trial, the comparison of models included\)"
    assert re.fullmatch(said, told["time"])
    assert re.fullmatch(r"about [\d.]+ .?B beside the program; [\d.]+ .?B are free", told["memory"])
    assert told["run"] == "run2"
    if sys.platform == "linux":
        shared = plan(vgi("fit", "t.csv", "--dry-run", "--threads", "2").out)["device"]
        assert shared == "cpu, 2 threads; 2 processes share models, refits and trees"
    flags = [
        "--model",
        "flow",
        "--val",
        "0.2",
        "--time-limit",
        "3m",
        "--holdout-cells",
        "5%",
        "--set",
        "bootstrap=none",
    ]
    told = plan(vgi("fit", "t.csv", "--dry-run", *flags, "--out", "mine").out)
    assert told["model"] == "flow by vgi" and told["held out"] == "12 rows, which select the epoch"
    assert told["rows"].startswith("48 of 60") and told["refits"] == "none" and told["time limit"] == "3m"
    assert told["time"].startswith("at most ") and told["time"].endswith("; as long again for the cells held out)")
    assert told["run"] == "mine"


def test_it_refuses_an_output_and_a_model_that_cannot_be(vgi: Vgi, table: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = vgi("fit", "t.csv", "--dry-run", "--out", "file")
    assert done.code == 2 and done.error == "--out: 'file' exists and is a file" and done.out == ""
    done = vgi("fit", "t.csv", "--dry-run", "--model", "fa")
    assert done.code == 2 and done.error.startswith("--model fa takes numbers only") and done.out == ""


def test_where_nothing_varies_there_is_no_model(vgi: Vgi, tmp_path: Path) -> None:
    (tmp_path / "same.csv").write_text("a,b\n1,x\n1,x\n,x\n")
    assert plan(vgi("fit", "same.csv", "--dry-run").out) == {"model": "none: no column varies", "run": "run1"}


def test_a_method_of_a_plugin_is_not_tried(vgi: Vgi, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgi_cli.commands.fit_plan.can_be_tried", lambda recipe: False)
    assert plan(vgi("fit", "t.csv", "--dry-run").out)["time"] == "not known: the method comes from a plugin"


def test_thousands_points_are_a_warning_of_the_fit_and_the_first_suspect_of_a_check(vgi: Vgi, tmp_path: Path) -> None:
    sales = [f"{int(90 * 1.18**i):,}".replace(",", ".") for i in range(40)]
    rows = [f"{text},{i % 7},{'' if i % 9 else i}" for i, text in enumerate(sales)]
    (tmp_path / "t.csv").write_text("\n".join(["sales,a,b", *rows]) + "\n")
    line = "column 'sales': every point is followed by three digits"
    assert f"warning: {line}" in vgi("fit", "t.csv", "--dry-run", "-q").err
    assert f"## Suspects\n\n- {line}" in vgi("check", "t.csv", "--no-trial").out
    assert line not in vgi("fit", "t.csv", "--dry-run", "--column", "sales=numeric").err
