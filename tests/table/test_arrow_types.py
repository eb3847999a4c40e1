"""Types of filled Parquet columns: the input's, wider ones with a line where a fill does not fit, else a refusal."""

from __future__ import annotations

from decimal import Context, Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.table.helpers import write_imputed
from vgi_cli.columns.bounds import Bound
from vgi_cli.columns.number import Number
from vgi_cli.columns.scale import Scale
from vgi_cli.columns.schema import Schema
from vgi_cli.errors import InputError
from vgi_cli.table.fills import avoid_codes
from vgi_cli.table.frames import from_frame, to_frames
from vgi_cli.table.pandas_notes import KEY, told_to_pandas
from vgi_cli.table.reader import read_table

LARGE = 2**62 + 1
MOST, LEAST = Decimal("9" * 38), Decimal("-" + "9" * 38)


def filled(folder: Path, column: pa.Array, fill: float, kind: str = "integer") -> tuple[pa.ChunkedArray, list[str]]:
    """Number `x` with `fill` drawn in every hole, and what was said."""
    pq.write_table(pa.table({"x": column}), folder / "t.parquet")
    table = read_table([folder / "t.parquet"])
    known = Number("x", kind, low=0.0, high=1.0, scale=Scale(0.0, 1.0))  # type: ignore[arg-type]
    said: list[str] = []
    draws = np.full((2, table.N, 1), fill)
    draws[0] = 1.0  # one draw fits: both files are of one type all the same
    paths = write_imputed(table, Schema((known,)), draws, layout="files", out=folder / "o.parquet", say=said.append)
    schemas = [pq.read_schema(path) for path in paths]
    assert schemas[0] == schemas[1]
    return pq.read_table(paths[1])["x"], said


@pytest.mark.parametrize(
    ("given", "cells", "fill", "wide", "cell"),
    [
        (pa.int8(), [-128, 127], 128.0, pa.int64(), 128),
        (pa.uint8(), [0, 255], -1.0, pa.int64(), -1),
        (pa.uint32(), [0, 2**32 - 1], 2.0**32, pa.int64(), 2**32),
        (pa.int64(), [LARGE], 2.0**64, pa.decimal128(20, 0), Decimal(2**64)),
        (pa.int64(), [LARGE], -(2.0**64), pa.decimal128(20, 0), Decimal(-(2**64))),
        (pa.uint64(), [2**64 - 1], -1.0, pa.decimal128(20, 0), Decimal(-1)),
        (pa.uint64(), [2**64 - 1], 1e50, pa.decimal256(51, 0), Decimal(int(1e50))),
        (pa.float16(), np.array([1.5], np.float16), 1e5, pa.float32(), 1e5),
        (pa.float32(), [1.5], 1e39, pa.float64(), 1e39),
        (pa.decimal128(3, 1), [Decimal("9.9")], 99.96, pa.decimal128(4, 1), Decimal("100.0")),
        (pa.decimal128(38, 0), [MOST], -1e40, pa.decimal256(41, 0), Decimal(-int(1e40))),
    ],
)
def test_types_widen_with_a_line(
    tmp_path: Path, given: pa.DataType, cells: list[object], fill: float, wide: pa.DataType, cell: object
) -> None:
    kind = "integer" if fill == round(fill) else "numeric"
    out, said = filled(tmp_path, pa.array([*cells, None], given), fill, kind)
    assert (out.type, out[-1].as_py()) == (wide, cell)
    assert [value.as_py() for value in out[:-1]] == list(cells)
    (line,) = said
    assert line.startswith(f"column 'x' is written as {wide}, not {given}: the fill ")
    assert line.endswith(" does not fit in")


@pytest.mark.parametrize(
    ("given", "cells", "wide"),
    [
        (pa.uint8(), [0, 255], pa.float64()),
        (pa.int64(), [0, 2**53], pa.float64()),
        (pa.int64(), [LARGE, -LARGE], pa.decimal128(37, 17)),
    ],
)
def test_fractions_among_whole_numbers(tmp_path: Path, given: pa.DataType, cells: list[int], wide: pa.DataType) -> None:
    out, said = filled(tmp_path, pa.array([*cells, None], given), 0.5, "numeric")
    assert out.type == wide and [int(value.as_py()) for value in out[:-1]] == cells and float(out[-1].as_py()) == 0.5
    assert said == [f"column 'x' is written as {wide}, not {given}: the fill 0.5 is not whole"]


