"""Writing: spelling of fills, layouts, names, formats, refusals; whole files or none."""

from __future__ import annotations

import csv
import errno
import gzip
import io
import os
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.table.helpers import from_text, save, write_imputed
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.errors import InputError, UsageError, VgiError
from vgi_cli.table.base import Table
from vgi_cli.table.fills import avoid_codes
from vgi_cli.table.frames import to_frames
from vgi_cli.table.outputs import OutputLayout, default_output, output_paths
from vgi_cli.table.reader import read_table
from vgi_cli.table.writer import check_output


def fill(table: Table, schema: Schema, value: float) -> bytes:
    """The table with `value` drawn in every hole."""
    sink = io.BytesIO()
    draws = np.full((1, table.N, len(schema.modelled)), value)
    assert write_imputed(table, schema, draws, layout="single", out=sink) == []
    return sink.getvalue()


def filled(text: str, value: float, **options: object) -> str:
    table = from_text(text)
    return fill(table, infer_schema(table, **options)[0], value).decode()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cells", "value", "expected"),
    [
        (["1", "4"], 2.6, "3"),
        (["2.0", "4.0"], 2.6, "3.0"),
        (["2.0", "4"], 2.6, "3"),
        (["1.50", "4.25"], 2.604, "2.60"),
        (["1.5", "4.25"], 2.604, "2.6"),
        (["1.5", "4"], 3.96, "4"),
        ([str(v) for v in range(0, 100, 5)], 22.6, "25"),
        (["-1", "1"], -0.2, "0"),
        (["0.1", "-0.1"], -0.04, "0.0"),
        (["1e-20", "3e-20"], 2.2e-20, "2e-20"),
        (["0.123456789012345678", "123456.5"], 1 / 3, "0.3333333333333333"),
        (["10000000000000000000", "30000000000000000000"], 2e19, "20000000000000000000"),
        (['"1.5"', '"2.5"'], 2.0, '"2.0"'),
        (["1.50", "4.25", "7"], 2.6, "2.60"),
        (["1.50", "4.25", "7"], 3.0, "3"),
        (["1.50", "4.25", "7", "12.00"], 3.0, "3.00"),
        (["1.50", "4.25", "7", "8", "12.00"], 3.0, "3"),
        (["1.50", "4.2", "7"], 2.6, "2.6"),
        (["1.55", "4.25", "7"], 2.6, "2.6"),
        (["1.50", "4.25", "1e2"], 2.6, "2.6"),
        (["+1.50", "-4.25", "+7"], 2.6, "+2.60"),
    ],
)
def test_fills_are_spelled_like_the_column(cells: list[str], value: float, expected: str) -> None:
    text = "x\n" + "\n".join(cells) + "\n\n"
    assert filled(text, value) == text[:-1] + expected + "\n"


def test_holes_in_quotes_follow_the_numbers() -> None:
    assert filled('x,y\n1,1\n2,4\n"",""\n', 1.0) == "x,y\n1,1\n2,4\n1,1\n"
    schema, _ = infer_schema(from_text("x\n1\n2\n"))
    assert fill(from_text('x\n""\nNA\n'), schema, 1.0) == b'x\n"1"\n1\n', "nothing is observed: each hole as it was"


@pytest.mark.parametrize(
    ("cells", "hole"),
    [
        (['"ok, but"', "ok", "ok", "ok", '"ok, but"'], "ok"),  # quotes where they are needed
        (['"ok"', "no", "ok", "ok", "no"], "ok"),  # most have none
        (["ok", '"no"', '"ok"', '"ok"', '"no"'], '"ok"'),
        (['"ok"', '"no, but"', '"ok"', '"ok"', '"no, but"'], '"ok"'),
        (['"ok, but"', "no", "no", "no", '"ok, but"'], '"ok, but"'),
    ],
)
def test_fills_have_quotes_where_they_need_them_or_most_cells_have_them(cells: list[str], hole: str) -> None:
    text = "x,y\n" + "".join(f"{cell},{i % 3}\n" for i, cell in enumerate(cells * 4))
    table = from_text(text + ",1\n")
    schema, _ = infer_schema(table)
    [column, _] = schema.encoded
    assert isinstance(column, Levelled)
    sink = io.BytesIO()
    draws = np.full((1, table.N, 2), float(column.place(hole.strip('"'))))
    write_imputed(table, schema, draws, layout="single", out=sink)
    assert sink.getvalue().decode() == text + f"{hole},1\n"


