"""Categories of Parquet: what pandas notes of those that Arrow reads back as numbers, and the order of dictionaries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from vgi_cli.columns.ordinal import Ordinal
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.check import check
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.errors import InputError
from vgi_cli.table.base import Table
from vgi_cli.table.frames import from_frame
from vgi_cli.table.parquet.orders import common_order
from vgi_cli.table.reader import read_table

NUMBERS = {"share": [1.5, 2.5, 3.5, None] * 8, "code": [1, 2, 3, 4] * 8, "stage": [3, 1, 2, 3] * 8}


def kinds(table: Table, **options: object) -> dict[str, str]:
    schema, _ = infer_schema(table, **options)  # type: ignore[arg-type]
    return {column.name: column.kind for column in schema.columns}


def graded(*levels: str, cells: tuple[str, ...] = ("low", "high") * 8) -> pd.DataFrame:
    return pd.DataFrame(
        {"g": pd.Categorical(cells, categories=levels, ordered=True), "x": np.arange(len(cells)) + 0.25}
    )


def saved(folder: Path, name: str, frame: pd.DataFrame) -> Path:
    path = folder / f"{name}.parquet"
    frame.to_parquet(path)
    return path


def test_numbers_that_pandas_holds_as_categories_are_categories(tmp_path: Path) -> None:
    frame = pd.DataFrame({name: pd.Categorical(cells) for name, cells in NUMBERS.items()})
    frame["stage"] = frame["stage"].cat.as_ordered()
    table = read_table([saved(tmp_path, "t", frame)])
    schema, notes = infer_schema(table)
    assert {c.name: c.kind for c in schema.columns} == dict.fromkeys(NUMBERS, "categorical")
    assert kinds(table, kinds={"share": "numeric", "stage": "ordinal"}) == {
        "share": "numeric",
        "code": "categorical",
        "stage": "ordinal",
    }
    assert [n for n in notes if "an order that the file does not keep" in n and "--column stage=ordinal" in n]
    plain = read_table([saved(tmp_path, "p", pd.DataFrame(NUMBERS))])
    assert kinds(plain) == {"share": "numeric", "code": "integer", "stage": "integer"}


def test_categories_of_many_numbers_are_carried_with_a_line(tmp_path: Path) -> None:
    frame = pd.DataFrame({"c": pd.Categorical(np.arange(60) * 1.5), "x": np.arange(60) % 7 + 0.25})
    for table in (read_table([saved(tmp_path, "t", frame)]), from_frame(frame)):
        schema, notes = infer_schema(table)
        assert schema.modelled == ("x",)
        assert [n for n in notes if n.startswith("column 'c' is carried: 60 levels, more than 50 (`--column c=")]


@pytest.mark.parametrize(
    ("orders", "found"),
    [
        (["ab"], "ab"),
        (["ac", "abc"], "abc"),
        (["ab", "bc"], "abc"),
        (["ab", "ba"], None),
        (["ab", "bc", "ca"], None),
        (["ab", "ac"], None),  # b and c in either order
    ],
)
def test_the_order_that_several_have_in_common(orders: list[str], found: str | None) -> None:
    assert common_order(orders) == (None if found is None else list(found))


def test_files_of_one_table_have_one_order(tmp_path: Path) -> None:
    some, more, other = (
        saved(tmp_path, name, graded(*levels))
        for name, levels in {"a": ("low", "high"), "b": ("low", "mid", "high"), "c": ("high", "low")}.items()
    )
    (column, _) = infer_schema(read_table([some, more]))[0].columns
    assert isinstance(column, Ordinal)
    assert column.levels == ("low", "mid", "high")
    table = read_table([some, other])
    with pytest.raises(InputError, match="column 'g' has levels in an order, but not in one: 'low' < 'high' here") as e:
        infer_schema(table)
    assert "--column g=ordinal:LEVEL" in str(e.value.hint)
    assert kinds(table, kinds={"g": "ordinal:low,high"})["g"] == "ordinal"
    assert kinds(table, kinds={"g": "categorical"})["g"] == "categorical"


def test_a_new_table_does_not_contradict_the_order_of_the_fit() -> None:
    def fitted(**options: object) -> Schema:
        schema = infer_schema(from_frame(graded("low", "mid", "high")), **options)[0]  # type: ignore[arg-type]
        return Schema.from_json(schema.to_json())

    schema = fitted()
    for levels in (("low", "mid", "high"), ("low", "high"), ("low", "high", "top")):
        check(from_frame(graded(*levels)), schema)
    with pytest.raises(InputError, match="another order, high < mid < low, than in the fit, low < mid < high"):
        check(from_frame(graded("high", "mid", "low")), schema)
    with pytest.raises(InputError, match="another order"):
        check(from_frame(graded("mid", "low", "high")), schema)
    check(from_frame(graded("high", "mid", "low")), fitted(kinds={"g": "ordinal:low,mid,high"}))
    texts = pa.table({"g": ["low", "high"], "x": [0.25, 1.25]})
    check(from_frame(texts), schema)


def test_numbers_held_as_categories_are_numbers_to_a_run_that_was_fitted_to_numbers() -> None:
    frame = pd.DataFrame({"x": [0.5, 1.5, -2.25, np.nan] * 10, "y": range(40)})
    schema, _ = infer_schema(from_frame(frame))
    new = from_frame(frame.astype({"x": "category"}))
    assert not any("x" in line for line in check(new, schema))
    assert np.array_equal(schema.encoded[0].codes(new.column("x")), frame.x, equal_nan=True)
