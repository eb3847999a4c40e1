"""The blocks of docs/pooling.md run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.program import Vgi, vgi
from tests.schemas import checked

__all__ = ["vgi"]

PAGE = (Path(__file__).parents[2] / "docs" / "pooling.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    """The only block of the page in a language."""
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.S | re.M)
    return str(text)


def test_the_commands_run_on_the_table(vgi: Vgi) -> None:
    Path("estimates.csv").write_text(block("csv"), encoding="utf-8")
    plain, json = block("sh").splitlines()
    result = vgi(*shlex.split(plain)[1:])
    assert result.code == 0 and "| sexMALE " in result.out
    words, target = json.split(" > ")
    assert checked("pool", vgi(*shlex.split(words)[1:]).out)["m"] == 2 and target == "pooled.json"


def test_the_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(block("python"), names)
    assert str(names["pooled"]) in capsys.readouterr().out
    assert names["pooled"].table.loc["mean", "estimate"] == pytest.approx(4200.7)
    stated = re.search(r"a DataFrame: (.*), …", block("python"))
    assert stated is not None and set(stated[1].split(", ")) <= set(names["pooled"].table)


def test_every_column_is_explained() -> None:
    from vgi_cli import pool

    table = PAGE[PAGE.index("| printed |") :].split("\n\n")[0]
    named = {name for row in table.splitlines() for name in re.findall("`([^`]+)`", row.replace("`--level 0.95`", ""))}
    assert named - {"--json", "pooled.table"} == set(pool([1.0, 2.0], [1.0, 1.0]).table)


def test_estimates_that_are_all_the_same_are_a_warning_in_python_too() -> None:
    from vgi_cli import pool
    from vgi_cli.errors import VgiWarning

    with pytest.warns(VgiWarning, match="^every estimate is the same in all 3 imputations: was one table"):
        pool([1.0, 1.0, 1.0], [0.5, 0.5, 0.5])
    table = pd.DataFrame({"imputation": [1, 3], "term": "a", "estimate": [1.0, 1.5], "std_error": 0.5})
    with pytest.warns(VgiWarning, match="the imputations are numbered up to 3, without 2"):
        pool(table)