def test_constant_and_empty_columns() -> None:
    text = 'a,k,q,e,t\n1,7.0,"5",NA,u\n2,,"5",,\n,7.0,,,NA\n'
    assert filled(text, 1.0) == 'a,k,q,e,t\n1,7.0,"5",NA,u\n2,7.0,"5",,\n1,7.0,"5",,NA\n'


def test_constants_go_into_new_tables_too() -> None:
    schema, _ = infer_schema(from_text("a,k\n1,7.0\n2,\n"))
    assert fill(from_text("k,a\n,3\n"), schema, 1.0) == b"k,a\n7.0,3\n"
    assert fill(from_text("a\n3\n\n"), schema, 1.0) == b"a\n3\n1\n"


def test_a_run_from_parquet_fills_csv(tmp_path: Path) -> None:
    pd.DataFrame({"x": [0.5, 2.25, 3.0], "k": [7, 7, 7]}).to_parquet(tmp_path / "t.parquet")
    schema, _ = infer_schema(read_table([tmp_path / "t.parquet"]))
    assert fill(from_text("x,k\n,\n1.50,7\n"), schema, 1.239) == b"x,k\n1.24,7\n1.50,7\n"


@pytest.mark.parametrize(
    ("cells", "token", "drawn", "expected"),
    [
        (["0", "1", "3", "4"], "2", 2.0, 1.0),  # the mean is 2: from there downwards
        (["0", "1", "3", "9"], "2", 2.0, 3.0),
        (["0", "1", "6", "9"], "5", 5.0, 4.0),
        (["0.5", "1.25", "3.75", "9.5"], "2.000", 2.0, 2.01),
        (["1e-9", "2.000000000000003", "-5", "-0.3e-7"], "0", 0.0, -1e-15),
        (["10000000000000000000", "30000000000000000000"], "20000000000000000000", 2e19, 2e19 - 4096),
    ],
)
def test_fills_keep_off_the_numbers_that_mean_missing(
    cells: list[str], token: str, drawn: float, expected: float
) -> None:
    table = from_text("\n".join(["x", *cells, token, ""]), na_values=[token])
    schema, _ = infer_schema(table)
    draws = np.full((2, len(cells) + 1, 1), drawn)
    draws[1] = 1.0
    assert avoid_codes(draws, table, schema) == {"x": 1}
    assert draws[0, -1, 0] == expected and draws[1, -1, 0] == 1.0
    sink = io.BytesIO()
    write_imputed(table, schema, draws[:1], layout="single", out=sink)
    assert not from_text(sink.getvalue(), na_values=[token]).missing("x").any()


def test_hidden_cells_are_filled_and_carried_ones_stay(tmp_path: Path) -> None:
    table = from_text("x,t\n1,a\n2,b\n9,c\n", mask=save(tmp_path, "m.csv", "x,t\n1,1\n1,1\n0,0\n"))
    schema, _ = infer_schema(table)
    assert fill(table, schema, 1.0) == b"x,t\n1,a\n2,b\n1,c\n"
    sink = io.BytesIO()
    write_imputed(table, schema, np.ones((1, 3, 1)), layout="long", out=sink)
    assert b"\nNA,c,0,3\n" in sink.getvalue() and b"9" not in sink.getvalue()
    table = from_text(
        "x,t\n1,a\n2,b\n-,c\n9,d\n", mask=save(tmp_path, "m.csv", "x,t\n1,1\n1,1\n1,1\n0,0\n"), na_values="-"
    )
    sink = io.BytesIO()
    write_imputed(table, schema, np.ones((1, 4, 1)), layout="long", out=sink)
    assert b"\n-,d,0,4\n" in sink.getvalue(), "the column has a token of its own"


TEXT = "\ufeffid,x\r\n1,1\r\n2,\r\n3,5\r\n"


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return read_table([save(tmp_path, "my.data.csv", TEXT)])


