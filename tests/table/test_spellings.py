"""Levels that a new table spells in another way than the fit: its fills are spelled as its own cells are."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

from tests.table.helpers import from_text, write_imputed
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.check import check
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.table.base import Table
from vgi_cli.table.frames import from_frame, to_frames


def fitted(*levels: str, **options: object) -> Schema:
    text = "g,x\n" + "".join(f"{levels[i % len(levels)]},{i}.5\n" for i in range(20))
    return infer_schema(from_text(text), **options)[0]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fit", "cells", "fills"),
    [
        (("N", "Y"), ["yes", "", "no", ""], ["no", "yes"]),
        (("N", "Y"), ["yes", "", "", ""], ["no", "yes"]),
        (("N", "Y"), ["TRUE", "", "TRUE", ""], ["FALSE", "TRUE"]),
        (("0", "1"), ["f", "", "t", ""], ["f", "t"]),
        (("N", "Y"), ["Y", "", "yes", "Y"], ["N", "Y"]),  # as most cells are
        (("N", "Y"), ["", "", "", ""], ["N", "Y"]),
        (("1", "7"), ["1.0", "", "7.0", ""], ["1.0", "7.0"]),
        (("1", "7"), ["1.0", "", "1.0", ""], ["1.0", "7"]),
        (("a", "b"), ["a", "", " b ", ""], ["a", "b"]),
    ],
)
def test_in_csv(fit: tuple[str, ...], cells: list[str], fills: list[str]) -> None:
    schema = fitted(*fit)
    table = from_text("g,x\n" + "".join(f"{cell},0.5\n" for cell in cells))
    check(table, schema)
    draws = np.zeros((2, 4, 2))
    draws[1, :, 0] = 1.0
    for draw, fill in zip(draws, fills, strict=True):
        out = io.BytesIO()
        write_imputed(table, schema, draw[None], layout="single", out=out)
        got = [line.split(",")[0] for line in out.getvalue().decode().splitlines()[1:]]
        assert got == [cell or fill for cell in cells]


def filled_texts(table: Table, schema: Schema, fill: float) -> list[list[str]]:
    """The cells of each row, every hole filled with the same code."""
    out = io.BytesIO()
    draws = np.full((1, table.N, len(schema.modelled)), fill)
    write_imputed(table, schema, draws, layout="single", out=out)
    return [line.split(",") for line in out.getvalue().decode().splitlines()[1:]]


def test_blanks_around_all_cells_of_a_column_in_csv() -> None:
    """As the UCI repository writes its tables: fills have the blanks that every observed cell has."""
    rows = ["{} 36 months, {}, a ", "{} 60 months, {}, b", '{} 36 months, {}," b "'] * 10
    table = from_text("term, x, g\n" + "\n".join(row.format("", i) for i, row in enumerate(rows)) + "\n,,\n")
    schema = infer_schema(table)[0]
    assert filled_texts(table, schema, 1.0)[-1] == [" 60 months", " 1", "b"]  # not all of `g` have one
    other = from_text("term, x, g\n36 months,4,\n,,\n")  # spelled as its own cells are
    check(other, schema)
    assert filled_texts(other, schema, 1.0)[-1] == ["60 months", "1", "b"]


@pytest.mark.parametrize("categories", [False, True])
def test_blanks_around_all_cells_of_a_column_in_a_frame(categories: bool) -> None:
    frame = pd.DataFrame({"term": [" 36 months", " 60 months", None] * 10, "x": np.arange(30) + 0.5})
    frame["term"] = frame["term"].astype("category" if categories else object)
    table = from_frame(frame)
    schema = infer_schema(table)[0]
    draws = np.zeros((1, 30, 2))
    filled = to_frames(table, schema, draws, False, say=print)[0]
    assert isinstance(filled, pd.DataFrame)
    assert set(filled["term"]) == {" 36 months", " 60 months"} and (filled["term"][2::3] == " 36 months").all()


@pytest.mark.parametrize(
    ("fit", "cells", "fill"),
    [
        ("{}%", ["36 %", "", "41 %"], "27 %"),
        ("{} %", ["36%", "", "41 %", "41%"], "27%"),
        ("{}\u00a0kg", ["36 kg", ""], "27 kg"),
        ("{}%", ["", ""], "27%"),
    ],
)
def test_blanks_of_units_in_csv(fit: str, cells: list[str], fill: str) -> None:
    schema = infer_schema(from_text("g,x\n" + "".join(f"{fit.format(i)},{i}.5\n" for i in range(20, 60))))[0]
    table = from_text("g,x\n" + "".join(f"{cell},0.5\n" for cell in cells))
    out = io.BytesIO()
    write_imputed(table, schema, np.full((1, len(cells), 2), 27.0), layout="single", out=out)
    assert [line.split(",")[0] for line in out.getvalue().decode().splitlines()[1:]] == [cell or fill for cell in cells]


@pytest.mark.parametrize(
    ("fit", "cells", "fill"),
    [
        ("({}%)", ["-4%", "5%", ""], "-3%"),
        ("-{}%", ["(4%)", "5%", ""], "(3%)"),
        ("({}%)", ["4%", "5%", ""], "(3%)"),
        ("$-{}", ["$4", "$5", ""], "$-3"),
    ],
)
def test_signs_of_units_in_csv(fit: str, cells: list[str], fill: str) -> None:
    whole = "".join(f"{(fit if i % 2 else fit.strip('()').replace('-', '')).format(i)},{i}.5\n" for i in range(1, 40))
    schema = infer_schema(from_text(f"g,x\n{whole}"))[0]
    table = from_text("g,x\n" + "".join(f"{cell},0.5\n" for cell in cells))
    out = io.BytesIO()
    write_imputed(table, schema, np.full((1, len(cells), 2), -3.0), layout="single", out=out)
    assert out.getvalue().decode().splitlines()[-1] == f"{fill},0.5"


def test_in_a_table_in_memory() -> None:
    new = pd.DataFrame({"g": ["yes", None, "no"], "x": [0.5] * 3})
    frame = to_frames(from_frame(new), fitted("N", "Y"), np.ones((1, 3, 2)), False, say=print)[0]
    assert frame["g"].tolist() == ["yes", "yes", "no"]
    typed = pd.DataFrame({"g": pd.array([True, None, False], "boolean"), "x": [0.5] * 3})
    frame = to_frames(from_frame(typed), fitted("N", "Y"), np.ones((1, 3, 2)), False, say=print)[0]
    assert frame["g"].tolist() == [True, True, False]


def test_levels_that_were_listed_have_no_opposite() -> None:
    schema = fitted("lost", "won", kinds={"g": "boolean:lost,won"})
    table = from_text("g,x\nWON,1\n,2\n")
    check(table, schema)
    out = io.BytesIO()
    write_imputed(table, schema, np.zeros((1, 2, 2)), layout="single", out=out)
    assert out.getvalue().decode().splitlines()[1:] == ["WON,1", "lost,2"]
