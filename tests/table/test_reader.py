"""Reading: every form of input, every refusal with its text."""

from __future__ import annotations

import gzip
import io
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.table.helpers import from_text, save
from vgi_cli.errors import InputError, UsageError
from vgi_cli.table.reader import read_table
from vgi_cli.table.source import open_table
from vgi_cli.table.texts import MISSING

SENSE = "in a mask 1 is observed and 0 is missing"


def refusal(*args: object, **options: object) -> str:
    """`message | hint` of the InputError that reading raises."""
    with pytest.raises(InputError) as caught:
        read_table(*args, **options)  # type: ignore[arg-type]
    return f"{caught.value.message} | {caught.value.hint}"


def text_refusal(text: str | bytes, **options: object) -> str:
    data = text.encode() if isinstance(text, str) else text
    return refusal(["-"], stdin=io.BytesIO(data), **options)


def test_csv_cells() -> None:
    table = from_text('\ufeffa,"b ""x""",c\r\n1," NA ",+2\r\n\r\n2.50,"x\ny", 3 \r\n')
    assert (table.names, table.N, table.origin.format, table.label) == (("a", 'b "x"', "c"), 2, "csv", "standard input")
    assert table.text("a").tolist() == ["1", "2.50"]
    assert table.text('b "x"').tolist() == [None, "x\ny"]
    np.testing.assert_array_equal(table.numeric("c"), [2.0, 3.0])
    assert table.where(0) == "row 1 (line 2)"
    assert table.where(1) == "row 2 (line 4)"


@pytest.mark.parametrize("token", MISSING)
def test_missing_tokens(token: str) -> None:
    table = from_text(f'a,b,c\n{token},"{token}", {token} \n1,2,3\n')
    for name in table.names:
        assert table.missing(name).tolist() == [True, False]
        assert table.text(name)[0] is None
        np.testing.assert_array_equal(table.numeric(name)[0], np.nan)


@pytest.mark.parametrize("token", ["na", "NONE", "?", "-", "Null"])
def test_other_tokens_are_text_unless_named(token: str) -> None:
    text = f"a,b\n{token},1\n"
    assert not from_text(text).missing("a").any()
    assert from_text(text, na_values=["?", "na", "NONE", "-", "Null"]).missing("a").all()


def test_one_column_with_blank_lines() -> None:
    table = from_text("x\n1\n\n3\n")
    np.testing.assert_array_equal(table.numeric("x"), [1, np.nan, 3])


def test_unnamed_first_column_is_an_index() -> None:
    assert from_text(",a\n0,1\n1,2\n").index == {""}


@pytest.mark.parametrize(
    ("given", "text"), [(";", "a;b\n1;2\n"), ("\\t", "a\tb\n1\t2\n"), ("tab", "a\tb\n1\t2\n"), ("|", "a|b\n1|2\n")]
)
def test_delimiters(given: str, text: str) -> None:
    assert from_text(text, delimiter=given).names == ("a", "b")


@pytest.mark.parametrize("given", ["", ";;", "1", ".", '"', "\n", "é", "e"])
def test_bad_delimiters(given: str) -> None:
    with pytest.raises(UsageError, match="expected one ASCII character that no number holds"):
        from_text("a\n1\n", delimiter=given)


