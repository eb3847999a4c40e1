"""Columns that go together along a line are not bent each by a map of its own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from vgi_cli.columns.base import Encoding
from vgi_cli.encoding import straight
from vgi_cli.encoding.encoder import encode
from vgi_cli.encoding.infer import Said, infer_schema, schema_alone
from vgi_cli.table.frames import from_frame

BENT = Encoding("normal")


def frame(spread: float, n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    first = rng.uniform(0, 700, n)
    return pd.DataFrame({"first": first, "second": first + rng.normal(5, spread, n), "own": rng.gamma(2, 3, n)})


def straight_in(table: pd.DataFrame, encoding: Encoding = BENT) -> list[str]:
    schema = schema_alone(from_frame(table), Said(encoding=encoding))
    return [column.name for column in schema.encoded if not column.scale.knots]  # type: ignore[attr-defined]


def test_a_close_pair_is_left_as_it_is() -> None:
    assert straight_in(frame(5.0)) == ["first", "second"]
    assert straight_in(frame(5.0).mask(np.random.default_rng(1).random((400, 3)) < 0.4)) == ["first", "second"]
    assert straight_in(frame(5.0), Encoding("linear")) == ["first", "second", "own"]


@pytest.mark.parametrize(
    "table",
    [
        frame(150.0),  # no line
        frame(5.0, 25),  # few rows
        frame(5.0).assign(second=lambda f: np.exp(f["first"] / 200)),  # bent, they are one line: straight, none
    ],
)
def test_others_are_bent(table: pd.DataFrame) -> None:
    assert straight_in(table) == []


def test_the_same_in_two_units_is_bent() -> None:
    """Where a line leaves no more than both are rounded by, one is computed from the other, bent or not."""
    rng = np.random.default_rng(2)
    crp = np.exp(rng.normal(1, 0.6, 400)).round(1)
    table = pd.DataFrame({"mg": crp, "nmol": (9.524 * crp).round(), "own": rng.normal(size=400)})
    table.loc[rng.random(400) < 0.3, ["mg", "nmol"]] = np.nan
    assert straight_in(table.iloc[:, :2]) == straight_in(table[["nmol", "mg"]]) == straight_in(table) == []
    assert straight_in(table.assign(nmol=table.nmol + 3 * (table.own > 0))) == ["mg", "nmol"]


def test_columns_of_which_no_cell_is_looked_at_are_bent() -> None:
    """A few cells in many rows, of which some decide."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.gamma(2, 3, 6_000), "rare": np.nan})
    table.loc[[1, 2, 4, 5, 7, 8, 10, 11], "rare"] = rng.gamma(2, 3, 8)
    assert "rare" not in straight_in(table) and "x" not in straight_in(table)


def test_logarithms_stay_where_these_are_what_is_close() -> None:
    """Ends of an interval over six decades that are a fifth apart: as they are, no line; as logarithms, one."""
    rng = np.random.default_rng(4)
    low = np.append(1e7, np.exp(3 * rng.normal(size=399)))  # the largest makes a line of all others
    table = pd.DataFrame(
        {"low": low, "high": low * np.exp(0.2 + 0.03 * rng.normal(size=400)), "own": rng.gamma(2, 3, 400)}
    )
    table = table.mask(rng.random((400, 3)) < 0.3)
    for encoding in (BENT, Encoding("linear")):
        schema = schema_alone(from_frame(table), Said(encoding=encoding))
        scales = {column.name: column.scale for column in schema.encoded}  # type: ignore[attr-defined]
        assert all(scales[name].logs and not scales[name].knots for name in ("low", "high"))
        assert bool(scales["own"].knots) == (encoding == BENT)


def test_what_is_as_close_once_it_is_bent_is_bent() -> None:
    rng = np.random.default_rng(3)
    first = np.exp(0.6 * rng.normal(size=800))
    table = pd.DataFrame({"first": first, "second": first * np.exp(0.05 * rng.normal(size=800))})
    assert np.corrcoef(table.to_numpy().T)[0, 1] ** 2 > 1 - straight.CLOSE
    assert straight_in(table) == []


def test_rows_that_do_not_decide_have_no_part() -> None:
    table = frame(5.0)
    table.loc[:199, "second"] = np.random.default_rng(2).uniform(0, 700, 200)
    rows = np.arange(400) >= 200
    found = [infer_schema(from_frame(table), encoding=BENT, rows=some)[0] for some in (rows, None)]
    assert [[c.name for c in one.encoded if not c.scale.knots] for one in found] == [["first", "second"], []]  # type: ignore[attr-defined]


def test_the_distance_of_a_pair_is_encoded_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def left() -> float:
        """The share of the variance of one encoded column that the other leaves."""
        table = from_frame(frame(5.0))
        schema = schema_alone(table, Said(encoding=BENT))
        x = encode(table, schema, seed=0).table.x.numpy()
        return 1 - np.corrcoef(x[:, 0], x[:, 1])[0, 1] ** 2

    apart = left()
    monkeypatch.setattr(straight, "MOST", 0)
    assert apart < 0.5 * left()


def test_columns_of_few_cells_are_not_asked(recwarn: pytest.WarningsRecorder) -> None:
    table = frame(5.0, 4_000)
    table.loc[1:, "own"] = np.nan
    table.loc[3_000:3_040, "own"] = np.arange(41.0) ** 2
    assert straight_in(table) == ["first", "second"] and not recwarn.list


def test_a_column_that_was_given_room_keeps_it() -> None:
    """At most three columns have a pile: those with room stay so where they are left as they are."""
    rng = np.random.default_rng(0)
    n = 600
    table = pd.DataFrame(
        {f"p{i}": np.where(rng.random(n) < 0.4 - 0.02 * i, 0.0, rng.gamma(2, 3, n)).round(2) for i in range(4)}
    )
    u = np.where(rng.random(n) < 0.2, 0.0, rng.uniform(1, 700, n)).round(2)
    table["u"], table["v"] = u, np.where(u == 0, 0.0, (u + rng.normal(0, 4, n)).clip(0.01)).round(2)
    schema = schema_alone(from_frame(table), Said(encoding=Encoding("normal", "split")))
    assert sum(getattr(column, "pile", None) is not None for column in schema.encoded) <= 3
