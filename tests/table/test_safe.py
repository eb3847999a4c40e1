"""Formulas in CSV: written so that a spreadsheet shows them, and given back by taking one `'` away."""

from __future__ import annotations

import csv
import io
import re
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgi_cli.table.csv.safe import safe_cells
from vgi_cli.table.csv.text import quote_if_needed

BACK = re.compile(r"^'(?='*[=+\-@\t\r].)", re.S)
"""What is taken away to read such a file, as docs/tables.md has it."""


@pytest.mark.parametrize(
    ("cell", "safe"),
    [
        ("=1+1", "'=1+1"),
        ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
        ("+49 30 1234", "'+49 30 1234"),
        ("-2+3", "'-2+3"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ('"\r=1"', '"\'\r=1"'),
        ('"=HYPERLINK(""http://x"",1)"', '"\'=HYPERLINK(""http://x"",1)"'),
        ('"-1+1"', '"\'-1+1"'),
        ("'=1", "''=1"),
        ("-inf", "'-inf"),
    ],
)
def test_formulas_get_a_quote(cell: str, safe: str) -> None:
    assert safe_cells(f"a,b\r\nx,{cell}\r\n{cell},y".encode(), ",") == f"a,b\r\nx,{safe}\r\n{safe},y".encode()
    assert safe_cells(f"\ufeff{cell};b\n1;2\n".encode(), ";") == f"\ufeff{safe};b\n1;2\n".encode()


@pytest.mark.parametrize(
    "cell",
    [
        "-1.5",
        "+3",
        "-.5",
        "1e-3",
        "-1E+05",
        "-1,5",
        '"-7"',
        "\t6",
        "-",
        "=",
        "",
        '""',
        "a=b",
        " =1",
        "'x",
        "'",
        "2020-01-01",
    ],
)
def test_numbers_and_other_texts_stay(cell: str) -> None:
    text = f"a;b\nx;{cell}\n{cell};y\n".encode()
    assert safe_cells(text, ";") == text


@given(st.lists(st.lists(st.text("=+-@\t\r\n'\"a1,. ", max_size=5), min_size=2, max_size=2), min_size=1, max_size=5))
def test_no_cell_is_a_formula_and_each_can_be_read_back(rows: list[list[str]]) -> None:
    text = "".join(",".join(quote_if_needed(cell, ",") for cell in row) + "\n" for row in [["a", "b"], *rows])
    safe = list(csv.reader(io.StringIO(safe_cells(text.encode(), ",").decode(), newline="")))
    plain = list(csv.reader(io.StringIO(text, newline="")))
    for before, after in zip(chain.from_iterable(plain), chain.from_iterable(safe), strict=True):
        assert BACK.sub("", after) == before
        assert after[:1] not in "=+-@\t\r" or not after[1:] or re.fullmatch(r"[+-]?[\d.,]+(e[+-]?\d+)?", after.strip())
