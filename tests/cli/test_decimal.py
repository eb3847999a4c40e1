"""`--decimal ,` and `--na-values COL=TOKEN` from the fit to tables that come later."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from tests.program import Vgi
from tests.table.helpers import save

RNG = np.random.default_rng(0)
TEXT = "a;b\n" + "".join(f"{v:.2f};{k}\n".replace(".", ",") for k, v in enumerate(RNG.normal(9, 3, 40))) + ";\n"


def test_the_run_remembers_the_mark(tmp_path: Path, vgi: Vgi) -> None:
    text = TEXT + "1,5;\n" * 5
    path = save(tmp_path, "t.csv", text)
    said = ["--delimiter", ";", "--decimal", ",", "--na-values", "b=7", "--out", tmp_path / "run", "--epochs", "5"]
    assert vgi("fit", path, "--model", "fa", "--set", "bootstrap=none", *said).code == 0
    out = tmp_path / "o.csv"
    assert vgi("impute", "--checkpoint", tmp_path / "run", "--m", "1", "-o", out).code == 0
    lines = (tmp_path / "o.1.csv").read_text().splitlines()
    assert len(lines) == len(text.splitlines())
    for line, before in zip(lines, text.splitlines(), strict=True):
        assert all(new == old or old in ("", "7") for new, old in zip(line.split(";"), before.split(";"), strict=True))
        assert all(line.split(";")) and "." not in line and line.split(";")[1] != "7"
    new = save(tmp_path, "new.csv", "a;b\n;3\n2,75;\n")
    assert vgi("impute", "--checkpoint", tmp_path / "run", new, "--m", "1", "-o", tmp_path / "n.csv").code == 0
    assert "," in (tmp_path / "n.1.csv").read_text().splitlines()[1]
    save(tmp_path, "new.csv", "a;b\n7;3\n2,75;7\n?;2\n")  # what is said now is added to what the fit was told
    more = ("--na-values", "?", "--format", "single", "-o", tmp_path / "s.csv")
    done = vgi("impute", "--checkpoint", tmp_path / "run", new, "--m", "1", *more)
    assert done.code == 0 and "filled 2 of 2 holes" in done.err
    assert vgi("impute", "--checkpoint", tmp_path / "run", "--m", "1", "-o", tmp_path / "o.parquet").code == 0
    assert str(pq.read_schema(tmp_path / "o.1.parquet").field("a").type) == "double"


def test_codes_of_several_columns_from_a_recipe_to_later_tables(tmp_path: Path, vgi: Vgi) -> None:
    rows = [f"{1 + k % 5},{1 + k // 5 % 5},{k % 7}" for k in range(60)]
    path = save(tmp_path, "t.csv", "\n".join(["q1,q2,x", *rows, "9,8,9", "8,9,8", ""]))
    recipe = save(tmp_path, "r.yaml", "table:\n  na_values: ['q*=8', 'q1,q2=9']\n")
    flags = ("--recipe", recipe, "--model", "fa", "--set", "bootstrap=none", "--epochs", "5")
    assert vgi("fit", path, *flags, "--out", tmp_path / "run").code == 0
    new = save(tmp_path, "new.csv", "q1,q2,x\n9,1,9\n1,8,3\n")
    done = vgi("impute", "--checkpoint", tmp_path / "run", new, "--m", "1", "-o", tmp_path / "n.csv")
    assert done.code == 0 and "filled 2 of 2 holes" in done.err
    assert (tmp_path / "n.1.csv").read_text().splitlines()[1].endswith(",1,9")
    refused = vgi("check", path, "--na-values", "r*=8", "--no-trial")
    assert refused.code == 2 and "--na-values r*=8: t.csv has no column 'r*'" in refused.err


def test_what_is_no_mark_is_refused(tmp_path: Path, vgi: Vgi) -> None:
    path = save(tmp_path, "t.csv", TEXT)
    result = vgi("fit", path, "--decimal", ";", "--out", tmp_path / "run")
    assert result.code == 2 and "--decimal" in result.err and not (tmp_path / "run").exists()


def test_ranges_are_written_as_the_cells_are(vgi: Vgi, tmp_path: Path) -> None:
    """With the table's decimal mark, and as many decimals as every cell has; whole numbers without any."""
    rows = [f"{i / 10 + 0.5:.2f};{i / 7:.5f};{10 + i % 30}.0;${i / 10 + 0.5:.2f}" for i in range(60)]
    cells = "\n".join(row[: row.index("$")].replace(".", ",") + row[row.index("$") :] for row in rows)
    save(tmp_path, "t.csv", f"a;b;c;d\n{cells}\n")
    said = ["--delimiter", ";", "--decimal", ",", "--column", "d=numeric:$1234.5", "--no-trial", "--json"]
    done = vgi("check", "t.csv", *said)
    assert {column["name"]: column["why"] for column in json.loads(done.out)["columns"]} == {
        "a": "numbers, 0,50 to 6,40",
        "b": "numbers, 0,00000 to 8,42857",
        "c": "whole numbers, 10 to 39",
        "d": "numbers, $0.50 to $6.40 (--column)",
    }
