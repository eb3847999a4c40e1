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
