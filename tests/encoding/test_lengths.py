"""Lengths of time between two datetimes in whole days, hours or the like: found, told from others, kept by fills."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.encoding.test_ages import ages, completed, filled, hiding
from tests.encoding.test_following import spread
from tests.encoding.test_relations import codes_in, holed, schema_of
from tests.schemas import checked
from tests.selection import first
from vgi_cli.columns.calendar import LENGTHS, Rounding, Span, code_from, place_in
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.infer import infer_schema, schema_alone
from vgi_cli.encoding.relations import departures
from vgi_cli.errors import RunError
from vgi_cli.table.frames import from_frame
from vgi_cli.table.reader import read_table

NIGHTS = "'nights' = calendar days from 'admitted' to 'discharged'"
FULL = "'full' = completed days from 'admitted' to 'discharged'"
SECONDS = {"week": 604_800, "day": 86_400, "hour": 3_600, "minute": 60} | {
    "year of 365.25 days": 31_557_600,
    "year of 365 days": 31_536_000,
    "month of 30.4375 days": 2_629_800,
}


def nights(first: pd.Series, last: pd.Series) -> pd.Series:
    return (last.dt.normalize() - first.dt.normalize()).dt.days


def stays(n: int = 400, seed: int = 0) -> pd.DataFrame:
    """Stays in hospital by the minute, their nights, and their whole days."""
    rng = np.random.default_rng(seed)
    admitted = pd.Series(pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 500_000, n), "min"))
    discharged = admitted + pd.to_timedelta((1_440 * rng.lognormal(1.3, 0.6, n)).astype(int), "min")
    frame = pd.DataFrame({"admitted": admitted, "discharged": discharged, "nights": nights(admitted, discharged)})
    return frame.assign(full=(discharged - admitted).dt.days)


def hours_of(frame: pd.DataFrame) -> pd.Series:
    return (frame.discharged - frame.admitted).dt.total_seconds() / 3_600


def relation_of(span: Span, rounding: Rounding = "down", constant: float = 0.0) -> Relation:
    """Of datetimes that count from different moments on."""
    dates = (("s", 86_400.0 * 30), ("s", -7.0))
    names = ("length", "first", "last")
    return Relation(names=names, how="completed", span=span, rounding=rounding, constant=constant, dates=dates)  # type: ignore[arg-type]


def rounded(number: Fraction, rounding: Rounding) -> int:
    """By arithmetic on fractions."""
    floor = number.numerator // number.denominator
    part = number - floor
    more = {
        "down": False,
        "up": part > 0,
        "half up": part >= Fraction(1, 2),
        "half even": part > Fraction(1, 2) or (part == Fraction(1, 2) and floor % 2 == 1),
    }
    return floor + more[rounding]


class TestCounted:
    @given(
        st.integers(-(10**9), 10**9),
        st.integers(-100_000, 100_000),
        st.sampled_from(sorted(LENGTHS)),
        st.sampled_from(get_args(Rounding)),
        st.integers(-2, 2),
        st.sampled_from([1, 2]),
        st.sampled_from([1, 30, 60]),
    )
    @settings(max_examples=150, deadline=None)
    def test_as_fractions_are_rounded_and_back(
        self, first: int, apart: int, span: Span, rounding: Rounding, constant: int, place: int, step: int
    ) -> None:
        """And a datetime lies in its window where the number is that of the relation, and nowhere else."""
        relation, size = relation_of(span, rounding, constant), SECONDS[span]
        apart *= step
        values = np.array([0.0, first - 86_400.0 * 30, first + apart + 7.0])
        values[0] = rounded(Fraction(apart, size), rounding) + constant
        assert relation.completed(values) == values[0]
        low, high = relation.window(values, place, values[0])
        assert low <= values[place] < high and abs(high - low - size) <= 1
        for code in (np.ceil(low) - 1, np.ceil(low), np.ceil(high) - 1, np.ceil(high)):
            values[place] = code
            assert (relation.completed(values) == values[0]) == (low <= code < high)

    @given(st.integers(-(10**14), 10**14), st.integers(0, 10**9))
    @settings(max_examples=200, deadline=None)
    def test_microseconds_are_told_apart(self, tick: int, origin: int) -> None:
        code = np.array(tick / 1e6 if abs(tick) < 10**15 else 0.0)
        places = place_in("hour", code, "s", origin / 1e6)
        assert places == tick + origin
        low = code_from("hour", np.asarray(places), "s", origin / 1e6)
        assert place_in("hour", np.floor(low * 1e6 + 1) / 1e6, "s", origin / 1e6) in (tick + origin, tick + origin + 1)

    def test_calendar_days_are_midnights(self) -> None:
        moments = pd.to_datetime(["2022-03-01 23:59", "2022-03-02 00:00", "2022-03-03 23:58"])
        codes = (moments - pd.Timestamp("1970-01-01")).total_seconds().to_numpy()
        one = np.array([[0.0, codes[0] - 86_400 * 30, code + 7] for code in codes])
        np.testing.assert_array_equal(relation_of("calendar day").completed(one), [0, 1, 2])
        np.testing.assert_array_equal(relation_of("day").completed(one), [0, 0, 1])


class TestFound:
    def test_nights_and_whole_days_beside_holes(self) -> None:
        schema, notes = infer_schema(from_frame(holed(stays())))
        assert completed(schema) == [NIGHTS, FULL]
        assert any(NIGHTS in note and FULL in note for note in notes)
        assert Schema.from_json(schema.to_json()) == schema
        assert checked("schema", schema.to_json())["relations"]
        other = stays()
        other.loc[3, "nights"] += 1
        assert departures(from_frame(other), schema) == [1, 0]

    @pytest.mark.parametrize(
        "format", ["%Y-%m-%d %H:%M", "%d.%m.%Y %H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M+02:00"]
    )
    def test_in_csv(self, tmp_path: Path, format: str) -> None:
        frame = stays()[["full", "nights", "discharged", "admitted"]]
        frame.to_csv(tmp_path / "t.csv", index=False, date_format=format)
        assert completed(schema_alone(read_table([tmp_path / "t.csv"]))) == [FULL, NIGHTS]

    @pytest.mark.parametrize(
        ("span", "rounding", "words"),
        [
            ("hour", "down", "completed hours from 'admitted' to 'discharged'"),
            ("hour", "up", "hours from 'admitted' to 'discharged', rounded up"),
            ("hour", "half up", "hours from 'admitted' to 'discharged', rounded"),
            ("hour", "half even", "hours from 'admitted' to 'discharged', rounded"),
            ("day", "half up", "days from 'admitted' to 'discharged', rounded"),
            ("day", "up", "days from 'admitted' to 'discharged', rounded up"),
            ("week", "down", "completed weeks from 'admitted' to 'discharged'"),
        ],
    )
    def test_in_each_unit_rounded_in_each_way(self, span: str, rounding: Rounding, words: str) -> None:
        frame = stays()[["admitted", "discharged"]]
        minutes = ((frame.discharged - frame.admitted).dt.total_seconds() / 60).astype(int)
        counts = [rounded(Fraction(60 * one, SECONDS[span]), rounding) for one in minutes]
        (relation,) = schema_of(holed(frame.assign(length=counts))).relations
        assert relation.words() == f"'length' = {words}"
        assert (relation.span, relation.rounding, relation.constant) == (span, rounding, 0.0)

    def test_minutes_of_times_with_seconds(self) -> None:
        rng = np.random.default_rng(0)
        frame = stays()[["admitted", "discharged"]] + pd.to_timedelta(rng.integers(0, 60, 400), "s").to_numpy()[:, None]
        frame.discharged += pd.to_timedelta(rng.integers(0, 60_000, 400), "ms")
        frame["minutes"] = ((frame.discharged - frame.admitted).dt.total_seconds() // 60).astype(int)
        assert completed(schema_of(holed(frame))) == ["'minutes' = completed minutes from 'admitted' to 'discharged'"]

    def test_between_a_date_and_a_datetime(self) -> None:
        frame = stays()[["admitted", "discharged", "nights"]]
        frame.admitted = frame.admitted.dt.date
        assert completed(schema_of(holed(frame))) == [NIGHTS]

    def test_days_with_the_first_one(self) -> None:
        frame = stays().assign(days=lambda one: one.nights + 1)[["admitted", "discharged", "days"]]
        assert completed(schema_of(holed(frame))) == ["'days' = 1 + calendar days from 'admitted' to 'discharged'"]

    def test_of_several_datetimes_those_are_said_that_hold(self) -> None:
        frame = stays()
        frame.insert(0, "registered", frame.admitted - pd.to_timedelta(np.arange(400) % 50, "min"))
        assert completed(schema_of(holed(frame))) == [NIGHTS, FULL]

    def test_where_rows_do_not_tell_which_datetimes_nothing_is_said(self) -> None:
        frame = stays()
        frame.insert(0, "registered", frame.admitted - pd.to_timedelta(np.arange(400) % 50, "min"))
        same = nights(frame.registered, frame.discharged) == frame.nights
        same &= (frame.discharged - frame.registered).dt.days == frame.full
        assert completed(schema_of(frame[same].drop(columns="nights"))) == []

    def test_a_sum_of_dates_stays_one(self) -> None:
        """Of moments that all are midnight, and of minutes between moments of whole minutes."""
        frame = stays()[["admitted", "discharged", "nights"]]
        minutes = (60 * hours_of(frame)).round().astype(int)
        for other in (
            frame.assign(admitted=frame.admitted.dt.normalize(), discharged=frame.discharged.dt.normalize()),
            frame.assign(nights=minutes),
        ):
            (relation,) = (one for one in schema_of(other).relations if "nights" in one.names)
            assert relation.how == "sum" and not relation.rounded

    def test_rows_with_another_number_are_named_and_the_next_one_is_no_error(self) -> None:
        """Somebody counts otherwise, where a clock was put forward."""
        frame = stays()[["admitted", "discharged", "nights"]]
        right = frame.nights.tolist()
        frame.loc[[6, 99], "nights"] = [right[6] + 20, right[99] + 30]
        schema, notes = infer_schema(from_frame(frame))
        assert completed(schema) == [NIGHTS] and schema.relations[0].but == 2
        (line,) = (note for note in notes if note.startswith(NIGHTS))
        assert f"not in row 7 ('nights' is {right[6] + 20}, not {right[6]}) and row 100 (" in line
        frame.loc[[6, 99], "nights"] = [right[6] + 1, right[99] + 1]
        schema, notes = infer_schema(from_frame(frame))
        assert completed(schema) == [] and not any(note.startswith(NIGHTS) for note in notes)

    @pytest.mark.parametrize("seeds", first(1, [range(8), range(8, 20)]))
    def test_by_chance_none_is_found(self, seeds: range) -> None:
        for seed in seeds:
            rng = np.random.default_rng(seed)
            frame = stays(60, seed)
            frame.discharged = frame.admitted + pd.to_timedelta(rng.integers(0, 2_000, 60), "min")
            frame["nights"], frame["full"] = rng.integers(0, 2, 60), rng.integers(0, 3, 60)
            assert completed(schema_of(frame)) == []


class TestKept:
    @given(st.integers(0, 2**31), st.floats(0.05, 0.95))
    @settings(max_examples=4, deadline=None)
    def test_under_any_mask(self, seed: int, share: float) -> None:
        """Several lengths of the same two datetimes leave one of these less than each alone."""
        frame = stays().assign(begun=lambda one: np.ceil(hours_of(one)).astype(int), score=np.arange(400) % 7)
        schema = schema_of(frame)
        assert len(completed(schema)) == 3
        true = codes_in(frame, schema)
        filled(schema, true, np.random.default_rng(seed).random(true.shape) < share)

    @given(st.integers(0, 2**31), st.floats(0.05, 0.95), st.sampled_from(["nights", "full"]))
    @settings(max_examples=4, deadline=None)
    def test_with_ages_under_any_mask(self, seed: int, share: float, name: str) -> None:
        frame = stays()[["admitted", "discharged", name]]
        rng = np.random.default_rng(0)
        frame["born"] = pd.Series(pd.Timestamp("1932-01-01") + pd.to_timedelta(rng.integers(0, 365 * 70, 400), "D"))
        frame["age"] = ages(frame.born, frame.admitted)
        schema = schema_of(frame)
        assert len(completed(schema)) == 2
        true = codes_in(frame, schema)
        filled(schema, true, np.random.default_rng(seed).random(true.shape) < share)

    @pytest.mark.parametrize("name", ["nights", "full"])
    @pytest.mark.parametrize("hidden", [("first",), ("last",), ("first", "length"), ("last", "length")])
    def test_a_datetime_keeps_its_time_of_day(self, name: str, hidden: tuple[str, ...]) -> None:
        """Where it is moved for a length that is known, in whole days."""
        frame = stays()[["admitted", "discharged", name]]
        schema = schema_of(frame)
        true = codes_in(frame, schema)
        names = {"first": "admitted", "last": "discharged", "length": name}
        missing = hiding(true, schema, *(names[one] for one in hidden))
        before, draws = spread(true, missing), filled(schema, true, missing)
        for j, column in enumerate(schema.encoded[:2]):
            assert np.array_equal(column.held(draws[..., j]), draws[..., j])
            apart = np.mod(draws[..., j] - before[..., j], 86_400)
            assert (apart == 0).mean() > 0.9  # but where the order of the two asks for another one

    def test_a_missing_length_is_computed(self) -> None:
        frame = stays()
        schema = schema_of(frame)
        true = codes_in(frame, schema)
        draws = filled(schema, true, hiding(true, schema, "nights", "full"))
        assert np.array_equal(draws, np.repeat(true[None], 3, 0))

    @pytest.mark.parametrize(
        "hidden", [("admitted",), ("discharged",), ("admitted", "discharged"), ("hour", "discharged")]
    )
    def test_with_parts_of_both_datetimes(self, hidden: tuple[str, ...]) -> None:
        """The weekday of the one says that of the other; on the first and on the last day not every time is left."""
        frame = stays()[["admitted", "discharged", "full"]].assign(
            hour=lambda one: one.admitted.dt.hour, weekday=lambda one: one.discharged.dt.day_of_week
        )
        schema = schema_of(frame)
        assert sorted(one.how for one in schema.relations) == ["completed", "part", "part"]
        true = codes_in(frame, schema)
        filled(schema, true, hiding(true, schema, *hidden))

    def test_with_a_date(self) -> None:
        frame = stays()[["admitted", "discharged", "nights"]]
        frame.admitted = frame.admitted.dt.date
        schema = schema_of(frame)
        true = codes_in(frame, schema)
        for hidden in (("admitted",), ("discharged",), ("nights", "admitted"), ("admitted", "discharged")):
            filled(schema, true, hiding(true, schema, *hidden))


def test_a_relation_that_does_not_fit_is_refused() -> None:
    text = schema_of(stays()[["admitted", "discharged", "nights"]]).to_json()
    for changed in ({"rounding": "up"}, {"span": "year", "constant": 1.0}, {"constant": 0.5}, {"span": "second"}):
        raw = json.loads(text)
        raw["relations"][0] |= changed
        with pytest.raises(RunError, match=r"schema.json: damaged \(relations"):
            Schema.from_json(json.dumps(raw))


def test_fills_and_samples_of_a_run_keep_to_them() -> None:
    import vgi_cli

    run = vgi_cli.fit(holed(stays(300), 2, 0.3), model="mixture", set={"model.components": 1, "bootstrap": 1})
    for one in [*run.impute(m=2), run.sample(n=50)]:
        assert (nights(one.admitted, one.discharged) == one.nights).all()
        assert ((one.discharged - one.admitted).dt.days == one.full).all()
