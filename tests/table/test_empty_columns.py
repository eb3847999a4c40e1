"""A column of which nothing is observed in a new table: its fills have the type that it had in the fit."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tests.table.helpers import from_text
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.check import check
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.table.frames import from_frame, to_frames
from vgi_cli.table.parquet.table import type_called

N = 12
DAY = datetime.date(2020, 1, 31)
STAMPS = pd.Timestamp("2020-01-01", tz="Europe/Berlin") + pd.to_timedelta(np.arange(N) * 3601, unit="s")
FITTED = pd.DataFrame(
    {
        "x": np.arange(N) + 0.5,
        "whole": np.arange(N, dtype=np.int8),
        "single": np.arange(N, dtype=np.float32) / 4,
        "price": [Decimal(i * i).scaleb(-2) for i in range(N)],
        "truth": [True, False] * 6,
        "words": ["yes", "no"] * 6,
        "text": ["u", "v", "w"] * 4,
        "digits": ["1", "7"] * 6,
        "dictionary": pd.Categorical(["u", "v"] * 6),
        "scale": pd.Categorical(["low", "high"] * 6, categories=["low", "mid", "high"], ordered=True),
        "date": [DAY + datetime.timedelta(days=i) for i in range(N)],
        "stamp": STAMPS,
        "length": pd.to_timedelta(np.arange(N) * 90, unit="s"),
        "time": [datetime.time(i) for i in range(N)],
        "same": ["k"] * N,
        "day": [DAY] * N,
    }
)
EMPTY = [name for name in FITTED if name != "x"]


def filled(schema: Schema, new: pd.DataFrame, long: bool = False) -> pa.Table:
    table = from_frame(new)
    check(table, schema)
    draws = np.stack([np.array([column.box()[0, 0] for column in schema.encoded])] * table.N)[None]
    draws = np.where(np.isfinite(draws), draws, 0.0)
    out = to_frames(table, schema, draws, True, long, say=lambda _: None)
    return out if long else out[0]


@pytest.mark.parametrize("nothing", [None, np.nan])
def test_it_is_the_type_of_the_fit(nothing: float | None) -> None:
    source = from_frame(FITTED)
    schema = Schema.from_json(infer_schema(source)[0].to_json())
    new = FITTED.head(3).assign(**dict.fromkeys(EMPTY, nothing))
    got = filled(schema, new)
    assert all(got.column(name).null_count == 0 for name in FITTED)
    numbers = ["x", "whole", "single", "price"] if nothing is not None else ["x"]  # a table of floats keeps them
    same = [name for name in FITTED if name not in numbers]
    assert {n: got.schema.field(n).type for n in same} == {n: source.arrow.schema.field(n).type for n in same}
    back = got.to_pandas()
    assert {n: str(back[n].dtype) for n in same} == {n: str(FITTED[n].dtype) for n in same}
    assert list(back["scale"].cat.categories) == ["low", "mid", "high"] and set(back["words"]) <= {"yes", "no"}
    assert type(back["date"][0]) is datetime.date and back["stamp"].dt.tz is not None
    whole = filled(schema, new, long=True)
    assert whole.schema.field("date").type == pa.date32() and whole.column("date").null_count == 3


def test_of_a_fit_of_texts_it_is_what_the_texts_say() -> None:
    head = "x,truth,words,flag,code,real,date,same\n"
    rows = [f"{i},{i % 2 == 0},{'NY'[i % 2]},{i % 2},{[1, 7, 99][i % 3]},{i}.0,2020-01-{i + 10},5\n" for i in range(N)]
    schema, _ = infer_schema(from_text(head + "".join(rows)), kinds={"real": "numeric"})
    got = filled(schema, pd.DataFrame({name: [None] * 2 for name in head.strip().split(",")}))
    assert [str(field.type) for field in got.schema] == [
        *("int64", "bool", "string", "int64", "int64", "double", "string", "int64")
    ]


def test_types_are_told_from_their_names(tmp_path: Path) -> None:
    kinds = [field.type for field in pa.Table.from_pandas(FITTED).schema]
    more = [pa.decimal256(50, 3), pa.timestamp("s", "+01:00"), pa.date64(), pa.time32("ms"), pa.float16()]
    for kind in (*kinds, *more):
        assert type_called(str(kind)) == kind
    assert type_called("decimal128(99, 1)") is None and type_called("struct<a: int64>") is None
    assert from_frame(pd.DataFrame({"a": [[1], [2]]})).stored("a") in ("list<item: int64>", "list<element: int64>")
    assert from_frame(pd.DataFrame({"a": [{"x": 1}, {"x": 2}]})).stored("a") is None
