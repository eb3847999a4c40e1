"""Columns that are the rank of another one are named, with what to do about them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.table.helpers import from_text
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.encoding.suspects import suspects

RISING = (
    "column 'rank' is the rank of 'time' (1 is the smallest), and fills do not keep to that: some ranks come twice, or "
    "out of order; `--exclude rank` leaves it out: compute it anew from the filled 'time'"
)


def race(n: int = 300, seed: int = 0) -> pd.DataFrame:
    """Runners with times, some of which are the same, and their places."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"time": (90 + 20 * rng.gamma(3, 1, n)).round(1), "age": rng.integers(18, 80, n)})
    frame["pace"] = (frame.time / 21.1).round(0)
    return frame.assign(rank=frame.time.rank(method="first"))


def said(frame: pd.DataFrame, share: float = 0.1) -> list[str]:
    holes = np.random.default_rng(9).random(frame.shape) < share
    table = from_text(frame.mask(holes).to_csv(index=False, float_format="%g"))
    schema, notes = infer_schema(table)
    lines = [line for line in notes if "is the rank of" in line]
    assert lines == [line for line in suspects(table, schema) if "is the rank of" in line]
    return lines


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3])
def test_a_place_by_times_is_said(share: float) -> None:
    assert said(race(), share) == [RISING]


def test_of_points_the_largest_is_first() -> None:
    frame = race().rename(columns={"time": "points"})
    frame["rank"] = frame.points.rank(method="first", ascending=False)
    assert said(frame) == [RISING.replace("time", "points").replace("smallest", "largest")]


def test_of_durations_and_of_runners_who_did_not_finish() -> None:
    frame = race()
    frame.time = [f"{int(t) // 60}:{int(t) % 60:02d}:{round(t * 10) % 10 * 6:02d}" for t in frame.time]
    out = np.random.default_rng(1).random(len(frame)) < 0.1
    assert said(frame.mask(np.outer(out, frame.columns.isin(["time", "pace", "rank"])))) == [RISING]


def test_other_columns_are_no_ranks() -> None:
    frame, rng = race(), np.random.default_rng(2)
    swapped = frame["rank"].replace({10: 200, 200: 10})
    for other in (
        swapped,  # one pair of rows in another order
        frame["rank"] - 1,  # from 0 on
        7 * frame["rank"],  # with gaps
        frame.time.rank(method="min"),  # the same place twice
        pd.Series(rng.permutation(300) + 1),
    ):
        assert said(frame.assign(rank=other), 0.0) == []
    assert said(race(15)) == []


def test_ranks_within_a_coarse_number_rows_in_order_and_lines_are_left_to_others() -> None:
    frame = race()
    assert said(frame.drop(columns="time")) == []  # the pace has a few values
    assert said(frame.sort_values("rank")) == []  # numbers of the rows: another line says so
    assert said(frame.assign(time=100 + 0.5 * frame["rank"])) == []  # a line of it
