"""Decimal commas, and tokens for missing cells of one column."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.table.helpers import from_text, save, write_imputed
from vgi_cli.columns.base import Carried
from vgi_cli.columns.number import Number
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.errors import UsageError
from vgi_cli.table.base import Table
from vgi_cli.table.columns import TableInFiles
from vgi_cli.table.fills import avoid_codes
from vgi_cli.table.source import open_table

RNG = np.random.default_rng(0)
TEXT = "a;b\n" + "".join(f"{v:.2f};{k}\n".replace(".", ",") for k, v in enumerate(RNG.normal(9, 3, 40))) + ";\n"


def filled(table: Table, values: list[float], **options: Any) -> str:
    schema = infer_schema(table)[0]
    draws = np.tile(np.array(values), (1, table.N, 1))
    sink = io.BytesIO()
    write_imputed(table, schema, draws, layout="single", out=sink, **options)
    return sink.getvalue().decode()


def test_commas_are_read_and_written() -> None:
    table = from_text(TEXT, delimiter=";", decimal=",")
    schema, notes = infer_schema(table)
    found = schema.columns[0]
    assert isinstance(found, Number) and found.resolution == 0.01 and schema.modelled == ("a", "b")
    assert not any("plain number" in note for note in notes)
    assert filled(table, [9.5, 3.0]) == TEXT[: -len(";\n")] + "9,50;3\n"


def test_a_comma_between_commas_is_quoted() -> None:
    text = 'a,b\n"1,5",1\n"2,25",2\n"3,5",3\n,4\n'
    assert filled(from_text(text, decimal=","), [2.5, 0.0]).endswith('\n"2,5",4\n')
    bare = 'a,b\n1,1\n2,2\n"3,5",3\n,4\n'  # the first cell of the column is not in quotes
    assert filled(from_text(bare, decimal=","), [2.5, 0.0]).endswith('\n"2,5",4\n')


def test_points_are_no_decimal_marks_then() -> None:
    table = from_text("a;b\n1.5;1,5\n2.5;2,5\n3.7;4,5\n", delimiter=";", decimal=",")
    schema = infer_schema(table)[0]
    assert isinstance(schema.columns[0], Carried) and schema.modelled == ("b",)


def test_tokens_have_commas_too() -> None:
    text = "a;b\n-9,5;1\n1,25;2\n2,5;3\n3,5;4\n"
    for token in ("-9,5", "-9,50"):
        table = from_text(text, delimiter=";", decimal=",", na_values=[token])
        assert table.missing("a").tolist() == [True, False, False, False] and table.unmet_tokens() == []


def test_another_mark_gives_another_table() -> None:
    point, comma = (from_text("a\n1\n2\n", decimal=mark) for mark in (None, ","))
    assert point.sha256 != comma.sha256 == from_text("a\n1\n2\n", decimal=",").sha256
    assert point.sha256 == from_text("a\n1\n2\n", decimal=".").sha256


def test_blocks_are_read_alike(tmp_path: Path) -> None:
    path = save(tmp_path, "t.csv", "a;b\n" + "1,5;NA\n2,5;x\n" * 400)
    for block in open_table([path], delimiter=";", decimal=",", na_values=["b=x"]).blocks():
        assert set(block.table.numeric("a").tolist()) == {1.5, 2.5} and block.table.missing("b").all()


class TestOneColumn:
    """`--na-values COL=TOKEN`."""

    TEXT = "age,x\n-999,-999\n3,?\n4,5\n9,12\n"

    def test_the_token_means_missing_in_that_column_alone(self) -> None:
        table = from_text(self.TEXT, na_values=["age=-999.0", "x=?"])
        assert table.missing("age").tolist() == [True, False, False, False]
        assert table.missing("x").tolist() == [False, True, False, False]

    @pytest.mark.parametrize(
        ("token", "missing", "unmet"),
        [
            ("q1,q2=9", "q1 q2", []),
            ('"a,b", q1=9', "q1 a,b", []),
            ("a,b=9", "a,b", []),  # one column that is called so
            ("q*=9", "q1 q2 q3", []),
            ("*=9", "q1 q2 q3 a,b", []),
            ("*2,a*=9", "q2 a,b", []),
            ("q*=7", "", ["no cell of column 'q*' is '7'"]),
            ("q*=8", "q1", []),  # one of them has it
            ("x,y=9", "", ["no cell of standard input is 'x,y=9'; no column is called 'x,y'"]),
        ],
    )
    def test_of_several_columns(self, token: str, missing: str, unmet: list[str]) -> None:
        table = from_text('q1,q2,q3,"a,b"\n1,2,3,4\n9,9,9,9\n8,1,1,1\n', na_values=[token])
        assert [name for name in table.names if table.missing(name).any()] == missing.split()
        assert [line.partition(" (")[0] for line in table.unmet_tokens()] == unmet

    @pytest.mark.parametrize(
        ("token", "error", "hint"),
        [
            ("r*=9", "has no column 'r*'", "expected one of: q1, q2, quality"),
            ("q1,q3=9", "has no column 'q3'", "did you mean 'q1'?"),
            ("quality,r*=9", "has no column 'r*'", "expected one of"),
        ],
    )
    def test_several_columns_that_there_are_not(self, token: str, error: str, hint: str) -> None:
        with pytest.raises(UsageError, match=re.escape(f"--na-values {token}: ")) as caught:
            from_text("q1,q2,quality\n1,2,3\n", na_values=[token])
        assert error in caught.value.message and hint in (caught.value.hint or "")

    def test_beside_those_of_all_columns(self) -> None:
        table = from_text(self.TEXT, na_values=["x=-999", "?"])
        assert table.missing("x").tolist() == [True, True, False, False] and not table.missing("age").any()

    def test_where_there_is_no_such_column_it_is_a_token(self) -> None:
        table = from_text("a\n1\nb=7\n3\n", na_values=["b=7"])
        assert table.missing("a").tolist() == [False, True, False]

    def test_names_and_tokens_may_hold_an_equals_sign(self) -> None:
        table = from_text("a=b,a\n1,2\nc=d,c=d\n", na_values=["a=b=c=d"])
        assert table.missing("a").tolist() == [False, False]  # the shortest name that there is: its token is `b=c=d`
        table = from_text("a=b,y\n1,2\nc=d,c=d\n", na_values=["a=b=c=d"])
        assert table.missing("a=b").tolist() == [False, True] and not table.missing("y").any()

    def test_the_empty_token_leaves_an_empty_cell_alone_missing(self, tmp_path: Path) -> None:
        text = "x,y\nNA,NA\n,None\nNone,b\n-,c\n" + "a,b\n" * 400
        for tokens, holes in ((["x="], [False, True, False, False]), (["x=-", "x="], [False, True, False, True])):
            path = save(tmp_path, "t.csv", text)
            first = next(open_table([path], na_values=tokens).blocks()).table
            for table in (from_text(text, na_values=tokens), first):
                assert table.missing("x")[:4].tolist() == holes and not table.missing("x")[4:].any()
                assert table.missing("y")[:4].tolist() == [True, True, False, False]
                assert table.unmet_tokens() == []

    def test_levels_that_are_known_are_no_holes_unless_a_token_is_one(self, tmp_path: Path) -> None:
        text = "x,y\n NA ,NA\nNone,None\n,b\n"
        path, levels = save(tmp_path, "t.csv", text), {"x": {"NA", "b"}}
        for tokens, holes in (([], [False, True, True]), (["NA"], [True, True, True])):
            blocks = open_table([path], na_values=tokens, levels=levels)
            for table in (from_text(text, na_values=tokens, levels=levels), TableInFiles(blocks, tmp_path)):
                assert table.missing("x").tolist() == holes
                assert table.missing("y").tolist() == [True, True, False]

    def test_a_token_that_no_cell_is_is_named(self) -> None:
        notes = infer_schema(from_text(self.TEXT, na_values=["age=7", "x=?", "nix"]))[1]
        said = ["no cell of standard input is 'nix'", "no cell of column 'age' is '7'"]
        assert all(f"{line} (--na-values)" in notes for line in said)

    def test_no_fill_is_such_a_token(self) -> None:
        text = "a,b\n" + "".join(f"{k % 9},{k % 9}\n" for k in range(60)) + ",\n"
        table = from_text(text, na_values=["a=4"])
        schema = infer_schema(table)[0]
        draws = np.full((1, table.N, 2), 4.0)
        moved = avoid_codes(draws, table, schema)
        assert list(moved) == ["a"] and draws[0, -1, 0] != 4 and draws[0, -1, 1] == 4

    def test_of_parquet_too(self, tmp_path: Path) -> None:
        import pyarrow as pa

        from vgi_cli.table.reader import read_table

        pq.write_table(pa.table({"a": [1, -9, 3], "b": ["x", "?", "-9"]}), tmp_path / "t.parquet")
        table = read_table([tmp_path / "t.parquet"], na_values=["a=-9", "b=?"])
        assert table.missing("a").tolist() == table.missing("b").tolist() == [False, True, False]

    def test_of_dates_in_parquet(self, tmp_path: Path) -> None:
        import pyarrow as pa

        from vgi_cli.table.reader import read_table

        days = pa.array([0, -25567, None, -25567], pa.date32())
        columns = {"day": days, "ms": days.cast(pa.date64()), "at": days.cast(pa.timestamp("us"))}
        columns["zone"] = pa.array([0, -2208992400, None, -2208988800], pa.timestamp("s", tz="Europe/Berlin"))
        pq.write_table(pa.table(columns), tmp_path / "t.parquet")
        tokens = ["day=1900-01-01", "ms=1900-01-01", "at=1900-01-01 00:00:00", "zone=1900-01-01", "day=?"]
        table = read_table([tmp_path / "t.parquet"], na_values=tokens)
        holes = [[False, True, True, True]] * 3 + [[False, True, True, False]]
        assert table.absent(["day", "ms", "at", "zone"]).T.tolist() == holes
        assert table.unmet_tokens() == ["no cell of column 'day' is '?'"]
        zoned = read_table([tmp_path / "t.parquet"], na_values=["1900-01-01T00:00:00Z"])
        assert zoned.missing("zone").tolist() == [False, False, True, True]
