"""`--safe-cells` of impute, sample, score and hide: formulas of strangers do not run in a spreadsheet."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import vgi_cli
from tests.cli.test_refusals import refused
from tests.program import Vgi, fit_once, vgi
from vgi_cli.errors import UsageError

__all__ = ["vgi"]

EVIL = "=1+1"
FIT = ("--model", "mixture", "--set", "model.components=1", "--set", "bootstrap=none", "--threads", "1")


@pytest.fixture
def run(vgi: Vgi) -> str:
    rows = [
        f"-{i},{'' if i % 5 == 0 else -i * i % 11 / 2},{'' if i % 7 == 3 else ('=A', '@B')[i % 2]}" for i in range(24)
    ]
    lines = [f"@{i},{row},-" for i, row in enumerate(rows)]
    Path("t.csv").write_text(f"key,a,b,=level,{EVIL}\n" + "\n".join(lines) + "\n")
    return str(fit_once(vgi, "t.csv", *FIT, "--id", "key"))


def cells(text: str) -> list[str]:
    return [cell for row in csv.reader(text.splitlines()) for cell in row]


def formulas(text: str) -> list[str]:
    found = [cell for cell in cells(text) if cell[:1] in "=+-@" and len(cell) > 1]
    return [cell for cell in found if cell[0] in "=@" or not cell[1:].replace(".", "").isdigit()]


COMMANDS = {
    "files": ["impute", "--checkpoint", "run", "--m", "2", "-o", "o.csv"],
    "long": ["impute", "--checkpoint", "run", "--m", "2", "--format", "long", "-o", "o.csv"],
    "mids-csv": ["impute", "--checkpoint", "run", "--m", "2", "--format", "mids-csv", "-o", "o.csv"],
    "single": ["impute", "--checkpoint", "run", "--format", "single", "-o", "o.tsv"],
    "gz": ["impute", "--checkpoint", "run", "t.csv", "--format", "single", "-o", "-"],
    "sample": ["sample", "run", "-n", "20", "-o", "o.csv"],
    "score": ["score", "run", "t.csv", "-o", "o.csv"],
    "hide": ["hide", "t.csv", "-o", "trial"],
}


def written(out: str) -> str:
    paths = [Path(path) for path in out.splitlines() if path.endswith((".csv", ".tsv")) and "," not in path]
    return "".join(path.read_text().replace("\t", ",") for path in paths) if paths else out


@pytest.mark.parametrize("name", COMMANDS)
def test_no_formula_is_written(vgi: Vgi, run: str, name: str) -> None:
    plain = vgi(*COMMANDS[name])
    assert plain.code == 0
    before = written(plain.out)
    assert formulas(before)  # without the flag they stay as they are
    safe = vgi(*COMMANDS[name], "--safe-cells", "--force")
    assert safe.code == 0
    after = written(safe.out)
    assert formulas(after) == []
    assert [cell.removeprefix("'") for cell in cells(after)] == cells(before)
    assert any(cell.startswith("-") and cell[1:2].isdigit() for cell in cells(after)) or name == "hide"


def test_refused_where_it_means_nothing(vgi: Vgi, run: str) -> None:
    for command in (
        ["impute", "--checkpoint", run, "-o", "o.parquet"],
        ["sample", run, "-o", "o.parquet"],
        ["score", run, "t.csv", "-o", "o.parquet"],
    ):
        error, hint = refused(vgi, *command, "--safe-cells")
        assert error == "--safe-cells is for CSV: in Parquet a text is no formula" and "leave it out" in hint
    for call in (vgi_cli.impute, vgi_cli.sample):
        with pytest.raises(UsageError, match="--safe-cells is for CSV files, and none is written"):
            call(run, safe_cells=True)
    with pytest.raises(UsageError, match="--safe-cells is for CSV files, and none is written"):
        vgi_cli.hide("t.csv", safe_cells=True)
