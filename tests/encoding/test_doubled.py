"""Rows that are copies of others, and keys of which a few values are in several rows, are said; rows that happen to be
alike are not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from tests.selection import first
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.table.frames import from_frame


def lines_of(frame: pd.DataFrame, ids: Sequence[str] = ()) -> list[str]:
    return [
        line
        for line in infer_schema(from_frame(frame), ids=ids)[1]
        if "in all cells" in line or "in several rows" in line
    ]


def people(seed: int, n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "patient": [f"C-{i:05d}" for i in rng.permutation(90000)[:n]],
            "age": rng.integers(20, 90, n),
            "sex": rng.choice(["m", "f"], n),
        }
    )
    frame["pressure"] = (110 + 0.5 * frame.age + rng.normal(0, 12, n)).round()
    frame["bmi"] = rng.normal(27, 4, n).round(1)
    holes = rng.random((n, 3)) < 0.2
    frame[["sex", "pressure", "bmi"]] = frame[["sex", "pressure", "bmi"]].mask(holes)
    return frame


@pytest.mark.parametrize("seed", first(2, range(6)))
def test_copies_of_rows_are_named(seed: int) -> None:
    whole = people(seed)
    assert lines_of(whole) == []
    copied = pd.concat([whole, whole.iloc[[4, 9, 40, 41, 200]]])
    assert lines_of(copied) == [
        "5 rows are the same in all cells as an earlier one (row 301 as row 5, row 302 as row 10, row 303 as row 41 "
        "…): if they were entered twice, remove them, since they count twice"
    ]
    assert lines_of(copied.iloc[:301]) == [
        "1 row is the same in all cells as an earlier one (row 301 as row 5): if it was entered twice, remove it, "
        "since it counts twice"
    ]
    without = lines_of(copied.drop(columns="patient"))
    assert without == [] or without[0].startswith(("5 rows", "4 rows", "3 rows"))  # four columns say less


def test_keys_that_several_rows_have() -> None:
    whole = people(1)
    again = whole.iloc[[4, 9]].copy()
    again["age"] += 1
    line = "2 of the 300 values of 'patient' are in several rows ('{}' in rows 5 and 301), all others in one: look "
    own = line.format(whole.patient[4]) + "whether these rows are what they should be; "
    both = pd.concat([whole, again])
    assert lines_of(both) == [own + "each row is filled as if by itself"]
    assert lines_of(both, ids=["patient"]) == [own + "each row is filled as if by itself"]
    rng = np.random.default_rng(2)
    numbers = both.assign(patient=both.patient.str[2:].astype(int) * 7 + 100_003)
    number = numbers.patient.iloc[4]
    assert lines_of(numbers) == [
        f"2 of the 300 values of 'patient' are in several rows ('{number}' in rows 5 and 301), all others in one: look "
        "whether these rows are what they should be; it is modelled as a quantity (`--id patient` or "
        "`--exclude patient` if it is a key)"
    ]
    assert lines_of(both.rename(columns={"patient": "title"})) == []  # which may be anything
    visits = pd.concat([whole, whole.iloc[:80].assign(age=rng.integers(20, 90, 80))])
    assert lines_of(visits) == []  # second visits, not slips


def test_rows_that_happen_to_be_alike_are_none() -> None:
    rng = np.random.default_rng(3)
    scales = pd.DataFrame(rng.integers(1, 4, (400, 6)), columns=list("abcdef")).astype(str)
    assert scales.duplicated().any() and lines_of(scales) == []
    straight = pd.DataFrame(np.repeat(rng.integers(1, 6, (400, 1)), 30, 1))  # one answer to all questions
    slips = rng.random(straight.shape) < 0.02
    straight = straight.mask(slips, rng.integers(1, 6, straight.shape))
    straight.columns = [f"q{i}" for i in range(30)]
    assert straight.duplicated().any() and lines_of(straight) == []
    x = rng.integers(0, 100, 300)
    units = pd.DataFrame({"a": x, "b": 10 * x + 3, "c": x / 2, "d": 7 * x, "e": 3 - x, "f": x / 4 + 1})
    assert lines_of(units) == []  # six times the same
    nothing = people(4)
    nothing.loc[10:30, ["patient", "sex", "pressure", "bmi"]] = None
    assert lines_of(nothing) == []  # rows of an age alone
    assert lines_of(pd.concat([people(5, 8)] * 2)) == []  # too few
