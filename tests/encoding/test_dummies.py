"""Dummies of one column, of which exactly one holds in every row, are said."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.selection import first
from vgi_cli.encoding.dummies import dummies
from vgi_cli.encoding.infer import infer_schema, schema_alone
from vgi_cli.encoding.suspects import suspects
from vgi_cli.table.frames import from_frame


def lines_of(frame: pd.DataFrame) -> list[str]:
    table = from_frame(frame)
    return dummies(table, schema_alone(table))


def spread(seed: int, n: int = 200, holes: float = 0.1) -> pd.DataFrame:
    """Two columns spread over dummies, numbers and truth values of their own."""
    rng = np.random.default_rng(seed)
    town, size = rng.choice(list("abcd"), n, p=[0.5, 0.3, 0.15, 0.05]), rng.choice(["s", "m", "l"], n)
    frame = pd.get_dummies(pd.DataFrame({"town": town, "size": size}), dtype=int)
    frame["x"], frame["ill"] = rng.normal(size=n).round(2), rng.integers(0, 2, n)
    return frame.astype(object).mask(rng.random(frame.shape) < holes)


@pytest.mark.parametrize("seed", first(2, range(5)))
def test_each_set_has_a_line(seed: int) -> None:
    found = lines_of(spread(seed))
    one, other = found
    names = "'size_l', 'size_m', 'size_s'", "'town_a', 'town_b', 'town_c', 'town_d'"
    for line, own in zip(sorted([one, other]), names, strict=True):
        assert line == (
            f"exactly one of columns {own} holds in every row, as of dummies of one column: fills may break that; one "
            "column of levels in their place keeps it"
        )
    table = from_frame(spread(seed))
    assert set(found) <= set(suspects(table, schema_alone(table)))


def test_dummies_that_follow_from_the_column_that_they_are_of_need_no_line() -> None:
    rng = np.random.default_rng(0)
    plan = rng.choice(["free", "basic", "pro"], 300, p=[0.5, 0.3, 0.2])
    frame = pd.get_dummies(pd.DataFrame({"plan": plan}), dtype=int).assign(plan=plan, x=rng.normal(size=300).round(2))
    holes = rng.random(frame.shape) < 0.1
    table = from_frame(frame.astype(object).mask(holes))
    _, lines = infer_schema(table)
    assert [line for line in lines if "exactly one of" in line] == []
    _, lines = infer_schema(from_frame(frame.drop(columns="plan").astype(object).mask(holes[:, [0, 1, 2, 4]])))
    assert len([line for line in lines if "exactly one of" in line]) == 1


def test_what_is_none() -> None:
    assert lines_of(spread(0, holes=0.0)) == []  # nothing to fill
    assert lines_of(spread(0, n=15)) == []  # too few rows
    broken = spread(0)
    row = broken[["town_a", "town_b", "town_c", "town_d"]].dropna().index[0]
    broken.loc[row, ["town_a", "town_b", "town_c", "town_d"]] = [1, 1, 0, 0]
    assert [line for line in lines_of(broken) if "town" in line] == []
    left_out = spread(0).drop(columns=["town_a"])  # of a reference level there is no dummy: none may hold
    assert [line for line in lines_of(left_out) if "town" in line] == []
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.integers(0, 2, (300, 8)), columns=list("abcdefgh")).astype(object)
    assert lines_of(frame.mask(rng.random(frame.shape) < 0.1)) == []
