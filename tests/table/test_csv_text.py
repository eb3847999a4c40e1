"""Cells of a CSV text, against Python's csv module."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgi_cli.table.csv.text import find_lines, quote, quote_if_needed, unquote


def split(text: str, delimiter: str = ",") -> list[list[str]]:
    """All rows with the texts of their cells."""
    data = text.encode()
    lines = find_lines(data, ord(delimiter), 0)
    assert lines.unclosed is None
    rows, begin, first = [], 0, 0
    for last, following in zip(lines.last.tolist(), lines.following.tolist(), strict=True):
        row = []
        for end in lines.separators[first : last + 1].tolist():
            row.append(unquote(data[begin:end].decode()))
            begin = end + 1
        rows.append(row)
        begin, first = following, last + 1
    return rows


@given(st.text(alphabet='ab,"\n', max_size=40))
def test_splits_any_text_as_python_does(text: str) -> None:
    expected = list(csv.reader(io.StringIO(text, newline="")))
    if find_lines(text.encode(), ord(","), 0).unclosed is None:
        assert split(text) == [row or [""] for row in expected]


@given(st.lists(st.lists(st.text(alphabet='ab;,"\r\né', max_size=5), min_size=2, max_size=3), min_size=1, max_size=4))
def test_splits_what_python_writes(rows: list[list[str]]) -> None:
    sink = io.StringIO(newline="")
    csv.writer(sink, delimiter=";", lineterminator="\r\n").writerows(rows)
    assert split(sink.getvalue(), ";") == rows


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [True, False])
def test_all_line_ends_with_and_without_the_last(end: str, last: bool) -> None:
    text = end.join(["a,b", "1,2", "3,"]) + (end if last else "")
    assert split(text) == [["a", "b"], ["1", "2"], ["3", ""]]


def test_an_unclosed_quote_is_found_where_it_opens() -> None:
    assert find_lines(b'a,b\n1,"2\n3,4\n', ord(","), 0).unclosed == 6


@given(st.text(max_size=10))
def test_quote_and_unquote_are_inverse(text: str) -> None:
    assert unquote(quote(text)) == text
    assert split("x," + quote_if_needed(text, ",") + ",y\n")[0][1] == text