@pytest.mark.parametrize(
    ("given", "cells", "fill"),
    [
        (pa.int64(), [2**63 - 1], 2.0**63),
        (pa.uint64(), [2**64 - 1], 2.0**64),
        (pa.decimal128(38, 30), [MOST.scaleb(-30, Context(prec=38))], 1e8),
        (pa.decimal128(38, 30), [LEAST.scaleb(-30, Context(prec=38))], -1e8),
    ],
)
def test_the_float_next_to_the_end_of_a_type_stands_for_it(
    tmp_path: Path, given: pa.DataType, cells: list[object], fill: float
) -> None:
    out, said = filled(tmp_path, pa.array([*cells, None], given), fill)
    assert out.type == given and out[-1] == out[0] and said == []


@pytest.mark.parametrize("given", [pa.int64(), pa.decimal128(38, 30)])
def test_a_fill_that_no_type_holds_is_an_error_and_leaves_nothing(tmp_path: Path, given: pa.DataType) -> None:
    with pytest.raises(InputError, match=r"column 'x': no type holds its numbers and the fill 1e\+100") as caught:
        filled(tmp_path, pa.array([Decimal(1) if pa.types.is_decimal(given) else 1, None], given), 1e100)
    assert caught.value.hint == "cast the column to double in the file"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.parquet"]


def test_an_empty_column_gets_the_type_of_its_fills(tmp_path: Path) -> None:
    out, said = filled(tmp_path, pa.nulls(2), 3.0)
    assert out.type == pa.int64() and said == ["column 'x' is written as int64, not null: it was empty"]
    for path in tmp_path.iterdir():
        path.unlink()
    assert filled(tmp_path, pa.nulls(2), 1e300)[0].to_pylist() == [1e300] * 2


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string(), ordered=True)]
)
def test_numbers_as_text_stay_what_they_are(tmp_path: Path, kind: pa.DataType) -> None:
    column = pa.array(["1", None, "2"]).cast(kind) if pa.types.is_dictionary(kind) else pa.array(["1", None, "2"], kind)
    out, said = filled(tmp_path, column, 7.0)
    assert out.type == kind and out.to_pylist() == ["1", "7", "2"] and said == []


def test_a_dictionary_with_too_few_places_gets_more() -> None:
    texts = pa.array([str(i) for i in range(127)] + [None, None]).dictionary_encode()
    column = texts.cast(pa.dictionary(pa.int8(), pa.string()))
    table = from_frame(pa.table({"x": column}))
    known = Schema((Number("x", "integer", low=0.0, high=126.0, scale=Scale(0.0, 1.0)),))
    said: list[str] = []
    draws = np.arange(129.0)[None, :, None]
    (out,) = to_frames(table, known, draws, arrow=True, say=said.append)
    assert out["x"].type == pa.dictionary(pa.int32(), pa.string()) and out["x"].to_pylist()[-2:] == ["127", "128"]
    (line,) = said
    assert line.endswith(
        "not dictionary<values=string, indices=int8, ordered=0>: the fills make 129 different texts of it"
    )


def test_types_that_parquet_lacks_are_refused_in_memory() -> None:
    spans = pa.array([pa.MonthDayNano([1, 2, 3])] * 2)
    problem = "the table in memory cannot be read: column 'span': Unhandled type"
    with pytest.raises(InputError, match=problem) as caught:
        from_frame(pa.table({"x": [1, 2], "span": spans}))
    assert caught.value.hint == "drop the column or cast it (categories of intervals: `.astype(str)`)"


def test_pandas_is_told_of_unsigned_and_decimal_types() -> None:
    frame = pd.DataFrame({"u": pd.Series([1], dtype="UInt8"), "d": pd.Series([1], dtype="UInt64")})
    schema = pa.Table.from_pandas(frame).schema
    told = told_to_pandas(schema, {"u": pa.uint16(), "d": pa.decimal128(20, 0)})
    assert b'"numpy_type": "UInt16"' in told.metadata[KEY] and b'"pandas_type": "decimal"' in told.metadata[KEY]


