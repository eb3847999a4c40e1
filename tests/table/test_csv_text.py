"""Cells of a CSV text, against Python's csv module."""

from __future__ import annotations

import bz2
import csv
import gzip
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgi_cli.errors import InputError
from vgi_cli.table.csv.text import find_lines, quote, quote_if_needed, split_csv, unquote


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


def refused(text: bytes, delimiter: str = ",") -> tuple[str, str]:
    with pytest.raises(InputError) as error:
        split_csv(text, "t.csv", delimiter)
    return error.value.message, str(error.value.hint)


def test_lines_that_agree_on_another_delimiter_name_it_and_lines_above_the_header() -> None:
    rows = b"".join(b"s%d;%d,5;%d\n" % (i, i, i) for i in range(30))
    message, hint = refused(b"# one, two\n# three\nname;x;y\n" + rows)
    assert message == "t.csv: row 1 (line 2) has 1 cell, the header has 2"
    above = "if there are lines above the header, on line 3, delete them"
    assert hint == f"most rows have 3 cells with `--delimiter ';'`; {above}"
    assert refused(b"# one\nname;x;y\n" + rows)[1].endswith("on line 2, delete them")
    assert (
        refused(b"name;x,z;y\n" + rows.replace(b"s1;", b"s1,;"))[1] == "most rows have 3 cells with `--delimiter ';'`"
    )
    assert refused(b"a,b\n1,2\n1,2,3\n")[1] == "every row needs 2 cells; a cell that holds ',' must be in quotes"


@pytest.mark.parametrize("row", [b'"1,2,3\n4,5,"6"\n', b'1,"2,3\n4,5,"6"\n', b'"1,"2",3\n4,5,6\n'])
def test_a_quote_that_is_never_closed_is_named_by_its_line(row: bytes) -> None:
    hint = refused(b"a,b,c\n7,8,9\n" + row + b"7,8,9\n")[1]
    assert hint == "is the quote that opens a cell on line 3 never closed? Close it there, or double it if it is text"


def test_compressed_texts_are_to_be_unpacked() -> None:
    packed = gzip.compress(b"a,b\n1,2\n" * 99)
    message, hint = refused(packed)
    assert message == "t.csv: compressed by gzip, not a text table" and hint == "`gunzip -c FILE` unpacks it"
    assert refused(bz2.compress(b"a,b\n1,2\n"))[1] == "`bunzip2 -c FILE` unpacks it"
    assert "zstd -dc" in refused(b"\x28\xb5\x2f\xfd\x00\xff")[1]
    assert split_csv(b"BZh,b\n1,2\n", "t.csv", ",").names == ("BZh", "b")
