"""Numbers that are written with currencies, units, thousands marks and brackets: found, read, and written back."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.table.helpers import from_text
from vgi_cli.columns.notation import MARKS, Notation, notation_of, readings
from vgi_cli.columns.number import Constant, Number
from vgi_cli.encoding.infer import infer_schema, schema_alone
from vgi_cli.errors import InputError
from vgi_cli.table.csv.text import quote_if_needed
from vgi_cli.table.frames import from_frame


def indian(v: float) -> str:
    """In groups of two digits above the last three."""
    whole, decimals = f"{v:.2f}".split(".")
    head, last = whole[:-3], whole[-3:]
    head = re.sub(r"(?<=\d)(?=(\d\d)+$)", ",", head)
    return f"{head},{last}.{decimals}" if head else f"{last}.{decimals}"


FORMS = {
    "$1,234.50": lambda v: f"${v:,.2f}",
    "1.234,50 €": lambda v: f"{v:,.2f} €".translate(str.maketrans(",.", ".,")),
    "CHF 1'234.50": lambda v: f"CHF {v:,.2f}".replace(",", "'"),
    "1\u202f234,50\u00a0kr": lambda v: f"{v:,.2f}\u00a0kr".translate(str.maketrans({",": "\u202f", ".": ","})),
    "1,234.50": lambda v: f"{v:,.2f}",
    "1234,50": lambda v: f"{v:.2f}".replace(".", ","),
    "1234.50%": lambda v: f"{v:.2f}%",
    "1234.50 km/h": lambda v: f"{v:.2f} km/h",
    "1234.50 kWh/(m²·a)": lambda v: f"{v:.2f} kWh/(m²·a)",
    "1234.50 l/100 km": lambda v: f"{v:.2f} l/100 km",
    "1,234.50 €/m²": lambda v: f"{v:,.2f} €/m²",
    "1234.50 m·s⁻¹": lambda v: f"{v:.2f} m·s⁻¹",
    "1234.50 %/a": lambda v: f"{v:.2f} %/a",
    "$1,234.50/h": lambda v: f"${v:,.2f}/h",
    "1.234.567": lambda v: f"{round(v * 1000):,}".replace(",", "."),
}


def schema_of(cells: list[str]) -> tuple[Number, list[str]]:
    lines = [f"{quote_if_needed(cell, ',')},{i % 7 + i}" for i, cell in enumerate(cells)]
    schema, notes = infer_schema(from_text("\n".join(["x,y", *lines, ""])))
    [column] = [column for column in schema.columns if column.name == "x"]
    assert isinstance(column, Number), (column, notes)
    return column, notes


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_found_and_written_back(form: str) -> None:
    values = np.round(np.exp(np.random.default_rng(1).normal(6.5, 1.2, 80)), 2)
    cells = [FORMS[form](value) for value in values]
    column, notes = schema_of(cells)
    table = from_text("\n".join(["x,y", *(f"{quote_if_needed(cell, ',')},1" for cell in cells), ""]))
    codes = column.codes(table.column("x"))
    assert np.array_equal(codes, np.round(values * 1000) if form == "1.234.567" else values)
    assert column.spell(codes, None) == cells
    [said] = [note for note in notes if "is read as numbers" in note]
    shown = re.fullmatch(r"column 'x' is read as numbers: '(.*)' is ([\d.]+)", said)
    assert shown is not None and float(shown[2]) == codes.max() and shown[1] == cells[int(codes.argmax())]


@pytest.mark.parametrize(("before", "decimals"), [("", True), ("", False), ("₹", True), ("Rs. ", False)])
def test_indian_groups_are_read_and_written_back(before: str, decimals: bool) -> None:
    values = np.round(np.exp(np.random.default_rng(1).normal(11, 2.5, 90)), 2)
    values = values if decimals else np.rint(values) + 1
    cells = [before + (indian(value) if decimals else indian(value).removesuffix(".00")) for value in values]
    assert max(cell.count(",") for cell in cells) > 1
    column, notes = schema_of(cells)
    table = from_text("\n".join(["x,y", *(f"{quote_if_needed(cell, ',')},1" for cell in cells), ""]))
    assert np.array_equal(column.codes(table.column("x")), values)
    assert column.spell(values, None) == cells
    assert column.notation is not None and column.notation.indian
    assert column.notation.example == f"{before}12,34,567.5" and notation_of(column.notation.example) is not None
    assert any("is read as numbers" in note for note in notes)


@pytest.mark.parametrize(
    "cells", [["1,00,000", "1,000,000", "2,500"], ["1,00,00", "10,000", "2,500"], ["1,2,345", "7"]]
)
def test_groups_of_two_kinds_are_no_numbers(cells: list[str]) -> None:
    assert readings(cells, ".") == []


def test_groups_that_may_be_either_are_the_usual_ones() -> None:
    [found] = readings(["12,345.5", "99,999.25", "850.5"], ".")
    assert not found.indian and found.dress("1234567.5") == "1,234,567.5"


@pytest.mark.parametrize(
    ("number", "text"),
    [("0.5", "0.5"), ("999", "999"), ("1000", "1,000"), ("100000", "1,00,000"), ("-123456789.25", "-12,34,56,789.25")],
)
def test_indian_groups(number: str, text: str) -> None:
    notation = Notation(thousands=",", indian=True)
    assert notation.dress(number) == text and notation.plain(text) == number


@given(
    st.builds(
        Notation,
        prefix=st.sampled_from(["", "$", "€ ", "CHF "]),
        suffix=st.sampled_from(["", "%", " kg", "°C"]),
        thousands=st.sampled_from(["", *MARKS]),
        decimal=st.sampled_from([".", ","]),
        minus=st.sampled_from(["-", "\u2212", ""]),
        outside=st.booleans(),
    ).filter(lambda one: one.thousands != one.decimal),
    st.decimals(-(10**9), 10**9, places=2),
)
def test_what_is_written_reads_back(notation: Notation, value: object) -> None:
    text = f"{value:f}"
    if not float(text):
        text = text.removeprefix("-")
    assert notation.plain(notation.dress(text)) == text
    said = notation_of(notation.example)
    assert said is not None and said.plain(notation.dress(text)) == text


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        (["(320)", "45", "(1,200.5)"], ["-320", "45", "-1200.5"]),
        (["(1994)", "(2003)"], ["1994", "2003"]),  # brackets that all have are no signs
        (["(1,200.5 kg)", "(35 kg)"], ["1200.5", "35"]),
        (["-$5.20", "$7.00"], ["-5.20", "7.00"]),
        (["$-5.20", "$7.00"], ["-5.20", "7.00"]),
        (["\u22125", "7"], ["-5", "7"]),
        (["180cm", "175 cm", "169 cm"], ["180", "175", "169"]),
        (["$1,234", "$2,500"], ["1234", "2500"]),  # money has no three decimals
        (["1.234 €", "500 €"], ["1234", "500"]),
        (["18\u00a0805", "20\u00a0100"], ["18805", "20100"]),  # a blank at which no line is broken: hardly a code
        (["118\u202f805", "120\u202f100"], ["118805", "120100"]),
        (["1.234 kg", "0.500 kg"], ["1.234", "0.500"]),
        (["1.234 kg", "5.125 kg"], ["1.234", "5.125"]),  # a point is a decimal point, unless more says otherwise
        (["1,234", "987", "1,001", "2,002", "3,003", "4,004", "5,005"], ["1234", "987", "1001"]),
        ([".5 %", "12 %"], [".5", "12"]),
    ],
)
def test_what_cells_are_worth(cells: list[str], found: list[str]) -> None:
    [notation] = readings(cells, ".")
    assert [notation.plain(cell) for cell in cells[: len(found)]] == found
    assert notation.styled(cells) == notation


@pytest.mark.parametrize(
    "cells",
    [
        ["5 kg", "500 g"],  # two units
        ["$5", "5"],
        ["$5", "€5"],
        ["(5", "6"],
        ["732 829 320", "552 100 554"],  # codes of one length
        ["732\u00a0829\u00a0320", "552\u00a0100\u00a0554"],
        ["18 805", "20 100"],
        ["1,3", "2,5"],  # choices
        ["18-24", "25-34"],
        ["1:30", "2:45"],
        ["2020-01-01"],
        ["192.168.1.1"],
        ["0012 kg", "0400 kg"],
        ["1,23,456", "2"],
        ["12 345", "678 90"],
        ["1st", "2nd"],
        ["Q1", "Q2"],
        ["--5", "7"],
        ["12/h", "8/h"],
        ["5 €/", "6 €/"],
        ["5 kg/(m", "6 kg/(m"],
        ["9" * 70 + " kg"],
    ],
)
def test_other_texts_are_no_numbers(cells: list[str]) -> None:
    assert readings(cells, ".") == []


def test_what_can_be_read_in_two_ways_is_asked() -> None:
    cells = [f"{i % 9 + 1},{100 + 17 * i}" for i in range(40)]
    _, notes = infer_schema(
        from_text("x;y\n" + "".join(f"{cell};{i % 7}\n" for i, cell in enumerate(cells)), delimiter=";")
    )
    assert (
        "column 'x' is carried as text, not modelled: '1,100' in row 1 (line 2) can be read in two ways, as 1.1 "
        "(`--column x=numeric:1234,5`) or as 1100 (`--column x=integer:1,234.5`)"
    ) in notes
    for said, first in (("numeric:1234,5", 1.1), ("numeric:1,234.5", 1100.0), ("integer:1,234.5", 1100.0)):
        table = from_text("x;y\n" + "".join(f"{cell};{i % 7}\n" for i, cell in enumerate(cells)), delimiter=";")
        schema, notes = infer_schema(table, kinds={"x": said})
        column = schema.columns[0]
        assert isinstance(column, Number) and column.codes(table.column("x"))[0] == first
        assert column.request == said.replace("numeric", column.kind)
        assert not any("two ways" in note for note in notes)


@pytest.mark.parametrize("unit", [" €/m²", " EUR/l", " $/kg"])
def test_a_price_for_a_unit_may_have_three_decimals(unit: str) -> None:
    cells = [f"1.{200 + 7 * i}{unit}" for i in range(9)]
    assert {one.example for one in readings(cells, ".")} == {f"1234.5{unit}", f"1.234,5{unit}"}
    assert [one.example for one in readings(cells, ",")] == [f"1.234,5{unit}"]
    assert [one.example for one in readings([*cells, f"0.995{unit}"], ".")] == [f"1234.5{unit}"]


def test_a_number_with_a_unit_among_numbers_is_not_called_missing() -> None:
    cells = [f"{100 + 13 * i}" for i in range(40)]
    with pytest.raises(InputError) as raised:
        infer_schema(from_text("x,y\n" + "".join(f"{cell},{i % 7}\n" for i, cell in enumerate([*cells, "900 €/m²"]))))
    assert raised.value.hint is not None and raised.value.hint.startswith("write 1234.5, without commas")


def test_a_constant_keeps_its_unit() -> None:
    schema = schema_alone(from_text("x,y\n" + "".join(f"{'5 kg' if i % 3 else ''},{i}\n" for i in range(20))))
    [constant] = schema.constants
    assert isinstance(constant, Constant) and constant.spell(np.array([5.0]), None) == ["5 kg"]
    assert constant.summary == "always 5 kg"


def test_categories_of_pandas_stay_categories() -> None:
    frame = pd.DataFrame({"dose": [f"{10 * (i % 6 + 1)} mg" for i in range(60)], "y": range(60)})
    kinds = [schema_alone(from_frame(one)).columns[0].kind for one in (frame, frame.astype({"dose": "category"}))]
    assert kinds == ["integer", "categorical"]


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        (["+0.9%", "-3.0%", "+2.5%", "0.0%"], {3.5: "+3.5%", -1.0: "-1.0%", 0.0: "0.0%"}),
        (["+0.9%", "-3.0%", "+2.5%", "+0.0%"], {3.5: "+3.5%", 0.0: "+0.0%"}),
        (["+$5.20", "-$7.00", "+$1,200.50"], {1100.5: "+$1,100.50", -3.0: "-$3.00"}),
        (["$+5.20", "$+7.00", "$+1.10"], {3.5: "$+3.50"}),
        (["+5 kg", "(3 kg)", "+7 kg"], {6.0: "+6 kg", -2.0: "(2 kg)"}),
        ([".5 %", "1.2 %", "-.7 %"], {0.6: ".6 %"}),
        (["0.9%", "-3.0%", "+2.5%", "1.0%"], {3.5: "3.5%"}),
    ],
)
def test_fills_have_the_signs_of_the_column(cells: list[str], wanted: dict[float, str]) -> None:
    column, _ = schema_of(cells * 5)
    for value, text in wanted.items():
        assert column.spell(np.array([value]), None) == [text]
        assert column.notation is not None and float(column.notation.plain(text) or "nan") == value
