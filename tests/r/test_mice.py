"""What R's mice makes of a table that `vgi impute --format mids-csv` wrote. Needs R with mice."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import vgi_cli

PAGE = (Path(__file__).parents[2] / "docs" / "imputation.md").read_text(encoding="utf-8")
MISSING = ("", "-", "N/A", "NULL")


def r(code: str) -> str:
    """What R prints."""
    done = subprocess.run(["Rscript", "-e", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def mice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of its own, and R with mice; else the test is skipped."""
    monkeypatch.chdir(tmp_path)
    if shutil.which("Rscript") is None:
        pytest.skip("needs Rscript")
    if subprocess.run(["Rscript", "-e", "library(mice)"], capture_output=True, check=False).returncode:
        pytest.skip("needs R's mice")


def ugly() -> str:
    """A table with semicolons, decimal commas, a byte-order mark and four spellings of a missing cell."""
    draw = random.Random(1)
    lines = ["\ufeffid;bill length (mm);2nd;colour;is_ok;day;note"]
    for i in range(80):
        z = draw.gauss(0, 1)
        cells = [f"{z:.2f}", f"{2 * z + draw.gauss(0, 1):.1f}", draw.choice(["red, light", '"blue ""b"""', "grün"])]
        cells = [cell.replace(".", ",") for cell in cells]
        cells += [draw.choice(["yes", "no"]), f"201{i % 10}-0{1 + i % 9}-11", draw.choice(["x y", "n/a here", ""])]
        cells = [cell if draw.random() > 0.15 else draw.choice(MISSING) for cell in cells]
        lines.append(";".join([f"{i:03d}", *cells]))
    return "\r\n".join([*lines, ""])


def regression(tables: list[object]) -> vgi_cli.api.Pooled:
    """The pooled fits of `2nd` on the first column."""
    estimates, matrices = [], []
    for table in tables:
        x, y = (np.array(table[name], float) for name in ("bill length (mm)", "2nd"))  # type: ignore[index]
        design = np.column_stack([np.ones(len(x)), x])
        solved, (rest,), *_ = np.linalg.lstsq(design, y)
        estimates.append(solved)
        matrices.append(rest / (len(x) - 2) * np.linalg.inv(design.T @ design))
    return vgi_cli.pool(estimates, covariances=matrices, terms=["(Intercept)", "x"], df_complete=78)


@pytest.mark.slow
def test_mice_reads_a_table_of_another_spelling(mice: None) -> None:
    Path("ugly.csv").write_text(ugly(), encoding="utf-8")
    options = {"delimiter": ";", "decimal": ",", "na_values": "-"}
    run = vgi_cli.fit("ugly.csv", id="id", exclude="note", model="mixture", set={"trees": "none"}, out="run", **options)
    assert run.impute(m=4, format="mids-csv", out="ugly.mids.csv") == [Path("ugly.mids.csv")]
    rows = [line.split(";") for line in ugly().splitlines()[1:]]
    holes = ", ".join(f"{sum(row[j] in MISSING for row in rows)}L" for j in range(7))
    code = f"""
        suppressMessages(library(mice))
        imputed <- as.mids(read.csv("ugly.mids.csv"))
        stopifnot(imputed$m == 4, identical(unname(imputed$nmis), c({holes})))
        stopifnot(sapply(complete(imputed, 3)[1:6], anyNA) == FALSE)
        stopifnot(sort(unique(complete(imputed, 1)$colour)) == sort(c("red, light", 'blue "b"', "gr\\u00fcn")))
        rows <- summary(pool(with(imputed, lm(X2nd ~ bill.length..mm.))), type = "all")
        cat(format(unlist(rows[c("estimate", "std.error", "df", "fmi")]), digits = 15))
    """
    ours = regression(run.impute(m=4)).table
    expected = np.concatenate([ours[name] for name in ("estimate", "std_error", "df", "fmi")])
    np.testing.assert_allclose(np.array(r(code).split(), float), expected, rtol=1e-9)


@pytest.mark.slow
def test_the_lines_of_the_page_run(mice: None) -> None:
    """docs/imputation.md, on the penguins."""
    shutil.copytree(Path(__file__).parents[2] / "sample_data", "sample_data")
    (block,) = re.findall(r"^```r\n(.*?)^```$", PAGE, re.S | re.M)
    quick = {"trees": "none", "bootstrap": "none"}
    run = vgi_cli.fit("sample_data/penguins.csv", id=["study", "individual"], model="mixture", set=quick)
    (name,) = re.findall(r'read\.csv\("(.*)"\)', block)
    run.impute(m=5, format="mids-csv", out=name)
    out = r(block)
    assert "flipper_length_mm" in out and "(Intercept)" in out