def test_files_by_extension(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    save(tmp_path, "t.csv", "a,b\n1,x\n2,y\n")
    save(tmp_path, "t.tsv", "a\tb\n1\tx\n2\ty\n")
    save(tmp_path, "t.csv.gz", gzip.compress(b"a,b\n1,x\n2,y\n"))
    save(tmp_path, "t.TSV.gz", gzip.compress(b"a\tb\n1\tx\n2\ty\n"))
    frame.to_parquet(tmp_path / "t.parquet")
    for name, suffix in [("t.csv", ".csv"), ("t.tsv", ".tsv"), ("t.csv.gz", ".csv.gz"), ("t.parquet", ".parquet")]:
        table = read_table([tmp_path / name])
        assert (table.names, table.N, *table.origin[:2], table.label) == (("a", "b"), 2, "t", suffix, name)
        np.testing.assert_array_equal(table.numeric("a"), [1, 2])
        assert table.text("b").tolist() == ["x", "y"]
    assert read_table([tmp_path / "t.TSV.gz"]).names == ("a", "b")


def test_standard_input_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\n1\n")))
    assert read_table(["-"]).N == 1


def test_several_csv_files_are_one_table(tmp_path: Path) -> None:
    a = save(tmp_path, "a.csv", "x,y\n1,2\n3,4")
    b = save(tmp_path, "b.csv", 'y,x\n"6",5\n\n8,"q,"\n')
    c = save(tmp_path, "c.tsv", "x\ty\n9\t1,5\n")
    table = read_table([a, b, c])
    assert table.label == "a.csv and 2 more"
    assert table.text("x").tolist() == ["1", "3", "5", "q,", "9"]
    assert table.text("y").tolist() == ["2", "4", "6", "8", "1,5"]
    assert table.where(1) == "row 2 (line 3 of a.csv)"
    assert table.where(2) == "row 3 (line 2 of b.csv)"


def test_files_of_one_table_need_the_same_columns(tmp_path: Path) -> None:
    a, b = save(tmp_path, "a.csv", "x,y\n1,2\n"), save(tmp_path, "b.csv", "x,z\n1,2\n")
    expected = (
        "b.csv: other columns than a.csv (lacks 'y', has 'z' too) | files of one table need the same column names"
    )
    assert refusal([a, b]) == expected
    pd.DataFrame({"x": [1]}).to_parquet(tmp_path / "c.parquet")
    assert refusal([a, tmp_path / "c.parquet"]).startswith("CSV and Parquet files cannot be joined into one table")


def test_a_folder_of_parquet(tmp_path: Path) -> None:
    pd.DataFrame({"x": [3.0, 4.0], "y": [1, 2]}).to_parquet(tmp_path / "b.parquet")
    pd.DataFrame({"y": [1, 2], "x": [1, 2]}).to_parquet(tmp_path / "a.parquet")
    save(tmp_path, "_SUCCESS", "")
    table = read_table([tmp_path])
    assert (table.label, table.origin.suffix, table.names) == (tmp_path.name, ".parquet", ("y", "x"))
    np.testing.assert_array_equal(table.numeric("x"), [1, 2, 3, 4])
    (tmp_path / "sub").mkdir()
    assert refusal([tmp_path / "sub"]).endswith(
        "the folder holds no Parquet file | expected files that end in .parquet"
    )
    pd.DataFrame({"y": ["q"], "x": [1]}).to_parquet(tmp_path / "c.parquet")
    assert "columns differ in type" in refusal([tmp_path])


def test_parquet_types(tmp_path: Path) -> None:
    arrow = pa.table(
        {
            "i8": pa.array([1, None], pa.int8()),
            "f32": pa.array([0.1, float("nan")], pa.float32()),
            "f16": pa.array(np.array([0.5, 2], np.float16)),
            "dec": pa.array([Decimal("1.50"), None]),
            "text": pa.array(["02139", None]),
            "dict": pa.array(["a", "b"]).dictionary_encode(),
            "bool": pa.array([True, None]),
            "date": pa.array([0, 1], pa.date32()),
            "list": pa.array([[1], None]),
            "none": pa.nulls(2),
        }
    )
    pq.write_table(arrow, tmp_path / "t.parquet")
    table = read_table([tmp_path / "t.parquet"])
    assert [n for n in table.names if not table.typed(n)] == ["i8", "f32", "f16", "dec"]
    assert {n: table.numeric(n)[0] for n in ("i8", "f32", "f16", "dec")} == {
        "i8": 1,
        "f32": 0.1,
        "f16": 0.5,
        "dec": 1.5,
    }
    assert [n for n in table.names if table.missing(n)[1]] == ["i8", "f32", "dec", "text", "bool", "list", "none"]
    assert table.text("text").tolist() == ["02139", None]
    assert table.text("date").tolist() == ["1970-01-01", "1970-01-02"]
    assert not table.numbers("bool").number.any()
    assert table.where(1) == "row 2"


def test_parquet_takes_missing_tokens_too(tmp_path: Path) -> None:
    pd.DataFrame({"x": [-200, 1], "y": [-200.0, 1.5], "t": ["?", "a"]}).to_parquet(tmp_path / "t.parquet")
    table = read_table([tmp_path / "t.parquet"], na_values=["-200", "?"])
    for name in table.names:
        assert table.missing(name).tolist() == [True, False]


def test_the_index_of_a_data_frame_is_an_index(tmp_path: Path) -> None:
    pd.DataFrame({"x": [1, 2]}, index=[7, 9]).to_parquet(tmp_path / "t.parquet")
    assert read_table([tmp_path / "t.parquet"]).index == {"__index_level_0__"}


def test_missing_files(tmp_path: Path) -> None:
    save(tmp_path, "wine.csv", "a\n1\n")
    path = tmp_path / "wnie.csv"
    assert refusal([path]) == f"{path}: no such file | did you mean '{tmp_path / 'wine.csv'}'?"
    assert refusal([tmp_path / "no" / "x.csv"]).endswith("no such file | check the path")
    with pytest.raises(UsageError, match="no table is given"):
        read_table([])


def test_an_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied")

    path = save(tmp_path, "t.csv", "a\n1\n")
    monkeypatch.setattr(Path, "open", fail)
    assert "t.csv: cannot be read (Permission denied) | check" in refusal([path])


@pytest.mark.parametrize("text", ["", "\n\n", "\ufeff"])
def test_empty_files(tmp_path: Path, text: str) -> None:
    expected = "t.csv: the file is empty | expected a header with column names, then rows"
    assert refusal([save(tmp_path, "t.csv", text)]) == expected
    assert text_refusal(text) == expected.replace("t.csv", "standard input")


def test_header_only() -> None:
    expected = "standard input: the file has a header but no rows | expected at least one row of data"
    assert text_refusal("a,b\n") == expected
    assert text_refusal("a,b") == expected


def test_damaged_and_fake_parquet(tmp_path: Path) -> None:
    pd.DataFrame({"x": [1, 2]}).to_parquet(tmp_path / "t.parquet")
    whole = (tmp_path / "t.parquet").read_bytes()
    for data in (b"a,b\n1,2\n", whole[:-9], whole[:40] + whole[60:]):
        message = refusal([save(tmp_path, "x.parquet", data)])
        assert message.startswith("x.parquet: not a Parquet file, or damaged (")
    assert refusal([save(tmp_path, "x.parquet", b"")]).startswith("x.parquet: the file is empty")
    hint = "this is a Parquet file: give it the extension .parquet"
    assert refusal([save(tmp_path, "x.csv", whole)]).endswith(hint)
    assert text_refusal(whole) == "standard input: Parquet cannot be read from a pipe | pass the file's path"


def test_parquet_without_rows_or_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array([], pa.int64())}), tmp_path / "t.parquet")
    expected = "t.parquet: the file has columns but no rows | expected at least one row of data"
    assert refusal([tmp_path / "t.parquet"]) == expected
    pq.write_table(pa.table({}), tmp_path / "t.parquet")
    assert refusal([tmp_path / "t.parquet"]) == "t.parquet: the file has no columns | expected named columns"


