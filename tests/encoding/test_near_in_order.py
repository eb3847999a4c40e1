"""Two columns that differ by a few values alone, with a third one in order beside them: fills keep to both."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.encoding.test_relations import codes_in
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.apart import Apart
from vgi_cli.encoding.infer import schema_alone
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.encoding.orders import rooms_in_order
from vgi_cli.table.frames import from_frame

START, END, CLAIM = range(3)


def policies(days: tuple[int, ...] = (364, 365), n: int = 600, *, last: bool = True) -> pd.DataFrame:
    """Of each when it starts and ends, and of half of them when there was a claim; `last`: those that would be later
    are on its last day, else on any day alike."""
    rng = np.random.default_rng(0)
    length = rng.choice(days, n)
    after = rng.integers(0, max(days) + 1, n) if last else (rng.random(n) * (length + 1)).astype(int)
    start = pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 1095, n), "D")
    end, claim = start + pd.to_timedelta(length, "D"), start + pd.to_timedelta(np.minimum(after, length), "D")
    frame = pd.DataFrame({"start": start, "end": end, "claim": claim})
    frame.loc[rng.random(n) < 0.5, "claim"] = pd.NaT
    return frame.apply(lambda dates: dates.dt.strftime("%Y-%m-%d"))


def days_in(codes: Floats, schema: Schema) -> Floats:
    """[.., columns] days since one for all columns, of codes."""
    return codes + np.array([column.clock.origin for column in schema.encoded])  # type: ignore[union-attr]


def filled(frame: pd.DataFrame, schema: Schema, missing: Bools, spread: float) -> tuple[Floats, Apart]:
    """Days [m, N, columns] that are drawn and kept around the true ones, and where these could not be."""
    rng, true = np.random.default_rng(0), codes_in(frame, schema)
    middle = np.where(np.isnan(true), true[:, [START]] + 100, true)
    draws = np.where(missing, np.rint(middle + rng.normal(0, spread, (4, *true.shape))), true)
    chance = rng.random((2, *draws.shape[:2]))
    apart = keep_relations(draws, np.nan_to_num(true), missing, schema, lambda _: chance[0], lambda *_: chance[1])
    return days_in(draws, schema), apart


@pytest.mark.parametrize("days", [(364, 365), (30, 31, 32, 33)])
@pytest.mark.parametrize("holes", [(END,), (START,), (START, END)])
@pytest.mark.parametrize("spread", [1.0, 60.0])
def test_fills_differ_as_was_seen_and_are_in_order(
    days: tuple[int, ...], holes: tuple[int, ...], spread: float
) -> None:
    frame = policies(days)
    schema = schema_alone(from_frame(frame))
    assert [one.words(counted=False) for one in schema.relations] == ["'end' is as far from 'start' as was seen"]
    assert {one.words() for one in schema.orders} == {"'claim' ≤ 'end'", "'start' ≤ 'claim'"}
    missing = codes_in(frame, schema) != codes_in(frame, schema)
    missing[:, holes] = True
    drawn, apart = filled(frame, schema, missing, spread)
    assert not apart.count()
    assert np.isin(drawn[..., END] - drawn[..., START], days).all()
    assert (drawn[..., START] <= drawn[..., CLAIM]).all() and (drawn[..., CLAIM] <= drawn[..., END]).all()


@pytest.mark.parametrize("hole", [START, END])
def test_of_the_differences_that_leave_them_in_order_each_as_often_as_it_was_seen(hole: int) -> None:
    frame = policies((21, 22, 23, 24), 2_400, last=False)
    schema = schema_alone(from_frame(frame))
    true = days_in(codes_in(frame, schema), schema)
    missing = np.isnan(true)
    missing[:, hole] = True
    drawn, apart = filled(frame, schema, missing, 30.0)
    assert not apart.count()
    other = true[:, CLAIM] - true[:, START] if hole == END else true[:, END] - true[:, CLAIM]
    some = (drawn[..., END] - drawn[..., START])[:, other == 22]
    shares = [(some == day).mean() for day in (21, 22, 23, 24)]
    assert some.size > 100
    np.testing.assert_allclose(shares, (0, 1 / 3, 1 / 3, 1 / 3), atol=0.12)


def test_a_claim_that_no_difference_allows_is_counted() -> None:
    frame = policies()
    schema = schema_alone(from_frame(frame))
    late = frame.assign(claim=frame.claim.where(frame.index != 3, "2029-01-01"))
    missing = codes_in(late, schema) != codes_in(late, schema)
    missing[:, END] = True
    drawn, apart = filled(late, schema, missing, 10.0)
    assert apart.count() == 4 and set(np.flatnonzero(apart.rows().any(0))) == {3}
    assert [one.words() for one in apart.counts()] == ["'claim' ≤ 'end'"]  # type: ignore[union-attr]
    assert np.isin(drawn[..., END] - drawn[..., START], (364, 365)).all()


def test_rooms_are_those_beside_observed_cells() -> None:
    frame = policies()
    schema = schema_alone(from_frame(frame))
    codes = codes_in(frame, schema)
    missing = np.isnan(codes)
    missing[:, [START, END]] = True
    rooms, origin = rooms_in_order(codes, missing, schema, {"start", "end"}), days_in(np.zeros(3), schema)
    known = ~missing[:, CLAIM]
    (least, most), (first, last) = rooms[END], rooms[START]
    claim = days_in(codes, schema)[:, CLAIM]
    np.testing.assert_allclose((least + origin[END])[known], claim[known])
    np.testing.assert_allclose((last + origin[START])[known], claim[known])
    assert np.isinf(least[~known]).all() and np.isinf(last[~known]).all() and np.isinf([most, first]).all()
    assert rooms_in_order(codes, missing, schema, ()) == {}