@pytest.fixture
def schema(table: Table) -> Schema:
    return infer_schema(table, ids=["id"])[0]


DRAWS = np.array([2.0, 3.0, 4.0])[:, None, None] * np.ones((3, 3, 1))


class TestLayouts:
    """files, long, single."""

    def test_files(self, table: Table, schema: Schema, tmp_path: Path) -> None:
        paths = write_imputed(table, schema, DRAWS, layout="files", out=tmp_path / "new" / "out.csv")
        assert paths == [tmp_path / "new" / f"out.{i}.csv" for i in (1, 2, 3)]
        assert [p.read_bytes().decode() for p in paths] == [TEXT.replace("2,\r", f"2,{v}\r") for v in (2, 3, 4)]
        assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["out.1.csv", "out.2.csv", "out.3.csv"]

    def test_files_of_one_draw_are_numbered_too(self, table: Table, schema: Schema, tmp_path: Path) -> None:
        assert write_imputed(table, schema, DRAWS[:1], layout="files", out=tmp_path / "o.csv") == [tmp_path / "o.1.csv"]

    def test_long(self, table: Table, schema: Schema, tmp_path: Path) -> None:
        (path,) = write_imputed(table, schema, DRAWS[:2], layout="long", out=tmp_path / "out.csv")
        rows = ["1,1,0,1", "2,,0,2", "3,5,0,3", "1,1,1,1", "2,2,1,2", "3,5,1,3", "1,1,2,1", "2,3,2,2", "3,5,2,3"]
        assert path.read_bytes().decode() == "\ufeffid,x,.imp,.id\r\n" + "\r\n".join(rows) + "\r\n"

    def test_long_without_the_original(self, table: Table, schema: Schema) -> None:
        sink = io.BytesIO()
        write_imputed(table, schema, DRAWS[:1], layout="long", out=sink, original=False)
        assert sink.getvalue().decode() == "\ufeffid,x,.imp,.id\r\n1,1,1,1\r\n2,2,1,2\r\n3,5,1,3\r\n"

    def test_mids_csv_is_what_r_reads(self) -> None:
        """Whatever the input's delimiter, decimal mark, line ends and missing tokens; in carried columns too."""
        text = (
            '\ufeffx;"k,k";t;g;c;n\r\n1,50;1;u;"a ""b""";-;2,5\r\n;3;-;x,y;N/A;-\r\n2,5;-;a,b;"";4,5;1\r\n'
            "3;4;p;x,y;-;7\r\n"
        )
        table = from_text(text, delimiter=";", decimal=",", na_values=["-"])
        schema, _ = infer_schema(table, kinds={"g": "categorical", "t": "carry", "c": "carry", "n": "carry"})
        assert schema.modelled == ("x", "k,k", "g")
        sink = io.BytesIO()
        write_imputed(table, schema, np.array([[2.25, 2.0, 1.0]] * 4)[None], layout="mids-csv", out=sink)
        header, *rows = csv.reader(io.StringIO(sink.getvalue().decode(), newline=""))
        assert header == ["x", "k,k", "t", "g", "c", "n", ".imp", ".id"]
        assert b"\r" not in sink.getvalue() and sink.getvalue().endswith(b",1,4\n")
        assert rows[:4] == [
            ["1.50", "1", "u", 'a "b"', "NA", "2.5", "0", "1"],
            ["NA", "3", "NA", "x,y", "NA", "NA", "0", "2"],
            ["2.5", "NA", "a,b", "NA", "4.5", "1", "0", "3"],
            ["3", "4", "p", "x,y", "NA", "7", "0", "4"],
        ]
        filled = {(1, 0): "2.25", (2, 1): "2", (2, 3): "x,y"}
        for i, (row, original) in enumerate(zip(rows[4:], rows[:4], strict=True)):
            assert row[6:] == ["1", str(i + 1)]
            assert row[:6] == [filled.get((i, j), cell) for j, cell in enumerate(original[:6])]

    def test_mids_csv_of_hidden_cells_and_of_parquet(self, tmp_path: Path) -> None:
        table = from_text("x,t\n1,a\n2,b\n9,c\n", mask=save(tmp_path, "m.csv", "x,t\n1,1\n1,1\n0,0\n"))
        sink = io.BytesIO()
        write_imputed(table, infer_schema(table)[0], np.ones((1, 3, 1)), layout="mids-csv", out=sink)
        assert sink.getvalue() == b"x,t,.imp,.id\n1,a,0,1\n2,b,0,2\nNA,c,0,3\n1,a,1,1\n2,b,1,2\n1,c,1,3\n"
        pq.write_table(pa.table({"x": [1.5, None, 2.5], "t": ["N", None, 'q"']}), tmp_path / "t.parquet")
        table = read_table([tmp_path / "t.parquet"])
        schema, _ = infer_schema(table)
        paths = write_imputed(table, schema, np.full((1, 3, 1), 2.0), layout="mids-csv", out=tmp_path / "out.csv.gz")
        lines = gzip.decompress(paths[0].read_bytes()).decode().splitlines()
        assert lines == ["x,t,.imp,.id", "1.5,N,0,1", "NA,NA,0,2", '2.5,"q""",0,3', *lines[4:]]
        assert lines[4:] == ["1.5,N,1,1", "2,NA,1,2", '2.5,"q""",1,3']

    def test_mids_csv_refuses_what_r_would_read_as_missing(self, tmp_path: Path) -> None:
        pq.write_table(pa.table({"x": [1.5, None, 2.5], "country": ["NA", "SE", "NO"]}), tmp_path / "t.parquet")
        table = read_table([tmp_path / "t.parquet"])
        schema, out = infer_schema(table)[0], tmp_path / "out.csv"
        with pytest.raises(InputError) as caught:
            write_imputed(table, schema, np.full((1, 3, len(schema.modelled)), 1.0), layout="mids-csv", out=out)
        assert caught.value.message == "t.parquet: column 'country' holds the text 'NA', which R reads as missing"
        assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]

    def test_long_ends_every_line(self) -> None:
        table = from_text('"x","y"\n1,\n,2\n3,4')
        sink = io.BytesIO()
        write_imputed(table, infer_schema(table)[0], np.full((1, 3, 2), 2.0), layout="long", out=sink)
        assert sink.getvalue().decode() == (
            '"x","y",".imp",".id"\n1,,0,1\n,2,0,2\n3,4,0,3\n1,2,1,1\n2,2,1,2\n3,4,1,3\n'
        )

    def test_single(self, table: Table, schema: Schema, tmp_path: Path) -> None:
        assert write_imputed(table, schema, DRAWS[:1], layout="single", out=tmp_path / "o.csv") == [tmp_path / "o.csv"]
        assert (tmp_path / "o.csv").read_bytes().decode() == TEXT.replace("2,\r", "2,2\r")


