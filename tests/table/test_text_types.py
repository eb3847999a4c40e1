"""The types that columns of CSV get in Parquet and in DataFrames: no observed cell changes by it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.table.helpers import from_text, write_imputed
from vgi_cli.columns.base import Carried, Column
from vgi_cli.columns.categorical import Categorical
from vgi_cli.columns.number import Constant, Number
from vgi_cli.columns.scale import Scale
from vgi_cli.columns.schema import Schema
from vgi_cli.errors import InputError
from vgi_cli.table.frames import blank_frame, from_frame, in_pandas, to_frames
from vgi_cli.table.parquet.from_text import Types, arrow_schema, as_arrow
from vgi_cli.table.reader import read_table

BIG = 2**53 + 1
"""No float64."""
NUMBER = Number("c", "numeric", low=0.0, high=1.0, scale=Scale(0.0, 1.0))


def typed(cells: list[str], column: Column, decimal: str = ".") -> pa.ChunkedArray:
    """Column `c` with these cells as Arrow."""
    text = "c;n\n" + "".join(f"{cell};0\n" for cell in cells)
    table = from_text(text, delimiter=";", decimal=decimal)
    return as_arrow(table, arrow_schema(table, Schema((column,))))["c"]


@pytest.mark.parametrize(
    ("cells", "kind", "read"),
    [
        (["1", "-20", ""], pa.int64(), [1, -20, None]),
        ([str(BIG), str(BIG + 2), ""], pa.int64(), [BIG, BIG + 2, None]),
        ([str(-(2**63)), str(2**63 - 1)], pa.int64(), [-(2**63), 2**63 - 1]),
        ([str(2**64 - 1), "7"], pa.uint64(), [2**64 - 1, 7]),
        (["12345678901234567890123", "1"], pa.string(), ["12345678901234567890123", "1"]),
        ([str(2**64 - 1), "-7"], pa.string(), [str(2**64 - 1), "-7"]),
        ([str(BIG), "0.5"], pa.string(), [str(BIG), "0.5"]),
        (["0.1234567890123456789", "0.5"], pa.string(), ["0.1234567890123456789", "0.5"]),
        (["+1", "2"], pa.string(), ["+1", "2"]),
        (["1e2", "2"], pa.string(), ["1e2", "2"]),
        (["-0", "2.0"], pa.string(), ["-0", "2.0"]),
        (["007", "008"], pa.string(), ["007", "008"]),
        (["1.1", "1.10"], pa.string(), ["1.1", "1.10"]),
        (["5.", "6."], pa.string(), ["5.", "6."]),
        ([" 5", "6 "], pa.int64(), [5, 6]),
        (["5.0", "6.25", "1e-07"], pa.float64(), [5.0, 6.25, 1e-7]),  # as Python writes them
        (["5", "6.25"], pa.float64(), [5.0, 6.25]),
        (["12.50", "-3.00"], pa.float64(), [12.5, -3.0]),
        (["12.50", "3.0"], pa.string(), ["12.50", "3.0"]),
        (["", "NA"], pa.null(), [None, None]),
    ],
)
def test_a_column_that_is_carried_is_of_numbers_where_these_give_its_texts_back(
    cells: list[str], kind: pa.DataType, read: list[object]
) -> None:
    column = typed(cells, Carried("c", "carried"))
    assert column.type == kind
    assert column.to_pylist() == read
    assert [str(cell) for cell in column.to_pylist()] == [str(cell) for cell in read]  # -0.0, 5 and 5.0


@pytest.mark.parametrize(
    ("cells", "kind", "read"),
    [
        (["+1", "1e2", "5.0"], pa.int64(), [1, 100, 5]),
        (["1.1", "1.10"], pa.float64(), [1.1, 1.1]),
        ([str(BIG), "5.0", ""], pa.int64(), [BIG, 5, None]),
        (["+" + str(BIG), str(-BIG)], pa.int64(), [BIG, -BIG]),
        ([str(2**64 - 1), "7"], pa.uint64(), [2**64 - 1, 7]),
        ([str(BIG), "0.5"], pa.string(), [str(BIG), "0.5"]),
        ([str(BIG) + ".0", "0.5"], pa.string(), [str(BIG) + ".0", "0.5"]),
        ([str(2**54), "0.5"], pa.float64(), [2.0**54, 0.5]),
        (["1.2345678901234567e+19", "1e300"], pa.float64(), [1.2345678901234567e19, 1e300]),
        (["123" + "0" * 20, "1"], pa.float64(), [1.23e22, 1.0]),
        (["12345678901234567890123", "1"], pa.string(), ["12345678901234567890123", "1"]),
        (["0.1234567890123456789", "0.5"], pa.float64(), [0.12345678901234568, 0.5]),
    ],
)
def test_a_column_that_is_filled_is_of_numbers_where_these_are_the_cells(
    cells: list[str], kind: pa.DataType, read: list[object]
) -> None:
    column = typed(cells, NUMBER)
    assert column.type == kind
    assert column.to_pylist() == read


def test_decimal_commas() -> None:
    assert typed(["1,5", "2,25"], Carried("c", "carried"), ",").to_pylist() == [1.5, 2.25]
    assert typed(["1,5", "2,50"], Carried("c", "carried"), ",").to_pylist() == ["1,5", "2,50"]
    assert typed([str(BIG), "0,5"], NUMBER, ",").to_pylist() == [str(BIG), "0,5"]


@pytest.mark.parametrize(
    ("column", "blocks", "kind"),
    [
        (Carried("c", "carried"), [["1"], [str(BIG)], ["-1"]], pa.int64()),
        (Carried("c", "carried"), [["1"], [str(BIG)], ["1.5"]], pa.string()),
        (Carried("c", "carried"), [["1"], [str(2**63)], [str(BIG)]], pa.uint64()),
        (Carried("c", "carried"), [["-1"], [str(2**63)]], pa.string()),
        (Carried("c", "carried"), [["1.50"], ["1.25"], [""]], pa.float64()),
        (Carried("c", "carried"), [["1.5"], ["2"]], pa.float64()),
        (Carried("c", "carried"), [["1.0"], ["2"]], pa.string()),
        (Carried("c", "carried"), [[""], ["x"]], pa.string()),
        (NUMBER, [["1e2", "2.0"], [str(BIG)]], pa.int64()),
        (NUMBER, [["1.5"], ["2"]], pa.float64()),
        (NUMBER, [["1.5"], [str(BIG)]], pa.string()),
    ],
)
def test_the_type_is_that_of_all_blocks(column: Column, blocks: list[list[str]], kind: pa.DataType) -> None:
    tables = [from_text("c,n\n" + "".join(f"{cell},0\n" for cell in cells)) for cells in blocks]
    types = Types(Schema((column,)))
    for table in tables:
        types.see(table)
    assert types.found().field("c").type == kind
    parts = [as_arrow(table, types.found()) for table in tables]
    cells = [cell for cells in blocks for cell in cells]
    read = pa.concat_tables(parts)["c"].to_pylist()
    expected: list[object] = [cell or None for cell in cells]
    if kind != pa.string():
        expected = [Decimal(cell) if cell else None for cell in cells]
    assert read == expected


def test_fills_beside_large_numbers(tmp_path: Path) -> None:
    """Observed cells are exact in every file, whatever the fills make of the type."""
    table = from_text(f"id,c,k\n{BIG},{BIG},{BIG + 2}\n{BIG + 2},,\n")
    constant = Constant("k", "integer", low=float(BIG + 2), high=float(BIG + 2))
    schema = Schema((Carried("id", "id"), NUMBER, constant))
    said: list[str] = []
    for fill, kind in ((3.0, pa.int64()), (0.5, pa.decimal128(37, 17))):
        out = tmp_path / "o.parquet"
        draws = np.full((1, 2, 1), fill)
        write_imputed(table, schema, draws, layout="single", out=out, force=True, say=said.append)
        filled = pq.read_table(out)
        assert filled["id"].to_pylist() == [BIG, BIG + 2]
        assert filled["c"].type == kind and filled["c"].to_pylist() == [BIG, Decimal(fill)]
        assert filled["k"].to_pylist() == [str(BIG + 2)] * 2
    assert said == ["column 'c' is written as decimal128(37, 17), not int64: the fill 0.5 is not whole"]


def test_the_one_large_number_of_a_parquet_column(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": pa.array([BIG, None], pa.int64()), "n": [0, 0]}), tmp_path / "t.parquet")
    table = read_table([tmp_path / "t.parquet"])
    schema = Schema((Constant("k", "integer", low=float(BIG), high=float(BIG)),))
    draws = np.zeros((1, 2, 0))
    for name in ("o.parquet", "o.csv"):
        write_imputed(table, schema, draws, layout="single", out=tmp_path / name)
    write_imputed(table, schema, draws, layout="mids-csv", out=tmp_path / "r.csv", original=False)
    assert (tmp_path / "r.csv").read_text().count(str(BIG)) == 3  # in `.imp` 0 beside its hole, in `.imp` 1 twice
    assert pq.read_table(tmp_path / "o.parquet")["k"].to_pylist() == [BIG, BIG]
    assert (tmp_path / "o.csv").read_text() == f"k,n\n{BIG},0\n{BIG},0\n"


def test_fills_among_texts() -> None:
    """A number among numbers that no type holds is spelled as the table spells numbers."""
    table = from_text(f"c;n\n{BIG};0\n0,5;0\n;0\n", delimiter=";", decimal=",")
    (filled,) = to_frames(table, Schema((NUMBER,)), np.full((1, 3, 1), 0.25), True, say=print)
    assert filled["c"].to_pylist() == [str(BIG), "0,5", "0,25"]


def test_levels_of_many_digits(tmp_path: Path) -> None:
    """They stay the numbers that they are, from text and in Parquet; in a column of another type they are texts."""
    cells = [BIG, BIG + 2] * 10
    text = "c,n\n" + "".join(f"{cell},0\n" for cell in [*cells, ""])
    column = Categorical("c", "categorical", levels=(str(BIG), str(BIG + 2)))
    schema, draws, said = Schema((column,)), np.ones((1, 21, 1)), list[str]()
    pq.write_table(pa.table({"c": pa.array([*cells, None], pa.int64())}), tmp_path / "t.parquet")
    for table in (from_text(text), read_table([tmp_path / "t.parquet"])):
        (filled,) = to_frames(table, schema, draws, True, say=said.append)
        assert filled["c"].type == pa.int64() and filled["c"].to_pylist() == [*cells, BIG + 2] and not said
    few = from_frame(pa.table({"c": pa.array([1.5, None])}))
    (filled,) = to_frames(few, schema, draws[:, :2], True, say=said.append)
    assert filled["c"].to_pylist() == ["1.5", str(BIG + 2)]
    assert said == [f"column 'c' is written as string, not double: the fill '{BIG + 2}' is no number"]


def test_large_whole_numbers_beside_holes_in_pandas() -> None:
    """Int64 and UInt64; floats, as ever, where these hold them."""
    table = from_text(f"id,u,c,s\n{BIG},{2**64 - 1},{BIG},5\n,,,\n")
    schema = Schema((Carried("id", "id"), Carried("u", "carried"), NUMBER, Carried("s", "carried")))
    blank = blank_frame(table, schema, False)
    assert blank.dtypes.astype(str).tolist() == ["Int64", "UInt64", "Int64", "float64"]
    assert [blank[name].iloc[0] for name in "ucs"] == [2**64 - 1, BIG, 5.0]
    assert blank["id"].iloc[0] == BIG and blank.iloc[1].isna().all()
    (filled,) = to_frames(table, schema, np.full((1, 2, 1), 3.0), False, say=print)
    assert filled["c"].tolist() == [BIG, 3] and filled["id"].tolist()[0] == BIG
    indexed = pd.DataFrame({"c": pd.array([BIG, None], "Int64"), "id": [1, 2]}, index=pd.Index([7, 9], name="row"))
    back = in_pandas(pa.Table.from_pandas(indexed).replace_schema_metadata(None)).set_index("row")
    pd.testing.assert_frame_equal(back, indexed, check_dtype=True)


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (pa.array([1], pa.time64("ns")), "time64"),
        (pa.array([-800_000], pa.date32()), "date32"),
    ],
)
def test_what_pandas_cannot_hold_is_named(column: pa.Array, why: str) -> None:
    table = from_frame(pa.table({"a": [1.0], "t": column}))
    with pytest.raises(InputError, match=rf"column 't' \({why}.*\) cannot be put into pandas: ") as raised:
        blank_frame(table, Schema(()), False)
    assert raised.value.hint is not None and "Arrow" in raised.value.hint
    assert blank_frame(table, Schema(()), True)["t"].type == column.type


def test_a_type_that_parquet_does_not_have_is_named() -> None:
    wide = pa.array([Decimal(1200)], pa.decimal128(10, -2))
    with pytest.raises(InputError, match="the table in memory cannot be read: column 'd': Scale must be"):
        from_frame(pa.table({"a": [1.0], "d": wide}))
