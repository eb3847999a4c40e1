"""Categories, truth values and scales: found by any spelling, written back as the column spells and types them."""

from __future__ import annotations

import io
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
import torch

from tests.table.helpers import from_text, write_imputed
from vgi_cli.columns.base import Column, ConstantColumn
from vgi_cli.columns.boolean import Boolean, opposite
from vgi_cli.columns.categorical import Categorical
from vgi_cli.columns.levelled import Levelled, few, key_of
from vgi_cli.columns.ordinal import Ordinal
from vgi_cli.columns.schema import Schema, parse_kind
from vgi_cli.encoding.check import check
from vgi_cli.encoding.encoder import encode, log_share, log_volume, unpool
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.errors import InputError, UsageError
from vgi_cli.fitting.rows import rows_of
from vgi_cli.table.base import Table
from vgi_cli.table.frames import from_frame, to_frames


def column_of(cells: list[str], kind: str) -> tuple[Table, Column]:
    table = from_text("x,y\n" + "".join(f"{cell},{i}.5\n" for i, cell in enumerate(cells)))
    return table, infer_schema(table, kinds={"x": kind})[0].columns[0]


def levels(cells: list[str], kind: str) -> tuple[str, ...]:
    column = column_of(cells, kind)[1]
    assert isinstance(column, Levelled)
    return column.levels


@pytest.mark.parametrize(
    ("text", "key"),
    [(" a ", "a"), ("1.0", "1"), ("+1", "1"), ("1e2", "100"), ("-0.0", "0"), ("01", "01"), ("9007199254740993", None)],
)
def test_other_spellings_of_a_level_are_that_level(text: str, key: str | None) -> None:
    assert key_of(text) == (text if key is None else key)


def test_levels_are_spelled_as_the_column_spells_them_most_often() -> None:
    assert levels(["1.0", "10.0", "2", "2.0", "2.0", "1.0"], "categorical") == ("1.0", "2.0", "10.0")
    assert levels(["b", " b", '"a"', "a ", "c"], "categorical") == ("a", "b", "c")
    assert levels(["02139", "10001", "02139"], "categorical") == ("10001", "02139")


@pytest.mark.parametrize(
    ("cells", "pair"),
    [
        (["0", "1", "1"], ("0", "1")),
        (["1.0", "0.0", "0.0"], ("0.0", "1.0")),
        (["yes", "No", "no", "no", "YES", "YES"], ("no", "YES")),
        (["Y", "N", "N", "no"], ("N", "Y")),
        (["TRUE", "FALSE"], ("FALSE", "TRUE")),
        (["f", "T"], ("f", "T")),
        (["Yes", "Yes"], ("No", "Yes")),
        (["1.0", "1.0"], ("0.0", "1.0")),
        (["F"], ("F", "T")),
    ],
)
def test_truth_values_in_any_spelling(cells: list[str], pair: tuple[str, str]) -> None:
    assert levels(cells, "boolean") == pair
    assert opposite(opposite(pair[0])) == pair[0]


def test_truth_values_of_another_table_may_be_spelled_otherwise() -> None:
    _, column = column_of(["yes", "no", "no", ""], "boolean")
    assert isinstance(column, Boolean)
    other = from_text("x,y\nTRUE,1\n0,2\n Y ,3\n,4\nmaybe,5\n")
    np.testing.assert_array_equal(column.codes(other.column("x")), [1, 0, 1, np.nan, np.nan])
    listed = column_of(["lost", "won", "won", "Won"], "boolean:lost,won")[1]
    assert isinstance(listed, Boolean) and listed.levels == ("lost", "won")


