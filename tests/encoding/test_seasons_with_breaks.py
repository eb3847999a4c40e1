"""Levels that are intervals of a date or a number, with gaps between them: found, and kept by fills."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.encoding.test_ages import filled
from tests.encoding.test_relations import codes_in, holed, schema_of
from tests.selection import first


def matches(n: int = 400, seed: int = 0) -> pd.DataFrame:
    """Matches of four seasons from August to January."""
    rng = np.random.default_rng(seed)
    year, goals = rng.integers(0, 4, n), rng.poisson(1.5, n)
    date = pd.to_datetime([f"{2019 + one}-08-10" for one in year]) + pd.to_timedelta(rng.integers(0, 149, n), "D")
    return pd.DataFrame({"season": [f"{2019 + one}/{20 + one}" for one in year], "date": date, "goals": goals})


def bands(frame: pd.DataFrame) -> list[str]:
    return [one.words() for one in schema_of(frame).relations if one.how == "bands"]


def clusters(n: int, seed: int, law: str) -> pd.DataFrame:
    """Three groups of numbers far apart from each other."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    number = 100 * group + (rng.uniform(0, 10, n) if law == "even" else rng.normal(0, 4, n))
    return pd.DataFrame({"group": [f"g{one}" for one in group], "number": number.round(2), "other": rng.normal(size=n)})


@pytest.mark.parametrize("times", [False, True])
def test_seasons_are_found_beside_holes(times: bool) -> None:
    frame = matches()
    if times:
        frame.date += pd.to_timedelta(np.random.default_rng(0).integers(0, 1_440, len(frame)), "min")
    assert bands(holed(frame)) == ["'season' follows from 'date'"]


@pytest.mark.parametrize("law", ["even", "normal"])
def test_numbers_far_apart_are_bands_where_they_are_as_dense_at_the_gaps(law: str) -> None:
    for seed in range(5):
        assert bands(clusters(600, seed, law)) == ["'group' follows from 'number'"] * (law == "even")


def test_few_rows_or_one_exception_say_nothing() -> None:
    assert bands(matches(60)) == [] and bands(clusters(90, 0, "even")) == []
    frame = matches()
    frame.loc[5, "date"] += pd.DateOffset(years=1 if frame.season[5] < "2022" else -1)
    assert bands(frame) == []


@pytest.mark.parametrize("seeds", first(1, [range(12), range(12, 30)]))
def test_by_chance_there_are_none(seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        frame = matches(int(rng.integers(40, 200)), seed)
        assert bands(frame.assign(season=rng.permutation(frame.season.to_numpy()))) == []


@given(st.integers(0, 2**31), st.floats(0.05, 0.95))
@settings(max_examples=20, deadline=None)
def test_they_are_kept_under_any_mask(seed: int, share: float) -> None:
    frame = matches()
    schema = schema_of(frame)
    assert [one.how for one in schema.relations] == ["bands"]
    true = codes_in(frame, schema)
    filled(schema, true, np.random.default_rng(seed).random(true.shape) < share)


@given(st.integers(0, 2**31), st.floats(0.05, 0.95))
@settings(max_examples=20, deadline=None)
def test_a_season_follows_from_a_date_beside_what_else_it_follows_from(seed: int, share: float) -> None:
    frame = matches()
    leagues = np.random.default_rng(1).choice(["A", "B"], len(frame))
    frame["cup"] = [f"{league} {season}" for league, season in zip(leagues, frame.season, strict=True)]
    schema = schema_of(frame)
    said = [one.words() for one in schema.relations]
    assert said == ["'season' follows from 'cup'", "'season' follows from 'date'"]
    true = codes_in(frame, schema)
    filled(schema, true, np.random.default_rng(seed).random(true.shape) < share)