@pytest.mark.parametrize(
    ("kind", "fill", "held"),
    [
        (pa.float16(), 1e-12, 2.0**-24),  # would be 0, and a bound is above it
        (pa.float16(), 0.99999, 1 - 2.0**-11),  # would be 1
        (pa.float32(), 1e-50, 2.0**-149),
        (pa.float32(), 0.5, 0.5),
        (pa.float64(), 1e-50, 1e-50),
    ],
)
def test_rounding_to_a_type_of_fewer_digits_stays_within_the_bounds(
    tmp_path: Path, kind: pa.DataType, fill: float, held: float
) -> None:
    numbers = pa.array(np.array([0.25, 0.75], kind.to_pandas_dtype()))
    pq.write_table(pa.table({"x": pa.concat_arrays([numbers, pa.nulls(1, kind)])}), tmp_path / "t.parquet")
    table = read_table([tmp_path / "t.parquet"])
    bounds = Bound(1e-60, "sign"), Bound(float(np.nextafter(1.0, 0.0)), "sign")
    column = Number("x", "numeric", low=0.25, high=0.75, lower=bounds[0], upper=bounds[1], scale=Scale(0.0, 1.0))
    out = write_imputed(table, Schema((column,)), np.full((1, 3, 1), fill), layout="single", out=tmp_path / "o.parquet")
    assert pq.read_table(out[0])["x"].to_pylist() == [0.25, 0.75, held]


def test_a_fill_may_be_the_least_number_of_a_type(tmp_path: Path) -> None:
    least = float(np.finfo(np.float32).min)
    pq.write_table(pa.table({"x": pa.array([least, 0.75, None], pa.float32())}), tmp_path / "t.parquet")
    column = Number("x", "numeric", low=least, high=0.75, scale=Scale(0.0, 1.0))
    table = read_table([tmp_path / "t.parquet"])
    draws = np.full((1, 3, 1), least)
    out = write_imputed(table, Schema((column,)), draws, layout="single", out=tmp_path / "o.parquet")
    assert pq.read_table(out[0])["x"].to_pylist() == [least, 0.75, least]


def test_fills_keep_off_numbers_that_mean_missing_once_they_are_rounded(tmp_path: Path) -> None:
    numbers = pa.array(np.array([-0.5, 0.75, np.nan], np.float16), from_pandas=True)
    pq.write_table(pa.table({"x": numbers}), tmp_path / "t.parquet")
    table = read_table([tmp_path / "t.parquet"], na_values=["0"])
    schema = Schema((Number("x", "numeric", low=-0.5, high=0.75, scale=Scale(0.0, 1.0)),))
    draws = np.full((1, 3, 1), 1e-12)
    assert avoid_codes(draws, table, schema) == {"x": 1}
    write_imputed(table, schema, draws, layout="single", out=tmp_path / "o.parquet")
    assert not read_table([tmp_path / "o.parquet"], na_values=["0"]).missing("x").any()


NUMBERS = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 7.0]})


@pytest.mark.parametrize(
    ("frame", "message", "hint"),
    [
        (NUMBERS.set_axis(["a", "a"], axis=1), ": duplicate column name 'a' (columns 1 and 2)", "rename one of them"),
        (
            NUMBERS.assign(s=pd.arrays.SparseArray([0.0, 0.0, 1.0])),
            ": column 's' is sparse",
            "column.sparse.to_dense()",
        ),
        (NUMBERS.assign(c=[1j, 2j, 3.0]), ": column 'c' holds complex numbers", "real and imaginary parts"),
        (
            NUMBERS.assign(m=pd.Series([None, 1, "x"], dtype=object)),
            ": column 'm' holds cells of several types: a number in row 2, str in row 3",
            "`column.astype('string')` makes texts of all",
        ),
        (
            NUMBERS.assign(m=[{1}, {2}, {"x"}]),
            ": column 'm' cannot be read: Could not convert 'x' with type str: tried to convert to int64",
            "drop the column or cast it",
        ),
        (
            NUMBERS.assign(m=[object()] * 3),
            ": column 'm' cannot be read: Could not convert <object",
            "drop the column or cast it",
        ),
    ],
)
def test_a_column_of_pandas_that_cannot_be_read_is_named_with_what_is_wrong(
    frame: pd.DataFrame, message: str, hint: str
) -> None:
    with pytest.raises(InputError) as caught:
        from_frame(frame)
    assert caught.value.message.startswith(f"the table in memory{message}") and hint in str(caught.value.hint)


def test_an_index_of_pandas_that_cannot_be_read() -> None:
    with pytest.raises(InputError, match=r"the table in memory cannot be read: .*'x'") as caught:
        from_frame(NUMBERS.set_axis(pd.Index([1, "x", 2.5], dtype=object)))
    assert caught.value.hint == "`.reset_index(drop=True)` drops its index"