@pytest.mark.parametrize(
    ("cells", "listed"),
    [
        (["Ideal", "Fair", "Good", "Very Good", "Premium"], "Fair,Good,Very Good,Premium,Ideal'` if that is their"),
        (["low", "high", "mid"], "low,mid,high` if that is their"),
        (["b", "a", "c"], "a,b,c` in their"),
    ],
)
def test_a_known_scale_is_offered_in_its_order(cells: list[str], listed: str) -> None:
    with pytest.raises(InputError) as caught:
        column_of(cells, "ordinal")
    assert f"x=ordinal:{listed} order" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("cells", "kind", "message"),
    [
        (["a", "b"], "boolean", "--column x=boolean: which level is true is not known"),
        (["yes", "true"], "boolean", "--column x=boolean: which level is true is not known"),
        (["yes", "no", "0"], "boolean:no,yes", r"does not list '0' in row 3 \(line 4\)"),
        (["low", "mid", "top", "top"], "ordinal:low,mid", r"does not list 'top' in row 3 \(line 4\) and 1 more cell"),
        (["b", "a", "c"], "ordinal", "--column x=ordinal: the order of texts is not known"),
        ([str(i) for i in range(51)], "ordinal", "has 51 different numbers: at most 50 are levels"),
    ],
)
def test_cells_that_contradict_what_was_asked(cells: list[str], kind: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        column_of(cells, kind)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("ordinal:low", "takes two levels or more with commas between them, got 'low'"),
        ("ordinal:", "takes two levels or more"),
        ("categorical:a,,b", "takes two levels or more"),
        ("ordinal:1,2,1.0", "level '1' is listed twice"),
        ("boolean:a,b,c", "takes what is false and what is true, got 'a,b,c'"),
    ],
)
def test_lists_that_cannot_be_meant(kind: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_kind("x", kind)


def test_a_scale_has_the_order_that_was_listed_or_that_of_its_numbers() -> None:
    _, column = column_of(["mid", "low", "mid"], 'ordinal:low, mid,"high, or more"')
    assert isinstance(column, Ordinal) and column.levels == ("low", "mid", "high, or more") and column.ordered
    assert levels(["3", "1", "10", "2.0", "2.0"], "ordinal") == ("1", "2.0", "3", "10")
    assert levels(["3.0", "1", ""], "ordinal:1,2,3") == ("1", "2", "3.0")
    table, column = column_of(["3", "1", "2"], "ordinal")
    schema = infer_schema(table, kinds={"x": "ordinal"})[0]
    assert schema.layout.ordered == {0} and schema.layout.levels == (3, 0)
    draws = np.array([[0.0, 1], [0, 2], [2, 2], [2, 1]])
    assert isinstance(column, Ordinal)
    np.testing.assert_array_equal(column.point(draws, "median"), [0, 1])
    np.testing.assert_array_equal(column.point(draws, "mode"), [0, 1])


def test_an_ordered_dictionary_says_its_order() -> None:
    grades = pa.DictionaryArray.from_arrays([1, 0, None, 1], ["low", "mid", "high"], ordered=True)
    table = from_frame(pa.table({"grade": grades, "y": [1.5, 2.5, 3.0, 4.1]}))
    schema = infer_schema(table, kinds={"grade": "ordinal"})[0]
    grade = schema.columns[0]
    assert isinstance(grade, Ordinal) and grade.levels == ("low", "mid", "high")
    (filled,) = to_frames(table, schema, np.full((1, 4, 2), 2.0), True, say=print)
    assert filled.schema.field("grade").type == grades.type
    assert filled.column("grade").to_pylist() == ["mid", "low", "high", "mid"]
    assert filled.column("grade").chunk(0).dictionary.to_pylist() == ["low", "mid", "high"]


@pytest.mark.parametrize(
    ("array", "kind", "drawn"),
    [
        (pa.array([True, None, False]), "boolean", True),
        (pa.array([1, None, 0], pa.int8()), "boolean", 1),
        (pa.array([7, None, 99], pa.int16()), "categorical", 99),
        (pa.array([0.1, None, 0.5], pa.float32()), "categorical", 0.5),
        (pa.array([Decimal("1.50"), None, Decimal("2.25")], pa.decimal128(5, 2)), "ordinal", Decimal("2.25")),
        (pa.array(["a", None, "b,c"]), "categorical", "b,c"),
        (pa.array(["a", None, "b"], pa.large_string()), "categorical", "b"),
        (pa.array(["x", None, "y"]).dictionary_encode(), "categorical", "y"),
        (pa.array([3, None, 20], pa.int64()).dictionary_encode(), "categorical", 20),
        (pa.array([1.5, None, 20.0]).dictionary_encode(), "ordinal", 20.0),
        (pa.array([True, None, True]), "categorical", True),
    ],
)
def test_fills_have_the_type_of_their_column(array: pa.Array, kind: str, drawn: object) -> None:
    table = from_frame(pa.table({"x": array, "y": [1.0, 2.0, 4.5]}))
    schema = infer_schema(table, kinds={"x": kind})[0]
    said: list[str] = []
    draws = np.ones((1, 3, len(schema.modelled)))
    (filled,) = to_frames(table, schema, draws, True, say=said.append)
    assert filled.schema.field("x").type == array.type and said == []
    cells = filled.column("x").to_pylist()
    assert cells == [array[0].as_py(), drawn, array[2].as_py()]
    assert Levelled not in type(schema.columns[0]).__mro__ or check(table, schema) == []


def test_an_empty_column_gets_the_type_of_the_fills() -> None:
    fitted = from_frame(pa.table({"x": ["a", "b", None], "y": [1.0, 2.0, 4.5]}))
    schema = infer_schema(fitted, kinds={"x": "categorical"})[0]
    table = from_frame(pa.table({"x": pa.nulls(2), "y": [1.0, 2.0]}))
    said: list[str] = []
    (filled,) = to_frames(table, schema, np.ones((1, 2, 2)), True, say=said.append)
    assert filled.column("x").to_pylist() == ["b", "b"]
    assert said == ["column 'x' is written as string, not null: it was empty"]


@pytest.mark.parametrize("quoted", [False, True])
def test_fills_are_quoted_as_their_column_or_where_they_must(quoted: bool) -> None:
    first = '"a"' if quoted else "a"
    table = from_text(f'x,y\n{first},1.5\n"b,""c""",2.5\n,3.5\n,4\n')
    schema = infer_schema(table, kinds={"x": "categorical"})[0]
    out = io.BytesIO()
    draw = np.array([[0, 0], [0, 0], [0, 0], [1, 0.0]])
    write_imputed(table, schema, draw[None], layout="single", out=out)
    assert out.getvalue().decode() == f'x,y\n{first},1.5\n"b,""c""",2.5\n{first},3.5\n"b,""c""",4\n'


def test_a_column_of_one_text_is_filled_with_it() -> None:
    table, column = column_of(["same", "same", ""], "categorical")
    assert isinstance(column, ConstantColumn)
    schema = infer_schema(table, kinds={"x": "categorical"})[0]
    out = io.BytesIO()
    write_imputed(table, schema, np.ones((1, 3, 1)), layout="single", out=out)
    assert out.getvalue().decode() == "x,y\nsame,0.5\nsame,1.5\nsame,2.5\n"


@pytest.mark.parametrize(
    ("k", "n", "expected"),
    [
        *[(2, 5, True), (2, 3, False), (3, 5, False), (3, 6, True), (5, 10, True), (6, 12, False), (6, 30, True)],
        *[(10, 49, False), (10, 50, True), (50, 250, True), (51, 10_000, False)],
    ],
)
def test_how_many_levels_are_few(k: int, n: int, expected: bool) -> None:
    assert few(k, n) == expected


def test_rare_levels_are_pooled_drawn_together_and_spelled_by_their_shares() -> None:
    often = [f"o{i:03d}" for i in range(199) for _ in range(4)]
    cells = [*often, *["rare1"] * 3, "rare2", ""]
    table, column = column_of(cells, "categorical")
    assert isinstance(column, Categorical) and column.level_counts == (200,) and column.rare == ("rare1", "rare2")
    schema = infer_schema(table, kinds={"x": "categorical"})[0]
    assert Schema.from_json(schema.to_json()) == schema and "and 2 rare ones pooled" in column.summary
    (x, *_), keys = encode(table, schema, seed=0)
    assert x[-5:-1, 0].tolist() == [199.0] * 4 and float(column.box()[1, 0]) == 199.0
    np.testing.assert_allclose(log_share(table, schema)[-5:], [np.log(0.75)] * 3 + [np.log(0.25), 0.0])
    codes = column.codes(table.column("x"))
    np.testing.assert_array_equal(column.spell(codes[[0, -5, -2]], None), ["o000", "rare1", "rare2"])
    every = np.arange(201.0)  # probabilities of levels, whatever those of the model, still sum to one
    model = np.random.default_rng(0).dirichlet(np.ones(200))
    total = model[column.encode(every, None)[:, 0].astype(int)] * np.exp(column.log_share(every))
    assert total.sum() == pytest.approx(1.0)
    draws = unpool(np.full((500, 20, 2), 199.0), schema, 1, keys[:20])
    assert (draws[..., 0] == 199).mean() == pytest.approx(0.75, abs=0.02)  # 10,000 draws: 4.6 standard errors
    again = unpool(np.full((3, 20, 2), 199.0), schema, 1, keys[:20])
    np.testing.assert_array_equal(again[..., 0], draws[:3, :, 0])  # keyed by row and draw
    np.testing.assert_array_equal(column.unpool(np.array([3.0, 198.0]), np.array([0.1, 0.9])), [3, 198])
    whole = log_share(table, schema).numpy() + _alone(table, schema)
    np.testing.assert_allclose(rows_of(table, schema, 0).log_volume().numpy(), whole)
    np.testing.assert_allclose(
        rows_of(table, schema, 0).at(torch.tensor([798, 3])).log_volume().numpy(), whole[[798, 3]]
    )


@pytest.mark.parametrize(
    ("levels", "cells", "counts"),
    [(60, 2, 60), (200, 3, 200), (201, 3, 200), (60, 1, 50), (51, 1, 50)],
)
def test_levels_that_several_cells_hold_are_kept_where_the_user_names_the_kind(
    levels: int, cells: int, counts: int
) -> None:
    _, column = column_of([f"o{i:03d}" for i in range(levels) for _ in range(cells)], "categorical")
    assert isinstance(column, Categorical) and column.level_counts == (counts,)
    assert len(column.levels) + len(column.rare) == levels and column.pooled == (counts < levels)


def _alone(table: Table, schema: Schema) -> np.ndarray:
    """The part of the column of numbers."""
    (x, missing, *_), _ = encode(table, schema, seed=0)
    return log_volume(missing, x, schema).numpy()