class TestNames:
    """Where outputs go and what they are."""

    @pytest.mark.parametrize(
        ("out", "expected"),
        [
            ("out.csv", "out.2.csv"),
            ("out.csv.gz", "out.2.csv.gz"),
            ("a.b.parquet", "a.b.2.parquet"),
            ("out", "out.2.csv"),
            ("out.gz", "out.2.csv.gz"),
            ("out.txt", "out.2.txt"),
        ],
    )
    def test_numbered(self, table: Table, out: str, expected: str) -> None:
        assert output_paths(Path("x") / out, table.origin, m=2, layout="files")[1] == Path("x") / expected
        assert output_paths(Path("x") / out, table.origin, m=2, layout="long") == [Path("x") / out]

    def test_default(self, table: Table, tmp_path: Path) -> None:
        assert default_output(Path("run"), table.origin) == Path("run/my.data.csv")
        assert default_output(Path("run"), table.origin, "mids-csv") == Path("run/my.data.mids.csv")
        (tmp_path / "folder").mkdir()
        pd.DataFrame({"x": [1]}).to_parquet(tmp_path / "folder" / "p.parquet")
        assert default_output(Path("run"), read_table([tmp_path / "folder"]).origin) == Path("run/folder.parquet")
        assert default_output(Path("run"), from_text("x\n1\n").origin) == Path("run/stdin.csv")
        zipped = read_table([save(tmp_path, "z.tsv.gz", gzip.compress(b"x\ty\n1\t2\n"))])
        assert default_output(Path("run"), zipped.origin) == Path("run/z.tsv.gz")

    def test_compressed(self, table: Table, schema: Schema, tmp_path: Path) -> None:
        (path,) = write_imputed(table, schema, DRAWS[:1], layout="files", out=tmp_path / "o.csv.gz")
        assert gzip.decompress(path.read_bytes()).decode() == TEXT.replace("2,\r", "2,2\r")

    def test_tabs_and_commas(self, table: Table, schema: Schema, tmp_path: Path) -> None:
        (path,) = write_imputed(table, schema, DRAWS[:1], layout="single", out=tmp_path / "o.tsv")
        assert path.read_bytes().decode() == TEXT.replace("2,\r", "2,2\r").replace(",", "\t")
        back = read_table([path])
        (path,) = write_imputed(back, schema, DRAWS[:1], layout="single", out=tmp_path / "o.csv")
        assert path.read_bytes().decode() == TEXT.replace("2,\r", "2,2\r")
        (path,) = write_imputed(back, schema, DRAWS[:1], layout="single", out=tmp_path / "o.txt")
        assert b"\t" in path.read_bytes(), "another extension says nothing: the input's delimiter"


