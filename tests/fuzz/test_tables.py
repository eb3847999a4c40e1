"""Hostile tables end in a filled table or in a reason: those that once did not, and many from a seed."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tests.fuzz.tables import Case, csv_case, parquet, parquet_case
from tests.fuzz.trial import attempt, read_and_fill
from tests.selection import first
from vgi_cli.errors import InputError
from vgi_cli.table.reader import read_table
from vgi_cli.table.source import open_table

ONE = ("--model", "mixture", "--set", "model.components=1")
FREE = (*ONE, "--unbounded", "all")
FILES = ("--m", "2", "-o", "o.csv")
PARQUET = ("--m", "2", "-o", "o.parquet")
Y = ["1", "2", "3", "5", "4", "7", "6", "9", "8", "10"]


def beside_y(cells: list[str]) -> bytes:
    """A CSV table of ten rows."""
    return "\n".join(["x,y", *(f"{x},{y}" for x, y in zip(cells, Y, strict=True))]).encode() + b"\n"


def arrow_beside_y(column: pa.Array, more: dict[str, pa.Array] | None = None, **notes: bytes) -> bytes:
    table = pa.table({"x": column, **(more or {}), "y": [float(y) for y in Y]})
    return parquet(table.replace_schema_metadata(notes or None))


TOO_LARGE = "holds a number too large to compute with"
TOO_CLOSE = "too close together to compute with"
CSV_CORPUS = {  # table, flags of fit: what the error says, or "done"
    "the greatest numbers": (["1.7e308", "-1.7e308", "", "1e308", *"123456"], ONE, TOO_LARGE),
    "1e308 beside 1e-308": (["1e308", "1e-308", "", "1e308", *["1e-308"] * 6], ONE, TOO_LARGE),
    "subnormal numbers": (["5e-324", "1e-323", "", "0", *["5e-324"] * 6], ONE, TOO_CLOSE),
    "a spread below the least": (["1e-300", "2e-300", "", "3e-300", *["4e-300"] * 6], ONE, TOO_CLOSE),
    "large within reason": (["1e279", "-1e279", "", "2.5e278", *["1e-300"] * 6], FREE, "done"),
    "close within reason": (["1e-279", "3e-279", "", "2e-279", *["7e-279"] * 6], FREE, "done"),
    "neighbouring float64 numbers": (["1e16", "10000000000000002", "", *["1e16"] * 7], FREE, "done"),
    "numbers of 20 digits": ([f"1234567890123456789{i}" if i != 3 else "" for i in range(10)], FREE, "done"),
    "numbers of 20 digits that differ": (
        [f"{i}0000000000000000{i}" if i != 3 else "" for i in range(10)],
        FREE,
        "done",
    ),
    "0 means missing": (["0", "1", "", "-1", "2", "-2", "", "1", "-1", ""], (*FREE, "--na-values", "0"), "done"),
    "as it is, and too large": (
        ["1e16", "2e16", "", "3e16", *"123456"],
        (*ONE, "--set", "table.transform=none"),
        "too large",
    ),
    "as it is, and too close": (
        ["1", "1.0000000001", "", *["1"] * 7],
        (*ONE, "--set", "table.transform=none"),
        "too close together",
    ),
}


@pytest.mark.parametrize("name", CSV_CORPUS)
def test_csv_that_once_ended_badly(name: str) -> None:
    cells, fit, expected = CSV_CORPUS[name]
    assert expected in attempt(Case("t.csv", beside_y(cells), fit, FILES))


def integers(kind: pa.DataType) -> pa.Array:
    limits = np.iinfo(kind.to_pandas_dtype())
    ends = [limits.min, limits.max]
    return pa.array([*ends, None, *ends, limits.max, None, limits.min + 1, limits.max - 1, limits.max // 2], kind)


def decimals(precision: int, scale: int) -> pa.Array:
    most, zero, least = (Decimal(f"{units}e-{scale}") for units in (10**precision - 1, 0, 1 - 10**precision))
    return pa.array([most, least, None, most, least, zero, None, most, zero, least], pa.decimal128(precision, scale))


PARQUET_CORPUS: dict[str, Callable[[], pa.Array]] = {
    "int8": lambda: integers(pa.int8()),
    "uint8": lambda: integers(pa.uint8()),
    "int64": lambda: integers(pa.int64()),
    "uint64": lambda: integers(pa.uint64()),
    "decimal128(38, 30)": lambda: decimals(38, 30),
    "decimal128(38, 0)": lambda: decimals(38, 0),
    "decimal128(3, 1)": lambda: decimals(3, 1),
    "decimal32": lambda: decimals(5, 2).cast(pa.decimal32(5, 2)),
    "float16": lambda: pa.array(np.array([65504, -65504, np.nan, *range(7)], np.float16)),
    "map": lambda: pa.array([[("a", 1)], None] * 5, pa.map_(pa.string(), pa.int64())),
    "string_view": lambda: pa.array(["a", None] * 5, pa.string_view()),
    "dictionary": lambda: pa.array(["a", None] * 5).dictionary_encode(),
    "time zones": lambda: pa.array([0, None] * 5, pa.timestamp("ns", "Europe/Berlin")),
}


LONG = ("decimal128(38, 30)", "string_view")
"""Of these one type each is written in long form, too; the others with `-m slow`."""


@pytest.mark.parametrize(
    ("name", "impute"),
    [
        *(pytest.param(name, PARQUET, id=name, marks=pytest.mark.slow) for name in PARQUET_CORPUS),
        *(
            pytest.param(
                name,
                ("--format", "long", *PARQUET),
                id=f"{name}-long",
                marks=[] if name in LONG else pytest.mark.slow,
            )
            for name in PARQUET_CORPUS
        ),
    ],
)
def test_parquet_that_once_ended_badly(name: str, impute: tuple[str, ...]) -> None:
    assert attempt(Case("t.parquet", arrow_beside_y(PARQUET_CORPUS[name]()), FREE, impute, blocks=3)) == "done"


def test_parquet_that_once_ended_badly_in_one_table() -> None:
    """By default all in one; each alone before releases."""
    arrays = {name: make() for name, make in PARQUET_CORPUS.items()}
    whole = arrow_beside_y(arrays.pop("int8"), arrays)
    assert attempt(Case("t.parquet", whole, FREE, PARQUET, blocks=3)) == "done"


@pytest.mark.parametrize(
    ("notes", "reason"),
    [
        (b"", "Expecting value"),
        (b"\xff", "'utf-8' codec"),
        (b"[" * 100_000, "recursion"),
        (b"[]", "all of them"),
        (b'{"index_columns": 1}', "index_columns"),
        (b'{"columns": [1]}', "columns.0"),
        (b'{"columns": [{"field_name": []}]}', "columns.0.field_name"),
    ],
)
def test_damaged_notes_of_pandas_are_refused(notes: bytes, reason: str) -> None:
    data = arrow_beside_y(integers(pa.int8()), pandas=notes)
    said = attempt(Case("t.parquet", data, ONE, PARQUET))
    assert "t.parquet: damaged, in what pandas notes beside the columns" in said and reason in said


def test_reading_whole_and_in_blocks_takes_the_same_notes_of_pandas(tmp_path: Path) -> None:
    """A Parquet file holds them twice; here one copy is damaged."""
    path = tmp_path / "t.parquet"
    pd.DataFrame({"a": [1.0, 2.0, None]}).to_parquet(path)
    data = path.read_bytes()
    assert data.count(b'"index_columns"') == 1  # the other copy is written in base64
    path.write_bytes(data.replace(b'"index_columns"', b'"index_\xff\xff\xff\xff\xff\xff\xff"'))
    said = []
    for read in (read_table, open_table):
        try:
            read([path])
            said.append("read")
        except InputError as error:
            said.append(error.message)
    assert said[0] == said[1]


def test_generators_repeat_themselves() -> None:
    assert csv_case(7) == csv_case(7) and parquet_case(7) == parquet_case(7)
    assert len({csv_case(seed).data for seed in range(30)}) == 30


@pytest.mark.parametrize("seed", first(4, range(12)))
def test_csv(seed: int) -> None:
    attempt(csv_case(seed))


def test_a_quote_within_a_cell_is_a_part_of_it() -> None:
    """`""N/A"` is the level `N/A"`, no hole: the check of a hundred thousand inputs once took it for one."""
    assert b'""N/A"' in csv_case(31024791).data
    assert read_and_fill(csv_case(31024791), 31024791) == "done"


def test_a_fill_that_is_written_as_a_code_for_missing_is_moved() -> None:
    """`--na-values 0`, and fills at an observed 5e-324 in a column that is otherwise rounded to four decimals."""
    assert read_and_fill(parquet_case(3295), 3295) == "done"


@pytest.mark.parametrize("blocks", [1, 2])
def test_blocks_may_begin_with_a_blank_line_where_the_header_ends_in_cr(blocks: int) -> None:
    """CR and LF are two line ends there, not one; a blank line is a row of a table of one column."""
    case = Case("t.csv", b"x\r1\n\n\n4\n\n6\n", ("--delimiter", "~", *FREE), FILES, blocks=blocks)
    assert read_and_fill(case, 1) == attempt(case) == "done"


@pytest.mark.parametrize("seed", first(4, range(12)))
def test_parquet(seed: int) -> None:
    attempt(parquet_case(seed))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 2000, 50))
def test_many_csv(first: int) -> None:
    for seed in range(first, first + 50):
        attempt(csv_case(seed))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 2000, 50))
def test_many_parquet(first: int) -> None:
    for seed in range(first, first + 50):
        attempt(parquet_case(seed))


@pytest.mark.parametrize("first", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1000, 5000, 500))])
def test_any_fill_can_be_written_and_read(first: int) -> None:
    """Without a fit: encoded, drawn at random, decoded, written and read again, no hole is left."""
    for seed in range(first, first + (5 if first < 1000 else 500)):
        read_and_fill(csv_case(seed), seed)
        read_and_fill(parquet_case(seed), seed)
