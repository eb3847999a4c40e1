"""Copies, levels by other names, and sums of columns are found, and columns that only go well together are not."""

from __future__ import annotations

import numpy as np
import pandas as pd

from vgi_cli.encoding.infer import infer_schema, schema_alone
from vgi_cli.encoding.redundant import Redundant, candidates, kept_to_tell, kept_words, redundant
from vgi_cli.table.frames import from_frame


def found(frame: pd.DataFrame) -> list[Redundant]:
    table = from_frame(frame)
    schema = schema_alone(table)
    return redundant(candidates(table, schema), schema)


def table(N: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=(3, N))
    a[rng.random(N) < 0.2] = np.nan
    return pd.DataFrame({"a": a, "b": b, "c": c})


def test_nothing_is_said_of_columns_that_only_go_well_together() -> None:
    frame = table()
    frame["d"] = frame.b + 0.05 * np.random.default_rng(1).normal(size=len(frame))
    assert np.corrcoef(frame.b, frame.d)[0, 1] > 0.998
    assert found(frame) == []


def test_copies_lines_and_sums() -> None:
    frame = table()
    frame["twin"] = frame.a
    frame["fahrenheit"] = 32 + 1.8 * frame.b
    frame["total"] = frame.a + 2 * frame.b - frame.c
    frame["rounded"] = (10 * (frame.b + frame.c)).round(1)
    assert found(frame) == [
        Redundant("twin", ("a",), "copy"),
        Redundant("fahrenheit", ("b",), "line"),
        Redundant("total", ("a", "b", "c"), "sum"),
        Redundant("rounded", ("b", "c"), "sum", exact=False),
    ]


def test_a_copy_with_other_holes_is_a_line() -> None:
    frame = table()
    frame["other"] = frame.a.mask(np.arange(len(frame)) % 7 == 0)
    assert found(frame) == [Redundant("other", ("a",), "line")]


def test_levels_by_other_names() -> None:
    rng = np.random.default_rng(0)
    code = rng.integers(0, 3, 90)
    frame = pd.DataFrame({"country": np.array(["de", "fr", "it"])[code], "x": rng.normal(size=90)})
    frame["iso"] = np.array(["276", "250", "380"])[code]
    frame.loc[::9, "iso"] = None
    frame["other"] = np.array(["u", "v", "w"])[np.where(rng.random(90) < 0.1, (code + 1) % 3, code)]
    assert found(frame) == [Redundant("iso", ("country",), "levels")]


def test_a_column_that_is_constant_in_the_rows_looked_at_is_no_sum() -> None:
    frame = table()
    frame["rare"] = np.where(frame.index == 7, 0.7, 0.1)
    frame.loc[7, "a"] = np.nan  # the rows that have all columns: `rare` is 0.1 in each
    assert found(frame) == []


def test_too_few_rows_say_nothing() -> None:
    frame = table(8)
    frame["total"] = frame.b + frame.c
    assert found(frame) == []


def test_two_dates_are_not_said_to_be_a_line() -> None:
    """How long somebody stayed is what they differ by, and nothing that could be computed."""
    rng = np.random.default_rng(2)
    admitted = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1000, 300), "D")
    frame = pd.DataFrame({"admitted": admitted, "left": admitted + pd.to_timedelta(rng.integers(1, 9, 300), "D")})
    frame["near"] = rng.normal(size=300)
    frame["twin"] = frame.near + 1e-3 * rng.normal(size=300)
    _, notes = infer_schema(from_frame(frame))
    lines = [note for note in notes if "linear function" in note]
    assert len(lines) == 1 and "'twin'" in lines[0]


def test_all_that_fills_keep_to_can_be_listed() -> None:
    frame = pd.DataFrame({f"x{i}": np.random.default_rng(i).normal(size=60) for i in range(8)})
    for i in range(8):
        frame[f"copy{i}"] = 2 * frame[f"x{i}"]
    schema = schema_alone(from_frame(frame))
    (short,), whole = kept_words(schema), kept_to_tell(schema)
    assert "more, which -v lists" in short and len(whole) == sum(" = 2 " in line for line in whole) == 8