def test_parquet_with_bad_names(tmp_path: Path) -> None:
    pq.write_table(pa.table([[1], [2]], names=["x", "x"]), tmp_path / "t.parquet")
    assert refusal([tmp_path / "t.parquet"]) == (
        "t.parquet: duplicate column name 'x' (columns 1 and 2) | rename one of them"
    )


def not_utf8(kind: pa.DataType) -> pa.Array:
    """Two texts, the second of which is none."""
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), not_utf8(kind.value_type))
    return pa.array([b"a", b"b\xa6"], pa.large_binary() if pa.types.is_large_string(kind) else pa.binary()).view(kind)


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())],
    ids=["text", "large", "dictionary"],
)
def test_parquet_with_text_that_is_not_utf8(tmp_path: Path, kind: pa.DataType) -> None:
    pq.write_table(pa.table({"n": [1, 2], "v": not_utf8(kind)}), tmp_path / "x.parquet")
    expected = "x.parquet: not a Parquet file, or damaged (column 'v' holds text that is not UTF-8)"
    with pytest.raises(InputError) as found:
        read_table([tmp_path / "x.parquet"])
    assert found.value.message == expected
    with pytest.raises(InputError) as found:
        list(open_table([tmp_path / "x.parquet"]).blocks())
    assert found.value.message == expected


def test_moments_that_python_does_not_have_are_told_apart_as_ids(tmp_path: Path) -> None:
    moments = pa.array([2**62, 0, None, -(2**62)], pa.timestamp("ms"))
    pq.write_table(pa.table({"t": moments}), tmp_path / "x.parquet")
    texts = read_table([tmp_path / "x.parquet"]).raw_text("t").tolist()
    assert texts == [str(2**62), "1970-01-01 00:00:00", None, str(-(2**62))]


