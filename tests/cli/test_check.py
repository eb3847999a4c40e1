"""`vgi check`: the text, the JSON object against its schema, the flags of tables, and what it refuses."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

import vgi_cli
from tests.program import Vgi
from tests.schemas import checked
from vgi_cli.registry.names import MODELS

ROOT = Path(__file__).parents[2]
PENGUINS = ROOT / "sample_data" / "penguins.csv"


def frame(N: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=(3, N)).round(3)
    out = pd.DataFrame({"key": [f"p{i}" for i in range(N)], "a": a, "b": b + a, "c": c})
    out["sex"] = rng.choice(["f", "m"], N)
    out["twin"] = out.sex
    out["age"] = rng.integers(18, 80, N)
    out.loc[:4, "age"] = -999
    out.loc[rng.random(N) < 0.3, "a"] = np.nan
    out.loc[out.a.notna(), "b"] = np.nan  # a and b are never observed together
    out.loc[N - 1, ["a", "b", "c", "sex", "twin", "age"]] = None
    return out


@pytest.fixture
def table(tmp_path: Path) -> Path:
    frame().to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def found(vgi: Vgi, *arguments: str | Path) -> Any:
    done = vgi("check", *arguments, "--no-trial", "--json")
    assert done.code == 0, done.err
    return checked("check", done.out)


def test_the_json_says_what_the_table_holds(vgi: Vgi, table: Path, tmp_path: Path) -> None:
    values = found(vgi, "t.csv", "--id", "key")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv"]  # nothing was written
    source = pd.read_csv(table)
    columns = {column["name"]: column for column in values["columns"]}
    assert {name: own["missing_cells"] for name, own in columns.items()} == source.isna().sum().to_dict()
    assert columns["key"] == {
        "name": "key",
        "kind": "carried",
        "why": "--id: names the rows",
        "modelled": False,
        "missing_cells": 0,
        "missing_share": 0.0,
    }
    holes = source.drop(columns="key").isna()
    missing = values["missing"]
    assert missing["complete_rows"] == int((~holes.any(axis=1)).sum()) == 0
    assert missing["rows_with_nothing"] == 1
    assert missing["patterns"] == len(holes.drop_duplicates())
    assert missing["share"] == pytest.approx(holes.to_numpy().mean())
    counts = {int(k): n for k, n in missing["rows_by_missing_cells"].items()}
    assert counts == holes.sum(axis=1).value_counts().to_dict()
    apart = missing["never_together"]
    assert apart["first"] == [["a", "b"]] and "rests on the model alone" in apart["meaning"]
    assert values["redundant"] == [{"name": "twin", "by": ["sex"], "how": "copy", "exact": True, "kept": True}]
    suspects = "\n".join(values["suspects"])
    assert "-999 (5 cells) is far from all other values" in suspects
    (relation,) = values["relations"]
    assert relation.startswith("'twin' and the levels of 'sex' go one to one") and "'twin'" not in suspects


def test_flags_of_tables_work_as_in_fit(vgi: Vgi, table: Path, tmp_path: Path) -> None:
    values = found(vgi, "t.csv", "--na-values", "age=-999", "--exclude", "twin", "--column", "sex=carry")
    columns = {column["name"]: column for column in values["columns"]}
    assert columns["age"]["missing_cells"] == 6 and not columns["twin"]["modelled"]
    assert columns["sex"]["kind"] == "carried" and values["redundant"] == []
    assert not any("-999" in line for line in values["suspects"])
    assert values["recipe"]["table"]["na_values"] == ["age=-999"]
    (tmp_path / "k.yaml").write_text("model: {name: fa, factors: 1}\ntable: {columns: {sex: carry}}\n")
    fixed = {c["name"]: c for c in found(vgi, "t.csv", "--recipe", "k.yaml")["columns"]}
    assert fixed["sex"]["kind"] == "carried"
    source = pd.read_csv(table)
    mask = source.notna().astype(int)
    mask["c"] = np.arange(len(mask)) % 2
    mask.to_csv(tmp_path / "m.csv", index=False)
    hidden = {c["name"]: c for c in found(vgi, "t.csv", "--mask", "m.csv")["columns"]}
    assert hidden["c"]["missing_cells"] == len(source) // 2 + source.c.isna().iloc[1::2].sum()
    (tmp_path / "d.csv").write_text("x;y\n" + "".join(f"{i % 7},5;{i % 5},25\n" for i in range(40)))
    kinds = {c["name"]: c["kind"] for c in found(vgi, "d.csv", "--delimiter", ";", "--decimal", ",")["columns"]}
    assert kinds == {"x": "numeric", "y": "numeric"}


@pytest.mark.slow
def test_other_sources_give_the_same(vgi: Vgi, table: Path, tmp_path: Path) -> None:
    first = found(vgi, "t.csv")
    (tmp_path / "folder").mkdir()
    pd.read_csv(table).to_parquet(tmp_path / "folder" / "part.parquet")
    second = found(vgi, "folder")
    assert second["missing"] == first["missing"] and second["redundant"] == first["redundant"]
    twin = vgi_cli.check(pd.read_csv(table), trial=False)
    assert twin["missing"] == first["missing"]
    assert twin["mcar"]["statistic"] == pytest.approx(first["mcar"]["statistic"])
    assert vgi_cli.check(table, trial=False) == first
    checked("check", json.dumps(twin))
    with table.open() as file:
        done = subprocess.run(
            [sys.executable, "-m", "vgi_cli", "check", "-", "--no-trial", "--json"],
            stdin=file,
            capture_output=True,
            cwd=ROOT,
        )
    piped = checked("check", done.stdout.decode())
    assert piped["missing"] == first["missing"] and piped["table"]["name"] == "standard input"


def test_a_question_that_was_not_asked_is_named_beside_the_test(vgi: Vgi, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"age": rng.normal(50, 9, 300), "income": rng.normal(30, 5, 300)})
    frame["smoke"] = np.where(rng.random(300) < 0.5, "yes", "no")
    frame["a_day"] = (frame.income / 3 + rng.normal(0, 2, 300)).where(frame.smoke == "yes")
    frame["income"] = frame.income.where(rng.random(300) > 0.1)
    frame.round(2).to_csv(tmp_path / "t.csv", index=False)
    told = "column 'a_day' may be blank because the question was not asked: it rejects for that"
    assert told in found(vgi, "t.csv")["mcar"]["caveats"]
    assert not any("asked" in line for line in found(vgi, "t.csv", "--exclude", "smoke")["mcar"]["caveats"])


def test_the_text_says_it_in_words_and_ends_with_the_recipe(vgi: Vgi, tmp_path: Path) -> None:
    done = vgi("check", PENGUINS, "--id", "individual", "--no-trial")
    assert done.code == 0
    values = found(vgi, PENGUINS, "--id", "individual")
    assert done.out.startswith("# penguins.csv: 344 rows, 14 columns\n")
    assert "324 of 344 rows are complete" in done.out and "6 patterns of missing cells:" in done.out
    assert f"chi-squared {values['mcar']['statistic']:.2f} on {values['mcar']['df']} degrees of freedom" in done.out
    assert all(line in done.out for line in values["mcar"]["caveats"] + values["suspects"])
    told = "".join(f"- {line}\n" for line in values["relations"])
    kept = "fills keep to these (`--set table.relations=ignore` if that is chance)"
    assert f"## What holds in every row\n\n{told}\n{kept}\n" in done.out and told
    recipe = done.out.split("```yaml\n")[1].split("```")[0]
    assert yaml.safe_load(recipe) == values["recipe"]
    (tmp_path / "kinds.yaml").write_text(recipe)
    fixed = vgi("fit", PENGUINS, "--dry-run", "--recipe", "kinds.yaml")
    assert fixed.code == 0 and yaml.safe_load(fixed.out) == values["recipe"]


def test_a_table_without_holes(vgi: Vgi, tmp_path: Path) -> None:
    pd.DataFrame(np.random.default_rng(0).normal(size=(30, 2)), columns=["x", "y"]).to_csv("t.csv", index=False)
    values = found(vgi, "t.csv")
    assert values["mcar"]["why_not"] == "no modelled column has a hole"
    assert values["missing"]["complete_rows"] == 30 and values["suspects"] == []
    out = vgi("check", "t.csv", "--no-trial").out
    assert "not made: no modelled column has a hole" in out and "## Suspects\n\nnone\n" in out


@pytest.mark.parametrize(
    ("more", "why_not"),
    [
        ("none", "it compares columns of numbers, and there is one"),
        ("its double", "it compares columns of numbers that no others determine, and there is one"),
        ("holes in its double", "the columns of numbers with holes are told by others, which it leaves out"),
        ("a number without holes", None),
    ],
)
def test_littles_test_says_why_it_is_not_made(vgi: Vgi, tmp_path: Path, more: str, why_not: str | None) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=60).round(3), "kind": rng.choice(["a", "b", "c"], 60)})
    if "double" in more:
        frame["twice"] = 2 * frame.x
    if more == "a number without holes":
        frame["y"] = rng.normal(size=60).round(3)
    frame.loc[:19, "twice" if more == "holes in its double" else "x"] = np.nan
    frame.to_csv("t.csv", index=False)
    assert found(vgi, "t.csv")["mcar"].get("why_not") == why_not


def test_each_model_is_tried(vgi: Vgi, table: Path) -> None:
    done = vgi("check", "t.csv", "--id", "key", "--json")
    fits = {fit["model"]: fit for fit in checked("check", done.out)["models"]["fits"]}
    assert list(fits) == ["auto", *MODELS]
    assert "takes numbers only" in fits["fa"]["why_not"] and "seconds" not in fits["fa"]
    assert all(fit["seconds"] > 0 and fit["memory"] > 0 for name, fit in fits.items() if name != "fa")


@pytest.mark.slow
def test_the_trials_in_words(vgi: Vgi, table: Path) -> None:
    text = vgi("check", "t.csv", "--id", "key").out
    assert "## Time and memory of a fit" in text and "at most" in text
    assert "\n  auto (default)  em" in text
    assert "## Time and memory" not in vgi("check", "t.csv", "--id", "key", "--no-trial").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.csv"], "none.csv: no such file"),
        (["t.csv", "--id", "nobody"], "--id nobody: t.csv has no such column"),
        (["t.csv", "--column", "key=numeric"], "key"),
        (["t.csv", "--column", "a=numbers"], "expected NAME=KIND with a kind of"),
        (["t.csv", "--weight", "age"], "--weight age: the weight is missing in row 120"),
        (["t.csv", "--delimiter", "ab"], "--delimiter 'ab'"),
        (["text.csv"], "no column that can be modelled"),
    ],
)
def test_what_is_refused(vgi: Vgi, table: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "text.csv").write_text("name\n" + "".join(f"x{i}\n" for i in range(30)))
    before = sorted(tmp_path.iterdir())
    done = vgi("check", *arguments)
    assert done.code == 2 and message in done.error and done.out == ""
    assert sorted(tmp_path.iterdir()) == before


def test_a_slip_in_a_column_is_named_and_the_rest_is_looked_at(vgi: Vgi, table: Path) -> None:
    frame = pd.read_csv("t.csv").astype(str)
    frame.loc[7, "a"] = "12o.5"
    frame.to_csv("slip.csv", index=False)
    done = vgi("check", "slip.csv", "--id", "key", "--no-trial", "--json")
    why = "column 'a' holds numbers, but also '12o.5' in row 8 (line 9)"
    assert done.code == 0
    assert f"warning: `vgi fit` refuses the table, and this looks at the rest of it: slip.csv: {why}" in done.err
    values = checked("check", done.out)
    by = {one["name"]: one for one in values["columns"]}
    assert by["a"]["kind"] == "refused" and not by["a"]["modelled"]
    assert values["recipe"]["table"]["columns"].keys() == by.keys() - {"key", "a"}
    lines = [line for line in values["suspects"] if "'a'" in line]
    flags = "`--na-values a=12o.5` if that means missing, or `--column a=carry` to carry the column as it is"
    assert lines == [f"`vgi fit` refuses the table: {why}; {flags}"]
    whole = checked("check", vgi("check", "t.csv", "--id", "key", "--no-trial", "--json").out)
    assert [one for one in whole["columns"] if one["name"] != "a"] == [one for one in by.values() if one["name"] != "a"]
    assert "why_not" not in values["mcar"]
    fit = vgi("fit", "slip.csv", "--id", "key", "--out", "run")
    assert fit.code == 2 and why in fit.error and not Path("run").exists()


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_the_line_of_the_page_asks_whether_a_fit_would_refuse_a_column(vgi: Vgi, table: Path) -> None:
    frame = pd.read_csv("t.csv").astype(str)
    frame.loc[7, "a"] = "12o.5"
    frame.to_csv("slip.csv", index=False)
    (line,) = re.findall(r"^jq -e .*$", (ROOT / "docs" / "check.md").read_text(encoding="utf-8"), re.MULTILINE)
    for name, refused in (("slip.csv", 1), ("t.csv", 0)):
        done = vgi("check", name, "--no-trial", "--json")
        assert done.code == 0
        Path("check.json").write_text(done.out, encoding="utf-8")
        assert subprocess.run(shlex.split(line), capture_output=True, check=False).returncode == refused
        assert vgi("fit", name, "--dry-run").code == 2 * refused
    Path("empty.csv").write_text("a,b\n,\n")
    assert vgi("check", "empty.csv", "--no-trial").code == 2


def test_columns_with_the_same_mark_are_refused_in_one_line(vgi: Vgi, table: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(100, 6)).round(2), columns=list("abcdef")).astype(str)
    frame.loc[::20, list("abcde")] = "-"
    frame.to_csv("marks.csv", index=False)
    (line,) = [one for one in found(vgi, "marks.csv")["suspects"] if "refuses" in one]
    assert line.endswith("; the same of columns 'b', 'c', 'd', 'e'")


def test_where_nothing_is_left_or_the_kind_was_named_a_slip_is_an_error(vgi: Vgi, tmp_path: Path) -> None:
    lines = [f"{i * 0.37 % 1:.2f},x{i}" for i in range(40)]
    (tmp_path / "one.csv").write_text("\n".join(["a,name", *lines, "12o.5,y"]) + "\n")
    done = vgi("check", "one.csv", "--no-trial")
    assert done.code == 2 and "column 'a' holds numbers, but also '12o.5'" in done.error and done.out == ""
    (tmp_path / "two.csv").write_text(
        "\n".join(["a,b", *(f"{one[:4]},{i % 7}" for i, one in enumerate(lines)), "12o.5,1"])
    )
    done = vgi("check", "two.csv", "--no-trial", "--column", "a=numeric")
    assert done.code == 2 and "12o.5" in done.error and done.out == ""


def test_no_torch_where_no_test_is_made(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{i * 0.37 % 1:.3f},{i * 0.71 % 1:.3f}\n" for i in range(50)))
    code = f"""
