"""What follows from a key in all rows but a few is named with these rows, and fills keep to it all the same."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.encoding.test_keys import named, panel
from tests.encoding.test_other_keys import plants
from tests.selection import first
from vgi_cli.columns.base import Encoding
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.infer import Said, infer_schema, schema_alone
from vgi_cli.encoding.key_exceptions import excepted_keys
from vgi_cli.encoding.redundant import every_kept
from vgi_cli.table.frames import from_frame


def found(frame: pd.DataFrame) -> tuple[list[str], Schema]:
    """The lines of a fit on exceptions, and the schema."""
    schema, notes = infer_schema(from_frame(frame))
    return [note for note in notes if "but not in row" in note], schema


def other(frame: pd.DataFrame, name: str, row: int) -> pd.DataFrame:
    """With a cell of a truth value or a category that is another level."""
    frame = frame.copy()
    frame.loc[row, name] = next(level for level in frame[name].unique() if level != frame.loc[row, name])
    return frame


def test_a_number_that_is_wrong_once_is_named_with_its_row() -> None:
    frame = panel()
    frame.loc[17, "index"] = 90.0
    lines, schema = found(frame)
    assert lines == [
        "'index' follows from 'year', in 299 of the 300 rows that have both, but not in row 18 ('index' is 90, not "
        "102.4): fills keep to this; where a cell there is wrong, mend it or make it missing"
    ]
    assert "'index' follows from 'year' (but for 1 row)" in every_kept(schema)
    frame.loc[17, "index"] = np.nan
    lines, schema = found(frame)
    assert not lines and "'index' follows from 'year'" in every_kept(schema)


def test_levels_and_keys_that_are_carried() -> None:
    frame = other(other(named(panel()), "sex", 3), "sex", 250)
    lines, schema = found(frame)
    sex = {"f": "m", "m": "f"}
    assert len(lines) == 1 and lines[0].startswith(
        "'sex' follows from 'person', in 298 of the 300 rows that have both, but not in row 4 ('sex' is "
        f"{frame.sex[3]}, not {sex[frame.sex[3]]}) and row 251 ('sex' is {frame.sex[250]}, not {sex[frame.sex[250]]}): "
    )
    assert {one.name: one.but for one in schema.lookups} == {"born": 0, "sex": 2}


def test_of_two_rows_of_a_key_either_may_be_wrong() -> None:
    frame = panel(n=150, waves=2)
    frame = other(frame, "sex", 41)
    lines, _ = found(frame)
    assert len(lines) == 1
    assert f"but not in row 42 ('sex' is {frame.sex[41]}, and {frame.sex[40]} in row 41): " in lines[0]


def test_a_value_that_nothing_else_has_is_no_key() -> None:
    """The plant follows from every capacity but the wrong one, of which one row says nothing."""
    frame = plants()
    value = frame.capacity[17]
    frame.loc[17, "capacity"] = 4_321
    lines, _ = found(frame)
    assert [line.partition(": ")[0] for line in lines] == [
        "'capacity' follows from 'plant', in 399 of the 400 rows that have both, but not in row 18 ('capacity' is "
        f"4321, not {value})"
    ]


def test_more_than_a_few_rows_are_no_exceptions() -> None:
    frame = panel()
    rows = [3, 30, 77, 120, 199, 241]
    assert found(frame.assign(index=frame["index"].mask(frame.index.isin(rows[:3]), 90.0)))[0]
    assert not found(frame.assign(index=frame["index"].mask(frame.index.isin(rows), 90.0)))[0]
    few = panel(n=5)
    few.loc[7, "index"] = 90.0
    assert not found(few)[0]


@pytest.mark.parametrize("seed", first(3, range(6)))
def test_nothing_in_what_has_to_do_with_no_key(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 300
    frame = pd.DataFrame(
        {
            "minute": np.arange(n) // 3,
            "level": np.round(np.cumsum(rng.normal(0, 0.5, n)) / 10),
            "age": rng.integers(20, 80, n),
            "count": rng.poisson(1.0, n),
            "rare": np.where(rng.random(n) < 0.97, 0, rng.integers(1, 9, n)),
            "name": [f"n{i}" for i in rng.integers(0, 80, n)],
        }
    )
    frame["old"] = np.where(frame.age + rng.normal(0, 0.3, n) > 50, "old", "young")
    frame["tens"] = (frame.age + rng.normal(0, 0.05, n)) // 10
    assert not found(frame)[0]


def test_a_column_of_which_something_else_is_said_is_left_out() -> None:
    frame = panel()
    frame.loc[17, "index"] = 90.0
    schema = schema_alone(from_frame(frame), Said(encoding=Encoding(relations="ignore")))
    assert [(one.name, one.by) for one in excepted_keys(from_frame(frame), schema)] == [("index", "year")]
    assert not excepted_keys(from_frame(frame), schema, ["index"])


def payroll(n: int = 400, *, unlike: int) -> pd.DataFrame:
    """A pay that follows from grade and step, of which two grades have one in common; `unlike` rows of the lower grade
    are in the step that has it."""
    rng = np.random.default_rng(3)
    grade, step = rng.integers(0, 5, n), rng.integers(0, 4, n)
    grade[(grade == 1) & (step == 3)] = 2
    grade[:unlike], step[:unlike] = 1, 3
    grade[unlike : unlike + 25], step[unlike : unlike + 25] = 2, 0
    pay = 2000.0 + 310 * grade + 97 * step
    pay[(grade == 1) & (step == 3)] = pay[(grade == 2) & (step == 0)][0]
    return pd.DataFrame({"grade": [f"E{one}" for one in grade], "step": step, "pay": pay, "age": rng.normal(40, 9, n)})


@pytest.mark.parametrize("unlike", [1, 2])
@pytest.mark.parametrize("holed", [False, True])
def test_rows_that_a_third_column_explains_are_no_exceptions(unlike: int, holed: bool) -> None:
    """Two grades have one pay, in different steps; once, or in the same way again."""
    frame = payroll(unlike=unlike)
    if holed:
        frame.loc[300:, "step"] = np.nan
    assert not found(frame)[0]


def test_a_wrong_grade_is_named_beside_its_step() -> None:
    frame = payroll(unlike=0)
    row = int(np.flatnonzero((frame.grade == "E3") & (frame.step == 2))[0])
    frame.loc[row, "grade"] = "E4"
    assert f"but not in row {row + 1} ('grade' is E4, not E3)" in found(frame)[0][0]