class TestRefusals:
    """Before anything is written."""

    def refused(self, table: Table, **options: object) -> str:
        with pytest.raises((UsageError, InputError)) as caught:
            check_output(table.origin, **{"layout": "files", "m": 3, **options})  # type: ignore[arg-type]
        return f"{caught.value.message} | {caught.value.hint}"

    def test_existing_files(self, table: Table, schema: Schema, tmp_path: Path) -> None:
        taken = save(tmp_path, "o.3.csv", "mine")
        message = f"{taken} exists | `--force` overwrites it; `-o` names another"
        assert self.refused(table, out=tmp_path / "o.csv") == message
        with pytest.raises(UsageError, match="exists"):
            write_imputed(table, schema, DRAWS, layout="files", out=tmp_path / "o.csv")
        assert sorted(p.name for p in tmp_path.iterdir()) == ["my.data.csv", "o.3.csv"]
        assert taken.read_text() == "mine"
        write_imputed(table, schema, DRAWS, layout="files", out=tmp_path / "o.csv", force=True)
        assert taken.read_bytes().decode() == TEXT.replace("2,\r", "2,4\r")

    def test_links_are_followed_and_count_as_there(self, table: Table, schema: Schema, tmp_path: Path) -> None:
        real, link = save(tmp_path, "real.csv", "old"), tmp_path / "link.csv"
        link.symlink_to(real)
        write_imputed(table, schema, DRAWS, layout="long", out=link, force=True)
        assert link.is_symlink() and b".imp" in real.read_bytes()
        real.unlink()
        message = f"{link} exists | `--force` overwrites it; `-o` names another"
        assert self.refused(table, out=link, layout="long") == message
        write_imputed(table, schema, DRAWS, layout="long", out=link, force=True)
        assert link.is_symlink() and b".imp" in real.read_bytes()

    @pytest.mark.parametrize("layout", ["files", "long"])
    @pytest.mark.parametrize("name", ["/dev/stdout", "/proc/self/fd/1"])
    def test_devices_are_never_replaced(self, table: Table, name: str, layout: str) -> None:
        message = self.refused(table, out=Path(name), layout=layout, force=True)
        assert "is no file that could be replaced | name another one; `-` is standard output" in message

    def test_folders(self, table: Table, tmp_path: Path) -> None:
        message = f"{tmp_path} is a folder | name a file"
        assert self.refused(table, out=tmp_path, layout="long", force=True) == message

    def test_streams(self, table: Table) -> None:
        assert self.refused(table, out=io.BytesIO()) == (
            "several files cannot go to standard output | use `--format long` or `single`, or `-o FILE`"
        )
        assert self.refused(table, out=io.BytesIO(), layout="long", format="parquet") == (
            "Parquet cannot go to standard output | use `-o FILE.parquet`"
        )

    def test_columns_of_the_long_layout(self) -> None:
        assert self.refused(from_text("x,.imp\n1,2\n"), out=io.BytesIO(), layout="long") == (
            "standard input: has a column '.imp', which the long layout adds | rename it, or use `--format files`"
        )

    def test_what_works_is_named(self, table: Table, tmp_path: Path) -> None:
        assert check_output(table.origin, layout="files", out=tmp_path / "o.csv", m=2) == [
            tmp_path / "o.1.csv",
            tmp_path / "o.2.csv",
        ]
        assert check_output(table.origin, layout="long", out=io.BytesIO(), m=2) == []