def test_damaged_gzip(tmp_path: Path) -> None:
    data = gzip.compress(b"a,b\n1,2\n")
    for bad in (data[:-6], b"nonsense", data[:12] + b"\xff\xff" + data[14:]):
        assert refusal([save(tmp_path, "t.csv.gz", bad)]).startswith("t.csv.gz: damaged gzip file (")


def test_bytes_that_are_no_text() -> None:
    assert text_refusal(b"a\n1\n\x002\n") == (
        "standard input: NUL byte on line 3: not a text table | save it as CSV in UTF-8"
    )
    assert text_refusal("a,b\n1,2\n".encode("utf-16")).endswith(
        "save it as UTF-8, for example by `iconv -f utf-16 -t utf-8`"
    )
    assert text_refusal("a,b\n1,Zürich\n".encode("latin1")) == (
        "standard input: line 2 is not UTF-8 (byte 0xfc)"
        " | save the file as UTF-8: Excel's `CSV UTF-8 (Comma delimited)`, elsewhere `iconv -f cp1252 -t utf-8`"
    )


def test_ragged_rows() -> None:
    hint = "every row needs 2 cells; a cell that holds ',' must be in quotes"
    assert text_refusal('a,b\n1,"2\n2"\n1,2,3\n') == (
        f"standard input: row 2 (line 4) has 3 cells, the header has 2 | {hint}"
    )
    assert text_refusal("a,b\n1,2\n1\n") == f"standard input: row 2 (line 3) has 1 cell, the header has 2 | {hint}"


def test_a_row_of_one_cell_may_be_a_footnote() -> None:
    hint = "if this is a footnote or another line beside the table, delete it; else every row needs"
    table = "a,b,c\n1,2,3\n4,5,6\n"
    for note in ('"* Source: county assessor, 2024"', "* estimated"):
        assert text_refusal(f"{table}{note}\n") == (
            f"standard input: row 3 (line 4) has 1 cell, the header has 3 | {hint} 3 cells"
        )
    assert text_refusal('a,b\n1,2\n"* a, b"\n').endswith(f"| {hint} 2 cells")


def test_headers_that_are_unlike_the_rows() -> None:
    rows = "1,2,\n" * 5
    hint = "| the rows end with ',', the header does not: delete these, or name that column in the header"
    assert text_refusal(f"a,b\n{rows}").endswith(hint)
    rows = "x,y,z\n" + "1,2,3\n" * 12
    assert text_refusal(f"# made by a program\n{rows}") == (
        "standard input: row 1 (line 2) has 3 cells, the header has 1 | most rows have 3 cells: are there lines above "
        "the header? Delete them"
    )
    hint = (
        "| every row has one cell more than the header: if the first cells are names of rows (R's `write.table`), name "
        "them in the header (there: `col.names=NA`); if the first line is no header, delete it"
    )
    assert text_refusal("a,b\nr1,1,2\nr2,3,4\n").endswith(hint)
    assert not text_refusal("a,b\nr1,1,2\n3,4\n").endswith(hint)


@pytest.mark.parametrize(
    ("text", "cell", "line"),
    [
        ('a, b\n1, "4.62"\n2, "6,29"\n', "' \"4.62\"'", 2),
        ('a, "b"\n1, 4\n', "' \"b\"'", 1),
        ('a,b\n1, ""\n2,3\n', "' \"\"'", 2),
    ],
)
def test_blanks_before_quotes(text: str, cell: str, line: int) -> None:
    assert text_refusal(text) == (
        f"standard input: cells begin with a blank before their quote ({cell} on line {line}), so that blank and quote "
        "are part of the cell | delete the blanks after ',': pandas reads such a file with `skipinitialspace=True`, "
        "and `to_csv` writes it without them"
    )


def test_blanks_before_quotes_of_texts() -> None:
    text = 'a,b\n1,"he said, ""yes"", twice"\n2, "so" he said\n3,x\n4,y\n'
    assert from_text(text).raw_text("b").tolist() == ['he said, "yes", twice', ' "so" he said', "x", "y"]


def test_unclosed_quotes() -> None:
    assert text_refusal('a,b\n1,"2\n3,4\n') == (
        'standard input: the quote opened on line 2 is never closed | close it, or double it: ""'
    )


