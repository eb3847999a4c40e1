"""What is read of a table once, though many ask for it, and what is not searched for where nobody wants it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from vgi_cli.columns.datetime import Moment
from vgi_cli.encoding import infer
from vgi_cli.encoding.infer import infer_schema, schema_alone
from vgi_cli.encoding.redundant import codes_of
from vgi_cli.fitting.rows import refitted
from vgi_cli.settings.recipe import Recipe
from vgi_cli.table.base import Table
from vgi_cli.table.csv.table import CsvTable
from vgi_cli.table.reader import read_table


def visits(tmp_path: Path, people: int = 40) -> Table:
    """Three visits of each of some people, who are named and not modelled, on days that are; in no order."""
    rng = np.random.default_rng(0)
    days = np.datetime64("2020-01-01") + rng.integers(0, 900, 3 * people)
    people_of = rng.permutation(3 * people) % people
    rows = [
        f"Person {who},{day},{rng.normal():.2f},{rng.choice(list('abc'))}"
        for who, day in zip(people_of, days, strict=True)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["who,day,height,site", *rows]) + "\n")
    return read_table([tmp_path / "t.csv"])


def counted(monkeypatch: pytest.MonkeyPatch, kind: type, name: str) -> Counter[str]:
    """How often a method was called since, by the name of a column that it was called with (or that of its cells)."""
    asked: Counter[str] = Counter()
    method = getattr(kind, name)

    def call(self: object, of: object) -> object:
        asked[of if isinstance(of, str) else of.name] += 1  # type: ignore[attr-defined]
        return method(self, of)

    monkeypatch.setattr(kind, name, call)
    return asked


def test_how_numbers_are_spelled_is_found_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = counted(monkeypatch, CsvTable, "spelling")
    infer_schema(visits(tmp_path))
    assert asked["height"] == 1


def test_different_texts_are_not_read_for_each_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (visits(tmp_path, people) for people in (40, 80))
    asked = counted(monkeypatch, CsvTable, "distinct")
    infer_schema(few)
    first = asked.pop("who")
    infer_schema(many)
    assert asked["who"] == first


def test_codes_are_made_once_and_anew_where_cells_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = visits(tmp_path)
    (day,) = (column for column in schema_alone(table).encoded if isinstance(column, Moment))
    asked = counted(monkeypatch, Moment, "codes")
    codes = codes_of(table, day)
    assert codes_of(table, day) is codes and asked["day"] <= 1
    with pytest.raises(ValueError, match="read-only"):
        codes[0] = 0.0
    table.forget("day", np.arange(table.N) == 0)
    np.testing.assert_array_equal(codes_of(table, day), [np.nan, *codes[1:]])


def test_no_relations_are_searched_for_where_columns_alone_are_refitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = visits(tmp_path)
    schema = schema_alone(table)
    rows = torch.arange(0, table.N, 2)
    expected = infer_schema(table, rows=np.isin(np.arange(table.N), rows.numpy()))[0].columns

    def fail(*_: object) -> None:
        raise AssertionError("searched")

    for search in ("candidates", "relations_among", "suspects", "exceptions_among"):
        monkeypatch.setattr(infer, search, fail)
    assert refitted(schema, table, Recipe(), rows).columns == (schema.columns[0], *expected[1:])
