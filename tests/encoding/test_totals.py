"""Lines of totals below a table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.table.helpers import from_text
from vgi_cli.encoding.infer import infer_schema


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    made = pd.DataFrame({"a": rng.lognormal(3, 1, 60).round(), "b": rng.normal(50, 9, 60).round(2)})
    made["firm"] = [f"firm {i}" for i in range(60)]
    made["year"] = rng.integers(1990, 2020, 60)
    return made


def said(made: pd.DataFrame) -> list[str]:
    found = infer_schema(from_text(made.to_csv(index=False)))[1]
    return [line for line in found if "totals" in line]


@pytest.mark.parametrize("word", ["Summe", "Total", "gesamt", "Total:", "Grand total"])
def test_a_line_of_totals_is_said_by_its_word(word: str) -> None:
    made = frame()
    made.loc[60] = [7.0, 8.0, word, None]
    line = f"row 61 (line 62) looks like a line of totals ('{word}' in column 'firm'): delete it"
    assert said(made) == [line]
    made.loc[61] = made.loc[62] = [None] * 4  # rows without a cell below it
    assert said(made) == [line]
    made.loc[3, "firm"] = word  # a level of two rows
    assert said(made) == []


def test_a_line_of_totals_is_said_by_its_sums() -> None:
    made = frame()
    made.loc[60] = [made["a"].sum(), made["b"].sum().round(2), "", None]
    assert said(made) == ["row 61 (line 62) looks like a line of totals (the sums of columns 'a', 'b'): delete it"]
    made.loc[60, "b"] = 50.0
    assert said(made) == []


def test_sums_of_the_observed_cells_alone_are_totals_too() -> None:
    made = frame()
    made.loc[::7, "a"] = made.loc[::6, "b"] = None
    made.loc[60] = [made["a"].sum(), made["b"].sum().round(2), "", None]
    assert said(made) == ["row 61 (line 62) looks like a line of totals (the sums of columns 'a', 'b'): delete it"]
    made.loc[60, "b"] *= 1.2  # what the holes may have held is not so much
    assert said(made) != []
    made.loc[60, "b"] *= 2
    assert said(made) == []


def test_several_lines_of_totals_are_said() -> None:
    made = frame()
    made.loc[60], made.loc[61] = [7.0, 8.0, "Zwischensumme", None], [9.0, 9.0, "Summe", None]
    assert [line.split(" (")[0] for line in said(made)] == ["row 61", "row 62"]


def test_other_last_rows_are_not() -> None:
    assert said(frame()) == []
    zeros = pd.DataFrame({"a": [0] * 59 + [1], "b": [1, *[0] * 58, 1], "c": range(60)})  # 1 is the sum of nothing else
    assert said(zeros) == []
    running = pd.DataFrame({"a": np.arange(60).cumsum(), "b": np.arange(60).cumsum() * 2.5, "c": range(60)})
    assert said(running) == []
    assert said(frame().head(4).assign(firm=["a", "b", "c", "Total"])) == []  # too few rows to say


def test_a_few_sums_among_many_columns_are_chance() -> None:
    rng = np.random.default_rng(1)
    made = pd.DataFrame(rng.normal(size=(50, 12)).round(4), columns=[f"c{i}" for i in range(12)])
    made[["c0", "c1"]] = made[["c0", "c1"]].abs()
    made.loc[49, ["c0", "c1"]] = made.loc[:48, ["c0", "c1"]].sum()
    assert said(made) == []
    made.loc[50] = made.abs().sum()
    assert said(made.abs()) != []