def test_names() -> None:
    assert text_refusal("a,b,a\n1,2,3\n") == (
        "standard input: duplicate column name 'a' (columns 1 and 3) | rename one of them"
    )
    assert text_refusal("5.1,3,5.1\n4.9,3,2\n").endswith("| is the header line missing?")
    for text in ("a,,c\n1,2,3\n", "a, ,c\n1,2,3\n"):
        assert text_refusal(text) == "standard input: column 2 has no name | name every column in the header"
    assert text_refusal("a,b,\n1,2,\n") == (
        "standard input: the last of 3 columns has no name"
        " | name it in the header; if each line ends with a delimiter, delete those"
    )


def test_a_title_above_the_header() -> None:
    hint = "if 'Sales' is a title above the header, delete that line; else name every column in the header"
    assert text_refusal("Sales,,\na,b,c\n1,2,3\n") == f"standard input: column 2 has no name | {hint}"
    assert text_refusal("Sales,,c\n1,2,3\n").endswith("| name every column in the header")


@pytest.mark.parametrize(
    ("above", "mark", "line"),
    [
        ("# exported by LIMS, version 3, on 2024\n", "#", 2),
        ("\n# exported by LIMS, version 3, on 2024\n# by, who, knows\n", "#", 4),
        ("% exported, by, hand\n", "%", 2),
        ('//,"a, b",c\r\n', "//", 2),
    ],
)
def test_a_comment_above_the_header_that_has_as_many_cells(above: str, mark: str, line: int) -> None:
    first = 1 + above.startswith("\n")
    assert text_refusal(f"{above}x,y,g\nNA,,a\n1.5,-2,b\n") == (
        f"standard input: line {first} begins with '{mark}', as comments do, and line {line} reads like a header | are "
        f"there lines above the header? Delete them; if line {line} holds units or a second header, delete it"
    )


def test_a_comment_above_the_only_column() -> None:
    assert "line 1 begins with '#'" in text_refusal("# made by hand\nx\n1\n2\n")


@pytest.mark.parametrize(
    "text",
    [
        "#chrom,start,end\nchr1,100,200\nchr2,5,9\n",
        "#name,town\nAnn,Rome\nBob,Bonn\n",
        "% fat,a,b\n3,x,y\n4,z,w\n",
        "x,y\n#1,b\n2,3\n",
        "#a,b\nx,y\n",
        "#a,b\n#x,y\n#z,1\n",
        "#a,b,c\nx,x,y\n1,2,3\n",
        "#chrom,pos,ref\nchr,NA,A\nchr,200,C\nchr,300,G\n",
        "#sample,ct\ns,<5\ns,3\ns,4\n",
        "%change,name\nNA,Bob\n3,Ann\n",
        "#chrom,pos,ref\nchr1,x,A\nchr2,200,C\n",
    ],
)
def test_names_that_begin_like_comments_are_read(text: str) -> None:
    assert read_table(["-"], stdin=io.BytesIO(text.encode())).names == tuple(text.split("\n")[0].split(","))


@pytest.mark.parametrize(("line", "shown"), [("sep=;", "';'"), ("SEP=\t", "'\\t'"), ("sep=,", "','"), ("sep=:", "':'")])
def test_a_line_for_a_spreadsheet_is_no_header(line: str, shown: str) -> None:
    for rows in ("a;b\n1;2\n", "a,b\n1,2\n"):
        assert text_refusal(f"{line}\n{rows}") == (
            "standard input: the first line ('sep=') tells a spreadsheet the delimiter, and is no header"
            f" | delete that line, and say `--delimiter {shown}` here"
        )


@pytest.mark.parametrize(
    ("text", "shown"), [("a;b\n1;2\n", "';'"), ("a\tb\n1\t2\n", "'\\t'"), ("a;b\n1,5;2,5\n", "';'")]
)
def test_another_delimiter(text: str, shown: str) -> None:
    assert text_refusal(text) == (
        f"standard input: one column only, and every row holds {shown} | did you mean `--delimiter {shown}`?"
    )


