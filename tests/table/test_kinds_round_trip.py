"""Random tables of every kind, CSV and Parquet: every observed cell is written as it was read, byte for byte or by
value and type, and every hole of a modelled column gets a cell that the column can hold."""

from __future__ import annotations

import io
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.table.helpers import from_text, write_imputed
from vgi_cli.columns.base import Column, ConstantColumn, ModelledColumn
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.encoder import box, decode, encode
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.table.base import Table
from vgi_cli.table.csv.text import quote
from vgi_cli.table.frames import from_frame, to_frames

START = datetime(2019, 3, 1, tzinfo=UTC)
SECONDS = st.integers(0, 10**8)


class Kind(NamedTuple):
    """Cells of one kind, and what is said of the column."""

    cells: st.SearchStrategy[str]
    said: str | None = None


def stamps(format: str) -> st.SearchStrategy[str]:
    return SECONDS.map(lambda s: (START + timedelta(seconds=s)).strftime(format))


CSV_KINDS = {
    "whole": Kind(st.integers(-50, 50).map(str)),
    "point": Kind(st.integers(-50, 50).map(lambda i: f"{i}.0")),
    "rounded": Kind(st.integers(-999, 999).map(lambda i: f"{i / 100:.2f}")),
    "real": Kind(st.floats(-1e3, 1e3).map(repr)),
    "bounded": Kind(st.integers(0, 100).map(str), "bounded:0:100"),
    "categorical": Kind(st.sampled_from(["a", "B ", "c, d", 'e"f', "ü"]), "categorical"),
    "codes": Kind(st.sampled_from(["01", "02", "7"]), "categorical"),
    "ordinal": Kind(st.sampled_from(["low", "mid", "high"]), "ordinal:low,mid,high"),
    "truth": Kind(st.sampled_from(["Yes", "No"]), "boolean"),
    "date": Kind(stamps("%Y-%m-%d")),
    "day first": Kind(stamps("%d/%m/%Y"), "date:%d/%m/%Y"),
    "month name": Kind(stamps("%d %b %Y")),
    "datetime": Kind(stamps("%Y-%m-%dT%H:%M:%SZ")),
    "minutes": Kind(stamps("%Y-%m-%d %H:%M")),
    "time": Kind(stamps("%H.%M.%S")),
    "duration": Kind(SECONDS.map(lambda s: f"{s // 3600}:{s // 60 % 60:02d}:{s % 60:02d}"), "duration"),
    "text": Kind(st.text("abc,; ü", min_size=1, max_size=9), "carry"),
    "id": Kind(st.integers(0, 999).map(lambda i: f"{i:05d}"), "carry"),
}


def holes_are_filled(before: Table, after: Table, schema: Schema) -> None:
    """And the fills are cells that their columns read and would write alike."""
    for column in schema.columns:
        was, now = before.column(column.name), after.column(column.name)
        if isinstance(column, ModelledColumn):
            assert not now.missing.any()
            codes = column.codes(now)[was.missing]
            assert np.isfinite(codes).all(), column
            snapped = column.snap(codes)
            assert np.allclose(snapped, codes, rtol=1e-4, atol=1e-4 * column.deviation), column
        elif isinstance(column, ConstantColumn):
            assert not now.missing.any()


def drawn(rows: Table, schema: Schema, rng: np.random.Generator) -> np.ndarray:
    """[1, N, columns] codes of any admissible encoded values."""
    x, limits = encode(rows, schema, seed=0).table.x, box(schema)
    z = x.new_tensor(rng.normal(size=x.shape) * 2)
    levels = x.new_tensor(rng.random(size=x.shape))
    for i, count in enumerate(schema.layout.level_counts[: schema.layout.d]):
        if count:
            z[:, i] = (levels[:, i] * count).floor()
    return decode(z.clamp(limits.low, limits.high)[None], schema)


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_csv_changes_in_its_filled_cells_alone(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(CSV_KINDS)), min_size=1, max_size=5, unique=True))
    delimiter, end = data.draw(st.sampled_from([",", ";", "\t"])), data.draw(st.sampled_from(["\n", "\r\n"]))
    n = data.draw(st.integers(12, 20))
    cells: list[list[str]] = []
    for name in names:
        column = data.draw(st.lists(CSV_KINDS[name].cells, min_size=n, max_size=n))
        every = data.draw(st.booleans())
        raw = [quote(c) if every or any(s in c for s in f'"{delimiter}') else c for c in column]
        gone = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
        token = data.draw(st.sampled_from(["", "NA", " ", "?"]))
        cells.append([token if g else c for g, c in zip(gone, raw, strict=True)])
    cells.append([f"{i}.5" for i in range(n)])
    head = delimiter.join([*names, "last"])
    text = end.join([head, *map(delimiter.join, zip(*cells, strict=True))]) + end
    rows = from_text(text, delimiter=delimiter, na_values=["?"])
    said = {name: CSV_KINDS[name].said for name in names if CSV_KINDS[name].said is not None}
    usable = {name: kind for name, kind in said.items() if len(set(rows.text(name)) - {None}) > 1}
    schema = infer_schema(rows, kinds=usable)[0]
    assert Schema.from_json(schema.to_json()) == schema
    sink = io.BytesIO()
    draws = drawn(rows, schema, np.random.default_rng(data.draw(st.integers(0, 99))))
    write_imputed(rows, schema, draws, layout="single", out=sink)
    after = from_text(sink.getvalue(), delimiter=delimiter, na_values=["?"])
    filled: dict[str, Column] = {c.name: c for c in (*schema.encoded, *schema.constants)}
    first, second = rows.csv, after.csv  # type: ignore[attr-defined]
    assert first.text[: first.header[2]] == second.text[: second.header[2]]
    for j, name in enumerate([*names, "last"]):
        for i in range(n):
            old = first.text[first.bounds[i, j] : first.bounds[i, j + 1] - 1]
            new = second.text[second.bounds[i, j] : second.bounds[i, j + 1] - 1]
            assert old == new or (name in filled and rows.missing(name)[i])
    holes_are_filled(rows, after, schema)