import sys
from vgi_cli.cli.app import main
assert main(["check", {str(tmp_path / "t.csv")!r}, "--no-trial"]) == 0
sys.exit("torch" in sys.modules or "matplotlib" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True).returncode == 0


@pytest.mark.slow
def test_ten_thousand_rows_take_about_two_seconds(vgi: Vgi, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(10_000, 20)) @ rng.normal(size=(20, 20))
    x[rng.random(x.shape) < 0.02] = np.nan
    pd.DataFrame(x, columns=[f"x{i}" for i in range(20)]).round(4).to_csv(tmp_path / "t.csv", index=False)
    before = time.process_time()
    values = found(vgi, "t.csv")
    assert time.process_time() - before < 3.0
    assert values["mcar"]["df"] > 0


def test_limits_of_fills_are_taken_as_fit_takes_them(vgi: Vgi, table: Path) -> None:
    """They stand in the recipe and the flags that fix the kinds, and what no column holds is refused."""
    limits = ("--bounds", "a=-9:9", "--unbounded", "c")
    done = vgi("check", "t.csv", "--id", "key", "--no-trial", *limits)
    assert done.code == 0, done.err
    dry = vgi("fit", "t.csv", "--id", "key", "--dry-run", *limits)
    flags = "# --id key --column a=numeric"
    (own, other) = ([line for line in text.splitlines() if line.startswith(flags)] for text in (done.out, dry.out))
    assert own == other and own[0].endswith("--bounds a=-9:9 --unbounded c")
    values = found(vgi, "t.csv", "--id", "key", *limits)
    assert values["recipe"]["table"]["bounds"] == {"a": "-9:9"} and values["recipe"]["table"]["unbounded"] == ["c"]
    assert (
        vgi_cli.check(table, id="key", trial=False, bounds={"a": "-9:9"}, unbounded="c")["recipe"] == values["recipe"]
    )
    refused = vgi("check", "t.csv", "--no-trial", "--bounds", "a=5:9")
    assert refused.code == 2 and "--bounds a=5:9, but column 'a' holds" in refused.err


def test_one_pattern_of_few_rows_is_said_in_the_singular(vgi: Vgi) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3)).round(2).astype(object)
    x[:60, 0] = x[60:120, 1] = x[120:123, 2] = ""
    Path("t.csv").write_text("\n".join(["a,b,c", *(",".join(map(str, row)) for row in x)]) + "\n")
    assert "1 of 4 patterns has fewer than" in vgi("check", "t.csv", "--no-trial").out