class TestWholeOrAbsent:
    """A failure leaves what was there and nothing else."""

    @pytest.mark.parametrize(
        ("code", "hint"),
        [
            (errno.ENOSPC, "free some space or choose another place"),
            (errno.EFBIG, "raise the limit on the size of files (ulimit -f)"),
        ],
    )
    def test_disk_full(
        self, code: int, hint: str, table: Table, schema: Schema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        old = save(tmp_path, "o.1.csv", "old")
        calls = []

        def fsync(descriptor: int) -> None:
            calls.append(descriptor)
            if len(calls) == 2:
                raise OSError(code, os.strerror(code))

        monkeypatch.setattr(os, "fsync", fsync)
        with pytest.raises(VgiError) as caught:
            write_imputed(table, schema, DRAWS, layout="files", out=tmp_path / "o.csv", force=True)
        assert caught.value.exit_code == 1
        assert caught.value.message == f"cannot write {tmp_path / 'o.2.csv'}: {os.strerror(code)}"
        assert caught.value.hint == hint
        assert sorted(p.name for p in tmp_path.iterdir()) == ["my.data.csv", "o.1.csv"]
        assert old.read_text() == "old"

    def test_a_file_that_appears_meanwhile_is_kept(
        self, table: Table, schema: Schema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "fsync", lambda descriptor: save(tmp_path, "o.csv", "theirs"))
        with pytest.raises(UsageError, match="exists"):
            write_imputed(table, schema, DRAWS[:1], layout="single", out=tmp_path / "o.csv")
        assert (tmp_path / "o.csv").read_text() == "theirs"
        assert len(list(tmp_path.iterdir())) == 2


class TestParquet:
    """Types stay, as far as the fills fit in."""

    def arrow(self) -> pa.Table:
        return pa.table(
            {
                "id": pa.array([1, 2, 3], pa.int32()),
                "i8": pa.array([1, None, 120], pa.int8()),
                "f32": pa.array([0.1, None, 0.3], pa.float32()),
                "f64": pa.array([1.0, float("nan"), 3.0]),
                "dec": pa.array([Decimal("1.50"), None, Decimal("2.25")]),
                "text": pa.array(["a", None, "b"]),
                "dict": pa.array(["a", None, "b"]).dictionary_encode(),
                "day": pa.array([0, None, 1], pa.date32()),
                "list": pa.array([[1], None, []]),
                "k": pa.array([7, None, 7], pa.int16()),
                "none": pa.nulls(3),
            },
            metadata={"made": "by hand"},
        )

    def test_types_and_metadata_stay(self, tmp_path: Path) -> None:
        pq.write_table(self.arrow(), tmp_path / "t.parquet")
        table = read_table([tmp_path / "t.parquet"])
        schema, _ = infer_schema(table, ids=["id"])
        assert schema.modelled == ("i8", "f32", "f64", "dec", "day")
        draws = np.array([[[0.0] * 5, [7.4, 0.22, 2.4, 1.751, 0.9], [0.0] * 5]])
        (path,) = write_imputed(table, schema, draws, layout="files", out=tmp_path / "o.parquet")
        out = pq.read_table(path)
        assert out.schema.equals(pq.read_schema(tmp_path / "t.parquet"), check_metadata=True)
        assert out.slice(1, 1).drop_columns(["f32"]).to_pylist() == [
            {
                "id": 2,
                "i8": 7,
                "f64": 2.0,
                "dec": Decimal("1.75"),
                "text": None,
                "dict": None,
                "day": date(1970, 1, 2),
                "list": None,
                "k": 7,
                "none": None,
            }
        ]
        assert out["f32"][1].as_py() == pytest.approx(0.2)
        assert out.take([0, 2]).to_pylist() == self.arrow().take([0, 2]).to_pylist()

    def test_types_grow_when_they_must(self, tmp_path: Path) -> None:
        pq.write_table(self.arrow().select(["i8"]), tmp_path / "t.parquet")
        table = read_table([tmp_path / "t.parquet"])
        whole, _ = infer_schema(table, unbounded=["i8"])
        (path,) = write_imputed(table, whole, np.full((1, 3, 1), 300.0), layout="single", out=tmp_path / "a.parquet")
        assert pq.read_table(path)["i8"].to_pylist() == [1, 300, 120] and pq.read_schema(path).types == [pa.int64()]
        halves, _ = infer_schema(from_text("i8\n1.5\n2.5\n"))
        (path,) = write_imputed(table, halves, np.full((1, 3, 1), 1.5), layout="single", out=tmp_path / "b.parquet")
        assert pq.read_table(path)["i8"].to_pylist() == [1, 1.5, 120]

    def test_empty_and_text_columns_of_a_new_table(self, tmp_path: Path) -> None:
        pq.write_table(pa.table({"x": pa.nulls(2), "y": ["1.5", None], "z": pa.nulls(2)}), tmp_path / "t.parquet")
        table = read_table([tmp_path / "t.parquet"])
        schema, _ = infer_schema(from_text("x,y,z\n1,2.5,0.1\n2,3.5,0.2\n"))
        draws = np.array([[[1.0, 2.5, 0.1]] * 2])
        (path,) = write_imputed(table, schema, draws, layout="single", out=tmp_path / "o.parquet")
        assert pq.read_table(path).to_pydict() == {"x": [1, 1], "y": ["1.5", "2.5"], "z": [0.1, 0.1]}

    def test_large_integers_stay_exact(self, tmp_path: Path) -> None:
        pq.write_table(pa.table({"x": [2**60 + 1, None, 2**60 + 3]}), tmp_path / "t.parquet")
        table = read_table([tmp_path / "t.parquet"])
        schema, _ = infer_schema(from_text("x\n1\n2\n"))
        (path,) = write_imputed(table, schema, np.ones((1, 3, 1)), layout="single", out=tmp_path / "o.parquet")
        assert pq.read_table(path)["x"].to_pylist() == [2**60 + 1, 1, 2**60 + 3]

    def test_long(self, tmp_path: Path) -> None:
        frame = pd.DataFrame({"x": [1.0, np.nan, 3.0], "t": ["a", "b", None]}, index=[3, 4, 5])
        frame.to_parquet(tmp_path / "t.parquet")
        mask = tmp_path / "m.parquet"
        pd.DataFrame({"x": [1, 1, 0], "t": [1, 1, 1]}).to_parquet(mask)
        table = read_table([tmp_path / "t.parquet"], mask=mask)
        schema, _ = infer_schema(from_text("x\n1.5\n3\n2.5\n"))
        (path,) = write_imputed(table, schema, np.full((1, 3, 1), 1.5), layout="long", out=tmp_path / "o.parquet")
        out = pd.read_parquet(path)
        assert list(out.columns) == ["x", "t", "__index_level_0__", ".imp", ".id"]
        np.testing.assert_array_equal(out["x"], [1, np.nan, np.nan, 1, 1.5, 1.5])
        assert out[".imp"].tolist() == [0, 0, 0, 1, 1, 1] and out[".id"].tolist() == [1, 2, 3] * 2

    def test_codes_for_missing_are_filled(self, tmp_path: Path) -> None:
        pd.DataFrame({"x": [1, -200, 3]}).to_parquet(tmp_path / "t.parquet")
        table = read_table([tmp_path / "t.parquet"], na_values=["-200"])
        schema, _ = infer_schema(table)
        (path,) = write_imputed(table, schema, np.full((1, 3, 1), 2.0), layout="single", out=tmp_path / "o.parquet")
        assert pd.read_parquet(path)["x"].tolist() == [1, 2, 3]

    def test_csv_to_parquet(self, tmp_path: Path) -> None:
        table = from_text("id,x,y,t,zip,e\n1,1,2.50,a,02139,\n2,,,NA,,\n3,4,1,c,02140,\n")
        schema, _ = infer_schema(table, ids=["id"])
        (path,) = write_imputed(table, schema, np.full((1, 3, 2), 2.0), layout="single", out=tmp_path / "o.parquet")
        assert pq.read_table(path).to_pydict() == {
            "id": [1, 2, 3],
            "x": [1, 2, 4],
            "y": [2.5, 2.0, 1.0],
            "t": ["a", None, "c"],
            "zip": ["02139", None, "02140"],
            "e": [None] * 3,
        }
        assert pq.read_schema(path).field("x").type == pa.int64()

    def test_parquet_to_csv(self, tmp_path: Path) -> None:
        arrow = pa.table(
            {
                "x": [1.0, None, 2.5],
                "f": pa.array([0.1, 0.2, None], pa.float32()),
                "t": ['a,"b"', None, "NA"],
                "b": [True, None, False],
                "i": [2**60, 1, None],
            }
        )
        pq.write_table(arrow, tmp_path / "t.parquet")
        table = read_table([tmp_path / "t.parquet"])
        schema, _ = infer_schema(table, exclude=["i", "b"])
        (path,) = write_imputed(table, schema, np.full((1, 3, 2), 0.2), layout="single", out=tmp_path / "o.csv")
        assert path.read_text() == (
            'x,f,t,b,i\n1,0.1,"a,""b""",True,1152921504606846976\n0.2,0.2,,,1\n2.5,0.2,NA,False,\n'
        )


@pytest.mark.parametrize("kind", ["UInt8", "uint8", "category"])
def test_pandas_reads_a_column_that_needed_a_wider_type(tmp_path: Path, kind: str) -> None:
    """pandas keeps the types of its columns beside the table: they must not cast the fills back."""
    cells = pd.Series(["1", "2", None, "3"]).astype("category") if kind == "category" else [1, 2, None, 3]
    frame = pd.DataFrame({"u": pd.Series(cells, dtype=kind if kind != "uint8" else None), "v": [1.5, 2.5, 3.5, 1.0]})
    if kind == "uint8":
        frame["u"] = pd.Series([1, 2, 0, 3], dtype="uint8")
    frame.to_parquet(tmp_path / "t.parquet")
    table = read_table([str(tmp_path / "t.parquet")], na_values=["0"] if kind == "uint8" else [])
    schema, _ = infer_schema(table, unbounded=["u"], kinds={"u": "integer"})
    draws = np.stack([[1, 2, -5, 3], frame["v"]], 1)[None]
    outputs: list[tuple[OutputLayout, str]] = [("files", "o.1.parquet"), ("long", "o.parquet")]
    for layout, out in outputs:
        write_imputed(table, schema, draws, layout=layout, out=tmp_path / "o.parquet")
        back = pd.read_parquet(tmp_path / out)
        assert [int(value) for value in back["u"][-4:]] == [1, 2, -5, 3]
        if layout == "files" and kind != "category":
            assert str(back["u"].dtype) == {"UInt8": "Int64", "uint8": "int64"}[kind]
    assert to_frames(table, schema, draws, arrow=False, say=print)[0]["u"].astype(int).tolist() == [1, 2, -5, 3]


@pytest.mark.parametrize("dust", ["8.459999999999999", "8.4599999999999991"])
def test_fills_have_the_digits_of_the_others_unless_that_leaves_the_range(dust: str) -> None:
    cells = [dust, "", "8.1", *(f"8.2{i:04d}" for i in range(100, 130)), ""]
    table = from_text("x,y\n" + "".join(f"{cell},{i}\n" for i, cell in enumerate(cells)))
    schema, _ = infer_schema(table, bounds={"x": "observed"})
    assert schema.encoded[0].lattice is None and schema.encoded[0].digits == 6
    high = float(cells[0])
    draw = np.tile([8.2345678901, 0.0], (len(cells), 1))
    draw[1] = high
    filled = io.BytesIO()
    write_imputed(table, schema, draw[None], layout="single", out=filled)
    rows = filled.getvalue().decode().splitlines()
    assert rows[2] == f"{high!r},1" and rows[-1].startswith("8.23457,")