def moments(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_date(kind):
        return SECONDS.map(lambda s: (START + timedelta(seconds=s)).date())
    if pa.types.is_time(kind):
        return SECONDS.map(lambda s: time(s // 3600 % 24, s // 60 % 60, s % 60))
    if pa.types.is_duration(kind):
        return SECONDS.map(lambda s: timedelta(seconds=s))
    return SECONDS.map(lambda s: (START + timedelta(seconds=s)).replace(tzinfo=UTC if kind.tz else None))


PARQUET_KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any], str | None]] = [
    (pa.int8(), st.integers(-99, 99), None),
    (pa.int64(), st.integers(-(10**6), 10**6), None),
    (pa.float32(), st.integers(-999, 999).map(lambda i: i / 10), None),
    (pa.float64(), st.floats(-1e6, 1e6), None),
    (pa.decimal128(9, 2), st.integers(-9999, 9999).map(lambda i: Decimal(i).scaleb(-2)), None),
    (pa.bool_(), st.booleans(), "boolean"),
    (pa.string(), st.sampled_from(["a", "b ", ""]), "carry"),
    (pa.string(), st.sampled_from(["low", "mid", "high"]), "categorical"),
    (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["low", "mid", "high"]), "categorical"),
    *((kind, moments(kind), None) for kind in (pa.date32(), pa.date64(), pa.time32("s"), pa.time64("ns"))),
    *((pa.timestamp(unit), moments(pa.timestamp(unit)), None) for unit in ("s", "ms", "us", "ns")),
    *((pa.timestamp("us", z), moments(pa.timestamp("us", z)), None) for z in ("UTC", "America/New_York", "+05:30")),
    *((pa.duration(unit), moments(pa.duration(unit)), None) for unit in ("s", "ns")),
    (pa.list_(pa.int8()), st.lists(st.integers(0, 9), max_size=2), None),
    (pa.binary(), st.binary(max_size=3), None),
]


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_parquet_keeps_values_and_types(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(PARQUET_KINDS), min_size=1, max_size=5))
    n = data.draw(st.integers(12, 20))
    columns, said = {}, {}
    for k, (kind, values, words) in enumerate(kinds):
        cells = data.draw(st.lists(st.none() | values, min_size=n, max_size=n))
        columns[f"c{k}"] = pa.array(cells, kind)
        if words is not None and len({c for c in cells if c is not None}) > 1:
            said[f"c{k}"] = words
    arrow = pa.table({**columns, "last": [i + 0.5 for i in range(n)]}, metadata={"made": "by hand"})
    rows = from_frame(arrow)
    schema = infer_schema(rows, kinds=said)[0]
    assert Schema.from_json(schema.to_json()) == schema
    draws = drawn(rows, schema, np.random.default_rng(data.draw(st.integers(0, 99))))
    after = _written(rows, schema, draws)
    numbers = {name for name, kind in zip(columns, kinds, strict=True) if pa.types.is_int8(kind[0])}
    for field in arrow.schema:
        if field.name not in numbers:  # a fill may be beyond a byte: the type is wider then
            assert after.schema.field(field.name).type == field.type
        old, new = arrow.column(field.name), after.column(field.name)
        for i in range(n):
            if old[i].is_valid:
                assert new[i].as_py() == old[i].as_py() or str(old[i]) == "nan"
    holes_are_filled(rows, from_frame(after), schema)


def _written(rows: Table, schema: Schema, draws: np.ndarray) -> pa.Table:
    (after,) = to_frames(rows, schema, draws, True, say=lambda line: None)
    assert isinstance(after, pa.Table)
    return after