def test_standard_input_stands_alone(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be joined with other files"):
        read_table(["-", save(tmp_path, "a.csv", "a\n1\n")])


def test_unknown_columns_name_the_nearest() -> None:
    with pytest.raises(InputError, match="no column 'alhpa'") as caught:
        from_text("alpha,beta\n1,2\n").numeric("alhpa")
    assert caught.value.hint == "did you mean 'alpha'?"


class TestMask:
    """Mask files hide cells: 1 = observed, 0 = missing."""

    def test_hides_cells(self, tmp_path: Path) -> None:
        mask = save(tmp_path, "m.csv", "b,a\n1,0\n1.0,1\n")
        table = from_text("a,b\n1,2\n3,NA\n", mask=mask)
        assert table.missing("a").tolist() == [True, False]
        assert table.missing("b").tolist() == [False, True]
        np.testing.assert_array_equal(table.numeric("a"), [np.nan, 3])
        assert table.text("a").tolist() == [None, "3"]

    def test_hidden_text_is_not_read(self, tmp_path: Path) -> None:
        table = from_text("a\n1\n?\n", mask=save(tmp_path, "m.csv", "a\n1\n0\n"))
        assert table.numbers("a").number.tolist() == [True, False]

    def test_parquet_masks_and_indices(self, tmp_path: Path) -> None:
        pd.DataFrame({"a": [True, False]}).to_parquet(tmp_path / "m.parquet")
        table = from_text(",a\n7,1\n8,3\n", mask=tmp_path / "m.parquet")
        assert table.missing("a").tolist() == [False, True]
        assert not table.missing("").any()

    def test_a_mask_may_keep_to_commas(self, tmp_path: Path) -> None:
        for text in ("a,b\n0,1\n", "a;b\n0;1\n"):
            table = from_text("a;b\n1;2\n", mask=save(tmp_path, "m.csv", text), delimiter=";")
            assert table.missing("a").all()

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("a\n1\n1\n", "m.csv: the mask lacks the column 'b' | a mask has the same columns as its table"),
            (
                "a,b,c\n1,1,1\n1,1,1\n",
                "m.csv: the mask has a column that the data lack: 'c' | a mask has the same columns as its table",
            ),
            (
                "a,b\n1,1\n",
                "m.csv: the mask has 1 rows, standard input has 2 | a mask has one row for each row of its table",
            ),
            (
                "a,b\n1,2\n1,1\n",
                "m.csv: column 'b', row 1 (line 2) holds '2': expected 0 or 1 | " + SENSE,
            ),
            (
                "a,b\n1,1\n,1\n",
                "m.csv: column 'a', row 2 (line 3) holds '': expected 0 or 1 | " + SENSE,
            ),
        ],
    )
    def test_refusals(self, tmp_path: Path, text: str, expected: str) -> None:
        assert text_refusal("a,b\n1,2\n3,4\n", mask=save(tmp_path, "m.csv", text)) == expected


def test_the_hash_is_of_data_mask_and_tokens(tmp_path: Path) -> None:
    a, b = save(tmp_path, "a.csv", "x\n1\n2\n"), save(tmp_path, "b.csv", "x\n1\n2\n")
    ones, zeros = save(tmp_path, "ones.csv", "x\n1\n1\n"), save(tmp_path, "zeros.csv", "x\n1\n0\n")
    zipped = save(tmp_path, "c.csv.gz", gzip.compress(b"x\n1\n2\n"))
    assert read_table([a]).sha256 == read_table([b]).sha256 == read_table([zipped]).sha256
    hashes = {
        read_table([a]).sha256,
        read_table([a], na_values=["2"]).sha256,
        read_table([a], mask=ones).sha256,
        read_table([a], mask=zeros).sha256,
        read_table([a, b]).sha256,
    }
    assert len(hashes) == 5


def test_a_mask_of_several_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mask").mkdir()
    for name in ("t.parquet", "mask/a.parquet", "mask/b.parquet"):
        pq.write_table(pa.table({"a": [0, 1]}), tmp_path / name)
    with pytest.raises(InputError, match="a folder of 2 files") as caught:
        read_table([tmp_path / "t.parquet"], mask=tmp_path / "mask")
    assert caught.value.hint == "give the mask of all rows in one file"


@pytest.mark.parametrize("blank", ["\u00a0", " \u00a0 ", "\u3000", "\u202f"])
def test_blanks_of_any_alphabet_are_blanks(tmp_path: Path, blank: str) -> None:
    """Spreadsheets write non-breaking ones, alone and beside numbers and levels."""
    text = f"x,level\n{blank},a{blank}\n{blank}2,{blank}\n3,a\n"
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    table = read_table([str(tmp_path / "t.csv")])
    assert table.missing("x").tolist() == [True, False, False]
    assert table.missing("level").tolist() == [False, True, False]
    assert table.numeric("x")[1:].tolist() == [2.0, 3.0]
    assert table.column("level").distinct.texts == ["a"]
